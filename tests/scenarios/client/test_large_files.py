"""Files of the largest size that a server reads reach a client with default options."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Context, File, Server
from dragoman.errors import TooLarge
from dragoman.server.define.content import MAX_FILE_BYTES
from scenarios.proxied_http import serving_itself
from scenarios.scripted_server import ScriptedServer

STDIO = """
import sys
from scenarios.client.test_large_files import file_server
from pathlib import Path

file_server(Path(sys.argv[1])).run()
"""


def file_server(path: Path) -> Server:
    server = Server("files", secret="a secret that is long enough for a key")

    @server.tool
    async def scan(ctx: Context) -> File:
        await ctx.report_progress(1)  # makes the response an event stream
        return File(path)

    @server.resource("scan://latest", mime_type="application/pdf")
    def latest() -> bytes:
        return path.read_bytes()

    return server


@contextlib.asynccontextmanager
async def target(transport: str, path: Path) -> AsyncIterator[Any]:
    server = file_server(path)
    if transport == "http":
        async with server.serving(), serving_itself(server.asgi()) as port:
            yield f"http://127.0.0.1:{port}/mcp"
    elif transport == "stdio":
        yield [sys.executable, "-c", STDIO, str(path)]
    else:
        yield server


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_default_client_receives_the_largest_file(tmp_path, transport, era):
    path = tmp_path / "scan.pdf"
    path.write_bytes(b"\xff" * MAX_FILE_BYTES)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    async with target(transport, path) as server, AsyncClient(server, mode=era, env=environment) as client:
        result = await client.call_tool("scan", on_progress=lambda *_: None)
        assert len(result.content[0].resource.blob) == (MAX_FILE_BYTES + 2) // 3 * 4
        assert await (await client.resource("scan://latest")).content() == path.read_bytes()


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_answer_over_the_limit_names_limit_and_option(tmp_path, transport):
    path = tmp_path / "scan.pdf"
    path.write_bytes(b"\xff" * 100_000)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    async with (
        target(transport, path) as server,
        AsyncClient(server, env=environment, max_message_bytes=100_000) as client,
    ):
        with pytest.raises(TooLarge, match=r"100000.*; .*raise max_message_bytes$") as caught:
            await client.call_tool("scan")
        assert "may have been served" not in str(caught.value)


async def test_list_over_the_limit_is_requested_once():
    page = {"tools": [{"name": "x" * 2_000, "inputSchema": {"type": "object"}}]}
    server = ScriptedServer({"tools/list": page})
    async with AsyncClient(server, max_message_bytes=1_000) as client:
        with pytest.raises(TooLarge, match="raise max_message_bytes"):
            await client.tools()
    assert [message.get("method") for message in server.received].count("tools/list") == 1
