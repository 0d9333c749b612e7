"""Commands and files that serve HTTP instead of stdin and stdout: a client connects to the URL that they announce."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable

import pytest

from dragoman import AsyncClient, Timeout
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.errors import ServerUsesHttp
from dragoman.forward.passthrough import Passthrough
from interop.client.peers import command
from ports import free_port

DEADLINE = 20.0
SERVER = """
import os, sys
from dragoman import Server

server = Server("web")

@server.tool
def pid() -> int:
    return os.getpid()
"""
WITH_UVICORN = "import uvicorn\nfrom web_server import server\nuvicorn.run(server.asgi(PATH), port=PORT)"
BY_ITSELF = "from web_server import server\nserver.run('http', port=PORT, path='/custom')"
OF_MCP = """
from mcp.server import MCPServer
server = MCPServer("peer")

@server.tool()
def pid() -> int:
    import os
    return os.getpid()

server.run(transport=KIND, port=PORT)
"""
WITH_PAGE = """
import sys, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer
page = HTTPServer(("127.0.0.1", PORT), BaseHTTPRequestHandler)
threading.Thread(target=page.serve_forever, daemon=True).start()
print("Dashboard running on http://127.0.0.1:PORT", file=sys.stderr, flush=True)
time.sleep(SECONDS)
from web_server import server
server.run()
"""


def write(folder, source: str, **values: object) -> str:
    (folder / "web_server.py").write_text(SERVER)
    path = folder / "main.py"
    for name, value in {"PORT": free_port(), **values}.items():
        source = source.replace(name, str(value))
    path.write_text(source)
    return str(path)


async def called_pid(client: AsyncClient) -> int:
    return int((await client.call_tool("pid")).text)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - nothing tells that a process has ended
            await asyncio.sleep(0.01)


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("source", "path"),
    [(BY_ITSELF, "/custom"), (WITH_UVICORN, "/mcp"), (WITH_UVICORN, "/")],
    ids=["run", "uvicorn at /mcp", "uvicorn at /"],
)
@pytest.mark.parametrize("is_file", [True, False], ids=["file", "command"])
async def test_client_connects_to_announced_url_and_ends_the_process(tmp_path, source, path, is_file):
    target = write(tmp_path, source, PATH=repr(path))
    async with AsyncClient(target if is_file else [sys.executable, target], timeout=DEADLINE) as client:
        pid = await called_pid(client)
        assert pid != os.getpid()
    await until(lambda: has_ended(pid))


async def test_client_starts_a_crashed_http_process_again(tmp_path):
    target = write(tmp_path, BY_ITSELF)
    async with AsyncClient([sys.executable, target], timeout=DEADLINE) as client:
        first = await called_pid(client)
        os.kill(first, signal.SIGKILL)
        await until(lambda: not client.alive)
        assert await called_pid(client) != first


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_client_connects_to_a_server_of_the_python_sdk(tmp_path, transport):
    python = command("mcp", "http", tmp_path)[0]
    target = write(tmp_path, OF_MCP, KIND=repr(transport))
    async with AsyncClient([python, target], timeout=DEADLINE) as client:
        pid = await called_pid(client)
    await until(lambda: has_ended(pid))


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_client_connects_to_a_server_that_announces_only_its_port(tmp_path, transport):
    words = command("everything", transport, tmp_path)
    async with AsyncClient(words, env={"PORT": str(free_port())}, timeout=DEADLINE) as client:
        assert (await client.call_tool("echo", {"message": "hi"})).text == "Echo: hi"


@pytest.mark.parametrize("seconds", [0, 1.5], ids=["at once", "later"])
async def test_stdio_server_with_a_web_page_is_served_over_stdio(tmp_path, seconds, caplog):
    target = write(tmp_path, WITH_PAGE, SECONDS=seconds)
    async with AsyncClient([sys.executable, target], timeout=DEADLINE) as client:
        assert await called_pid(client) > 0
    if seconds:
        assert "there is no MCP server at that URL" in caplog.text


async def test_announced_url_of_another_machine_is_not_used(tmp_path):
    source = "print('serving at http://192.0.2.1:80/mcp', flush=True)\nimport time\ntime.sleep(60)"
    with pytest.raises(Timeout, match="is it an MCP server"):
        await AsyncClient([sys.executable, write(tmp_path, source)], connect_timeout=1.0).start()


async def test_bridge_reports_the_url_of_a_command_that_serves_http(tmp_path):
    words = [sys.executable, write(tmp_path, BY_ITSELF)]
    transport = Passthrough(endpoint_of(words, EndpointOptions(Credentials())))
    closed = asyncio.get_running_loop().create_future()
    await transport.open(lambda _: None, closed.set_result)
    try:
        async with asyncio.timeout(DEADLINE):
            error = await closed
    finally:
        await transport.close()
    assert isinstance(error, ServerUsesHttp)
    assert error.url.endswith("/custom")
    assert "start it yourself and connect to that URL" in str(error)
