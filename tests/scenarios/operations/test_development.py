"""Development: exceptions that reach the caller, and files that define a server in every way."""

import asyncio
import json
import time

import pytest

from dragoman import AsyncClient, Client, Server
from dragoman.errors import RpcError
from scenarios.command_line import PING, PONG, dragoman, serving, written

BROKEN = """
    from dragoman import Server

    {made}

    {decorated}
    def divide(a: int, b: int) -> float:
        return a / b
"""
DEFINED = BROKEN.format(made='server = Server("one")', decorated="@server.tool")
CALL = json.dumps(
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "divide", "arguments": {"a": 1, "b": 0}}}
)


@pytest.mark.parametrize("is_debugged", [True, False])
async def test_a_server_for_development_shows_exceptions_to_the_caller_and_others_do_not(is_debugged, caplog):
    server = Server("one", debug=is_debugged)

    @server.tool
    def divide(a: int, b: int) -> float:
        return a / b

    @server.prompt
    def greet(name: str) -> str:
        raise KeyError(name)

    async with AsyncClient(server) as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0}, raise_on_error=False)
        assert result.is_error
        with pytest.raises(RpcError) as refused:
            await client.get_prompt("greet", {"name": "secret"})
    if is_debugged:
        assert result.text.startswith("ZeroDivisionError: division by zero (")
        assert "test_development.py, line " in result.text
        assert result.text.endswith(", in divide)")
        assert "KeyError: 'secret' (" in str(refused.value)
    else:
        assert result.text == "Internal error occurred"
        assert "secret" not in str(refused.value)
    assert "Unexpected error in tools/call of 'divide' (request " in caplog.text
    assert "ZeroDivisionError: division by zero" in caplog.text


@pytest.mark.parametrize("flags", [["--dev"], ["--reload"], []])
def test_the_command_shows_exceptions_in_development_alone(tmp_path, flags):
    finished = dragoman("run", *flags, written(tmp_path, DEFINED), input=CALL + "\n", home=tmp_path)
    text = json.loads(finished.out)["result"]["content"][0]["text"]
    assert ("ZeroDivisionError: division by zero" in text) is bool(flags)
    assert ("service.py, line 8, in divide" in text) is bool(flags)
    assert "Unexpected error in tools/call of 'divide'" in finished.err
    assert "ZeroDivisionError" in finished.err


def test_a_server_over_http_in_development_logs_its_requests(tmp_path):
    path = written(tmp_path, DEFINED)
    with serving(path, "--dev", home=tmp_path) as url:
        called = dragoman("call", url, "divide", "a=1", "b=0", home=tmp_path)
        assert "the tool failed: ZeroDivisionError: division by zero" in called.err
    called = dragoman("call", path, "divide", "a=1", "b=0", home=tmp_path)
    assert "the tool failed: Internal error occurred; the server's log says why: --verbose shows it" in called.err
    shown = dragoman("call", "--verbose", path, "divide", "a=1", "b=0", home=tmp_path)
    assert "ZeroDivisionError: division by zero" in shown.err


FILES = {
    "defined": DEFINED,
    "mcp": BROKEN.format(made='mcp = Server("one")', decorated="@mcp.tool"),
    "factory": """
        from dragoman import Server

        def create_server() -> Server:
            server = Server("one")

            @server.tool
            def divide(a: int, b: int) -> float:
                return a / b

            return server
    """,
    "guarded": f'{DEFINED}\n\n    if __name__ == "__main__":\n        server.run()\n',
    "unguarded": f"{DEFINED}\n\n    server.run()\n",
    "unguarded http": f'{DEFINED}\n\n    with open(__file__) as file:\n        server.run("stdio")\n',
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_served_however_it_defines_its_server(tmp_path, kind):
    path = written(tmp_path, FILES[kind])
    finished = dragoman("run", path, input=PING, home=tmp_path)
    assert (finished.code, finished.out, finished.err) == (0, PONG, "")
    with Client(path) as client:
        assert client.call_tool("divide", {"a": 1, "b": 2}).text == "0.5"
    listed = dragoman("list", path, home=tmp_path)
    assert (listed.code, "divide" in listed.out) == (0, True), listed.err


def test_a_file_that_runs_over_http_is_served_as_the_command_line_says(tmp_path):
    path = written(tmp_path, f'{DEFINED}\n\n    server.run("http", port=1)\n')
    finished = dragoman("run", path, input=PING, home=tmp_path)
    assert (finished.code, finished.out, finished.err) == (0, PONG, "")
    with serving(path, home=tmp_path) as url, Client(url) as client:
        assert client.call_tool("divide", {"a": 1, "b": 2}).text == "0.5"


def test_a_file_that_awaits_its_server_is_told_to_guard_it(tmp_path):
    path = written(tmp_path, f"{DEFINED}\n\n    import asyncio\n    asyncio.run(server.run_async())\n")
    finished = dragoman("run", path, home=tmp_path)
    assert finished.code != 0
    assert 'put that under `if __name__ == "__main__":`' in finished.err


def test_a_file_without_a_server_is_told_what_was_found(tmp_path):
    path = written(tmp_path, "import collections\nmcp = collections.Counter()\n")
    finished = dragoman("run", path, home=tmp_path)
    assert finished.code == 2
    assert "defines no Server: mcp is of the class Counter of collections; make one" in finished.err


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (["--log-format", "xml"], "--log-format must be text or json, not 'xml'"),
        (["--access-log"], "--access-log is for HTTP: add --http, or leave it out"),
        (["--no-health"], "--no-health is for HTTP: add --http, or leave it out"),
        (["--devel"], "There is no option '--devel'; did you mean '--dev'"),
    ],
)
def test_a_wrong_option_of_run_is_named_with_the_way_to_help(tmp_path, wrong, fault):
    finished = dragoman("run", *wrong, written(tmp_path, DEFINED), home=tmp_path)
    assert (finished.code, finished.out, finished.err) == (2, "", f"dragoman: {fault}. See: dragoman run --help\n")


@pytest.mark.parametrize("is_debugged", [True, False])
async def test_a_server_for_development_warns_of_a_handler_that_blocks_the_event_loop(is_debugged, caplog, monkeypatch):
    monkeypatch.setattr("dragoman.server.dispatch.reporting.BLOCKED_SECONDS", 0.2)
    monkeypatch.setattr("dragoman.server.dispatch.reporting.BEAT_SECONDS", 0.01)
    server = Server("one", debug=is_debugged)

    @server.tool
    async def block(seconds: float) -> str:
        await asyncio.sleep(0.05)
        time.sleep(seconds)  # noqa: ASYNC251
        return "done"

    async with AsyncClient(server) as client:
        assert (await client.call_tool("block", {"seconds": 0.25})).text == "done"
    warned = [record.getMessage() for record in caplog.records if "stood still" in record.getMessage()]
    assert len(warned) == is_debugged
    assert all("seconds during tools/call of 'block' (request" in line and "write `def`" in line for line in warned)
