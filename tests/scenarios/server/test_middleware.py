"""Middleware, the same on every carrier and in both eras: what it sees, and what it may make of a request."""

import asyncio
import io
import json
import sys

import pytest

from dragoman import (
    AsyncClient,
    Configuration,
    Context,
    InvalidParams,
    RpcError,
    ToolError,
    types,
)
from dragoman.config import PROCESS
from dragoman.errors import MethodNotFound
from dragoman.testing import WirePeer
from scenarios.http_peer import BATCHING, BOTH, STATELESS, HttpPeer, serve
from scenarios.middleware_server import ADD, VERSIONS, serving, text_of, watching

pytestmark = pytest.mark.covers("CFG-18")


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


# The carriers: each sends one request, in an era, and returns the response.


async def over_a_connection(server, era, method, params):
    async with WirePeer(server, era) as peer:
        return await peer.request(method, params)


async def in_a_batch(server, era, method, params):
    async with WirePeer(server, BATCHING) as peer:
        peer.send([{"jsonrpc": "2.0", "id": "one", "method": method, "params": params}])
        return await peer.receive()


async def over_http(server, era, method, params, **options):
    peer = HttpPeer(serve(server, **options), VERSIONS[era])
    if era == "handshake" and options.get("sessions", True):
        await peer.initialize()
    version = {"mcp-protocol-version": peer.version}
    named = {"mcp-name": params.get("name") or params.get("uri")}
    exchange = await peer.request(method, params, version if era == "handshake" else named)
    return exchange.json


async def over_http_alone(server, era, method, params):
    return await over_http(server, era, method, params, sessions=False)


async def in_a_batch_over_http(server, era, method, params):
    peer = HttpPeer(serve(server), BATCHING)
    await peer.initialize()
    exchange = await peer.post([{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}]).end()
    return exchange.json[0]


def message_of(era, method, params):
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": STATELESS, f"{prefix}clientCapabilities": {}}
    params = params | {"_meta": meta} if era == "stateless" else params
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def by_handle(server, era, method, params):
    return json.loads(await server.handle_json_async(message_of(era, method, params)))


def headers_of(era, method, params):
    lines = {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": VERSIONS[era]}
    if era == "stateless":
        lines["Mcp-Method"] = method
        name = params.get("name") or params.get("uri")
        lines |= {} if name is None else {"Mcp-Name": name}
    return lines


async def by_a_view(server, era, method, params):
    given = headers_of(era, method, params)
    reply = await server.handle_http_async("POST", given, message_of(era, method, params))
    return json.loads(reply.body)


async def by_wsgi(server, era, method, params):
    body = message_of(era, method, params).encode()
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000"}
    environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "HTTP_HOST": "127.0.0.1:8000"}
    environ |= {"SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http"}
    for name, value in headers_of(era, method, params).items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    answered = await asyncio.to_thread(lambda: b"".join(server.wsgi()(environ, lambda *_: None)))
    return json.loads(answered)


OF_HTTP = (over_http, over_http_alone, in_a_batch_over_http, by_a_view, by_wsgi)
OF_ONE_ERA = (in_a_batch, in_a_batch_over_http)
TABLE = [
    pytest.param(ask, era, id=f"{ask.__name__}-{era}")
    for ask in (over_a_connection, over_http, over_http_alone, by_handle, by_a_view, by_wsgi, *OF_ONE_ERA)
    for era in VERSIONS
    if era == "handshake" or ask not in OF_ONE_ERA
]
EVERYWHERE = pytest.mark.parametrize(("ask", "era"), TABLE)


ECHO = ("acme/echo", {"value": 3})


@EVERYWHERE
async def test_middleware_sees_each_request_once_with_a_context_and_a_typed_result(ask, era):
    server = serving()
    seen = watching(server)
    answered = await ask(server, era, *ADD)
    [(ctx, result)] = seen
    assert answered["result"]["content"] == [{"type": "text", "text": "3"}]
    assert isinstance(ctx, Context)
    assert ctx.method == "tools/call"
    assert (ctx.params.name, ctx.arguments) == ("add", {"a": 2})
    assert isinstance(ctx.params, types.CallToolRequestParams)
    assert text_of(result) == "3"
    assert ctx.client.version.stateless == (era == "stateless")
    assert ctx.principal is None
    assert not ctx.scopes
    assert (ctx.headers.get("Content-Type") == "application/json") == (ask in OF_HTTP)
    assert bool(ctx.headers) == (ask in OF_HTTP)


@EVERYWHERE
@pytest.mark.parametrize(
    ("method", "params", "kind", "sent"),
    [
        ("acme/unknown", {"value": 3}, MethodNotFound, {"value": 3}),
        ("tools/call", {"name": "add", "inputResponses": 5}, InvalidParams, {"name": "add", "inputResponses": 5}),
        ("tools/call", {"name": "nobody"}, InvalidParams, None),
        ("resources/read", {"uri": "docs://none"}, RpcError, None),
    ],
)
async def test_middleware_sees_what_a_refused_request_is_answered_with(ask, era, method, params, kind, sent):
    server = serving()
    seen = watching(server)
    answered = await ask(server, era, method, params)
    [(ctx, error)] = seen
    assert isinstance(error, kind)
    assert (error.code, error.message) == (answered["error"]["code"], answered["error"]["message"])
    assert ctx.method == method
    if sent is not None:
        assert {name: value for name, value in ctx.params.items() if name != "_meta"} == sent
    assert answered == await ask(serving(), era, method, params)


@EVERYWHERE
async def test_middleware_may_answer_a_refused_request_in_its_place(ask, era):
    server = serving()

    @server.middleware
    async def polite(ctx, call_next):
        try:
            return await call_next()
        except MethodNotFound:
            return {"sorry": ctx.method}

    answered = await ask(server, era, "acme/unknown", {})
    assert answered["result"]["sorry"] == "acme/unknown"
    assert answered["result"].get("resultType") == ("complete" if era == "stateless" else None)


@EVERYWHERE
async def test_middleware_may_change_what_a_tool_gives(ask, era):
    server = serving()

    @server.middleware
    async def louder(ctx, call_next):
        result = await call_next()
        if isinstance(result, types.CallToolResult):
            return types.CallToolResult([types.TextContent(text_of(result) + "!")])
        return result

    assert (await ask(server, era, *ADD))["result"]["content"] == [{"type": "text", "text": "3!"}]


@EVERYWHERE
async def test_a_page_of_a_list_is_typed_and_may_be_filtered(ask, era):
    server = serving()

    @server.middleware
    async def hide(ctx, call_next):
        result = await call_next()
        if isinstance(result, types.ListToolsResult):
            result.tools = [tool for tool in result.tools if not tool.name.startswith("whoami")]
            result.tools[0].description += " Quickly."
        return result

    for _ in range(2):
        listed = (await ask(server, era, "tools/list", {}))["result"]
        assert [(tool["name"], tool["description"]) for tool in listed["tools"]] == [("add", "Adds. Quickly.")]
    bare = (await ask(serving(), era, "tools/list", {}))["result"]
    assert {**bare, "tools": None} == {**listed, "tools": None}
    assert server.tools[0].definition.description == "Adds."


@EVERYWHERE
async def test_what_middleware_notes_is_seen_by_later_middleware_and_by_the_handler(ask, era):
    server, noted = serving(), []

    @server.middleware
    async def login(ctx, call_next):
        ctx.values["user"] = "grace"
        return await call_next()

    @server.middleware
    async def later(ctx, call_next):
        noted.append(dict(ctx.values))
        return await call_next()

    plain = await ask(server, era, "tools/call", {"name": "whoami"})
    blocking = await ask(server, era, "tools/call", {"name": "whoami_blocking", "arguments": {"x": 1}})
    assert plain["result"]["content"][0]["text"] == "grace"
    assert blocking["result"]["content"][0]["text"] == "grace tools/call {'x': 1}"
    assert all(values == {"user": "grace"} for values in noted)


@EVERYWHERE
async def test_what_middleware_raises_is_answered_as_what_handlers_raise(ask, era):
    reports = []
    server = serving(configuration=Configuration(exception_reporter=lambda error, info: reports.append(error)))
    raised = {"add": ToolError("Not today"), "whoami": RpcError(-31000, "Too many"), "whoami_blocking": KeyError("x")}

    @server.middleware
    async def refuse(ctx, call_next):
        if ctx.method in ("tools/call", "prompts/get"):
            raise raised[ctx.params.name] if ctx.method == "tools/call" else ToolError("No prompts")
        return await call_next()

    said = await ask(server, era, *ADD)
    assert (said["result"]["isError"], said["result"]["content"][0]["text"]) == (True, "Not today")
    refused = await ask(server, era, "tools/call", {"name": "whoami"})
    assert refused["error"] == {"code": -31000, "message": "Too many"}
    assert reports == []
    failed = await ask(server, era, "tools/call", {"name": "whoami_blocking"})
    assert failed["error"] == {"code": -32603, "message": "Internal error"}
    assert [type(error) for error in reports] == [KeyError]
    prompted = await ask(server, era, "prompts/get", {"name": "greet", "arguments": {"name": "x"}})
    assert prompted["error"] == {"code": -32603, "message": "No prompts"}


@EVERYWHERE
async def test_a_method_of_the_servers_own_has_a_mapping_for_parameters_and_its_own_result(ask, era):
    server = serving()
    seen = watching(server)
    answered = await ask(server, era, *ECHO)
    [(ctx, result)] = seen
    assert ctx.params["value"] == 3
    assert result == {"value": 3}
    assert answered["result"]["value"] == 3


PROGRAM = """
from dragoman import RpcError, Server

server = Server("shop")

@server.tool
def add(a: int, b: int = 1) -> str:
    return str(a + b)

@server.middleware
async def around(ctx, call_next):
    if ctx.method == "acme/unknown":
        raise RpcError(-31000, "Not ours", {"era": ctx.client.version.name})
    return await call_next()

if __name__ == "__main__":
    server.run()
"""


@pytest.mark.parametrize("carrier", ["stdio", "memory"])
@pytest.mark.parametrize("version", VERSIONS.values())
async def test_a_client_meets_middleware_over_stdio_and_in_memory(version, carrier, tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM)
    named = {"__name__": "shop"}
    exec(PROGRAM, named)
    target = [sys.executable, str(tmp_path / "shop.py")] if carrier == "stdio" else named["server"]
    async with AsyncClient(target, protocol_version=version) as client:
        assert (await client.call_tool("add", {"a": 2})).text == "3"
        with pytest.raises(RpcError, match="Not ours") as refused:
            await client.request("acme/unknown", {})
    assert refused.value.data == {"era": version}


# Several of them, and what becomes of one that waits.


@pytest.mark.parametrize("era", VERSIONS)
async def test_the_first_is_outermost_and_sees_what_the_others_make_of_a_request(era):
    server, steps = serving(), []

    def step(name, error=None):
        @server.middleware
        async def around(ctx, call_next):
            if ctx.method != "tools/call":
                return await call_next()
            steps.append(name)
            try:
                if error is not None:
                    raise error
                result = await call_next()
                steps.append((name, result.is_error, text_of(result)))
            except RpcError as refused:
                steps.append((name, refused.message))
                raise
            return result

    step("first")
    step("second")
    step("third", ToolError("Locked"))
    await over_a_connection(server, era, *ADD)
    assert steps == ["first", "second", "third", ("second", True, "Locked"), ("first", True, "Locked")]
    steps.clear()
    server = serving(configuration=Configuration(exception_reporter=lambda error, info: steps.append(type(error))))
    step("first")
    step("second", LookupError("secret"))
    await over_a_connection(server, era, *ADD)
    assert steps == ["first", "second", LookupError, ("first", "Internal error")]


@pytest.mark.parametrize("era", VERSIONS)
async def test_a_failure_of_a_handler_is_what_it_is_answered_with_and_is_reported_once(era):
    reports = []
    server = serving(configuration=Configuration(exception_reporter=lambda error, info: reports.append(error)))
    seen = watching(server)
    answered = await over_a_connection(server, era, "prompts/get", {"name": "greet", "arguments": {"name": "x"}})
    [(_, error)] = seen
    assert answered["error"] == {"code": -32603, "message": "Internal error"}
    assert (error.code, str(error.__cause__)) == (-32603, "x")
    assert [type(one) for one in reports] == [LookupError]


@pytest.mark.parametrize("era", VERSIONS)
async def test_middleware_may_give_a_request_a_time_limit(era):
    server, ended = serving(), []

    @server.tool
    async def sleep() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("handler")

    @server.middleware
    async def in_time(ctx, call_next):
        try:
            async with asyncio.timeout(0.01):
                return await call_next()
        except TimeoutError:
            raise ToolError("It took too long") from None

    answered = await over_a_connection(server, era, "tools/call", {"name": "sleep"})
    assert answered["result"]["content"][0]["text"] == "It took too long"
    assert ended == ["handler"]
    assert "result" in await over_a_connection(server, era, *ADD)


@pytest.mark.parametrize("method", ["tools/call", "acme/unknown"])
@pytest.mark.parametrize("era", VERSIONS)
async def test_middleware_is_cancelled_with_its_request(era, method):
    server, begun, over, ended = serving(), asyncio.Event(), asyncio.Event(), []

    @server.middleware
    async def slow(ctx, call_next):
        if ctx.method == method:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(ctx.cancelled)
                over.set()
        return await call_next()

    async with WirePeer(server, era) as peer:
        id = peer.start(method, {"name": "add", "arguments": {"a": 1}})
        await begun.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        await over.wait()
        await peer.request("tools/list")
        assert ended == [True]
        assert not peer._waiting[id].done()


async def test_a_notification_of_a_method_of_the_servers_own_passes_middleware_on_every_carrier():
    server = serving()
    seen = watching(server)
    notice = {"jsonrpc": "2.0", "method": "acme/echo", "params": {"value": 3}}
    async with WirePeer(server) as peer:
        peer.notify("acme/echo", {"value": 1})
        await peer._connection.drain()
    peer = HttpPeer(serve(server))
    await peer.initialize()
    await peer.notify("acme/echo", {"value": 2})
    assert await server.handle_json_async(json.dumps(notice)) is None
    assert [(ctx.request_id, ctx.params["value"], result) for ctx, result in seen] == [
        ("", value, {"value": value}) for value in (1, 2, 3)
    ]
    assert [bool(ctx.headers) for ctx, _ in seen] == [False, True, False]


# Rounds of questions.


def form(action="accept"):
    return {"action": action, "content": {"sure": True}}


SCHEMA = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
ELICITS = {"elicitation": {"form": {}}}


def asking():
    server = serving()

    @server.tool
    async def book(ctx: Context) -> str:
        answer = await ctx.elicit("Really?", SCHEMA)
        return f"{answer.action} {sorted(ctx.values)}"

    return server


async def answered_in_session(server):
    async with WirePeer(server, "handshake", capabilities=ELICITS) as peer:
        id = peer.start("tools/call", {"name": "book"})
        asked = await peer.receive("elicitation/create")
        peer.answer(asked["id"], form())
        return await peer.response(id)


async def rounds(server):
    async with WirePeer(server, "stateless", capabilities=ELICITS) as peer:
        first = await peer.request("tools/call", {"name": "book"})
        [key] = first["result"]["inputRequests"]
        again = {"inputResponses": {key: form()}, "requestState": first["result"]["requestState"]}
        return first, await peer.request("tools/call", {"name": "book", **again})


async def test_a_request_that_asks_passes_middleware_once_and_each_stateless_round_is_a_request():
    server = asking()
    seen = watching(server)
    answered = await answered_in_session(server)
    assert [text_of(result) for _, result in seen] == [answered["result"]["content"][0]["text"]] == ["accept []"]
    seen.clear()
    _, second = await rounds(server)
    assert second["result"]["content"][0]["text"] == "accept []"
    [(_, asked), (_, result)] = seen
    assert isinstance(asked, types.InputRequiredResult)
    assert text_of(result) == "accept []"


@pytest.mark.parametrize("era", VERSIONS)
async def test_middleware_may_ask_the_client_before_the_handler_runs(era):
    server, ran = serving(), []
    seen = watching(server)

    @server.tool
    async def book() -> str:
        ran.append("book")
        return "booked"

    @server.middleware
    async def approve(ctx, call_next):
        if ctx.method == "tools/call" and not (await ctx.elicit("Really?", SCHEMA)).accepted:
            raise ToolError("Not approved")
        return await call_next()

    if era == "handshake":
        answered = await answered_in_session(server)
    else:
        first, answered = await rounds(server)
        assert first["result"]["resultType"] == "input_required"
        assert isinstance(seen[0][1], types.InputRequiredResult)
    assert answered["result"]["content"][0]["text"] == "booked"
    assert ran == ["book"]


# What it costs, and what it leaves alone.


@pytest.mark.parametrize("era", VERSIONS)
async def test_a_page_that_comes_back_unchanged_is_sent_as_it_is_kept(era):
    bare, wrapped, sent = serving(), serving(), []
    seen = watching(wrapped)
    message = message_of(era, "tools/list", {}).encode() + b"\n"
    for server in (bare, wrapped):
        connection = server.connect(sent.append)
        connection.receive(message)
        await connection.drain()
        connection.close()
    assert sent[0] == sent[1]
    [(_, page)] = seen
    assert isinstance(page, types.ListToolsResult)
    assert [tool.name for tool in page.tools] == ["add", "whoami", "whoami_blocking"]


async def test_what_middleware_does_to_a_result_or_to_parameters_stays_with_its_request():
    server = serving()

    @server.middleware
    async def scribble(ctx, call_next):
        if ctx.method == "tools/call":
            ctx.params.name = "nobody"
            with pytest.raises(TypeError):
                ctx.arguments["a"] = 100
        result = await call_next()
        if ctx.method == "ping":
            result.meta = {"pings": 1 + (result.meta or {}).get("pings", 0)}
        return result

    assert (await by_handle(server, "handshake", *ADD))["result"]["content"][0]["text"] == "3"
    for _ in range(2):
        assert (await by_handle(server, "handshake", "ping", {}))["result"] == {"_meta": {"pings": 1}}


@pytest.mark.covers("CFG-05", "CFG-07")
@pytest.mark.parametrize("era", VERSIONS)
async def test_the_hooks_of_the_configuration_stand_around_all_middleware(era):
    steps = []

    async def around(data, call_next):
        steps.append("hook")
        await call_next()

    configuration = Configuration(around_request=around, instrumentation_callback=lambda data: steps.append(data))
    server = serving(configuration=configuration)

    @server.middleware
    async def inside(ctx, call_next):
        steps.append("middleware")
        if ctx.method == "prompts/get":
            return await call_next()
        raise RpcError(-31000, "no")

    for method, params, label in [
        ("ping" if era == "handshake" else "tools/list", {}, "rpc_error"),
        ("prompts/get", {"name": "greet", "arguments": {"name": "x"}}, "internal_error"),
        ("prompts/get", {"name": "nobody"}, "prompt_not_found"),
    ]:
        steps.clear()
        await by_handle(server, era, method, params)
        assert steps[:2] == ["hook", "middleware"]
        assert (steps[2]["method"], steps[2]["error"]) == (method, label)
