"""Clients that use up what a server keeps for sessions, and a real process that serves the others all the same."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from scenarios.http_crew import DEADLINE, SERVER, Client, Crew, crew
from scenarios.http_peer import scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process by /proc")
MEGABYTE = 1_000_000
LARGE = """
    @server.tool
    async def large(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "x" * 4_000_000
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
@scenario
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
@scenario
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
