"""Clients that use up what a server keeps for sessions, and a real process that serves the others all the same."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from scenarios.http_crew import DEADLINE, SERVER, Client, Crew, Stream, crew

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process by /proc")
MEGABYTE = 1_000_000
LARGE = """
    @server.tool
    async def large(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "x" * 4_000_000
"""
STEP = """
    @server.tool
    async def step(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "done"
"""
RUN = """
    server.run("http", port=int(sys.argv[1]){options})
"""


def served(options: str = "", tools: str = "") -> str:
    return SERVER + tools + RUN.format(options=options)


def resident(processes: Crew) -> int:
    """How many bytes of memory the server takes."""
    status = Path(f"/proc/{processes.child.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


async def last_id_of_large_answer(client: Client) -> str:
    """Read an answer of 4 MB that comes as an event stream, and return the id of its last event."""
    async with client.call("large", progressToken=1) as response:
        body = await asyncio.wait_for(response.read(), DEADLINE)
        assert len(body) > 4 * MEGABYTE
        return re.findall(rb"^id: (\S+)", body, re.MULTILINE)[-1].decode()


async def resumed(client: Client, event: str) -> tuple[int, bytes]:
    async with client.listen(last_event_id=event) as response:
        return response.status, await asyncio.wait_for(response.read(), DEADLINE)


@pytest.mark.covers("SHT-49")
async def test_answers_that_a_session_was_given_do_not_fill_the_memory_of_the_server():
    async with crew(1, source=served(tools=LARGE)) as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            await last_id_of_large_answer(client)
            before = resident(processes)
            for _ in range(60):
                last = await last_id_of_large_answer(client)
            assert resident(processes) - before < 60 * MEGABYTE
            stream = last.rpartition("-")[0]
            status, body = await resumed(client, f"{stream}-0")
            assert status == 200
            assert json.loads(re.findall(rb"^data: (\{.*)\r$", body, re.MULTILINE)[-1])["result"]


@pytest.mark.covers("SHT-49")
async def test_answers_that_nobody_fetches_in_many_sessions_do_not_fill_it_either():
    async with crew(1, source=served(", max_event_bytes=30_000_000", LARGE)) as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            await last_id_of_large_answer(client)
            before = resident(processes)
            for _ in range(30):
                del client.headers["mcp-session-id"]
                await client.initialize()
                for _ in range(3):
                    async with client.call("large", progressToken=1) as response:
                        await response.content.readany()
                        response.close()
            await last_id_of_large_answer(client)
            assert resident(processes) - before < 90 * MEGABYTE


@pytest.mark.covers("SHT-49")
async def test_clients_that_say_much_of_themselves_do_not_fill_it_either():
    async with crew(1, source=served()) as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            before = resident(processes)
            for number in range(100):
                info = {"name": "c", "version": "1", "title": "x" * (MEGABYTE - 1000)}
                params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
                client.headers.pop("mcp-session-id", None)
                async with client.post(client.message("initialize", params)) as response:
                    assert response.status == 200, number
            assert resident(processes) - before < 50 * MEGABYTE


@asynccontextmanager
async def client_at(address: str, processes: Crew) -> AsyncIterator[Client]:
    """A client without a session, whose connections come from an address."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0), limit=16)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(DEADLINE)) as http:
        yield Client(http, processes.url)


async def flood(client: Client, sessions: int, *, used: bool) -> list[str]:
    """Begin many sessions, and use each of them once if that is asked for; return their ids."""
    begun = []

    async def begin(count: int) -> None:
        one = Client(client.http, client.url)
        for _ in range(count):
            one.headers.pop("mcp-session-id", None)
            await one.initialize()
            begun.append(one.headers["mcp-session-id"])
            if used:
                assert await one.request("ping") == 200

    await asyncio.gather(*(begin(sessions // 16) for _ in range(16)))
    return begun


@pytest.mark.covers("SHT-28")
@pytest.mark.parametrize("used", [False, True])
async def test_a_client_that_floods_a_server_with_sessions_locks_nobody_out(used):
    async with crew(1, source=served(", max_sessions=200", STEP)) as processes:
        await processes.ready()
        async with (
            client_at("127.0.0.2", processes) as idle,
            client_at("127.0.0.1", processes) as busy,
            client_at("127.0.0.1", processes) as flooding,
            client_at("127.0.0.3", processes) as newcomer,
        ):
            for client in (idle, busy):
                await client.initialize()
            async with idle.call("step", progressToken=1) as response:
                events = Stream(response)
                await events.until(lambda messages: len(messages) == 2)
            async with busy.listen() as listening, busy.call("wait", progressToken=1) as waiting:
                heard, stream = Stream(listening), Stream(waiting)
                await stream.until(lambda messages: messages)
                begun = await flood(flooding, 640, used=used)
                await newcomer.initialize()
                await newcomer.text("change")
                await heard.until(lambda messages: messages)
                # A session that gave way would have forgotten the stream.
                status, body = await resumed(idle, events.events[0].id)
                assert (status, b"done" in body) == (200, True)
                cancelled = {"requestId": busy._last_id}
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
                async with busy.post(note) as accepted:
                    assert accepted.status == 202
                await asyncio.wait_for(waiting.content.read(), DEADLINE)
            flooding.headers |= {"mcp-session-id": begun[0]}
            assert await flooding.request("ping") == 200
