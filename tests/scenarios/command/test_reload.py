"""`dragoman run --reload`, and what `dragoman run` loads."""

import json
import signal
import subprocess
import textwrap
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from dragoman.cli.verbs.run_reload import snapshot
from ports import free_port
from scenarios.command_line import DEADLINE, PING, PONG, RunningCommand, dragoman, environment, words, written

SERVER = """
    from dragoman import Server

    server = Server("changing", version="{version}")
"""
NOSY = """
    import sys
    from dragoman import Server

    server = Server("nosy")

    @server.tool
    def loaded() -> list[str]:
        return sorted({name.partition(".")[0] for name in sys.modules})
"""


def write(folder, version, name="service.py"):
    path = folder / name
    fresh = folder / "fresh"
    fresh.write_text(textwrap.dedent(SERVER.format(version=version)))
    fresh.replace(path)
    return path


def version_at(url):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    try:
        with urlopen(Request(url, body, headers), timeout=DEADLINE) as response:
            return response.read().decode()
    except (URLError, ConnectionError):
        return ""


def until(url, sign):
    ends = time.monotonic() + DEADLINE
    while sign not in version_at(url):
        assert time.monotonic() < ends, f"{sign} did not come"
        time.sleep(0.05)


@pytest.mark.covers("CMD-25")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_change_starts_the_server_again_and_a_signal_ends_it_well(tmp_path, number):
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    path = write(tmp_path, "1.0")
    child = subprocess.Popen(
        words("run", "--reload", "--http", "--port", port, path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    )
    try:
        until(url, '"version":"1.0"')
        write(tmp_path, "2.0.0")
        until(url, '"version":"2.0.0"')
        (tmp_path / "service.py").write_text("this is no Python\n")
        line = b""
        while b"starts again when a file changes" not in line:
            line = child.stderr.readline()
            assert line
        write(tmp_path, "3.0.0.0")
        until(url, '"version":"3.0.0.0"')
        child.send_signal(number)
        stdout, _ = child.communicate(timeout=DEADLINE)
        assert (child.returncode, stdout, version_at(url)) == (0, b"", "")
    finally:
        child.kill()
        child.wait(DEADLINE)


@pytest.mark.covers("CMD-25")
def test_over_stdin_and_stdout_a_server_with_reload_ends_with_its_input(tmp_path):
    finished = dragoman("run", "--reload", write(tmp_path, "1"), input=PING * 2, home=tmp_path)
    assert (finished.code, finished.out, finished.err) == (0, PONG * 2, "")
    missing = dragoman("run", "--reload", "nowhere.py", home=tmp_path, cwd=tmp_path)
    assert (missing.code, missing.err) == (2, "dragoman: there is no file 'nowhere.py'\n")


@pytest.mark.covers("CMD-25")
def test_a_server_that_is_run_loads_nothing_of_the_other_verbs(tmp_path):
    with RunningCommand(written(tmp_path, NOSY, "nosy.py")) as process:
        process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "loaded"}})
        loaded = process.receive()["result"]["content"]
    names = {block["text"] for block in loaded} | set(loaded[0]["text"].strip("[]").replace('"', "").split(","))
    assert "dragoman" in names
    assert not names & {"click", "rich", "aiohttp", "uvicorn"}


def test_a_skill_is_watched_as_python_files_are(tmp_path):
    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    for name in ("service.py", "skills/pdf/SKILL.md", "skills/pdf/FORMS.md"):
        (tmp_path / name).write_text("")
    assert snapshot(tmp_path).keys() == {str(tmp_path / "service.py"), str(tmp_path / "skills/pdf/SKILL.md")}
