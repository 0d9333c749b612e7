"""What a server records of each request: the outcome that the client receives, whatever carried the request."""

import json

import pytest

from dragoman import Configuration, Context, Server, types
from dragoman.server import DetachedCall, ExtensionRow, ServerExtension
from dragoman.stores import Memory
from scenarios.endless_call import cancel_endless_call
from telemetry_kit import is_child

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def made(**options):
    server = Server("shop", configuration=Configuration(exception_reporter=lambda error, info: None), **options)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def crash() -> str:
        raise LookupError("a secret")

    @server.tool
    def decline() -> types.CallToolResult:
        return types.CallToolResult([], is_error=True)

    @server.prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    @server.prompt
    def broken() -> str:
        raise LookupError("a secret")

    @server.method("acme/note")
    def note(text: str) -> object:
        return object() if text == "object" else {"text": text}

    return server


def asked(server, method, params):
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": TRACE, **params}}
    return json.loads(server.handle_json(json.dumps(message)) or "null")


@pytest.mark.parametrize(
    ("method", "params", "name", "error_type", "code"),
    [
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, "tools/call add", None, None),
        ("tools/call", {"name": "crash"}, "tools/call crash", "tool_error", None),
        ("tools/call", {"name": "decline"}, "tools/call decline", "tool_error", None),
        ("tools/call", {"name": "invented"}, "tools/call", "-32602", "-32602"),
        ("tools/list", {}, "tools/list", None, None),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}, "prompts/get greet", None, None),
        ("prompts/get", {"name": "broken"}, "prompts/get broken", "-32603", "-32603"),
        ("prompts/get", {"name": "invented"}, "prompts/get", "-32602", "-32602"),
        ("acme/note", {"text": "x"}, "acme/note", None, None),
        ("acme/note", {"text": "object"}, "acme/note", "-32603", "-32603"),
        ("acme/invented", {}, "_OTHER", "-32601", "-32601"),
        ("tools/call", {"name": 7}, "tools/call", "-32602", "-32602"),
    ],
)
def test_a_span_tells_the_outcome_that_the_client_receives(method, params, name, error_type, code, telemetry):
    answer = asked(made(), method, params)
    span = telemetry.span(name, "SERVER")
    assert span.attributes.get("error.type") == error_type
    assert span.attributes.get("rpc.response.status_code") == code
    assert (str(answer["error"]["code"]) if "error" in answer else None) == code
    assert f"{span.context.trace_id:032x}" == TRACE["traceparent"].split("-")[1]
    assert span.attributes["jsonrpc.request.id"] == "7"
    assert (span.status.status_code.name == "ERROR") == (error_type is not None)
    (point,) = telemetry.points("mcp.server.operation.duration")
    assert (point.count, point.attributes.get("error.type")) == (1, error_type)
    assert "a secret" not in str(span.status.description)


def test_middleware_and_hooks_run_within_the_span_and_can_change_its_outcome(telemetry):
    server, seen = made(), []

    @server.middleware
    async def forgive(ctx, call_next):
        with telemetry.tracer.start_as_current_span("forgive"):
            result = await call_next()
        return types.CallToolResult([types.TextContent("fine")]) if result.is_error else result

    server.configuration = Configuration(instrumentation_callback=seen.append)
    asked(server, "tools/call", {"name": "decline"})
    span = telemetry.span("tools/call decline")
    assert "error.type" not in span.attributes
    assert is_child(telemetry.span("forgive"), span)
    assert [data["tool_name"] for data in seen] == ["decline"]


def test_a_tool_in_a_thread_is_within_the_span(telemetry):
    server = Server()

    @server.tool
    def work() -> str:
        with telemetry.tracer.start_as_current_span("working"):
            return ""

    asked(server, "tools/call", {"name": "work"})
    assert is_child(telemetry.span("working"), telemetry.span("tools/call work"))


STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}


@pytest.mark.parametrize("is_forged", [False, True])
def test_rounds_of_a_client_without_telemetry_are_one_trace(is_forged, telemetry):
    server = Server(secret="a secret of sixteen")

    @server.tool
    async def book(ctx: Context) -> str:
        with telemetry.tracer.start_as_current_span("asking"):
            return (await ctx.elicit("Which city?", str)).content

    asks = asked(server, "tools/call", {"name": "book", "_meta": STATELESS})["result"]
    assert asks["resultType"] == "input_required"
    (key,) = asks["inputRequests"]
    again = {
        "name": "book",
        "inputResponses": {key: {"action": "accept", "content": {"value": "Oslo"}}},
        "requestState": "forged" if is_forged else asks["requestState"],
        "_meta": STATELESS,
    }
    answer = asked(server, "tools/call", again)
    first, second = telemetry.spans("tools/call book", "SERVER")
    assert "error.type" not in first.attributes
    assert is_child(second, first) == (not is_forged)
    assert ("error" in answer) == is_forged


@pytest.mark.parametrize(
    ("uri", "recorded"),
    [
        ("docs://readme", {"resource_uri": "docs://readme"}),
        ("users://ann/profile", {"resource_template": "users://{id}/profile"}),
        ("docs://inner/guide", {"resource_uri": "docs://inner/guide"}),
        ("logs://inner/today", {"resource_template": "logs://inner/{day}"}),
        ("docs://made-up-by-the-client", {}),
    ],
)
@pytest.mark.parametrize("has_reader", [False, True])
@pytest.mark.covers("RES-14")
def test_only_registered_uris_and_templates_are_recorded(uri, recorded, has_reader, telemetry):
    data = []
    outer = Server("outer", configuration=Configuration(instrumentation_callback=data.append))
    inner = Server("inner")
    outer.resource("docs://readme")(lambda: "read me")
    outer.resource("users://{id}/profile")(lambda id: id)
    inner.resource("docs://guide")(lambda: "guide")
    inner.resource("logs://{day}")(lambda day: day)
    outer.mount(inner, prefix="inner")
    if has_reader:
        outer.on_read_resource(lambda uri: uri)
    answer = asked(outer, "resources/read", {"uri": uri})
    assert ("error" in answer) == (not recorded and not has_reader)
    facts = {key: value for key, value in data[0].items() if key.startswith("resource")}
    assert facts == recorded
    span = telemetry.span("resources/read", "SERVER")
    assert span.attributes.get("mcp.resource.uri") == next(iter(recorded.values()), None)


async def test_a_cancelled_request_is_told_apart_from_a_crash(telemetry):
    await cancel_endless_call(Server())
    span = telemetry.span("tools/call wait")
    assert span.attributes["error.type"] == "cancelled"
    assert "rpc.response.status_code" not in span.attributes
    assert span.status.status_code.name == "UNSET"
    assert [point.attributes["error.type"] for point in telemetry.points("mcp.server.operation.duration")] == [
        "cancelled"
    ]


def test_a_notification_with_a_handler_is_recorded_without_an_id(telemetry):
    server = made()
    server.handle_json(json.dumps({"jsonrpc": "2.0", "method": "acme/note", "params": {"text": "x", "_meta": TRACE}}))
    server.handle_json(json.dumps({"jsonrpc": "2.0", "method": "acme/note", "params": {"_meta": TRACE}}))
    good, bad = telemetry.spans("acme/note", "SERVER")
    assert "jsonrpc.request.id" not in good.attributes
    assert "error.type" not in good.attributes
    assert bad.attributes["error.type"] == "-32602"


async def test_a_subscription_is_not_recorded_because_it_lasts_as_long_as_its_connection(telemetry):
    server, sent = made(), []
    connection = server.connect(sent.append)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {"notifications": {}, "_meta": meta},
    }
    connection.receive_message(json.dumps(message).encode())
    connection.receive_end()
    await connection.drain()
    connection.close()
    assert sent
    assert telemetry.spans() == []


async def test_a_call_apart_from_its_request_is_within_the_span_of_the_request(telemetry):
    detached = []

    class Later(ServerExtension):
        rows = (ExtensionRow(id="example.com/later"),)

        async def around_call(self, ctx, call_next):
            detached.append(DetachedCall.of(ctx))
            return await call_next()

    server = Server(extensions=[later := Later()], store=Memory())

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    message = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": TRACE}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": message}
    await server.handle_json_async(json.dumps(body))
    (call,) = detached
    assert await later.run_detached(server, call)
    assert is_child(telemetry.span("execute_tool add", "INTERNAL"), telemetry.span("tools/call add", "SERVER"))
    (point,) = telemetry.points("mcp.server.operation.duration")
    assert point.count == 1


def test_a_call_of_a_mounted_tool_has_one_span_with_the_name_that_the_client_used(telemetry):
    outer, middle = Server("outer"), Server("middle")
    middle.mount(made(), prefix="inner")
    outer.mount(middle, prefix="middle")
    asked(outer, "tools/call", {"name": "middle_inner_add", "arguments": {"a": 1, "b": 2}})
    asked(outer, "tools/list", {})
    asked(outer, "tools/call", {"name": "middle_inner_crash"})
    names = [span.name for span in telemetry.spans()]
    assert names == ["tools/call middle_inner_add", "tools/list", "tools/call middle_inner_crash"]
    assert telemetry.span(names[-1]).attributes["error.type"] == "tool_error"
