"""`python -m dragoman run FILE[:object]` as a real process."""

import json
import signal
import subprocess
import sys
import time
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from ports import free_port
from scenarios.command_line import PING, PLAIN, PONG, RunningCommand, dragoman, words, written
from scenarios.http_crew import unannounced

DEADLINE = 60
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
ONE_SERVER = """
    from dragoman import Server

    server = Server("one")
"""


def name_of_the_server(*arguments, **options):
    finished = dragoman(
        "run", *arguments, input='{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}\n', **options
    )
    assert finished.code == 0, finished.err
    result = json.loads(finished.out)["result"]
    return result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]


@pytest.mark.covers("SIO-01", "SIO-02")
def test_a_file_is_served_until_its_input_ends(tmp_path):
    finished = dragoman("run", written(tmp_path, ONE_SERVER), input=PING * 3)
    assert (finished.code, finished.out, finished.err) == (0, PONG * 3, "")


@pytest.mark.covers("SIO-01")
def test_without_any_input_the_command_ends_well(tmp_path):
    finished = dragoman("run", written(tmp_path, ONE_SERVER))
    assert (finished.code, finished.out, finished.err) == (0, "", "")


@pytest.mark.covers("SIO-01")
def test_a_file_may_also_run_itself(tmp_path):
    path = written(tmp_path, ONE_SERVER + "\n    if __name__ == '__main__':\n        server.run()\n")
    finished = subprocess.run([sys.executable, path], input=PING, capture_output=True, text=True, timeout=DEADLINE)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, PONG, "")
    assert dragoman("run", path, input=PING).out == PONG


@pytest.mark.covers("SIO-04")
def test_a_last_line_without_an_end_is_served_and_a_line_too_long_is_refused_alone(tmp_path):
    path = written(tmp_path, ONE_SERVER)
    finished = dragoman("run", path, input='"' + "x" * 4_200_000 + '"\n' + PING.rstrip())
    refused, served = finished.out.splitlines(keepends=True)
    assert json.loads(refused)["error"]["code"] == -32700
    assert served == PONG
    assert finished.code == 0


@pytest.mark.covers("SIO-02")
def test_what_is_printed_at_import_and_in_tools_does_not_reach_the_wire(tmp_path):
    path = written(
        tmp_path,
        """
        import os, subprocess, sys

        print("at import")
        sys.stdout.write("without a line end")
        os.write(1, b"to the descriptor")
        subprocess.run([sys.executable, "-c", "print('from a child')"])

        from dragoman import Server

        server = Server("noisy")

        @server.tool
        def shout() -> str:
            print("in a tool")
            return "quiet"
        """,
    )
    call = '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "shout"}}\n'
    finished = dragoman("run", path, input=PING + call)
    answers = sorted(map(json.loads, finished.out.splitlines()), key=lambda answer: answer["id"])
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "quiet"}]
    for printed in ("at import", "without a line end", "to the descriptor", "from a child", "in a tool"):
        assert printed in finished.err


def test_the_object_is_chosen_by_name(tmp_path):
    path = written(
        tmp_path, "from dragoman import Server\nfirst = Server('first')\nsecond = Server('second')\nnumber = 3\n"
    )
    assert name_of_the_server(f"{path}:second") == "second"
    for name in ("third", "number", "Server"):
        finished = dragoman("run", f"{path}:{name}")
        assert finished.code == 2
        assert f"has no Server called {name!r}" in finished.err
        assert finished.out == ""


@pytest.mark.parametrize("target", ["missing.py", "missing.py:server", "."])
def test_a_file_that_is_not_there_is_named(tmp_path, target):
    finished = dragoman("run", target, cwd=tmp_path, input=PING)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == f"dragoman: there is no file {target.split(':')[0]!r}\n"


def test_a_file_of_another_kind_is_named(tmp_path):
    finished = dragoman("run", written(tmp_path, "hello", "readme.txt"))
    assert (finished.code, finished.out) == (2, "")
    assert "is not a Python file" in finished.err


def test_a_file_that_fails_shows_its_traceback(tmp_path):
    finished = dragoman("run", written(tmp_path, "raise LookupError('no such thing')\n"), input=PING)
    assert (finished.code, finished.out) == (1, "")
    assert "LookupError: no such thing" in finished.err
    assert "service.py" in finished.err


def test_a_file_imports_its_neighbours(tmp_path):
    written(tmp_path, "NAME = 'from a neighbour'\n", "neighbour.py")
    path = written(tmp_path, "import neighbour\nfrom dragoman import Server\nserver = Server(neighbour.NAME)\n")
    assert name_of_the_server(path) == "from a neighbour"


def test_a_file_name_may_have_a_colon(tmp_path):
    assert name_of_the_server(written(tmp_path, ONE_SERVER, "a:b.py")) == "one"
    assert name_of_the_server(f"{tmp_path / 'a:b.py'}:server") == "one"


@pytest.mark.covers("CMD-31")
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "The file is missing"),
        (["--http", "--port", "many", "a.py"], "--port must be a number, not 'many'"),
    ],
)
def test_a_wrong_use_is_one_line_that_names_the_fault(arguments, fault):
    finished = dragoman("run", *arguments)
    assert (finished.code, finished.out, finished.err.count("\n")) == (2, "", 1)
    assert finished.err.startswith(f"dragoman: {fault}")
    assert finished.err.endswith(". See: dragoman run --help\n")


@pytest.mark.parametrize("arguments", [["run", "--help"], ["run", "-h"], ["run", "a.py", "--help"]])
def test_help_is_shown_on_request(arguments):
    finished = dragoman(*arguments)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("usage: dragoman run FILE[:object]")


MISBEHAVING = """
    import asyncio, sys, time

    from dragoman import Server

    server = Server("misbehaving")

    @server.tool
    async def quit_async() -> str:
        sys.exit(3)

    @server.tool
    def quit_thread() -> str:
        sys.exit(3)

    @server.tool(inline=True)
    def quit_inline() -> str:
        raise KeyboardInterrupt

    @server.tool
    async def forever() -> str:
        print("waiting", file=sys.stderr, flush=True)
        await asyncio.Event().wait()

    @server.tool(inline=True)
    def hog() -> str:
        print("hogging", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.01)
"""


def call(id, name):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}}


@pytest.mark.covers("RPC-13")
def test_tools_that_try_to_end_the_process_do_not_and_are_reported(tmp_path):
    with RunningCommand(written(tmp_path, MISBEHAVING)) as process:
        for id, name in enumerate(["quit_async", "quit_thread", "quit_inline"]):
            process.send(call(id, name))
            answer = process.receive()
            assert (answer["id"], answer["result"]["isError"]) == (id, True)
        process.send(PING)
        assert process.receive()["result"] == {}
        process.child.stdin.close()
        assert process.child.wait(DEADLINE) == 0
        errors = process.child.stderr.read().decode()
        assert errors.count("SystemExit: 3") == 2
        assert "KeyboardInterrupt" in errors


@pytest.mark.covers("SIO-05")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_quietly(tmp_path, number):
    with RunningCommand(written(tmp_path, MISBEHAVING)) as process:
        process.send(PING)
        assert process.receive()["result"] == {}
        process.send(call(2, "forever"))
        assert process.line(process.child.stderr) == b"waiting"
        process.child.send_signal(number)
        assert process.child.wait(DEADLINE) == 0
        assert (process.child.stdout.read(), process.child.stderr.read()) == (b"", b"")


@pytest.mark.covers("SIO-05")
def test_a_second_signal_ends_even_a_tool_that_never_lets_go(tmp_path):
    with RunningCommand(written(tmp_path, MISBEHAVING)) as process:
        process.send(call(1, "hog"))
        assert process.line(process.child.stderr) == b"hogging"
        # Of two kinds: two signals of one kind that wait to be delivered are one.
        process.child.send_signal(signal.SIGINT)
        process.child.send_signal(signal.SIGTERM)
        assert process.child.wait(DEADLINE) == 0


WALKING = """
    import os

    from dragoman import Server

    print("imported")
    other = Server("other")
    server = Server("walking")

    @server.tool
    async def pid() -> int:
        return os.getpid()
"""


def call_over_http(url):
    """Call the tool of WALKING, trying again until somebody serves, and return which process it was."""
    params = {"name": "pid", "arguments": {}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"content-type": "application/json", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
    ends = time.monotonic() + DEADLINE
    while True:
        try:
            with urlopen(Request(url, body, headers | {"mcp-name": "pid"}), timeout=DEADLINE) as response:
                return int(json.load(response)["result"]["content"][0]["text"])
        except URLError as error:
            if time.monotonic() > ends or not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.01)


@pytest.mark.covers("WRK-10")
@pytest.mark.parametrize(
    ("options", "path", "workers"),
    [([], "/mcp", 1), (["--host", "127.0.0.1", "--path=/tools", "--workers", "2"], "/tools", 2)],
)
def test_a_file_is_served_over_http_until_a_signal_ends_it(tmp_path, options, path, workers):
    port = free_port()
    target = f"{written(tmp_path, WALKING)}:server"
    child = subprocess.Popen(
        words("run", "--http", "--port", port, *options, target),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=PLAIN | {"XDG_STATE_HOME": str(tmp_path)},
    )
    try:
        served = call_over_http(f"http://127.0.0.1:{port}{path}")
        assert (served == child.pid) == (workers == 1)
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=DEADLINE)
        assert (child.returncode, stdout, unannounced(stderr.decode())) == (0, b"imported\n", "")
    finally:
        child.kill()
        child.wait(DEADLINE)


@pytest.mark.covers("WRK-10")
def test_what_cannot_be_served_over_http_is_said_in_one_line(tmp_path):
    finished = dragoman("run", "--http", "--workers", "0", written(tmp_path, ONE_SERVER))
    assert (finished.code, finished.err) == (1, "dragoman: workers must be at least 1, not 0\n")


@pytest.mark.covers("WRK-14")
@pytest.mark.parametrize("options", [[], ["--http", "--port", "0"]])
def test_a_store_of_many_machines_without_a_secret_is_refused_in_one_line(tmp_path, options):
    source = """
        from dragoman import Server, stores

        server = Server("one", store=stores.Redis("redis://127.0.0.1:1"))
    """
    finished = dragoman("run", *options, written(tmp_path, source), input=PING)
    assert finished.code == 2
    assert finished.err == (
        "dragoman: A store that other machines share needs a secret that they share too: set DRAGOMAN_SECRET to the"
        " same value on every machine, or give the Server a secret\n"
    )


SCOPED = """
    from dragoman import Server

    server = Server("files")

    @server.tool(scopes=["files:write"])
    def write() -> str:
        return "written"
"""


def test_tools_with_scopes_are_refused_over_http_in_one_line(tmp_path):
    finished = dragoman("run", "--http", "--port", "0", written(tmp_path, SCOPED))
    assert finished.code != 0
    assert finished.err.startswith("dragoman: The tool 'write' requires scopes, but nothing verifies its callers")
    assert finished.err.count("\n") == 1


def test_auth_of_a_file_that_runs_itself_is_kept(tmp_path):
    port = free_port()
    source = SCOPED + '\n    server.run("http", port=1, auth=lambda request: None)\n'
    child = subprocess.Popen(words("run", "--http", "--port", port, written(tmp_path, source)), env=PLAIN)
    try:
        with pytest.raises(HTTPError, match="401"):
            call_over_http(f"http://127.0.0.1:{port}/mcp")
    finally:
        child.kill()
        child.wait(DEADLINE)
