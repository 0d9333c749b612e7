"""A stateless client in front of a target with sessions: its calls wait in the process that began them."""

import asyncio
import contextlib
import os
import re
import signal
from functools import partial
from types import SimpleNamespace

import aiohttp
import pytest

from dragoman import AsyncClient, Configuration, Context, Server
from dragoman.errors import InputNeeded, RpcError
from dragoman.forward.proxy import parked
from scenarios.http_crew import crew, until
from scenarios.proxied_server import HANDSHAKE
from scenarios.raw_http import serving

DEADLINE = 60
SOURCE = """
    import os, sys
    from dragoman import Configuration, Context, Server

    target = Server("target", configuration=Configuration(protocol_version="2025-11-25"))


    @target.tool
    async def ask(ctx: Context) -> str:
        first = await ctx.elicit(f"First, {os.getpid()}?", str)
        second = await ctx.elicit("Second?", str)
        return f"{first.content} {second.content} {os.getpid()}"


    server = Server.proxy(target)
    server.run("http", port=int(sys.argv[1]), workers=int(sys.argv[2]))
"""


def asking():
    """Return a target with sessions that asks twice, in parallel, and never ends."""
    server = Server("target", configuration=Configuration(protocol_version=HANDSHAKE))
    server.cancelled = asyncio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, message="before")
        first = await ctx.elicit("First?", str)
        await ctx.report_progress(2, message="between")
        second = await ctx.elicit("Second?", str)
        return f"{first.content} {second.content}"

    @server.tool
    async def both(ctx: Context) -> str:
        answers = await asyncio.gather(ctx.elicit("One?", str), ctx.elicit("Two?", str))
        return " ".join(answer.content for answer in answers)

    @server.tool
    async def wait(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Still there?", str)).content
        except BaseException:
            server.cancelled.set()
            raise

    return server


ACCEPTED = {"action": "accept", "content": {"value": "yes"}}


def said(request):
    return {"value": request.message.strip("?").lower()}


@contextlib.asynccontextmanager
async def client_of(front, target, **options):
    proxy = Server.proxy(target)
    if front == "memory":
        async with AsyncClient(proxy, mode="stateless", **options) as client:
            yield client
    else:
        async with serving(proxy.asgi()) as url, AsyncClient(url, mode="stateless", **options) as client:
            yield client


@pytest.mark.parametrize("front", ["memory", "http"])
async def test_a_call_goes_on_after_each_answer_and_is_not_begun_again(front):
    progress = []
    async with client_of(front, asking(), on_elicitation=said) as client:
        result = await client.call_tool("ask", on_progress=lambda *values: progress.append(values))
        assert result.text == "first second"
        assert [message for _, _, message in progress] == ["before", "between"]


@pytest.mark.parametrize("front", ["memory", "http"])
async def test_questions_that_are_asked_together_are_one_round(front):
    rounds = []

    def answer(request):
        rounds.append(request.message)
        return said(request)

    async with client_of(front, asking(), on_elicitation=answer) as client:
        assert (await client.call_tool("both")).text == "one two"
        assert sorted(rounds) == ["One?", "Two?"]


async def questions(client, tool):
    """Call a tool without answering, and return its questions and its state."""
    result = await client.request("tools/call", {"name": tool, "arguments": {}})
    assert result["resultType"] == "input_required"
    return result


async def test_a_state_is_of_no_use_for_another_call():
    async with client_of("http", asking(), on_elicitation=said) as client:
        asked = await questions(client, "ask")
        forged = {"name": "wait", "arguments": {}, "requestState": asked["requestState"], "inputResponses": {}}
        with pytest.raises(RpcError, match="does not belong to this request"):
            await client.request("tools/call", forged)


async def test_a_call_whose_answers_come_too_late_is_cancelled_at_the_target_and_refused(monkeypatch):
    monkeypatch.setattr(parked, "PARKED_SECONDS", 0.01)
    target = asking()
    async with client_of("http", target, on_elicitation=said) as client:
        asked = await questions(client, "wait")
        async with asyncio.timeout(DEADLINE):
            await target.cancelled.wait()
        late = {"name": "wait", "arguments": {}, "requestState": asked["requestState"], "inputResponses": {}}
        with pytest.raises(RpcError, match="Send the call anew"):
            await client.request("tools/call", late)


async def test_the_call_that_is_parked_longest_gives_way_when_every_connection_is_in_use():
    target = asking()
    proxy = Server.proxy(target, max_connections=2)
    async with serving(proxy.asgi()) as url, AsyncClient(url, mode="stateless", on_elicitation=said) as client:
        oldest, newer = await questions(client, "wait"), await questions(client, "wait")
        async with asyncio.timeout(DEADLINE):
            assert (await client.call_tool("ask")).text == "first second"
            await target.cancelled.wait()
        again = {"name": "wait", "arguments": {}, "inputResponses": {"elicitation-1": ACCEPTED}}
        with pytest.raises(RpcError, match="newer calls needed its connection"):
            await client.request("tools/call", {**again, "requestState": oldest["requestState"]})
        result = await client.request("tools/call", {**again, "requestState": newer["requestState"]})
        assert result["content"][0]["text"] == "yes"


def origin(principal=None):
    return SimpleNamespace(request=SimpleNamespace(progress_token=None), principal=principal)


async def parked_forever(calls, ended, *principals):
    async def waiting():
        await asyncio.get_running_loop().create_future()

    for number, principal in enumerate(principals):
        call = calls.begin(origin(principal), partial(ended.put_nowait, number))
        call.start(waiting())
        call.park()


async def test_one_call_at_a_time_gives_way_however_often_a_connection_is_wanted():
    calls, ended = parked.ParkedCalls(Server("proxy")), asyncio.Queue()
    await parked_forever(calls, ended, None, None, None)
    async with asyncio.timeout(DEADLINE):
        for _ in range(3):
            calls.give_way(None)
        assert await ended.get() == 0
        assert ended.empty()
        calls.give_way(None)
        assert await ended.get() == 1
        assert ended.empty()
    await calls.close()


async def test_only_calls_of_the_same_principal_give_way():
    calls, ended = parked.ParkedCalls(Server("proxy")), asyncio.Queue()
    await parked_forever(calls, ended, "ann", "bob")
    async with asyncio.timeout(DEADLINE):
        calls.give_way("eve")
        calls.give_way("bob")
        assert await ended.get() == 1
        assert ended.empty()
    await calls.close()


async def test_a_call_may_take_longer_than_the_time_for_answers_once_it_has_them(monkeypatch):
    monkeypatch.setattr(parked, "PARKED_SECONDS", 0.5)
    target = Server("target", configuration=Configuration(protocol_version=HANDSHAKE))

    @target.tool
    async def work(ctx: Context) -> str:
        answer = await ctx.elicit("Begin?", str)
        await asyncio.sleep(0.7)  # longer than the time for answers
        return answer.content

    async with client_of("memory", target, on_elicitation=said) as client:
        assert (await client.call_tool("work")).text == "begin"


async def test_answers_that_are_sent_twice_at_once_get_the_result_twice():
    target = asking()
    async with client_of("memory", target, on_elicitation=said) as client:
        asked = await questions(client, "wait")
        again = {"name": "wait", "arguments": {}, "requestState": asked["requestState"]}
        question = next(iter(asked["inputRequests"]))
        answer = {"inputResponses": {question: {"action": "accept", "content": {"value": "x"}}}}
        results = await asyncio.gather(
            client.request("tools/call", {**again, **answer}),
            client.request("tools/call", {**again, **answer}),
            return_exceptions=True,
        )
        assert [result["content"][0]["text"] for result in results] == ["x", "x"]


async def test_the_questions_that_a_client_left_open_are_asked_again():
    async with client_of("memory", asking(), on_elicitation=said) as client:
        asked = await questions(client, "both")
        one, two = sorted(asked["inputRequests"])
        answers = {one: {"action": "accept", "content": {"value": "x"}}}
        again = {"name": "both", "arguments": {}, "requestState": asked["requestState"], "inputResponses": answers}
        asked = await client.request("tools/call", again)
        assert list(asked["inputRequests"]) == [two]


async def test_a_client_that_declares_no_elicitation_is_not_asked():
    async with client_of("memory", asking()) as client:
        result = await client.call_tool("ask", raise_on_error=False)
        assert result.is_error
        assert not isinstance(result, InputNeeded)


class StatelessClient:
    """Sends stateless requests, each by a new connection, so that any worker gets them."""

    def __init__(self, http, url):
        self.http, self.url = http, url

    async def call(self, **params):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        }
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "ask", "arguments": {}, "_meta": meta, **params},
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "ask",
        }
        async with self.http.post(self.url, json=message, headers=headers) as response:
            if response.content_type == "application/json":
                return await response.json()
            import json

            text = await response.text()
            return json.loads([line for line in text.splitlines() if line.startswith("data:")][-1][5:])

    async def answer(self, result, value):
        key = next(iter(result["inputRequests"]))
        responses = {key: {"action": "accept", "content": {"value": value}}}
        return await self.call(inputResponses=responses, requestState=result["requestState"])


async def test_answers_reach_the_process_that_asked_and_if_it_died_the_client_is_told():
    connector = aiohttp.TCPConnector(force_close=True)
    async with crew(2, SOURCE) as processes, aiohttp.ClientSession(connector=connector) as http:
        await until(lambda: len(processes.workers()) == 2)
        await processes.ready()
        client = StatelessClient(http, processes.url)
        owners = set()

        async def talk(number):
            first = (await client.call())["result"]
            owner = re.search(r"First, (\d+)", str(first))[1]
            owners.add(owner)
            second = (await client.answer(first, f"a{number}"))["result"]
            done = (await client.answer(second, f"b{number}"))["result"]
            assert done["content"][0]["text"] == f"a{number} b{number} {owner}"

        async with asyncio.timeout(DEADLINE):
            while len(owners) < 2:  # the system may give all connections of a round to one process
                await asyncio.gather(*map(talk, range(12)))
        left = (await client.call())["result"]
        os.kill(int(re.search(r"First, (\d+)", str(left))[1]), signal.SIGKILL)
        async with asyncio.timeout(DEADLINE):
            refused = await client.answer(left, "nobody")
        assert "Send the call anew" in refused["error"]["message"]
