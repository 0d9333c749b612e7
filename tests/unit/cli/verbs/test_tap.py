"""`dragoman tap`, as a person uses it at a shell."""

import json
import re
import subprocess
import sys
import urllib.request

import pytest

from dragoman.compose.session_file import SessionWriter
from scenarios.command_line import DEADLINE, dragoman, environment, words, written

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
SERVER = """
from dragoman import Server

server = Server("weather")


@server.tool
def forecast(city: str) -> str:
    return f"Rain in {city}"


if __name__ == "__main__":
    server.run()
"""


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "x.mcpsession"
    with SessionWriter(path) as writer:
        writer.write("client", "message", PING)
        writer.write("server", "message", b'{"jsonrpc":"2.0","id":1,"result":{"password":"hunter22"}}')
        writer.write("server", "stderr", b"\x1b[31mred")
    return path


def test_a_session_file_is_shown_line_by_line_without_what_moves_the_cursor(session):
    shown = dragoman("tap", session)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [re.sub(r"^[\d:.]+ ", "", line) for line in lines[:2]] == [
        f"-> ping 1 {PING.decode()}",
        '<- result 1 {"jsonrpc":"2.0","id":1,"result":{"password":"***"}}',
    ]
    assert "\x1b" not in shown.out


def test_a_session_file_is_shown_as_json(session):
    shown = dragoman("tap", session, "--json")
    assert '"method": "ping"' in shown.out
    assert "hunter22" not in shown.out


def test_a_session_becomes_a_cassette_that_a_client_uses(tmp_path):
    script = written(tmp_path, SERVER)
    file, tape = tmp_path / "s.mcpsession", tmp_path / "s.jsonl"
    call = ("forecast", "city=Oslo")
    recorded = dragoman(
        "call", *call, "--", sys.executable, "-m", "dragoman", "tap", "-o", file, "--", sys.executable, script
    )
    assert (recorded.code, recorded.out) == (0, "Rain in Oslo\n")
    assert dragoman("tap", file, "--cassette", tape).code == 0
    played = dragoman("call", *call, "--", sys.executable, "-m", "dragoman", "bridge", tape)
    assert (played.code, played.out) == (0, "Rain in Oslo\n")


def test_without_a_file_the_state_folder_keeps_the_session(tmp_path):
    shown = dragoman("tap", "--", sys.executable, "-c", "print('{}')", home=tmp_path)
    assert (shown.code, shown.out) == (0, "{}\n")
    (file,) = tmp_path.rglob("*.mcpsession")
    assert str(file) in shown.err
    assert file.stat().st_mode & 0o077 == 0


def test_a_tap_of_a_url_prints_where_it_listens_and_ends_with_a_signal(tmp_path):
    with subprocess.Popen(
        words("tap", "http://127.0.0.1:9/mcp", "--status", "418", "-o", tmp_path / "x.mcpsession", "--live"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        text=True,
    ) as tap:
        url = tap.stdout.readline().strip()
        with pytest.raises(urllib.error.HTTPError, match="418"):
            urllib.request.urlopen(url, timeout=DEADLINE)
        tap.terminate()
        _, complaints = tap.communicate(timeout=DEADLINE)
        assert tap.returncode == 0
    assert "GET /mcp" in complaints


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tap"], "Give a URL"),
        (["tap", "server.py"], "Give a URL"),
        (["tap", "http://x/", "--", "echo"], "Give a URL"),
        (["tap", "--status", "404", "--", "echo"], "--status needs a URL"),
        (["tap", "http://127.0.0.1:9/", "--listen", "nowhere", "-o", "/dev/shm/never.mcpsession"], "HOST:PORT"),
    ],
)
def test_wrong_usage_names_the_fault(arguments, complaint, tmp_path):
    shown = dragoman(*[word.replace("/dev/shm", str(tmp_path)) for word in arguments], home=tmp_path)
    assert shown.code == 2
    assert complaint in shown.err


def test_a_missing_file_is_named(tmp_path):
    missing = dragoman("tap", tmp_path / "no.mcpsession")
    assert (missing.code, "There is no file" in missing.err) == (2, True)


def test_what_passes_is_the_same_for_the_server(tmp_path):
    given = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    script = written(tmp_path, SERVER)
    shown = dragoman("tap", "-o", tmp_path / "x.mcpsession", "--", sys.executable, script, input=given)
    assert json.loads(shown.out) == {"jsonrpc": "2.0", "id": 1, "result": {}}
