"""A server over HTTP that is used for long, by clients that leave, do not read, or only listen."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest

from soak.soaked_server import FOLLOWED
from soak.soaking import Soaked, in_session, soaked, stateless

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="What a process holds is read from /proc"),
]

WAVES, SESSIONS, AT_ONCE = 5, 400, 16
FLOOD = 10_000
MOST_MORE_KILOBYTES = 32 * 1024
STREAMS = 1000
CALLS_PER_SECOND, SECONDS = 200, 20
LONGEST_ANSWER = 2.0
NEVER = 3600.0


async def abandon_sessions(server: Soaked, count: int) -> None:
    """Open and use sessions, several at once, and never come back to them."""
    left = iter(range(count))

    async def visit() -> None:
        for number in left:
            session = await server.begin()
            assert await server.call("add", session, a=number, b=1) == number + 1

    await asyncio.gather(*(visit() for _ in range(AT_ONCE)))


def test_sessions_that_are_abandoned_leave_nothing_behind(tmp_path):
    async def scenario() -> None:
        async with soaked(tmp_path, idle_seconds=1.0) as server:
            before = await server.call("held")
            plateaus = []
            for _ in range(WAVES):
                await abandon_sessions(server, SESSIONS)
                after = await server.until(lambda held: held["sessions"] < 20)
                plateaus.append(after["kilobytes"])
                assert after["tasks"] <= before["tasks"] + AT_ONCE
            await server.until(lambda held: held["tasks"] <= before["tasks"] + 2)
            assert max(plateaus[1:]) <= plateaus[0] * 1.1, plateaus

    asyncio.run(scenario())


async def silent_readers(server: Soaked) -> list[asyncio.StreamWriter]:
    """Open one stream of each kind, none of which is read."""
    session = await server.begin()
    await server.post(*in_session(session, "logging/setLevel", {"level": "info"}))
    await server.post(*in_session(session, "resources/subscribe", {"uri": FOLLOWED}))
    flood: dict[str, Any] = {"name": "chatter", "arguments": {"count": FLOOD, "name": "in a session"}}
    alone: dict[str, Any] = {"name": "chatter", "arguments": {"count": FLOOD, "name": "alone"}}
    return [
        await server.read(session),
        await server.listen(toolsListChanged=True, resourceSubscriptions=[FOLLOWED]),
        await server.open("POST", *in_session(session, "tools/call", flood)),
        await server.open("POST", *stateless("tools/call", alone)),
    ]


def test_readers_that_do_not_read_neither_fill_the_memory_nor_hold_up_the_others(tmp_path):
    async def scenario() -> None:
        async with soaked(tmp_path, idle_seconds=NEVER) as server:
            before = await server.call("held")
            readers = await silent_readers(server)
            told = asyncio.create_task(server.post(*stateless("tools/call", change)))
            most, slowest = 0, 0.0
            ends = time.monotonic() + 90
            while True:
                began = time.monotonic()
                assert await server.call("add", a=1, b=2) == 3
                slowest = max(slowest, time.monotonic() - began)
                held = await server.call("held")
                most = max(most, held["kilobytes"])
                if told.done() and set(held["finished"]) == {"in a session", "alone"}:
                    break
                assert time.monotonic() < ends, held
                await asyncio.sleep(0.05)
            assert (await told)[0] == 200
            assert most - before["kilobytes"] < MOST_MORE_KILOBYTES, (before, most)
            assert slowest < LONGEST_ANSWER
            for reader in readers:
                reader.transport.abort()
            await server.until(lambda held: held["tasks"] <= before["tasks"] + 2)

    change = {"name": "change", "arguments": {"count": FLOOD}}
    asyncio.run(scenario())


async def steady_calls(server: Soaked) -> list[float]:
    """Call at a steady rate; return how long the answers took, sorted."""
    durations = []

    async def call(number: int, session: str | None) -> None:
        began = time.monotonic()
        assert await server.call("add", session, a=number, b=1) == number + 1
        durations.append(time.monotonic() - began)

    sessions = [None, *[await server.begin() for _ in range(3)]]
    begins, calls = time.monotonic(), []
    for number in range(CALLS_PER_SECOND * SECONDS):
        await asyncio.sleep(max(0, begins + number / CALLS_PER_SECOND - time.monotonic()))
        calls.append(asyncio.create_task(call(number, sessions[number % len(sessions)])))
    await asyncio.gather(*calls)
    return sorted(durations)


@pytest.mark.parametrize("kind", ["get", "listen"])
def test_a_thousand_idle_streams_do_not_disturb_the_calls(kind, tmp_path):
    async def scenario() -> None:
        async with soaked(tmp_path, idle_seconds=1.0) as server:
            before = await server.call("held")
            opened = []
            for _ in range(STREAMS):
                if kind == "get":
                    opened.append(await server.read(await server.begin()))
                else:
                    opened.append(await server.listen(toolsListChanged=True))
            durations = await steady_calls(server)
            assert durations[len(durations) // 2] < 0.25
            assert durations[-1] < LONGEST_ANSWER
            for writer in opened:
                writer.transport.abort()
            await server.until(lambda held: held["tasks"] <= before["tasks"] + 2 and held["sessions"] < 20)

    asyncio.run(scenario())
