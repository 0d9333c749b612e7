"""How a run ends that asked, and how it does not."""

import asyncio
from typing import Any

import pytest

from dragoman import Cancelled, Context, ListRoots, Server, ToolError, types
from dragoman.errors import MissingCapability
from dragoman.protocol import eras
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.request.asking import asking_of, require_capabilities

DEADLINE = 60
ROOTS = {"roots": [{"uri": "file:///home"}]}


def message(capabilities: types.Json, **params: Any) -> types.Json:
    meta = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: capabilities}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "handler", "_meta": meta, **params}}


async def answer(handler: Any, **params: Any) -> types.Json:
    server = Server("asking", secret="a secret of sixteen")
    server.tool(name="handler")(handler)
    response = await asyncio.wait_for(server.handle_async(message({"roots": {}}, **params)), DEADLINE)
    assert response is not None
    return response


def test_whoever_cancels_a_task_that_asks_sees_it_cancelled():
    async def handler(ctx: Context) -> str:
        asyncio.current_task().cancel()
        return str(await ctx.list_roots())

    async def cancelled() -> bool:
        task = asyncio.create_task(answer(handler))
        await asyncio.wait([task], timeout=DEADLINE)
        return task.cancelled()

    assert asyncio.run(cancelled())


def test_a_question_leaves_the_task_of_the_caller_uncancelled():
    async def handler(ctx: Context) -> str:
        return str(await ctx.list_roots())

    async def asked() -> tuple[types.Json, int]:
        server = Server("asking", tools=[handler], secret="a secret of sixteen")
        response = await server.handle_async(message({"roots": {}}))
        await asyncio.sleep(0)
        return response, asyncio.current_task().cancelling()

    response, cancelling = asyncio.run(asked())
    assert response["result"]["resultType"] == "input_required"
    assert cancelling == 0


def test_what_is_asked_stays_asked_though_the_handler_fails_afterwards():
    async def handler(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        except BaseException:
            raise ToolError("failed") from None
        return "answered"

    first = asyncio.run(answer(handler))["result"]
    assert list(first["inputRequests"]) == ["roots-1"]
    second = asyncio.run(answer(handler, inputResponses={"roots-1": ROOTS}, requestState=first["requestState"]))
    assert second["result"]["content"][0]["text"] == "answered"


def test_a_cancellation_of_the_authors_own_is_a_failure_and_no_question():
    async def handler(ctx: Context) -> str:
        await ctx.list_roots()
        raise asyncio.CancelledError

    assert asyncio.run(answer(handler, inputResponses={"roots-1": ROOTS}))["result"]["isError"]


def test_asking_for_nothing_is_answered_with_nothing():
    async def handler(ctx: Context) -> str:
        return str(await ctx.ask())

    assert asyncio.run(answer(handler))["result"]["content"][0]["text"] == "{}"


def test_a_client_that_did_not_introduce_itself_cannot_be_asked():
    failures: list[str] = []

    async def handler(ctx: Context) -> None:
        try:
            await ctx._asking.ask({None: ListRoots()})
        except Exception as error:
            failures.append(type(error).__name__)

    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "handler"}}
    asyncio.run(Server("asking", tools=[handler]).handle_async(request))
    assert failures == ["MissingCapability"]


class SomeCall:
    """As much of a call as a capability check needs."""

    def __init__(self, capabilities: types.ClientCapabilities) -> None:
        self.is_handler_cancelled = False
        self.asking = None
        self.request = self
        self.caller = eras.Caller(LATEST_HANDSHAKE, capabilities=capabilities)
        self.method = self


def test_every_missing_capability_is_named_and_no_declared_one():
    call = SomeCall(types.ClientCapabilities(sampling=types.SamplingCapability()))
    with pytest.raises(MissingCapability) as raised:
        require_capabilities(call, [("roots",), ("sampling",), ("sampling", "tools"), ("elicitation", "url")])
    required = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"url": {}}}
    assert raised.value.data == {"requiredCapabilities": required}


def test_a_declared_capability_is_not_missing():
    declared = types.ClientCapabilities(roots=types.RootsCapability())
    assert require_capabilities(SomeCall(declared), [("roots",)]) is None


def test_a_request_that_was_given_up_asks_nothing():
    call = SomeCall(types.ClientCapabilities(roots=types.RootsCapability()))
    call.is_handler_cancelled = True
    with pytest.raises(Cancelled):
        asking_of(call).require([ListRoots()])
