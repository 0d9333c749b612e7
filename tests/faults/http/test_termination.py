"""A server over HTTP that is ended by a signal while it is used: no call is lost, and none runs twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from dragoman import AsyncClient
from dragoman.errors import InternalError
from faults.http.termination_load import DEADLINE, RawClient, load, read_response, terminated
from scenarios.http_crew import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
AT_ONCE = 4.0
"""Seconds in which a server ends that has nothing to wait for: fewer than the five that requests have."""
MOUNTED = ("uvicorn", "starlette")


async def last_answer(reader: asyncio.StreamReader) -> int:
    """Read a response that says that it is the last of its connection, and return its status."""
    status, headers, _ = await asyncio.wait_for(read_response(reader), DEADLINE)
    assert headers["connection"] == "close"
    return status


@pytest.mark.covers("WRK-12")
async def test_workers_that_are_ended_while_they_serve_lose_no_call_and_run_none_twice():
    async with terminated("run", 3) as server:
        async with load(server) as more:
            await more(100)
            for worker in server.workers():
                await server.replace(worker)
            await more(50)
            await server.replace(*server.workers())
            await more(100)
        server.account.assert_right(300)
        await server.end()


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("how", ["run", *MOUNTED])
async def test_a_process_that_is_started_again_on_a_socket_that_stays_loses_no_call_and_runs_none_twice(how):
    async with terminated(how, keeps_socket=True) as server:
        async with load(server) as more:
            await more(100)
            await server.end()
            server.start()
            await more(100)
        # Uvicorn itself closes connections at once on which a request may be under way; that request does not run.
        server.account.assert_right(200, may_be_cut=how in MOUNTED)
        await server.end()


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_server_that_is_ended_and_started_again_answers_every_call_that_it_did_not_refuse(workers):
    async with terminated("run", workers) as server:
        async with load(server) as more:
            await more(100)
            await server.end()
            server.start()
            await more(100)
        server.account.assert_right(200)
        await server.end()


@pytest.mark.covers("WRK-12")
async def test_what_was_sent_by_half_and_what_is_sent_on_a_connection_that_was_idle_is_answered_as_the_last():
    async with terminated("run") as server:
        idle, half, fresh = RawClient(server.port), RawClient(server.port), RawClient(server.port)
        assert await idle.call("before") == "before"
        connections = [await client.connection() for client in (idle, half, fresh)]
        request = half.request("half")
        connections[1][1].write(request[:-20])
        server.child.send_signal(signal.SIGTERM)
        await server.refuses()
        for (_, writer), rest in zip(
            connections, (idle.request("idle"), request[-20:], fresh.request("fresh")), strict=True
        ):
            writer.write(rest)
        for reader, writer in connections:
            assert await last_answer(reader) == 200
            writer.transport.abort()
        assert await server.ended() == 0
        assert set(server.account.runs()) == {"before", "idle", "half", "fresh"}
        assert server.stderr == ""


@pytest.mark.covers("WRK-12")
async def test_requests_that_wait_in_line_behind_another_are_answered():
    async with terminated() as server:
        client = RawClient(server.port)
        reader, writer = await client.connection()
        writer.write(client.request("first") + client.request("second"))
        await server.ran("first")
        server.child.send_signal(signal.SIGTERM)
        status, _, _ = await asyncio.wait_for(read_response(reader), DEADLINE)
        assert (status, await last_answer(reader)) == (200, 200)
        client.close()
        assert await server.ended() == 0


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("workers", [1, 3])
async def test_connections_that_were_not_accepted_when_the_signal_came_are_served(workers):
    async with terminated("run", workers) as server:
        processes = [server.child.pid, *server.workers()]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        clients = [RawClient(server.port) for _ in range(20)]
        connections = [await client.connection() for client in clients]
        for number, (_, writer) in enumerate(connections):
            writer.write(clients[number].request(str(number)))
        server.child.send_signal(signal.SIGTERM)
        for process in processes:
            os.kill(process, signal.SIGCONT)
        for reader, writer in connections:
            assert await last_answer(reader) == 200
            writer.transport.abort()
        assert await server.ended() == 0
        assert server.stderr == ""


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("how", ["run", *MOUNTED])
async def test_streams_end_at_once_and_in_good_order(how):
    async with terminated(how) as server:
        subscriber, session = RawClient(server.port), await RawClient(server.port).begin()
        streams = []
        for client, request in ((subscriber, subscriber.listening()), (session, session.reading())):
            reader, writer = await client.connection()
            writer.write(request)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
            assert head.startswith(b"HTTP/1.1 200")
            streams.append(reader)
        began = time.monotonic()
        server.child.send_signal(signal.SIGTERM)
        subscribed, read = [await asyncio.wait_for(stream.read(), DEADLINE) for stream in streams]
        assert b'"resultType":"complete"' in subscribed
        assert subscribed.endswith(b"\r\n0\r\n\r\n")
        assert read.endswith(b"0\r\n\r\n")
        await server.ended()
        assert time.monotonic() - began < AT_ONCE
        assert server.stderr == ""
        for client in (subscriber, session):
            client.close()


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("how", MOUNTED)
async def test_calls_for_which_uvicorn_does_not_wait_are_told_that_they_may_have_run(how):
    async with (
        terminated(how) as server,
        AsyncClient(server.url, mode="stateless") as modern,
        AsyncClient(server.url, mode="handshake") as classic,
    ):
        calls = [
            asyncio.create_task(client.call_tool("wait", {"id": id})) for id, client in (("m", modern), ("c", classic))
        ]
        await server.ran("m", "c")
        server.child.send_signal(signal.SIGTERM)
        for call in calls:
            with pytest.raises(InternalError, match="may have run"):
                await asyncio.wait_for(call, DEADLINE)
        await server.ended()
        assert "Traceback" not in server.stderr


@pytest.mark.covers("WRK-12")
async def test_a_handler_that_goes_on_when_it_is_cancelled_is_answered_for_and_does_not_hold_up_the_end():
    async with (
        terminated(workers=2, GRACE_SECONDS="0.5") as server,
        AsyncClient(server.url, mode="stateless") as modern,
        AsyncClient(server.url, mode="handshake") as classic,
    ):
        calls = [
            asyncio.create_task(client.call_tool("resist", {"id": id}))
            for id, client in (("m", modern), ("c", classic))
        ]
        await server.ran("m", "c")
        server.child.send_signal(signal.SIGTERM)
        for call in calls:
            with pytest.raises(InternalError, match="may have run"):
                await asyncio.wait_for(call, DEADLINE)
        began = time.monotonic()
        assert await server.ended() == 0
        assert time.monotonic() - began < AT_ONCE + 1


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_a_second_signal_ends_a_single_process_at_once(tool):
    async with terminated("run") as server:
        client = RawClient(server.port)
        (await client.connection())[1].write(client.request("call", tool))
        await server.ran("call")
        began = time.monotonic()
        server.child.send_signal(signal.SIGTERM)
        if tool == "wait":
            await server.refuses()
        else:  # two signals that are pending at once are one
            await until(lambda: not server.has_pending_signals())
        server.child.send_signal(signal.SIGTERM)
        assert await server.ended() == 0
        assert time.monotonic() - began < AT_ONCE
        # What a tool was interrupted in is reported.
        assert ("KeyboardInterrupt" if tool == "block" else "") in server.stderr
        client.close()


@pytest.mark.covers("WRK-12")
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_task_that_a_call_left_behind_has_a_moment_to_end(workers):
    async with terminated("run", workers) as server:
        client = RawClient(server.port)
        assert await client.call("call", "leave") == "call"
        client.close()
        await server.end()
        assert set(server.account.runs()) == {"ended"}
