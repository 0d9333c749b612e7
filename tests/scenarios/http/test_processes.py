"""`server.run("http", workers=3)` as real processes: one session on all of them, and how they end."""

import asyncio
import os
import signal
import sys

import pytest

from dragoman import AsyncClient
from dragoman.errors import InternalError
from scenarios.http_crew import DEADLINE, RUN, SERVER, Client, Crew, Stream, crew, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc")
ROUNDS = 12


async def pids(client: Client, count: int = 2) -> set[int]:
    """Call until so many workers have served the session."""
    found: set[int] = set()

    async def served() -> bool:
        found.update(map(int, await asyncio.gather(*(client.text("pid") for _ in range(ROUNDS)))))
        return len(found) >= count

    await until(served)
    return found


@pytest.mark.covers("WRK-01", "WRK-02")
async def test_one_session_is_served_by_several_workers_and_each_question_is_answered():
    async with crew() as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            served = await pids(client)
            assert served <= processes.workers()
            for _ in range(ROUNDS):
                async with client.call("where") as response:
                    stream = Stream(response)
                    asked = (await stream.until(lambda messages: messages))[0]
                    answer = {"action": "accept", "content": {"city": "Rome"}}
                    async with client.post({"jsonrpc": "2.0", "id": asked["id"], "result": answer}) as accepted:
                        assert accepted.status == 202
                    await stream.until(lambda messages: "result" in messages[-1])
                    assert stream.messages[-1]["result"]["content"][0]["text"].startswith("Rome ")
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert processes.stderr == ""


@pytest.mark.covers("WRK-02", "WRK-03", "WRK-04", "WRK-05")
async def test_levels_subscriptions_changes_cancellations_and_the_end_reach_every_worker():
    async with crew() as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            await pids(client)
            async with client.listen() as listening:
                stream = Stream(listening)
                assert await client.request("logging/setLevel", {"level": "error"}) == 200
                assert await client.request("resources/subscribe", {"uri": "file:///a"}) == 200
                changed = {await client.text("change") for _ in range(ROUNDS)}
                assert changed
                await stream.until(lambda messages: len(messages) >= 3 * ROUNDS)
                methods = [message["method"] for message in stream.messages]
                assert {methods.count(method) for method in methods} == {ROUNDS}
                assert await client.request("resources/unsubscribe", {"uri": "file:///a"}) == 200
                for number in range(ROUNDS):
                    async with client.call("wait", progressToken=number) as response:
                        waiting = Stream(response)
                        await waiting.until(lambda messages: messages)
                        cancelled = {"requestId": client._last_id}
                        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
                        async with client.post(note) as accepted:
                            assert accepted.status == 202
                        rest = await asyncio.wait_for(response.content.read(), DEADLINE)
                        assert b"result" not in rest
                async with client.http.delete(client.url, headers=client.headers) as response:
                    assert response.status == 200
                await asyncio.wait_for(listening.content.read(), DEADLINE)
            statuses = await asyncio.gather(*(client.request("ping") for _ in range(ROUNDS)))
            assert set(statuses) == {404}


@pytest.mark.covers("WRK-08")
async def test_a_worker_that_is_killed_is_replaced_and_the_session_goes_on():
    async with crew() as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            before = processes.workers()
            victim = (await pids(client)).pop()
            os.kill(victim, signal.SIGKILL)
            await until(lambda: len(processes.workers() - {victim}) == 3)
            newcomers = processes.workers() - before

            async def served_by_a_newcomer() -> bool:
                return int(await client.text("pid")) in newcomers

            await until(served_by_a_newcomer)
        assert f"The worker {victim} ended with code -9; another takes its place" in processes.stderr
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert not processes.sockets


@pytest.mark.covers("WRK-11")
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_session_that_was_ended_stays_ended_when_the_server_was_killed_and_started_again(workers):
    async with crew(workers) as processes:
        await processes.ready()
        async with Client.of(processes) as ended, Client.of(processes) as living:
            async with ended.http.delete(ended.url, headers=ended.headers) as response:
                assert response.status == 200
            processes.kill()
            await until(lambda: not processes.lives())
            again = Crew(processes.folder, processes.port, workers, SERVER + RUN, {})
            try:
                await again.ready()
                for _ in range(2 * workers):
                    assert await ended.request("ping") == 404
                    assert await living.request("ping") == 200
                async with ended.listen() as response:
                    assert response.status == 404
                assert again.stderr == ""
            finally:
                again.kill()


@pytest.mark.covers("WRK-06")
async def test_a_worker_that_hangs_holds_nobody_up_for_long():
    async with crew() as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            hanging = (await pids(client, 3)).pop()
            os.kill(hanging, signal.SIGSTOP)
            try:
                assert await client.request("logging/setLevel", {"level": "error"}) == 200
                for _ in range(ROUNDS):
                    assert int(await client.text("pid")) != hanging
                    assert await client.request("logging/setLevel", {"level": "error"}) == 200
            finally:
                os.kill(hanging, signal.SIGCONT)
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert "did not reply within 1 s" in processes.stderr


@pytest.mark.covers("WRK-08")
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_port_that_is_in_use_ends_the_run_with_its_reason(workers):
    async with crew(workers) as first:
        await first.ready()
        source = SERVER + RUN.replace("int(sys.argv[1])", str(first.port))
        async with crew(workers, source=source) as second:
            assert await second.ended() != 0
            assert "address already in use" in second.stderr.lower()
            assert "Traceback" not in second.stderr


@pytest.mark.covers("WRK-08")
async def test_workers_that_die_at_once_end_the_run_with_an_error():
    dying = SERVER + "\n    os.register_at_fork(after_in_child=lambda: os._exit(3))\n" + RUN
    async with crew(source=dying) as processes:
        assert await processes.ended() == 1
        assert "The workers end as soon as they start" in processes.stderr
        assert processes.stderr.count("another takes its place") == 4


@pytest.mark.covers("WRK-09")
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGINT", "SIGTERM"])
async def test_a_signal_ends_everything_quietly_though_streams_are_open(how, workers):
    async with crew(workers) as processes:
        await processes.ready()
        async with (
            Client.of(processes) as client,
            client.listen() as listening,
            client.call("wait", progressToken=1) as waiting,
        ):
            await Stream(waiting).until(lambda messages: messages)
            assert processes.sockets
            if how == "Ctrl-C":
                os.killpg(processes.child.pid, signal.SIGINT)
            else:
                processes.child.send_signal(signal.SIGINT if how == "SIGINT" else signal.SIGTERM)
            await asyncio.wait_for(listening.content.read(), DEADLINE)
            await asyncio.wait_for(waiting.content.read(), DEADLINE)
        assert await processes.ended() == 0
        assert processes.stderr == ""
        assert not processes.lives()
        assert not processes.sockets


@pytest.mark.covers("WRK-09")
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_calls_that_run_when_the_signal_comes_run_once_and_are_answered(mode, workers):
    slow = """
    @server.tool
    async def pay() -> str:
        with open("paid", "a") as paid:
            paid.write("x")
        await asyncio.sleep(1)
        return "paid"
    """
    async with crew(workers, source=SERVER + slow + RUN) as processes:
        await processes.ready()
        async with AsyncClient(processes.url, mode=mode) as client:
            await client.tools()
            paying = asyncio.create_task(client.call_tool("pay"))
            await until(lambda: (processes.folder / "paid").exists())
            processes.child.send_signal(signal.SIGTERM)
            assert (await asyncio.wait_for(paying, DEADLINE)).text == "paid"
        assert await processes.ended() == 0
        assert processes.stderr == ""
        assert (processes.folder / "paid").read_text() == "x"


@pytest.mark.covers("WRK-09")
@pytest.mark.parametrize("mode", ["handshake", "stateless"])
async def test_calls_that_never_end_are_told_that_they_may_have_run_before_the_process_ends(mode):
    async with crew(1) as processes:
        await processes.ready()
        async with AsyncClient(processes.url, mode=mode) as client:
            began = asyncio.Event()
            waiting = asyncio.create_task(client.call_tool("wait", on_progress=lambda *_: began.set()))
            await asyncio.wait_for(began.wait(), DEADLINE)
            processes.child.send_signal(signal.SIGTERM)
            with pytest.raises(InternalError, match="may have run"):
                await asyncio.wait_for(waiting, DEADLINE)
        assert await processes.ended() == 0
        assert processes.stderr == ""


@pytest.mark.covers("WRK-09")
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_signal_that_comes_before_the_workers_serve_is_not_lost(workers):
    async with crew(workers) as processes:
        await processes.ready()
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert processes.stderr == ""
        assert not processes.lives()


@pytest.mark.covers("WRK-09")
async def test_a_second_signal_ends_workers_that_do_not_listen():
    stuck = (
        SERVER
        + """
    @server.tool(inline=True)
    def stick() -> None:
        open("stuck", "w").close()
        while True:
            pass
"""
        + RUN
    )
    async with crew(2, source=stuck) as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            sticking = asyncio.create_task(client.request("tools/call", {"name": "stick", "arguments": {}}))
            await until((processes.folder / "stuck").exists)
            processes.child.send_signal(signal.SIGTERM)
            await until(lambda: len(processes.workers()) == 1)
            processes.child.send_signal(signal.SIGTERM)
            assert await processes.ended() == 0
            await asyncio.wait([sticking])
            assert sticking.exception() is not None
        assert not processes.lives()


@pytest.mark.covers("WRK-09")
async def test_workers_whose_first_process_is_killed_end_by_themselves():
    async with crew() as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            await pids(client)
        processes.child.kill()
        await processes.ended()
        await until(lambda: not processes.lives())
        assert not processes.sockets


@pytest.mark.covers("WRK-01")
async def test_where_no_key_file_can_be_kept_the_workers_still_share_their_key():
    async with crew(XDG_STATE_HOME="/dev/null") as processes:
        await processes.ready()
        async with Client.of(processes) as client:
            await pids(client)
        processes.child.send_signal(signal.SIGTERM)
        assert await processes.ended() == 0
        assert processes.stderr.count("No key file can be kept") == 1
