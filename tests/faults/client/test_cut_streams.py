"""A proxy cuts the event stream of a call: what the client sends again, and what it says otherwise."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from dragoman import AsyncClient, Context, Server, TransportError
from scenarios.client_peer import scenario
from scenarios.proxied_http import serving_itself

EVENT = b"notifications/progress"


def counting(runs: list[str]) -> Server:
    server = Server("counting", secret="a secret that is long enough for a key")

    @server.tool(annotations={"readOnlyHint": True})
    async def look(ctx: Context) -> str:
        runs.append("look")
        await ctx.report_progress(1)  # makes the response an event stream
        return "seen"

    @server.tool
    async def write(ctx: Context) -> str:
        runs.append("write")
        await ctx.report_progress(1)
        return "written"

    return server


@contextlib.asynccontextmanager
async def cutting(port: int, ending: str) -> AsyncIterator[str]:
    """Forward connections to a port, and cut the first stream in place of its first event; give the URL."""
    cuts: list[str] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)

        async def send() -> None:
            while chunk := await reader.read(65_536):
                upstream_writer.write(chunk)

        sending = asyncio.create_task(send())
        try:
            while chunk := await upstream_reader.read(65_536):
                if EVENT in chunk and not cuts:
                    cuts.append(ending)
                    head = chunk[: chunk.index(b"\r\n\r\n") + 4]  # the response head comes with the first event
                    writer.write(head + (b"0\r\n\r\n" if ending == "clean" else b""))
                    await writer.drain()
                    break
                writer.write(chunk)
        finally:
            sending.cancel()
            upstream_writer.close()
            writer.close()

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"


@contextlib.asynccontextmanager
async def cut_client(ending: str, runs: list[str], **options: bool) -> AsyncIterator[AsyncClient]:
    server = counting(runs)
    async with (
        server.serving(),
        serving_itself(server.asgi()) as port,
        cutting(port, ending) as url,
        AsyncClient(url, mode="stateless", **options) as client,
    ):
        yield client


@pytest.mark.parametrize("ending", ["clean", "broken"])
@scenario
async def test_trusted_client_repeats_a_read_only_tool_that_it_has_not_listed(ending):
    runs: list[str] = []
    async with cut_client(ending, runs, trusted=True) as client:
        assert (await client.call_tool("look", on_progress=lambda *_: None)).text == "seen"
    assert runs == ["look", "look"]


@pytest.mark.parametrize("ending", ["clean", "broken"])
@scenario
async def test_idempotent_call_is_repeated(ending):
    runs: list[str] = []
    async with cut_client(ending, runs) as client:
        assert (await client.call_tool("write", idempotent=True, on_progress=lambda *_: None)).text == "written"
    assert runs == ["write", "write"]


@pytest.mark.parametrize("ending", ["clean", "broken"])
@pytest.mark.parametrize(("tool", "is_trusted"), [("write", True), ("write", False), ("look", False)])
@scenario
async def test_call_that_may_change_something_is_not_repeated_and_names_the_option(ending, tool, is_trusted):
    runs: list[str] = []
    async with cut_client(ending, runs, trusted=is_trusted) as client:
        with pytest.raises(TransportError, match=r"may have been served, and was not repeated: ") as caught:
            await client.call_tool(tool, on_progress=lambda *_: None)
        assert str(caught.value).endswith(
            "; 2026-07-28 cannot resume a response, so give a call that may run twice idempotent=True"
        )
    assert runs == [tool]
