"""Several processes with a store between them: one session on all of them, also when one is killed."""

import asyncio
import contextlib
import os
import random
import signal
from typing import Any

import aiohttp
import pytest

from dragoman import AsyncClient
from dragoman.errors import InternalError
from scenarios.http_crew import DEADLINE, RUN, SERVER, Client, Stream, crew
from scenarios.http_fleet import LOCAL, Fleet, call_of, fleet, left_after_one, rest_of

ROUNDS = 12
OWNER_LOST = "The process that served this request is gone; the request may have run"


@pytest.fixture(params=["Local", "Redis"])
def store(request: pytest.FixtureRequest) -> str:
    """The store of a fleet, as an expression."""
    if request.param == "Local":
        return LOCAL
    return f"Redis({request.getfixturevalue('redis_server').url!r})"


def seen(messages: list[Any]) -> list[Any]:
    return [message.get("id") or message["params"]["progress"] for message in messages]


@pytest.mark.covers("WRK-01", "WRK-02")
async def test_each_question_is_answered_on_another_worker_than_asked_it(store):
    async with fleet(store=store) as ships:
        client = await ships.begin()
        for number in range(ROUNDS):
            async with ships.at(client, number % 3).call("where") as response:
                stream = Stream(response)
                (asked,) = await stream.until(lambda messages: messages)
                answer = {"action": "accept", "content": {"city": "Rome"}}
                message = {"jsonrpc": "2.0", "id": asked["id"], "result": answer}
                async with ships.at(client, (number + 1) % 3).post(message) as accepted:
                    assert accepted.status == 202
                await stream.until(lambda messages: "result" in messages[-1])
                text = stream.messages[-1]["result"]["content"][0]["text"]
                assert text == f"Rome {ships.workers[number % 3].child.pid}"
        assert [worker.stderr for worker in ships.workers] == ["", "", ""]


@pytest.mark.covers("WRK-03", "WRK-04", "WRK-05")
async def test_levels_subscriptions_changes_and_the_end_reach_every_worker(store):
    async with fleet(store=store) as ships:
        client = await ships.begin()
        for number in (1, 2):
            assert await ships.at(client, number).request("ping") == 200
        async with ships.at(client, 2).listen() as listening:
            stream = Stream(listening)
            assert await ships.at(client, 0).request("logging/setLevel", {"level": "error"}) == 200
            assert await ships.at(client, 1).request("resources/subscribe", {"uri": "file:///a"}) == 200
            for number in range(3):
                await ships.at(client, number).text("change")
            await stream.until(lambda messages: len(messages) >= 9)
            methods = [message["method"] for message in stream.messages]
            assert {methods.count(method) for method in methods} == {3}
            async with client.http.delete(ships.workers[0].url, headers=client.headers) as response:
                assert response.status == 200
            await asyncio.wait_for(listening.content.read(), DEADLINE)
        assert [await ships.at(client, number).request("ping") for number in range(3)] == [404, 404, 404]


@pytest.mark.covers("WRK-07")
async def test_a_stream_is_resumed_on_another_worker_also_when_the_first_was_killed_afterwards(store):
    async with fleet(store=store) as ships:
        client = await ships.begin()
        first = await left_after_one(client, "gate")
        resuming = asyncio.create_task(rest_of(ships.at(client, 1), first))
        ships.open("gate")
        messages = await resuming
        assert seen(messages) == [2, "call"]
        assert messages[-1]["result"]["content"][0]["text"] == f"there {ships.workers[0].child.pid}"
        ships.workers[0].kill()
        assert await rest_of(ships.at(client, 2), first) == messages


@pytest.mark.covers("WRK-07")
async def test_what_a_killed_worker_served_ends_with_what_it_sent_and_an_error(store):
    async with fleet(store=store) as ships:
        client = await ships.begin()
        async with call_of(client, "steps", 7, gate="never") as response:
            stream = Stream(response)
            await stream.until(lambda messages: messages)
            ships.workers[0].kill()
        messages = await rest_of(ships.at(client, 1), str(stream.events[0].id))
        *sent, error = messages
        assert seen(sent) in ([1], []), "what was on its way to the log is lost with its process"
        assert error == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": OWNER_LOST}}
        assert await ships.at(client, 2).request("ping") == 200


@pytest.mark.covers("WRK-07")
async def test_a_worker_that_is_killed_while_another_follows_it_is_noticed(store):
    async with fleet(2, store=store) as ships:
        client = await ships.begin()
        first = await left_after_one(client, "never")
        async with ships.at(client, 1).listen(last_event_id=first) as response:
            assert response.status == 200
            ships.workers[0].kill()
            stream = Stream(response)
            await stream.until(lambda messages: messages)
            (error,) = stream.messages
            assert (error["id"], error["error"]["message"]) == ("call", OWNER_LOST)


@pytest.mark.covers("WRK-07", "WRK-06")
async def test_a_worker_that_hangs_for_a_moment_is_not_taken_for_dead(store):
    async with fleet(2, store=store) as ships:
        client = await ships.begin()
        first = await left_after_one(client, "gate")
        os.kill(ships.workers[0].child.pid, signal.SIGSTOP)
        resuming = asyncio.create_task(rest_of(ships.at(client, 1), first))
        await asyncio.sleep(1.2)  # longer than one attempt to ask
        os.kill(ships.workers[0].child.pid, signal.SIGCONT)
        ships.open("gate")
        assert seen(await resuming) == [2, "call"]


@pytest.mark.covers("WRK-07")
async def test_the_stream_by_get_goes_on_elsewhere_when_its_worker_is_killed(store):
    async with fleet(store=store) as ships:
        client = await ships.begin()
        assert await ships.at(client, 1).request("logging/setLevel", {"level": "error"}) == 200
        async with ships.at(client, 0).listen() as listening:
            stream = Stream(listening)
            await ships.at(client, 1).text("change")
            await stream.until(lambda messages: len(messages) >= 2)
            ships.workers[0].kill()
        async with ships.at(client, 2).listen(last_event_id=str(stream.events[-1].id)) as again:
            resumed = Stream(again)
            await ships.at(client, 1).text("change")
            await resumed.until(lambda messages: len(messages) >= 2)
            assert {message["method"] for message in resumed.messages} == {
                "notifications/tools/list_changed",
                "notifications/message",
            }


async def some_of(response: aiohttp.ClientResponse, wanted: int) -> Stream:
    """Read so many messages, or to the end, and leave."""
    stream = Stream(response)
    with contextlib.suppress(AssertionError, aiohttp.ClientError):  # the stream ended before
        await stream.until(lambda messages: len(messages) >= wanted or (messages and "method" not in messages[-1]))
    response.close()
    return stream


async def hop(ships: Fleet, client: Client, id: int, alive: list[int]) -> list[Any]:
    """Call a tool, read a few events, leave and come back to any worker, until there is an outcome."""
    chance = random.Random(id)
    messages: list[Any] = []
    last: str | None = None
    while not messages or "method" in messages[-1]:
        worker = ships.at(client, chance.choice(alive))
        opened = call_of(worker, "many", id, count=40) if last is None else worker.listen(last_event_id=last)
        with contextlib.suppress(aiohttp.ClientError):  # the worker is being killed
            async with opened as response:
                assert response.status == 200, await response.text()
                stream = await some_of(response, chance.randrange(1, 8))
                messages += stream.messages
                last = next((event.id for event in reversed(stream.events) if event.id), last)
    return messages


@pytest.mark.covers("WRK-07")
async def test_clients_that_hop_from_worker_to_worker_miss_nothing_though_one_is_killed(store):
    async with fleet(store=store) as ships:
        clients, alive = [await ships.begin(number) for number in range(3)], [0, 1, 2]
        hopping = [asyncio.create_task(hop(ships, clients[number % 3], number, alive)) for number in range(30)]
        await asyncio.wait(hopping, timeout=0.5)
        alive.remove(0)
        await asyncio.wait(hopping, timeout=0.1)  # who was on the way to the first worker has come there
        ships.workers[0].kill()
        for messages in await asyncio.gather(*hopping):
            *told, outcome = messages
            progress = [message["params"]["progress"] for message in told]
            assert progress == list(range(1, len(progress) + 1))
            if "result" in outcome:
                assert len(progress) == 40
            else:
                assert outcome["error"]["message"] == OWNER_LOST, messages


@pytest.mark.covers("STA-03")
async def test_what_handlers_keep_is_counted_once_whichever_worker_and_kind_of_handler_serves(store):
    async with fleet(store=store) as ships:
        clients = [await ships.begin(number) for number in range(2)]
        tools = ["visit", "visit_blocking"]
        calls = [ships.at(client, number % 3).text(tools[number % 2]) for number in range(ROUNDS) for client in clients]
        counted = [tuple(map(int, text.split())) for text in await asyncio.gather(*calls)]
        assert sorted(user for user, _ in counted) == list(range(1, 2 * ROUNDS + 1))
        assert sorted(session for _, session in counted) == sorted([*range(1, ROUNDS + 1)] * 2)
        ships.workers[0].kill()
        assert await ships.at(clients[0], 1).text("visit") == f"{2 * ROUNDS + 1} {ROUNDS + 1}"


TELLING = """
    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.report_progress(1, message=str(os.getpid()))
        await asyncio.Event().wait()
"""


@pytest.mark.covers("WRK-07", "WRK-08")
async def test_a_client_whose_worker_is_killed_learns_it_and_goes_on():
    async with crew(source=SERVER + TELLING + RUN) as processes:
        await processes.ready()
        async with AsyncClient(processes.url, mode="handshake") as client:
            began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            calling = asyncio.create_task(
                client.call_tool("tell", on_progress=lambda _, __, pid: began.set_result(int(pid)))
            )
            os.kill(await asyncio.wait_for(began, DEADLINE), signal.SIGKILL)
            with pytest.raises(InternalError, match=OWNER_LOST):
                await asyncio.wait_for(calling, DEADLINE)
            assert int((await client.call_tool("pid")).text) in processes.workers()


@pytest.mark.covers("WRK-13")
@pytest.mark.parametrize("mode", ["stateless", "handshake"])
async def test_a_call_sends_nothing_to_redis(redis_server, mode):
    async with (
        fleet(1, f"Redis({redis_server.url!r})") as ships,
        AsyncClient(ships.workers[0].url, mode=mode) as client,
    ):
        await client.call_tool("pid")
        with redis_server.monitored() as commands:
            for _ in range(ROUNDS):
                assert (await client.call_tool("pid")).text == str(ships.workers[0].child.pid)
        assert commands == []


@pytest.mark.covers("WRK-13")
async def test_what_state_and_questions_send_to_redis_is_what_the_page_about_scaling_says(redis_server):
    async with (
        fleet(2, f"Redis({redis_server.url!r})") as ships,
        AsyncClient(ships.workers[0].url, mode="handshake", on_elicitation=lambda _: {"city": "Rome"}) as client,
    ):
        for tool in ("visit", "where"):
            await client.call_tool(tool)
        with redis_server.monitored() as commands:
            for _ in range(ROUNDS):
                await client.call_tool("visit")
        assert len(commands) == ROUNDS * 2 * 2, "each of two values is read, and compared and set"
        with redis_server.monitored() as commands:
            for _ in range(ROUNDS):
                assert (await client.call_tool("where")).text == f"Rome {ships.workers[0].child.pid}"
        assert not any(b"PUBLISH" in command.upper() for command in commands), "no process has to tell another"
        asker = await ships.begin()
        await asked_elsewhere(ships, asker)
        await client.call_tool("visit")  # its commands follow the reply
        with redis_server.monitored() as commands:
            for _ in range(ROUNDS):
                await asked_elsewhere(ships, asker)
            await client.call_tool("visit")  # its commands follow the last reply
        messages = [command for command in commands if b"PUBLISH" in command.upper()]
        assert len(messages) == ROUNDS * 2, "a message, and the reply to it"


async def asked_elsewhere(ships: Fleet, client: Client) -> None:
    """Call a tool in the first process, and answer its question in the second."""
    async with ships.at(client, 0).call("where") as response:
        stream = Stream(response)
        (asked,) = await stream.until(lambda messages: messages)
        message = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"city": "Rome"}}}
        async with ships.at(client, 1).post(message) as accepted:
            assert accepted.status == 202
        await stream.until(lambda messages: "result" in messages[-1])
