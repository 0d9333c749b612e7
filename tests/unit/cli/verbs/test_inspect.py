"""`dragoman inspect` as a real process."""

import asyncio
import json
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import aiohttp
import pytest

from dragoman.compose.session_file import SessionWriter
from ports import free_port
from scenarios.command_line import dragoman, environment, words
from scenarios.inspector_page import SERVER, Page

DEADLINE = 60


@contextmanager
def inspecting(*arguments, home, cwd=None, code=0, **more):
    """Run the command, and return the address and the token that it prints; it must end by Ctrl-C."""
    child = subprocess.Popen(
        words("inspect", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home, **more),
        cwd=cwd or home,
        text=True,
    )
    try:
        line = child.stdout.readline()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)\n", line)
        assert found is not None, line + child.stderr.read()
        yield found[1], found[2]
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=DEADLINE)
        assert (child.returncode, out, err) == (code, "", "")
    finally:
        child.kill()
        child.communicate()


async def called(address, verb, **body):
    async with aiohttp.ClientSession() as session:
        return await Page(*address, session).call(verb, **body)


async def test_the_page_of_a_command_has_its_server_and_ends_by_an_interrupt(tmp_path):
    with inspecting("--no-browser", "--", *SERVER, home=tmp_path) as address:
        [server] = (await called(address, "servers/list"))["servers"]
        assert (server["source"], server["status"]) == ("command line", "disconnected")
        connected = (await called(address, "servers/connect", server=server["id"]))["server"]
        assert connected["serverInfo"]["name"] == "inspected"


async def test_the_port_can_be_chosen_and_a_configuration_file_gives_its_servers(tmp_path):
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"one": {"command": SERVER[0], "args": SERVER[1:]}}}))
    port = free_port()
    with inspecting(file, "--port", port, "--protocol-version", "2025-06-18", home=tmp_path) as address:
        assert address[0].endswith(f":{port}")
        [server] = (await called(address, "servers/list"))["servers"]
        assert (server["name"], server["source"]) == ("one", str(file))
        assert server["requestedVersion"] == "2025-06-18"
        again = await asyncio.to_thread(dragoman, "inspect", "--port", port, home=tmp_path, cwd=tmp_path)
        assert (again.code, f"port {port}" in again.err) == (2, True)


async def test_a_session_file_is_followed(tmp_path):
    path = tmp_path / "tap.mcpsession"
    with SessionWriter(path, target="python server.py") as writer:
        writer.write("client", "message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    with inspecting(path, home=tmp_path) as address:
        listed = await called(address, "servers/list")
        assert [(one["name"], one["following"]) for one in listed["sessions"]] == [("tap.mcpsession", True)]
        assert (await called(address, "traffic/rows"))["matched"] == 1


def test_a_session_file_that_cannot_be_read_is_wrong_usage_and_serves_no_page(tmp_path):
    missing = dragoman("inspect", "gone.mcpsession", home=tmp_path, cwd=tmp_path)
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == (
        "dragoman: There is no file gone.mcpsession; name one that `dragoman tap` or `dragoman inspect` wrote\n"
    )
    (tmp_path / "other.mcpsession").write_text("hello")
    other = dragoman("inspect", "other.mcpsession", home=tmp_path, cwd=tmp_path)
    assert (other.code, "other.mcpsession is no session file" in other.err) == (2, True)


async def test_without_a_target_the_page_is_empty_and_the_browser_opens_it(tmp_path):
    opened = tmp_path / "opened"
    browser = f"sh -c 'echo \"$1\" > {opened}.part && mv {opened}.part {opened}' browser %s"
    with inspecting(home=tmp_path, BROWSER=browser) as address:
        assert (await called(address, "servers/list"))["servers"] == []
        await asyncio.to_thread(until, opened.exists)
        assert opened.read_text().strip() == f"{address[0]}/#token={address[1]}"


def until(holds):
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("target", "reason"), [("missing.mcpsession", "no file"), ("missing.py", "no file")])
def test_a_target_that_is_missing_is_named(tmp_path, target, reason):
    ended = dragoman("inspect", target, "--no-browser", home=tmp_path, cwd=tmp_path)
    assert (ended.code != 0, ended.out) == (True, "")
    assert reason in ended.err
    assert target in ended.err
