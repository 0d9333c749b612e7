"""How tools run: in which thread, with which context, beside other requests and hostile ones."""

import asyncio
import contextvars
import threading

import pytest

from dragoman import BlockingContext, Context, DefinitionError, Server, tool
from dragoman.testing.wire import WirePeer
from scenarios.wire import DEADLINE, text

ERAS = ["none", "handshake", "stateless"]


# Threads.


def thread_name() -> str:
    return threading.current_thread().name


async def async_thread_name() -> str:
    return threading.current_thread().name


@pytest.mark.covers("TOOL-03")
async def test_plain_functions_run_in_worker_threads_unless_they_are_inline():
    server = Server("threads", tools=[thread_name, async_thread_name, tool(name="inline", inline=True)(thread_name)])
    async with WirePeer(server) as peer:
        names = [
            text(await peer.request("tools/call", {"name": name}))
            for name in ("thread_name", "async_thread_name", "inline")
        ]
    assert names == ["dragoman-worker", threading.current_thread().name, threading.current_thread().name]


@pytest.mark.covers("TOOL-03")
@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_blocks_holds_up_nobody(era):
    gate = threading.Event()

    def wait() -> bool:
        return gate.wait(DEADLINE)

    def release() -> None:
        gate.set()

    server = Server("gates", tools=[wait, release])
    async with WirePeer(server, era) as peer:
        blocked = [peer.start("tools/call", {"name": "wait"}) for _ in range(5)]
        assert (await peer.request("tools/list"))["result"]["tools"]
        await peer.request("tools/call", {"name": "release"})
        assert [text(await peer.response(id)) for id in blocked] == ["true"] * 5


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def read_variable() -> str:
    return variable.get()


def change_variable() -> str:
    variable.set("changed")
    return variable.get()


@pytest.mark.covers("CTX-05")
async def test_plain_functions_see_context_variables_and_change_only_their_own():
    server = Server("variables", tools=[read_variable, change_variable])
    variable.set("set")
    async with WirePeer(server) as peer:
        names = ("read_variable", "change_variable", "read_variable")
        assert [text(await peer.request("tools/call", {"name": name})) for name in names] == ["set", "changed", "set"]


# The context.


async def first(ctx: Context, a: int) -> str:
    return f"{ctx.request_id} {a}"


async def last(a: int, ctx: Context) -> str:
    return f"{ctx.request_id} {a}"


async def between(a: int, context: Context, b: int = 2) -> str:
    return f"{context.request_id} {a}"


async def keyword(a: int, *, ctx: Context) -> str:
    return f"{ctx.request_id} {a}"


async def optional(a: int, ctx: Context | None = None) -> str:
    assert ctx is not None
    return f"{ctx.request_id} {a}"


def blocking(ctx: BlockingContext, a: int) -> str:
    return f"{ctx.request_id} {a}"


def keyword_blocking(a: int, *, ctx: BlockingContext) -> str:
    return f"{ctx.request_id} {a}"


@pytest.mark.covers("CTX-04")
@pytest.mark.parametrize("function", [first, last, between, keyword, optional, blocking, keyword_blocking])
@pytest.mark.parametrize("inline", [False, True])
async def test_the_context_is_given_wherever_it_stands_and_is_in_no_schema(function, inline):
    server = Server("contexts", tools=[tool(name="get", inline=inline)(function)])
    async with WirePeer(server) as peer:
        [entry] = (await peer.request("tools/list"))["result"]["tools"]
        assert entry["inputSchema"]["properties"].keys() <= {"a", "b"}
        assert entry["inputSchema"]["required"] == ["a"]
        response = await peer.request("tools/call", {"name": "get", "arguments": {"a": 1, "ctx": "mine"}}, id="x")
        assert text(response) == "x 1"


@pytest.mark.covers("CTX-04")
def test_the_wrong_kind_of_context_is_refused_with_the_remedy():
    def plain(ctx: Context) -> None: ...

    async def asynchronous(ctx: BlockingContext) -> None: ...

    server = Server("contexts")
    with pytest.raises(DefinitionError, match="a `def` takes a BlockingContext: annotate the parameter so"):
        server.tool(plain)
    with pytest.raises(DefinitionError, match="an `async def` takes a Context: annotate the parameter so"):
        server.tool(asynchronous)


async def facts(ctx: Context) -> dict:
    ctx.meta["changed"] = True  # type: ignore[index]
    return {
        "id": ctx.request_id,
        "meta": {key: value for key, value in ctx.meta.items() if not key.startswith("io.modelcontextprotocol/")},
        "trace": ctx.trace,
        "client": ctx.client.info.name if ctx.client.info else None,
        "elicitation": ctx.client.capabilities.elicitation is not None,
        "version": ctx.client.version.name,
        "application": ctx.server_context,
        "session": ctx.session_id,
        "principal": ctx.principal,
        "cancelled": ctx.cancelled,
    }


def blocking_facts(ctx: BlockingContext) -> dict:
    ctx.raise_if_cancelled()
    return {"application": ctx.server_context, "trace": ctx.trace, "version": ctx.client.version.name}


META = {"traceparent": "00-1-2-01", "baggage": "a=b", "example.com/x": [1]}


@pytest.mark.covers("CTX-01", "CTX-03", "CTX-05", "CTX-06", "CTX-08")
@pytest.mark.parametrize("era", ERAS)
async def test_the_context_knows_the_request_and_who_sent_it(era):
    server = Server("facts", tools=[facts, blocking_facts], server_context={"database": "main"})
    stated = {"io.modelcontextprotocol/clientInfo": {"name": "wire peer", "version": "1"}} if era == "stateless" else {}
    async with WirePeer(server, era, capabilities={"elicitation": {}}) as peer:
        response = await peer.request("tools/call", {"name": "facts", "_meta": {**META, **stated}}, id="x")
        without = await peer.request("tools/call", {"name": "facts"})
        plain = await peer.request("tools/call", {"name": "blocking_facts", "_meta": META})
    version = "2026-07-28" if era == "stateless" else "2025-11-25"
    assert response["result"]["structuredContent"] == {
        "id": "x",
        "meta": META,
        "trace": {"traceparent": "00-1-2-01", "baggage": "a=b"},
        "client": None if era == "none" else "wire peer",
        "elicitation": era != "none",
        "version": version,
        "application": {"database": "main"},
        "session": None,
        "principal": None,
        "cancelled": False,
    }
    assert without["result"]["structuredContent"]["meta"] == {}
    assert plain["result"]["structuredContent"] == {
        "application": {"database": "main"},
        "trace": {"traceparent": "00-1-2-01", "baggage": "a=b"},
        "version": version,
    }


@pytest.mark.covers("CTX-01")
def test_an_application_may_give_a_context_with_a_single_message():
    def whose(ctx: BlockingContext) -> str:
        return ctx.server_context

    server = Server("contexts", tools=[whose], server_context="server's")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whose"}}
    assert [text(server.handle(message, given)) for given in (None, "request's")] == ["server's", "request's"]


# Hostile input beside honest requests.

HOSTILE = [
    (b"nope", -32700),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"echo","arguments":{"word":"\xff"}}}', -32700),
    (b'{"jsonrpc":"1.0","id":"h","method":"tools/call"}', -32600),
    (b'{"jsonrpc":"2.0","id":"h","method":5}', -32600),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":[1]}', -32602),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call"}', -32602),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":5}}', -32602),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"nope"}}', -32602),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"echo","_meta":5}}', -32602),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/destroy"}', -32601),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/list","params":{"cursor":"-1"}}', -32602),
]


@pytest.mark.covers("TOOL-10", "TOOL-12")
async def test_hostile_messages_are_refused_while_honest_ones_are_served():
    gate = asyncio.Event()

    async def echo(word: str) -> str:
        await asyncio.wait_for(gate.wait(), DEADLINE)
        return word

    async with WirePeer(Server("echo", tools=[echo])) as peer:
        honest = [peer.start("tools/call", {"name": "echo", "arguments": {"word": f"{n}é\u2028"}}) for n in range(20)]
        for message, code in HOSTILE:
            peer.send(message)
            refusal = await peer.receive()
            assert refusal["error"]["code"] == code, message
            assert refusal["jsonrpc"] == "2.0"
            assert refusal.get("id") in ("h", None)
        gate.set()
        assert [text(await peer.response(id)) for id in honest] == [f"{n}é\u2028" for n in range(20)]
        assert peer.received == []
