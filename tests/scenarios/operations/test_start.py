"""How a server starts: what it says on stderr, the access log, and `run_async` in a loop of one's own."""

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
import textwrap

import aiohttp
import pytest

from dragoman import AsyncClient, Server
from dragoman.errors import DefinitionError
from ports import free_port
from scenarios.command_line import AtTerminal, dragoman, serving, words, written
from scenarios.http_crew import DEADLINE, SERVER, Client, crew, until

ONE = """
    from dragoman import Server

    server = Server("one", version="1.2")

    @server.tool
    def divide(a: int, b: int) -> float:
        return a / b
"""


@pytest.mark.parametrize("workers", [1, 3])
async def test_one_line_says_where_a_server_serves_and_then_it_listens(workers):
    run = '    server.run("http", port=0, workers=int(sys.argv[2]), health=True)\n'
    async with crew(workers, SERVER + run) as processes:
        (line,) = await until(lambda: processes.announced)
        url = line.split()[5]
        async with AsyncClient(url) as client:
            assert int((await client.call_tool("pid")).text) > 0
        assert line == (
            f"dragoman: serving crew 0 at {url} (versions: 2024-11-05 to 2026-07-28, workers: {workers}, auth: none,"
            " health: /healthz /readyz)"
        )
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert (len(processes.announced), processes.stderr) == (1, "")


def test_at_a_terminal_the_start_has_colours_and_a_command_to_try(tmp_path):
    port = free_port()
    with AtTerminal("run", "--http", "--port", port, written(tmp_path, ONE), home=tmp_path) as terminal:
        terminal.until(f"try it  dragoman list http://127.0.0.1:{port}/mcp")
        assert f"\x1b[1;36mhttp://127.0.0.1:{port}/mcp\x1b[0m" in terminal.raw


def test_over_stdin_and_stdout_nothing_is_said(tmp_path):
    finished = dragoman("run", written(tmp_path, ONE), home=tmp_path)
    assert (finished.code, finished.out, finished.err) == (0, "", "")


async def test_the_access_log_says_who_did_what_and_no_secret():
    source = SERVER + ("    server.run('http', port=int(sys.argv[1]), access_log=True, auth=lambda request: 'alice')\n")
    async with crew(1, source) as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            client.headers["authorization"] = "Bearer hidden"
            await client.text("pid")
            async with client.http.get(f"{processes.url}x?token=hidden") as missing:
                assert missing.status == 404
            session = client.headers["mcp-session-id"]
        lines = await until(
            lambda: (
                [line for line in processes.stderr.splitlines() if " 404 " in line] and processes.stderr.splitlines()
            )
        )
        said = [line.partition("dragoman.access: ")[2] for line in lines]
        began, called, missing_line = said
        assert began.startswith("127.0.0.1 POST /mcp 200 ")
        assert "mcp_method=initialize request_id=1 session=" in began
        assert "mcp_method=tools/call name=pid request_id=2 session=" in called
        assert called.endswith(" principal=alice")
        assert missing_line.startswith("127.0.0.1 GET /mcpx 404 ")
        assert began.rpartition("session=")[2].split()[0] == called.rpartition("session=")[2].split()[0]
        assert "hidden" not in processes.stderr
        assert session[:8] not in processes.stderr


def test_the_command_logs_json_lines(tmp_path):
    path, port = written(tmp_path, ONE), free_port()
    child = subprocess.Popen(
        words("run", "--http", "--port", port, "--access-log", "--log-format", "json", path),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr.readline().startswith("dragoman: serving one 1.2 at ")
        called = dragoman("call", f"http://127.0.0.1:{port}/mcp", "divide", "a=1", "b=0", home=tmp_path)
        assert called.code == 1
        assert "the server's log, on its stderr, says why; while you develop, serve it with" in called.err
        records = []
        while not any(record.get("name") == "divide" for record in records):
            records.append(json.loads(child.stderr.readline()))
        (failed,) = [record for record in records if record["level"] == "error"]
        assert failed["message"].startswith("Unexpected error in tools/call of 'divide'")
        assert "ZeroDivisionError" in failed["exception"]
        assert {"method": "POST", "path": "/mcp", "status": 200, "mcp_method": "tools/call"}.items() <= records[
            -1
        ].items()
    finally:
        child.terminate()
        child.wait(DEADLINE)
        child.stderr.close()


async def test_the_access_log_of_an_application_goes_where_the_program_logs(caplog):
    server = Server("logged")
    with caplog.at_level(logging.INFO, "dragoman.access"):
        async with AsyncClient(server) as client:
            await client.ping()
        app = server.asgi(access_log=True)
        assert app.served.log is not None

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message): ...

        scope = {"type": "http", "method": "GET", "path": "/a\nb", "headers": [(b"host", b"localhost")]}
        await app(scope, receive, send)
    (record,) = [record for record in caplog.records if record.name == "dragoman.access"]
    assert record.getMessage().startswith("- GET /a\\nb 404 ")
    assert record.fields["path"] == "/a\\nb"


async def test_a_server_runs_in_a_loop_of_ones_own_until_its_task_is_cancelled(capsys):
    server, began, port = Server("embedded"), asyncio.Event(), free_port()

    @server.tool
    async def slow() -> str:
        began.set()
        await asyncio.sleep(0.3)
        return "done"

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    serving_task = asyncio.create_task(server.run_async("http", port=port, health=True))
    await until(lambda: "dragoman: serving embedded" in capsys.readouterr().err)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    async with AsyncClient(f"http://127.0.0.1:{port}/mcp") as client:
        calling = asyncio.create_task(client.call_tool("slow"))
        await asyncio.wait_for(began.wait(), DEADLINE)
        serving_task.cancel()
        assert (await calling).text == "done"
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving_task, DEADLINE)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_in_a_loop_of_ones_own_signals_end_the_server_if_it_is_asked_to(tmp_path, transport):
    options = ", port=0" if transport == "http" else ""
    program = f"""
        import asyncio, sys
        from dragoman import Server

        async def main():
            server = Server("embedded")
            print("starting", file=sys.stderr, flush=True)
            await server.run_async({transport!r}{options}, handle_signals=True)
            print("ended", file=sys.stderr, flush=True)

        asyncio.run(main())
    """
    path = written(tmp_path, textwrap.dedent(program))
    child = subprocess.Popen(
        [sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stderr.readline() == "starting\n"
        if transport == "http":
            assert child.stderr.readline().startswith("dragoman: serving embedded")
        else:
            child.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            child.stdin.flush()
            assert '"result":{}' in child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE) == 0
        assert child.stderr.read() == "ended\n"
    finally:
        child.kill()
        child.wait(DEADLINE)
        for stream in (child.stdin, child.stdout, child.stderr):
            stream.close()


@pytest.mark.parametrize("tags", [None, "public"])
async def test_run_async_can_be_cancelled_while_the_lifespan_begins(tags):
    happened, began = [], asyncio.Event()

    async def first():
        happened.append("open")
        try:
            yield "first"
        finally:
            happened.append("closed")

    async def endless():
        began.set()
        await asyncio.Event().wait()
        yield "never"

    server = Server("slow", lifespan=first)
    server.lifespan(endless)
    serving_task = asyncio.create_task(server.run_async("http", port=0, health=True, include_tags=tags))
    async with asyncio.timeout(DEADLINE):
        await began.wait()
        serving_task.cancel()
        await asyncio.wait([serving_task])
    assert serving_task.cancelled()
    assert happened == ["open", "closed"]


async def test_run_async_refuses_what_it_cannot_do():
    with pytest.raises(DefinitionError, match="several workers"):
        await Server("a").run_async("http", workers=2)
    with pytest.raises(DefinitionError, match='"stdio" and "http"'):
        await Server("a").run_async("tcp")
    with pytest.raises(TypeError, match="no option 'prot'"):
        await Server("a").run_async("http", prot=1)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await Server("a").run_async("http", port=taken.getsockname()[1])


def test_the_command_serves_health_unless_told_otherwise(tmp_path):
    path = written(tmp_path, ONE)

    async def status(url: str) -> int:
        async with aiohttp.ClientSession() as http, http.get(url.replace("/mcp", "/readyz")) as response:
            return int(response.status)

    for arguments, expected in (((), 200), (("--no-health",), 404)):
        with serving(path, *arguments, home=tmp_path) as url:
            assert asyncio.run(status(url)) == expected
