"""What is observed of requests and reported of failures, as the process or a server configures it."""

import asyncio
import logging

import msgspec
import pytest

import dragoman
from dragoman import (
    BlockingContext,
    Configuration,
    Context,
    DefinitionError,
    InvalidParams,
    ResourceNotFound,
    RpcError,
    Server,
    ToolError,
)
from dragoman.auth import Identity
from dragoman.config import PROCESS
from dragoman.protocol.jsonrpc import encode
from dragoman.testing import WirePeer
from scenarios.http_peer import BATCHING, NEWEST, STATELESS, HttpPeer, serve
from scenarios.wire import ask, call, text

ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(PROCESS, "configuration", Configuration())


class Reports(list):
    """A reporter that keeps what it is told."""

    def __call__(self, error, info):
        self.append((error, info))


CRASH = LookupError("the original")


def crash():
    raise CRASH


def refuse():
    raise RpcError(-31999, "Not today")


def fail():
    raise ToolError("The file is locked")


def serving(**configuration):
    """Return a server whose definitions end in every way."""
    server = Server("observed", configuration=Configuration(**configuration), server_context={"tenant": "acme"})
    for function in (crash, refuse, fail):
        server.tool(function)

    @server.tool
    def add(a: int, b: int = 1) -> str:
        return str(a + b)

    @server.prompt
    def greet(name: str) -> str:
        return crash() if name == "crash" else f"Greet {name}"

    @server.resource("docs://{name}")
    def document(name: str) -> str:
        return crash() if name == "crash" else name

    @server.method("acme/crash")
    async def acme_crash():
        crash()

    return server


CALL = "tools/call", {"name": "add", "arguments": {"a": 2}}
CRASHES = [
    ("tools/call", {"name": "crash", "arguments": {}}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "crash"}}),
    ("resources/read", {"uri": "docs://crash"}),
    ("acme/crash", {}),
]
DELIBERATE = [
    ("tools/call", {"name": "refuse"}),
    ("tools/call", {"name": "fail"}),
    ("tools/call", {"name": "unknown"}),
    ("tools/call", {"name": "add"}),
    ("prompts/get", {"name": "greet"}),
    ("resources/read", {"uri": "nowhere://x"}),
]


# Reporting.


@ERAS
@pytest.mark.covers("CFG-02", "CFG-03", "CFG-04")
@pytest.mark.parametrize(("method", "params"), CRASHES)
def test_the_reporter_is_given_the_original_exception_once_with_its_request(method, params, era):
    reports = Reports()
    ask(serving(exception_reporter=reports), method, params, era)
    [(error, info)] = reports
    assert error is CRASH
    assert info["request"]["method"] == method
    assert info["request"]["params"].items() >= params.items()
    assert set(info) == {"request"}
    assert set(info["request"]) == {"id", "method", "params"}


@ERAS
@pytest.mark.covers("CFG-10")
@pytest.mark.parametrize(("method", "params"), DELIBERATE)
def test_deliberate_errors_are_not_reported(method, params, era, caplog):
    reports = Reports()
    ask(serving(exception_reporter=reports), method, params, era)
    ask(serving(), method, params, era)
    assert reports == []
    assert caplog.records == []


@pytest.mark.covers("CFG-02")
@pytest.mark.parametrize(("method", "params"), CRASHES)
def test_without_a_reporter_there_is_one_log_record_with_the_traceback(method, params, caplog):
    ask(serving(), method, params)
    [record] = caplog.records
    assert (record.name, record.levelno) == ("dragoman.server", logging.ERROR)
    assert record.exc_info[1] is CRASH
    assert method in record.getMessage()


@pytest.mark.covers("CFG-02")
@pytest.mark.parametrize("raised", [RuntimeError("the reporter is broken"), SystemExit(1), KeyboardInterrupt()])
def test_a_reporter_that_raises_breaks_nothing_and_is_logged(raised, caplog):
    def report(error, info):
        raise raised

    server = serving(exception_reporter=report)
    assert text(call(server, "crash")) == "Internal error occurred"
    assert text(call(server, "add", a=1)) == "2"
    [record] = caplog.records
    assert record.exc_info[1] is raised


@pytest.mark.covers("CFG-03")
def test_a_request_that_holds_what_python_cannot_is_reported_all_the_same():
    reports, data = Reports(), []
    server = serving(exception_reporter=reports, instrumentation_callback=data.append)
    message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crash","arguments":{"x":1e999}}}'
    assert b"Internal error occurred" in server.handle_json(message)
    [(error, info)] = reports
    assert error is CRASH
    assert info["request"]["params"] == '{"name":"crash","arguments":{"x":1e999}}'
    assert data[0]["tool_arguments"] == '{"x":1e999}'


@pytest.mark.covers("CFG-02", "CFG-17")
async def test_a_notification_that_cannot_be_sent_is_reported_and_others_are_told():
    reports, introduced = Reports(), []
    broken = OSError("no one there")

    def send(data):
        if introduced:
            raise broken
        introduced.append(data)

    server = Server(configuration=Configuration(exception_reporter=reports))
    async with WirePeer(server) as peer:
        connection = server.connect(send)
        connection.receive(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\n'
        )
        server.notify_tools_list_changed()
        await peer.receive("notifications/tools/list_changed")
    assert reports == [(broken, {"notification": "notifications/tools/list_changed"})]


# The process and its servers.


@pytest.mark.covers("CFG-01")
def test_a_default_of_the_process_holds_for_servers_that_were_made_before_and_after():
    before, reports, own = serving(), Reports(), Reports()
    dragoman.configure(exception_reporter=reports)
    call(before, "crash")
    call(serving(), "crash")
    call(serving(exception_reporter=own), "crash")
    dragoman.configure(exception_reporter=None)
    call(before, "add", a=1)
    assert (len(reports), len(own)) == (2, 1)


@pytest.mark.covers("CFG-01")
def test_the_configuration_of_a_server_may_be_replaced():
    server, first, second = serving(), Reports(), Reports()
    server.configuration = Configuration(exception_reporter=first)
    call(server, "crash")
    server.configuration = Configuration(exception_reporter=second)
    call(server, "crash")
    assert (len(first), len(second)) == (1, 1)
    assert server.configuration == Configuration(exception_reporter=second)


@pytest.mark.covers("CFG-01")
def test_arguments_and_results_are_validated_as_configured():
    def checked(**configuration):
        server = Server(configuration=Configuration(**configuration))
        schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-Z]$"}}}

        @server.tool(input_schema=schema, output_schema={"type": "object", "required": ["code"]})
        def echo(code: str) -> dict[str, str]:
            return {} if code == "a" else {"code": code}

        return server

    assert call(checked(), "echo", code="a")["result"]["isError"]
    assert "isError" not in call(checked(validate_tool_call_arguments=False), "echo", code="a")["result"]
    unchecked = {"validate_tool_call_arguments": False, "exception_reporter": Reports()}
    assert call(checked(validate_tool_call_results=True, **unchecked), "echo", code="a")["error"]["code"] == -32603
    dragoman.configure(validate_tool_call_results=True)
    assert call(checked(**unchecked), "echo", code="a")["error"]["code"] == -32603
    assert "error" not in call(checked(validate_tool_call_results=False, **unchecked), "echo", code="a")


# Observing.


def observing(**configuration):
    """Return a server, and what is seen before and after each of its requests."""
    sightings = []

    async def around(data, call_next):
        sightings.append(dict(data))
        try:
            await call_next()
        finally:
            sightings.append(dict(data))

    return serving(around_request=around, **configuration), sightings


CLIENT = {"name": "wire peer", "version": "1"}


@pytest.mark.covers("CFG-05", "CFG-08", "CFG-12", "RES-14")
@pytest.mark.parametrize(
    ("method", "params", "facts"),
    [
        (*CALL, {"tool_name": "add", "tool_arguments": {"a": 2}}),
        ("tools/call", {"name": "fail", "arguments": None}, {"tool_name": "fail", "tool_arguments": {}}),
        ("tools/call", {"name": "fail"}, {"tool_name": "fail", "tool_arguments": {}}),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}, {"prompt_name": "greet"}),
        ("resources/read", {"uri": "docs://readme"}, {"resource_template": "docs://{name}"}),
        ("tools/list", {}, {}),
        ("ping", {}, {}),
    ],
)
def test_around_request_sees_the_method_before_and_what_it_was_about_after(method, params, facts):
    server, sightings = observing()
    ask(server, method, params)
    before, after = sightings[2:]
    after.pop("error", None)
    assert before == {"method": method}
    assert after == {"method": method, "client": CLIENT, **facts}


@pytest.mark.covers("CFG-12")
def test_the_client_is_known_from_its_introduction_on_and_may_say_nothing_of_itself():
    server, sightings = observing()
    ask(server, "ping")
    assert [sighting.get("client") for sighting in sightings] == [None, CLIENT, None, CLIENT]
    sightings.clear()
    ask(server, "tools/list", era="stateless")
    assert sightings == [{"method": "tools/list"}, {"method": "tools/list"}]
    named = {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "other", "version": "2"}}}
    ask(server, "tools/list", named, era="stateless")
    assert sightings[-1]["client"] == {"name": "other", "version": "2"}


@ERAS
@pytest.mark.covers("CFG-09")
@pytest.mark.parametrize(
    ("method", "params", "label"),
    [
        (*CALL, None),
        ("tools/call", {"name": "fail"}, "tool_error"),
        ("tools/call", {"name": "add"}, "tool_error"),
        ("tools/call", {"name": "crash"}, "internal_error"),
        ("tools/call", {"name": "refuse"}, "rpc_error"),
        ("tools/call", {"name": "unknown"}, "tool_not_found"),
        ("prompts/get", {"name": "unknown"}, "prompt_not_found"),
        ("prompts/get", {"name": "greet"}, "missing_required_arguments"),
        ("prompts/get", {"name": "greet", "arguments": {"name": "crash"}}, "internal_error"),
        ("resources/read", {"uri": "nowhere://x"}, "resource_not_found"),
        ("tools/list", {"cursor": "elsewhere"}, "invalid_params"),
        ("acme/crash", {}, "internal_error"),
    ],
)
def test_a_failure_has_one_of_few_labels(method, params, label, era):
    server, sightings = observing(exception_reporter=Reports())
    ask(server, method, params, era)
    assert sightings[-1].get("error") == label


WRONG_VERSION = ("unsupported_version", "invalid_params")
UNKNOWN = ("acme/unknown", {}, "unsupported_method", "method_not_found")
REFUSED = [
    UNKNOWN,
    ("tools/call", {"name": 7}, "tools/call", "invalid_params"),
    ("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}, "tools/list", None),
    ("resources/subscribe", {"uri": "docs://x"}, "resources/subscribe", "method_not_found"),
]


@ERAS
@pytest.mark.covers("CFG-19")
@pytest.mark.parametrize(("method", "params", "named", "label"), REFUSED)
def test_a_request_that_no_handler_is_found_for_is_observed_too(method, params, named, label, era):
    ended, reports = [], Reports()
    server, sightings = observing(exception_reporter=reports, instrumentation_callback=ended.append)
    assert "error" in ask(server, method, params, era)
    assert sightings[-2:] == [
        {"method": named},
        {name: value for name, value in ended[-1].items() if name != "duration"},
    ]
    assert ended[-1]["method"] == named
    assert ended[-1]["error"] == label or (label is None and ended[-1]["error"] in WRONG_VERSION)
    assert ended[-1].get("client") == (CLIENT if era == "handshake" else None)
    assert ended[-1]["duration"] >= 0
    assert reports == []


@pytest.mark.covers("CFG-19")
@pytest.mark.parametrize("carrier", ["handle", "asgi", "session", "alone", "batch", "view"])
async def test_a_refusal_is_observed_once_on_every_carrier(carrier):
    ended = []
    server, _ = observing(instrumentation_callback=ended.append)
    message = {"jsonrpc": "2.0", "id": 1, "method": "acme/unknown", "params": {}}

    async def talk():
        version = {"asgi": STATELESS, "view": STATELESS, "batch": BATCHING}.get(carrier, NEWEST)
        peer = HttpPeer(serve(server, sessions=carrier in {"session", "batch"}), version)
        if carrier in {"session", "batch"}:
            await peer.initialize()
            ended.clear()
        if carrier == "handle":
            return await server.handle_async(message)
        if carrier == "batch":
            return (await peer.post([message]).end()).json[0]
        if carrier == "view":
            headers = {"content-type": "application/json", "mcp-protocol-version": STATELESS}
            headers["mcp-method"] = "acme/unknown"
            body = encode(message | {"params": {"_meta": peer.meta()}})
            return msgspec.json.decode((await server.handle_http_async("POST", headers, body)).body)
        return (await peer.request("acme/unknown")).json

    assert (await talk())["error"]["code"] == -32601
    assert [(one["method"], one["error"]) for one in ended] == [("unsupported_method", "method_not_found")]


@pytest.mark.covers("CFG-19")
@pytest.mark.parametrize("kind", ["session", "scope", "header"])
async def test_what_http_refuses_is_observed_with_its_label(kind):
    ended = []
    server, _ = observing(instrumentation_callback=ended.append)

    @server.tool(scopes=["admin"])
    async def guarded() -> None: ...

    async def talk():
        app = serve(server, auth=lambda _: Identity("me", scopes=["user"]) if kind == "scope" else "me")
        peer = HttpPeer(app, NEWEST if kind == "session" else STATELESS)
        if kind == "session":
            return (await peer.request("tools/list")).status
        wrong = {"mcp-method": "tools/list"} if kind == "header" else {}
        return (await peer.call("guarded", headers=wrong).end()).status

    status, method, label = {
        "session": (400, "tools/list", "invalid_request"),
        "scope": (403, "tools/call", "insufficient_scope"),
        "header": (400, "tools/call", "header_mismatch"),
    }[kind]
    assert await talk() == status
    assert [(one["method"], one["error"]) for one in ended] == [(method, label)]


@pytest.mark.covers("CFG-19")
def test_a_hook_that_fails_on_a_refusal_is_reported_and_the_refusal_answered():
    reports = Reports()

    async def around(data, call_next):
        raise LookupError("hook")

    server = serving(around_request=around, exception_reporter=reports)
    assert ask(server, "acme/unknown")["error"]["code"] == -32601
    assert [str(error) for error, _ in reports][-1] == "hook"


@pytest.mark.covers("CFG-19")
async def test_a_refusal_whose_hook_waits_is_answered_at_the_end_of_the_input():
    async def around(data, call_next):
        await asyncio.sleep(0)
        await call_next()

    written = []
    connection = serving(around_request=around).connect(written.append)
    connection.receive(b'{"jsonrpc": "2.0", "id": 1, "method": "acme/unknown"}\n')
    connection.receive_end()
    await connection.drain()
    connection.close()
    assert b"-32601" in written[0]


@pytest.mark.covers("CFG-11")
def test_an_error_reaches_around_request_through_call_next():
    caught = []

    async def around(data, call_next):
        try:
            await call_next()
        except BaseException as error:
            caught.append(error)
            raise

    reports = Reports()
    server = serving(around_request=around, exception_reporter=reports)
    assert ask(server, *CRASHES[1])["error"]["code"] == -32603
    assert ask(server, "resources/read", {"uri": "nowhere://x"})["error"]["code"] == -32002
    assert caught[0] is CRASH
    assert isinstance(caught[1], ResourceNotFound)
    assert len(reports) == 1


async def swallows(data, call_next):
    try:
        await call_next()
    except Exception:
        return


async def forgets(data, call_next):
    """Do not call."""


async def repeats(data, call_next):
    for _ in range(3):
        try:
            await call_next()
        except LookupError:
            continue


async def replaces(data, call_next):
    await call_next()
    return {"content": []}


@ERAS
@pytest.mark.covers("CFG-04", "CFG-05")
@pytest.mark.parametrize("around", [swallows, forgets, repeats, replaces])
def test_whatever_around_request_does_the_request_is_served_once(around, era):
    reports, calls = Reports(), []
    server = serving(around_request=around, exception_reporter=reports)
    server.tool(name="count")(lambda: calls.append(1) or "counted")
    assert text(call(server, "count", era)) == "counted"
    assert text(call(server, "crash", era)) == "Internal error occurred"
    assert ask(server, *CRASHES[1], era)["error"]["message"] == "Internal error"
    assert ask(server, *DELIBERATE[0], era)["error"]["message"] == "Not today"
    assert len(calls) == 1
    assert [error for error, _ in reports] == [CRASH, CRASH]


@ERAS
@pytest.mark.covers("CFG-06")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("raised", [RuntimeError("the hook is broken"), InvalidParams("too")], ids=["other", "rpc"])
def test_what_around_request_raises_is_reported_and_the_request_is_served(when, raised, era):
    reports, data_after = Reports(), []

    async def around(data, call_next):
        if data["method"] == "initialize":
            return await call_next()
        if when == "before":
            raise raised
        await call_next()
        raise raised

    server = serving(
        around_request=around, exception_reporter=reports, instrumentation_callback=lambda data: data_after.append(data)
    )
    assert text(call(server, "add", era, a=1)) == "2"
    [(error, info)] = reports
    assert error is raised
    assert info["request"]["method"] == "tools/call"
    assert data_after[-1]["error"] == "internal_error"
    assert data_after[-1]["tool_name"] == "add"


@pytest.mark.covers("CFG-06")
async def test_a_request_that_is_given_up_while_around_request_waits_is_no_failure():
    reports, waiting = Reports(), asyncio.Event()

    async def around(data, call_next):
        if data["method"] == "tools/call":
            waiting.set()
            await asyncio.Event().wait()
        await call_next()

    async with WirePeer(serving(around_request=around, exception_reporter=reports)) as peer:
        id = peer.start(*CALL)
        await waiting.wait()
        peer.notify("notifications/cancelled", {"requestId": id})
        assert (await peer.request("ping"))["result"] == {}
        assert peer.received == []
    assert reports == []


@pytest.mark.covers("CFG-07")
@pytest.mark.parametrize("is_async", [False, True])
def test_the_callback_is_given_the_data_and_the_duration_after_each_request(is_async):
    seen = []

    async def later(data):
        seen.append(dict(data))

    server = serving(instrumentation_callback=later if is_async else lambda data: seen.append(dict(data)))
    call(server, "add", a=1)
    ask(server, "prompts/get", {"name": "unknown"})
    assert [data["method"] for data in seen] == ["initialize", "tools/call", "initialize", "prompts/get"]
    assert seen[1]["tool_arguments"] == {"a": 1}
    assert seen[3]["error"] == "prompt_not_found"
    assert all(isinstance(data["duration"], float) and data["duration"] >= 0 for data in seen)


@pytest.mark.covers("CFG-06", "CFG-07")
def test_a_callback_that_raises_is_reported_and_changes_nothing():
    reports = Reports()

    def callback(data):
        if data["method"] != "initialize":
            crash()

    server = serving(instrumentation_callback=callback, exception_reporter=reports)
    assert text(call(server, "add", a=1)) == "2"
    assert [error for error, _ in reports] == [CRASH]


@pytest.mark.covers("CFG-07")
def test_the_callback_sees_what_around_request_added_and_that_one_sees_no_duration():
    seen = []
    server, sightings = observing(instrumentation_callback=seen.append)
    call(server, "add", a=1)
    assert not any("duration" in sighting for sighting in sightings)
    assert {**sightings[-1], "duration": seen[-1]["duration"]} == seen[-1]


@pytest.mark.covers("CFG-13")
def test_the_server_context_is_in_the_data_if_it_is_wanted():
    server, sightings = observing(instrument_server_context=True)
    call(server, "add", a=1)
    assert all(sighting["server_context"] == {"tenant": "acme"} for sighting in sightings)
    server, sightings = observing()
    call(server, "add", a=1)
    assert not any("server_context" in sighting for sighting in sightings)


@ERAS
@pytest.mark.covers("CFG-16")
async def test_the_data_of_a_hundred_requests_at_once_is_not_shared(era):
    pairs, all_began = [], asyncio.Event()

    async def around(data, call_next):
        await call_next()
        if data["method"] == "tools/call":
            pairs.append((data["tool_arguments"]["number"], data))

    async def talk():
        server = Server(configuration=Configuration(around_request=around))
        began = []

        @server.tool
        async def wait(number: int) -> str:
            began.append(number)
            if len(began) == 100:
                all_began.set()
            await all_began.wait()
            return str(number)

        async with WirePeer(server, era) as peer:
            ids = [peer.start("tools/call", {"name": "wait", "arguments": {"number": n}}) for n in range(100)]
            return [text(await peer.response(id)) for id in ids]

    assert await talk() == [str(number) for number in range(100)]
    assert sorted(number for number, _ in pairs) == list(range(100))
    assert len({id(data) for _, data in pairs}) == 100


# Middleware.


@ERAS
@pytest.mark.covers("CFG-18")
def test_middleware_that_returns_nothing_is_reported_with_the_remedy(era):
    reports = Reports()
    server = serving(exception_reporter=reports)

    @server.middleware
    async def forgets_to_return(ctx, call_next):
        result = await call_next()
        return result if ctx.method == "initialize" else None

    assert call(server, "add", era, a=1)["error"] == {"code": -32603, "message": "Internal error"}
    [(error, _)] = reports
    assert "forgets_to_return" in str(error)
    assert "must return what call_next() gives" in str(error)


@pytest.mark.covers("CFG-18")
def test_middleware_that_is_not_async_is_refused_with_the_remedy():
    with pytest.raises(DefinitionError, match=r"must be async.*async def around\(ctx, call_next\)"):
        Server().middleware(lambda ctx, call_next: call_next())


# What handlers read of the request.


@ERAS
@pytest.mark.covers("CTX-03", "CTX-06")
def test_meta_and_trace_are_readable_in_every_kind_of_handler_while_requests_are_observed(era):
    server, _ = observing()
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "a=1"}
    meta = {**trace, "example.com/x": [1]}

    @server.tool(name="async_reader")
    async def async_reader(ctx: Context) -> str:
        return f"{dict(ctx.trace) == trace} {ctx.meta['example.com/x']}"

    @server.tool(name="blocking_reader")
    def blocking_reader(ctx: BlockingContext) -> str:
        return f"{dict(ctx.trace) == trace} {ctx.meta['example.com/x']}"

    for name in ("async_reader", "blocking_reader"):
        assert text(ask(server, "tools/call", {"name": name, "_meta": meta}, era)) == "True [1]"
