"""Clients that are asked and do not answer as they should."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import BlockingContext, Context, ListRoots, RpcError, Server, Timeout, TransportError, types
from dragoman.testing.wire import WirePeer
from scenarios.wire import DEADLINE, text

MANY = 1_000
SHORT = 0.02
CAPABILITIES: types.Json = {"elicitation": {}, "roots": {}}
ROOTS = {"roots": [{"uri": "file:///home"}]}
CALL = {"name": "handler"}


def client(handler: Callable[..., Any]) -> WirePeer:
    server = Server("asking", secret="a secret of sixteen")
    server.tool(name="handler")(handler)
    return WirePeer(server, capabilities=CAPABILITIES)


async def list_roots(ctx: Context) -> str:
    return (await ctx.list_roots())[0].uri


def list_roots_in_a_thread(ctx: BlockingContext) -> str:
    return ctx.list_roots()[0].uri


every_kind = pytest.mark.parametrize("handler", [list_roots, list_roots_in_a_thread])


@pytest.mark.covers("SMP-10", "ELI-09")
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_client_that_never_answers_is_told_that_nobody_waits_any_more(is_blocking):
    ids: list[Any] = []

    async def handler(ctx: Context) -> str:
        try:
            await ctx.list_roots(timeout=SHORT)
        except Timeout as error:
            ids.append(error.request_id)
        return "went on"

    def blocking_handler(ctx: BlockingContext) -> str:
        try:
            ctx.list_roots(timeout=SHORT)
        except Timeout as error:
            ids.append(error.request_id)
        return "went on"

    async with client(blocking_handler if is_blocking else handler) as peer:
        assert text(await peer.request("tools/call", CALL)) == "went on"
        asked = await peer.receive("roots/list")
        cancelled = await peer.receive("notifications/cancelled")
    assert ids == [asked["id"]]
    assert cancelled["params"] == {"requestId": asked["id"], "reason": "Timed out after 0.02 seconds"}


@pytest.mark.covers("SMP-10")
async def test_an_answer_that_comes_too_late_is_ignored():
    async def handler(ctx: Context) -> str:
        try:
            return str(await ctx.list_roots(timeout=SHORT))
        except Timeout:
            return "went on"

    async with client(handler) as peer:
        await peer.request("tools/call", CALL)
        peer.answer((await peer.receive("roots/list"))["id"], ROOTS)
        assert (await peer.request("ping"))["result"] == {}


@every_kind
@pytest.mark.covers("ROO-01")
async def test_the_second_of_two_answers_is_ignored(handler):
    async with client(handler) as peer:
        id = peer.start("tools/call", CALL)
        asked = await peer.receive("roots/list")
        peer.answer(asked["id"], ROOTS)
        peer.answer(asked["id"], {"roots": []})
        assert text(await peer.response(id)) == "file:///home"
        assert (await peer.request("ping"))["result"] == {}


@every_kind
@pytest.mark.covers("ROO-01")
@pytest.mark.parametrize("garbage", [None, 7, "roots", [1], {"roots": 7}], ids=repr)
async def test_garbage_for_an_answer_is_refused(handler, garbage):
    async with client(handler) as peer:
        id = peer.start("tools/call", CALL)
        peer.answer((await peer.receive("roots/list"))["id"], garbage)
        assert (await peer.response(id))["error"]["code"] == -32602
        assert (await peer.request("ping"))["result"] == {}


@pytest.mark.covers("SMP-05", "ROO-02")
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_an_error_for_an_answer_is_raised_where_it_was_asked(is_blocking):
    async def handler(ctx: Context) -> str:
        try:
            return str(await ctx.list_roots())
        except RpcError as error:
            return f"{error.code} {error.message} {error.data}"

    def blocking_handler(ctx: BlockingContext) -> str:
        try:
            return str(ctx.list_roots())
        except RpcError as error:
            return f"{error.code} {error.message} {error.data}"

    async with client(blocking_handler if is_blocking else handler) as peer:
        id = peer.start("tools/call", CALL)
        asked = await peer.receive("roots/list")
        peer.answer(asked["id"], error={"code": -7, "message": "No", "data": {"why": 1}})
        assert text(await peer.response(id)) == "-7 No {'why': 1}"


@pytest.mark.covers("SMP-05")
async def test_when_one_of_several_questions_fails_the_others_are_taken_back():
    async def handler(ctx: Context) -> str:
        try:
            return str(await ctx.ask(first=ListRoots(), second=ListRoots()))
        except RpcError as error:
            return error.message

    async with client(handler) as peer:
        id = peer.start("tools/call", CALL)
        first, second = await peer.receive("roots/list"), await peer.receive("roots/list")
        peer.answer(first["id"], error={"code": -7, "message": "No"})
        assert text(await peer.response(id)) == "No"
        assert (await peer.receive("notifications/cancelled"))["params"]["requestId"] == second["id"]


@pytest.mark.covers("ELI-09")
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_question_fails_at_once_when_the_client_is_gone(is_blocking):
    failures: list[str] = []
    ended = threading.Event()

    async def handler(ctx: Context) -> None:
        try:
            await ctx.list_roots()
        except TransportError as error:
            failures.append(str(error))
        ended.set()

    def blocking_handler(ctx: BlockingContext) -> None:
        try:
            ctx.list_roots()
        except TransportError as error:
            failures.append(str(error))
        ended.set()

    async with client(blocking_handler if is_blocking else handler) as peer:
        peer.start("tools/call", CALL)
        assert "id" in await peer.receive("roots/list")
        peer._connection.receive_end()
        assert await asyncio.to_thread(ended.wait, DEADLINE)
    assert failures == ["The client is gone, and will not answer"]


@pytest.mark.covers("CAN-08")
async def test_a_request_that_its_client_gave_up_asks_nothing_more():
    raised: list[str] = []
    ended = asyncio.Event()

    async def handler(ctx: Context) -> None:
        try:
            await ctx.list_roots()
        except asyncio.CancelledError:
            try:
                await ctx.list_roots()
            except Exception as error:
                raised.append(type(error).__name__)
        ended.set()

    async with client(handler) as peer:
        id = peer.start("tools/call", CALL)
        await peer.receive("roots/list")
        peer.notify("notifications/cancelled", {"requestId": id})
        await asyncio.wait_for(ended.wait(), DEADLINE)
        assert raised == ["Cancelled"]
        assert not [message for message in peer.received if message["method"] == "roots/list"]


@pytest.mark.covers("SMP-06")
async def test_a_thousand_requests_on_one_connection_ask_at_once_and_each_has_its_own_answer():
    async def handler(number: int, ctx: Context) -> str:
        return f"{number} {(await ctx.elicit(str(number), SCHEMA)).content['number']}"

    async with client(handler) as peer:
        ids = [peer.start("tools/call", {**CALL, "arguments": {"number": number}}) for number in range(MANY)]
        questions = [await peer.receive("elicitation/create") for _ in ids]
        for asked in reversed(questions):
            number = int(asked["params"]["message"])
            peer.answer(asked["id"], {"action": "accept", "content": {"number": number}})
        answers = [text(await peer.response(id)) for id in ids]
    assert answers == [f"{number} {number}" for number in range(MANY)]


SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@pytest.mark.covers("SMP-06")
async def test_a_question_goes_to_the_client_that_sent_the_request():
    server = Server("asking", secret="a secret of sixteen")
    server.tool(name="handler")(list_roots)
    async with (
        WirePeer(server, capabilities=CAPABILITIES) as one,
        WirePeer(server, capabilities=CAPABILITIES) as other,
    ):
        id = one.start("tools/call", CALL)
        one.answer((await one.receive("roots/list"))["id"], ROOTS)
        assert text(await one.response(id)) == "file:///home"
        assert other.received == []


@every_kind
@pytest.mark.covers("ELI-09")
async def test_nothing_is_left_of_a_question_when_its_connection_closes(handler):
    async with client(handler) as peer:
        peer.start("tools/call", CALL)
        assert "id" in await peer.receive("roots/list")
    assert peer.received == []
