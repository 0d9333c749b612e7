"""The runner without a carrier: what is known at once is bytes, the rest a coroutine; the call says how it ended."""

import asyncio
import gc
import json
from types import CoroutineType

import pytest
from msgspec import Raw

import dragoman
from dragoman import Configuration, Context, InvalidParams, Server, ToolError, prompt, types
from dragoman.config import PROCESS
from dragoman.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ResourceNotFound,
    RpcError,
    UnsupportedVersion,
    ValidationError,
)
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from dragoman.schema.python.shapes import Problem
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.dispatch.opening import refused_call
from dragoman.server.dispatch.runner import label_of, refusal, run
from dragoman.server.request.call import NO_CHANNEL, Call, NoChannel, Session


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


def made(server, method="tools/call", name="tool", **arguments):
    params = jsonrpc.encode({"name": name, "arguments": arguments} if name else {})
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method.encode(), params))
    return Call(eras.open(message, server.offering.offer), Session(), server=server.dispatcher)


def with_tool(function, **options):
    server = Server(configuration=Configuration(exception_reporter=lambda error, info: None))
    server.tool(name="tool", **options)(function)
    return server


def crash():
    raise LookupError("secret")


def refuse_so():
    raise ToolError("There is no such city")


def refuse_by_code():
    raise InvalidParams("no")


@pytest.mark.parametrize(
    ("function", "failure", "refusal"),
    [
        (lambda: "sunny", None, None),
        (lambda: float("inf"), "internal_error", None),
        (lambda: "\ud800", "internal_error", None),
        (crash, "internal_error", None),
        (refuse_so, "tool_error", None),
        (refuse_by_code, None, InvalidParams),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_an_inline_tool_is_answered_at_once_and_the_call_says_how_it_ended(function, failure, refusal, is_async):
    async def later():
        return function()

    call = made(with_tool(later) if is_async else with_tool(function, inline=True))
    answer = run(call)
    assert isinstance(answer, CoroutineType if is_async else bytes)
    data = json.loads(asyncio.run(answer) if is_async else answer)
    assert (call.failure_label, call.ended) == (failure, True)
    assert type(call.refusal) is (type(None) if refusal is None else refusal)
    assert ("error" in data) == (refusal is not None)
    assert b"secret" not in json.dumps(data).encode()


def test_a_middleware_makes_a_coroutine_of_every_request():
    server = with_tool(lambda: "sunny", inline=True)

    @server.middleware
    async def around(ctx, call_next):
        return await call_next()

    assert b"sunny" in asyncio.run(run(made(server)))


@pytest.mark.parametrize("hooks", [{}, {"instrumentation_callback": lambda data: None}])
def test_a_failure_is_reported_as_it_was_raised_whether_requests_are_observed_or_not(hooks):
    def crash():
        raise StopIteration("secret")

    reported = []
    server = Server(configuration=Configuration(exception_reporter=lambda error, _: reported.append(error), **hooks))
    server.tool(name="tool", inline=True)(crash)
    answer = run(made(server))
    assert b"secret" not in (asyncio.run(answer) if hooks else answer)
    assert [type(error) for error in reported] == [StopIteration]


def test_a_request_that_is_given_up_is_not_answered():
    async def serve():
        async def wait(ctx: Context) -> None:
            call.cancelled = True
            raise asyncio.CancelledError

        call = made(with_tool(wait))
        call.task = asyncio.current_task()
        return await run(call), call.refusal

    assert asyncio.run(serve()) == (b"", None)


def test_a_cancellation_by_others_goes_on():
    async def serve():
        call = made(with_tool(asyncio.Event().wait))
        call.task = asyncio.create_task(run(call))
        await asyncio.sleep(0)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task

    asyncio.run(serve())


class Ending(NoChannel):
    """The channel of an exchange whose HTTP server shuts down."""

    end_error = InternalError("The server was stopped")


def test_a_task_that_a_server_cancels_at_its_end_is_answered_with_the_reason():
    async def serve():
        call = made(with_tool(asyncio.Event().wait))
        call.channel = Ending()
        call.task = asyncio.create_task(run(call))
        await asyncio.sleep(0)
        call.task.cancel()
        return json.loads(await call.task)["error"]["message"], call.task.cancelling()

    assert asyncio.run(serve()) == ("The server was stopped", 0)


@pytest.mark.parametrize(("name", "outcome"), [("tools/call", "went on"), ("acme/wait", "refused")])
def test_a_cancellation_that_a_handler_caught_is_not_left_in_the_task(name, outcome):
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if name == "tools/call":
                return outcome
        raise InvalidParams(outcome)

    async def serve():
        server = with_tool(wait)
        server.method("acme/wait")(wait)
        call = made(server, name, "tool" if name == "tools/call" else None)
        call.task = asyncio.create_task(run(call))
        await asyncio.sleep(0)
        call.cancel()
        return await call.task, call.task.cancelling()

    answer, left = asyncio.run(serve())
    assert outcome.encode() in answer
    assert left == 0


def test_arguments_that_do_not_fit_are_a_failure_of_the_tool():
    def wait(seconds: int) -> None: ...

    call = made(with_tool(wait, inline=True), seconds="long")
    assert json.loads(run(call))["result"]["isError"] is True
    assert call.failure_label == "tool_error"


@pytest.mark.parametrize("middlewares", range(3))
def test_a_result_that_does_not_fit_is_reported_once_whatever_stands_around_it(middlewares):
    reported = []
    server = Server(
        configuration=Configuration(
            exception_reporter=lambda error, info: reported.append(error), validate_tool_call_results=True
        )
    )
    server.tool(name="tool", inline=True, output_schema={"type": "object", "required": ["a"]})(lambda: {"b": 1})

    async def around(ctx, call_next):
        return await call_next()

    for _ in range(middlewares):
        server.middleware(around)
    answer = run(made(server))
    error = json.loads(asyncio.run(answer) if middlewares else answer)["error"]
    assert error == {"code": -32603, "message": "The result of 'tool' does not fit its output schema"}
    assert [type(error) for error in reported] == [ValidationError]


def test_what_cannot_be_opened_is_refused_at_once_unless_hooks_are_to_know_of_it():
    seen, error = [], MethodNotFound("Method not found: x")
    plain = refusal(Server().dispatcher, error, 1)
    assert json.loads(plain)["error"]["code"] == -32601
    observed = Server(configuration=Configuration(instrumentation_callback=seen.append))
    assert (
        run(refused_call(error, jsonrpc.Request(1, "x"), Session(), NO_CHANNEL, Server().dispatcher, None, None))
        == plain
    )
    call = refused_call(error, jsonrpc.Request(1, "x"), Session(), NO_CHANNEL, observed.dispatcher, None, None)
    assert asyncio.run(run(call)) == plain
    assert call.refusal is error
    assert [(data["method"], data["error"]) for data in seen] == [("unsupported_method", "method_not_found")]


def test_a_refused_call_runs_no_handler_though_nothing_stands_around_it():
    call = made(with_tool(crash, inline=True))
    call.rejection = InvalidParams("no")
    assert json.loads(run(call))["error"] == {"code": -32602, "message": "no"}


def test_an_error_whose_data_cannot_be_sent_is_said_without_them():
    reported = []
    server = Server(configuration=Configuration(exception_reporter=lambda error, info: reported.append(error)))
    assert json.loads(refusal(server.dispatcher, InvalidParams("no", object())))["error"] == {
        "code": -32602,
        "message": "no",
    }
    assert json.loads(refusal(server.dispatcher, InvalidParams("\ud800")))["error"]["message"] == "Internal error"
    assert len(reported) == 3


@pytest.mark.parametrize("name", ["tool", "prompt"])
def test_a_name_that_is_unknown_has_its_own_label(name):
    call = made(Server(), {"tool": "tools/call", "prompt": "prompts/get"}[name], "nobody")
    run(call)
    assert call.refusal.label == f"{name}_not_found"


def test_the_offer_follows_what_the_process_and_the_server_configure():
    server = Server()
    dragoman.configure(protocol_version="2025-06-18")
    assert [version.name for version in server.offering.offer.versions] == ["2025-06-18"]
    server.configuration = Configuration(protocol_version="2026-07-28")
    assert [version.name for version in server.offering.offer.versions] == ["2026-07-28"]
    server.configuration.protocol_version = "2025-11-25"
    assert [version.name for version in server.offering.offer.versions] == ["2025-11-25"]


def test_the_offer_of_every_server_follows_a_completion_that_its_prompt_is_given():
    @prompt
    def review(tone: str) -> str:
        return tone

    servers = [Server(prompts=[review]), Server(prompts=[review])]
    assert all(server.capabilities.completions is None for server in servers)
    review.complete("tone")(lambda value: ["kind"])
    assert all(server.capabilities.completions == {} for server in servers)
    assert all("completion/complete" in server.offering.offer.methods["2025-11-25"] for server in servers)


def test_what_is_watched_keeps_no_server_alive():
    Server()
    gc.collect()
    before = len(PROCESS.watchers._methods)
    servers = [Server() for _ in range(3)]
    assert len(PROCESS.watchers._methods) == before + 3
    servers.clear()
    gc.collect()
    assert len(PROCESS.watchers._methods) == before


@pytest.mark.parametrize("version", [V2025_11_25, V2026_07_28], ids=lambda version: version.name)
def test_sealing_leaves_the_result_of_an_author_as_it_was(version):
    server = Server(ttl_ms=5, cache_scope="public")
    result = types.ReadResourceResult([], meta={"a": 1})

    @server.resource("docs://x")
    async def x() -> types.ReadResourceResult:
        return result

    message = jsonrpc.Request(1, "resources/read", Raw(b'{"uri":"docs://x"}'))
    call = Call(eras.open(message, server.offering.offer, eras.Caller(version)), Session(), server=server.dispatcher)
    sent = json.loads(asyncio.run(run(call)))["result"]
    assert result == types.ReadResourceResult([], meta={"a": 1})
    assert (sent.get("ttlMs"), sent.get("cacheScope")) == ((5, "public") if version.stateless else (None, None))


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (InvalidParams("Unknown tool: x"), "invalid_params"),
        (ArgumentsRejected((Problem("a", "", missing=True),)).refusal(), "missing_required_arguments"),
        (ArgumentsRejected((Problem("a", "no"),)).refusal(), "invalid_params"),
        (InsufficientScope(["a"]), "insufficient_scope"),
        (MissingCapability({"roots": {}}), "missing_capability"),
        (HeaderMismatch("x"), "header_mismatch"),
        (InvalidRequest("x"), "invalid_request"),
        (ToolError("x"), "tool_error"),
        (ResourceNotFound("docs://x"), "resource_not_found"),
        (MethodNotFound("Method not found: x"), "method_not_found"),
        (InternalError("x"), "rpc_error"),
        (RpcError(-31999, "Unknown tool: x"), "rpc_error"),
        (UnsupportedVersion("x", []), "unsupported_version"),
        (LookupError("Unknown tool: x"), "internal_error"),
        (SystemExit(1), "internal_error"),
    ],
)
def test_an_error_has_one_label(error, label):
    assert label_of(error) == label
