"""A server inside the frameworks of others: in views and by WSGI."""

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from dragoman import BlockingContext, Configuration, Context, DragomanError, Server
from dragoman.server import HttpReply
from scenarios.http_peer import BOTH, DEADLINE, NEWEST, SECRET, STATELESS

PREFIX = "io.modelcontextprotocol/"
HEADERS = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
MIB_4 = 4 * 2**20
speaker: ContextVar[str] = ContextVar("speaker", default="nobody")


@pytest.fixture
def server() -> Server:
    server = Server("views", secret=SECRET, server_context="the server's own")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def whose(ctx: BlockingContext) -> str:
        return f"{ctx.server_context} for {speaker.get()}"

    @server.tool
    async def steps(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "there"

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"Hello {answer.content['name']}"

    return server


def stateless(method: str, params: dict[str, Any] | None = None, **capabilities: Any) -> tuple[dict[str, str], bytes]:
    meta = {f"{PREFIX}protocolVersion": STATELESS, f"{PREFIX}clientCapabilities": capabilities}
    params = (params or {}) | {"_meta": meta | (params or {}).get("_meta", {})}
    headers = HEADERS | {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return headers, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def handshake(method: str, params: dict[str, Any] | None = None) -> tuple[dict[str, str], bytes]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return HEADERS | {"MCP-Protocol-Version": NEWEST}, json.dumps(message).encode()


def calling(tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments or {}} | more


def result(reply: HttpReply) -> Any:
    assert reply.status == 200, reply
    assert ("content-type", "application/json") in reply.headers
    return json.loads(reply.body)["result"]


def text(reply: HttpReply) -> str:
    return result(reply)["content"][0]["text"]


@pytest.mark.covers("SHT-02")
@pytest.mark.parametrize("era", [stateless, handshake])
def test_a_view_answers_a_call_in_both_eras(server, era):
    reply = server.handle_http("POST", *era("tools/call", calling("add", {"a": 2, "b": 3})))
    assert text(reply) == "5"
    assert reply.headers == [("content-type", "application/json"), ("content-length", str(len(reply.body)))]


@pytest.mark.covers("SHT-02")
async def test_an_asynchronous_view_awaits_the_twin(server):
    reply = await server.handle_http_async("POST", *stateless("tools/call", calling("add", {"a": 2, "b": 3})))
    assert text(reply) == "5"
    with pytest.raises(DragomanError, match="inside a running event loop"):
        server.handle_http("POST", {}, b"")


@pytest.mark.covers("SHT-02", "SHT-24")
def test_an_introduction_in_a_view_gives_no_session_id_and_none_is_needed(server):
    introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "peer", "version": "1"}}
    headers, body = handshake("initialize", introduction)
    for _ in range(2):
        reply = server.handle_http("POST", headers, body)
        assert result(reply)["protocolVersion"] == NEWEST
        assert "mcp-session-id" not in dict(reply.headers)
    assert result(server.handle_http("POST", *handshake("tools/list")))["tools"]


@pytest.mark.covers("SHT-02")
@pytest.mark.parametrize("shape", [dict, lambda headers: list(headers.items()), lambda headers: iter(headers.items())])
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_headers_are_a_mapping_or_pairs_in_whatever_case(server, shape, case):
    headers, body = stateless("tools/call", calling("add", {"a": 2, "b": 3}))
    reply = server.handle_http("post", shape({case(name): value for name, value in headers.items()}), body.decode())
    assert text(reply) == "5"


@pytest.mark.covers("SHT-02")
def test_a_notification_in_a_view_is_accepted_with_nothing(server):
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert server.handle_http("POST", HEADERS, body) == HttpReply(202, [("content-length", "0")], b"")


def refused(code: int, message: str, **id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}} | id


GET_REMEDY = "is not served here: there are no streams and no sessions; serve it with server.asgi()"
BAD_REQUESTS = {
    "wrong media type": (
        "POST",
        HEADERS | {"Content-Type": "text/plain"},
        b"{}",
        415,
        refused(-32600, "The Content-Type must be application/json", id=None),
    ),
    "no headers": ("POST", {}, b"{}", 415, refused(-32600, "The Content-Type must be application/json", id=None)),
    "a header that no line can have": (
        "POST",
        HEADERS | {"Content-Type": "application/json\N{SNOWMAN}"},
        b"{}",
        415,
        refused(-32600, "The Content-Type must be application/json", id=None),
    ),
    "not JSON": (
        "POST",
        HEADERS,
        b"{",
        400,
        refused(-32700, "The message is not JSON: Input data was truncated", id=None),
    ),
    "lone surrogate": ("POST", HEADERS, '"\ud800"', 400, refused(-32700, "The message is not valid UTF-8", id=None)),
    "no message": (
        "POST",
        HEADERS,
        b"{}",
        400,
        refused(-32600, "Not a JSON-RPC 2.0 message: Object missing required field `jsonrpc`", id=None),
    ),
    "too large": (
        "POST",
        HEADERS,
        b" " * (MIB_4 + 1),
        413,
        refused(-32700, f"A message must not have more than {MIB_4} bytes"),
    ),
    "GET": ("GET", HEADERS, b"", 405, refused(-32600, f"GET {GET_REMEDY}")),
    "DELETE": ("DELETE", HEADERS, b"", 405, refused(-32600, f"DELETE {GET_REMEDY}")),
    "PUT": ("PUT", HEADERS, b"{}", 405, refused(-32600, f"PUT {GET_REMEDY}")),
    "listen": (
        "POST",
        *stateless("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
        404,
        refused(
            -32601, "subscriptions/listen is not served here: there are no streams; serve it with server.asgi()", id=1
        ),
    ),
    "streams alone": (
        "POST",
        stateless("tools/list")[0] | {"Accept": "text/event-stream"},
        stateless("tools/list")[1],
        406,
        refused(
            -32600,
            "The Accept header must admit application/json here: there are no streams; serve it with server.asgi()",
            id=1,
        ),
    ),
    "neither": (
        "POST",
        HEADERS | {"Accept": "text/html"},
        b"{}",
        406,
        refused(-32600, "The Accept header must admit application/json or text/event-stream", id=None),
    ),
    "another origin": (
        "POST",
        HEADERS | {"Origin": "https://evil.example"},
        b"{}",
        403,
        refused(
            -32600,
            "Pages of 'https://evil.example' are not served; add it to allowed_origins or DRAGOMAN_ALLOWED_ORIGINS",
        ),
    ),
}


@pytest.mark.covers("SHV-01", "SHT-02")
@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_what_a_view_does_not_serve_has_its_status_and_says_why(server, case):
    method, headers, body, status, answer = BAD_REQUESTS[case]
    reply = server.handle_http(method, headers, body)
    assert (reply.status, json.loads(reply.body)) == (status, answer)
    assert dict(reply.headers)["content-type"] == "application/json"
    assert ("allow", "POST") in reply.headers or status != 405


@pytest.mark.covers("SHV-05")
def test_a_view_serves_the_hosts_that_its_framework_serves(server, monkeypatch):
    headers, body = stateless("tools/list")
    monkeypatch.setenv("DRAGOMAN_ALLOWED_HOSTS", "elsewhere.example")
    monkeypatch.setenv("DRAGOMAN_ALLOWED_ORIGINS", "https://app.example")
    assert server.handle_http("POST", headers | {"Host": "mcp.example.com"}, body).status == 200
    same = {"Host": "mcp.example.com", "Origin": "https://mcp.example.com"}
    assert server.handle_http("POST", headers | same, body).status == 200
    assert server.handle_http("POST", headers | {"Origin": "https://app.example"}, body).status == 200


@pytest.mark.covers("SHV-02")
@pytest.mark.parametrize("era", [stateless, handshake])
def test_a_context_of_a_request_is_seen_by_its_handler_and_observer_and_by_no_other_request(server, era):
    seen: list[Any] = []
    server.configuration = Configuration(
        instrument_server_context=True, instrumentation_callback=lambda data: seen.append(data["server_context"])
    )
    headers, body = era("tools/call", calling("whose"))
    assert text(server.handle_http("POST", headers, body, server_context="Ada's")) == "Ada's for nobody"
    assert text(server.handle_http("POST", headers, body)) == "the server's own for nobody"
    assert seen == ["Ada's", "the server's own"]


def test_what_the_caller_of_a_view_has_in_context_variables_is_seen_by_handlers(server):
    token = speaker.set("Grace")
    try:
        reply = server.handle_http("POST", *stateless("tools/call", calling("whose")))
    finally:
        speaker.reset(token)
    assert text(reply) == "the server's own for Grace"


@pytest.mark.covers("SHV-01")
@pytest.mark.parametrize("era", [stateless, handshake])
def test_what_is_said_on_the_way_is_left_out_of_a_view(server, era):
    reply = server.handle_http("POST", *era("tools/call", calling("steps", _meta={"progressToken": "t"})))
    assert text(reply) == "there"


@pytest.mark.covers("SHV-07")
def test_a_stateless_client_is_asked_by_rounds_in_a_view(server):
    first = result(server.handle_http("POST", *stateless("tools/call", calling("greet"), elicitation={})))
    assert first["resultType"] == "input_required"
    (key,) = first["inputRequests"]
    again = calling(
        "greet",
        inputResponses={key: {"action": "accept", "content": {"name": "Ada"}}},
        requestState=first["requestState"],
    )
    second = server.handle_http("POST", *stateless("tools/call", again, elicitation={}))
    assert text(second) == "Hello Ada"


@pytest.mark.covers("SHV-07", "SHT-24")
def test_an_earlier_client_cannot_be_asked_in_a_view(server):
    answer = result(server.handle_http("POST", *handshake("tools/call", calling("greet"))))
    assert answer["isError"] is True


def meeting(server: Server, parties: int) -> None:
    """Give a server a tool that ends only when it is called so many times at once."""
    barrier = threading.Barrier(parties, timeout=DEADLINE)

    @server.tool
    def meet(number: int) -> int:
        barrier.wait()
        return number


@pytest.mark.covers("SHT-02")
def test_views_are_answered_at_once_from_many_threads(server):
    meeting(server, 8)

    def ask(number: int) -> str:
        return text(server.handle_http("POST", *stateless("tools/call", calling("meet", {"number": number}))))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8), timeout=2 * DEADLINE)) == [str(number) for number in range(8)]


async def test_a_view_that_is_cancelled_cancels_its_handler(server):
    began, cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    view = asyncio.create_task(server.handle_http_async("POST", *stateless("tools/call", calling("wait"))))
    await asyncio.wait_for(began.wait(), DEADLINE)
    view.cancel()
    with pytest.raises(asyncio.CancelledError):
        await view
    assert cancelled.is_set()


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serving(app: Any) -> Iterator[int]:
    """Serve a WSGI application on a port of this machine."""
    with make_server("127.0.0.1", 0, app, _ThreadingServer, _Quiet) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web.server_port
        finally:
            web.shutdown()
            thread.join(DEADLINE)


class _AtOnce(http.client.HTTPConnection):
    """Sends a request in one write: a server that refuses one unread, and closes, would cut a second write off."""

    unsent = b""

    def send(self, data: Any) -> None:
        self.unsent += data

    def getresponse(self) -> http.client.HTTPResponse:
        super().send(self.unsent)
        return super().getresponse()


def ask(port: int, headers: dict[str, str], body: Any, path: str = "/mcp", method: str = "POST", **options: Any) -> Any:
    """Send a request over a socket, and return what comes back."""
    connection = _AtOnce("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request(method, path, body, headers, **options)
        response = connection.getresponse()
        return HttpReply(response.status, [(k.lower(), v) for k, v in response.getheaders()], response.read())
    finally:
        connection.close()


@pytest.mark.covers("SHV-03")
@pytest.mark.parametrize("era", [stateless, handshake])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp?query"])
def test_a_wsgi_application_serves_both_eras_at_its_path(server, era, path):
    with serving(server.wsgi()) as port:
        assert text(ask(port, *era("tools/call", calling("add", {"a": 2, "b": 3})), path)) == "5"
        missed = ask(port, *era("tools/list"), "/elsewhere")
        assert (missed.status, missed.body) == (404, b"")


@pytest.mark.covers("SHV-03")
@pytest.mark.parametrize(
    ("path", "status"), [("/tools", 200), ("/tools/", 200), ("/tools/mcp", 200), ("/tools/x", 404)]
)
def test_a_wsgi_application_is_mounted_anywhere(server, path, status):
    def outer(environ: Any, start_response: Any) -> list[bytes]:
        start_response("418 I'm a Teapot", [("content-type", "text/plain")])
        return [b""]

    with serving(DispatcherMiddleware(outer, {"/tools": server.wsgi()})) as port:
        assert ask(port, *stateless("tools/list"), path).status == status
        assert ask(port, *stateless("tools/list"), "/mcp").status == 418


@pytest.mark.covers("SHV-03")
def test_a_wsgi_application_answers_many_threads_at_once(server):
    meeting(server, 8)
    with serving(server.wsgi()) as port, ThreadPoolExecutor(8) as pool:
        asked = pool.map(
            lambda number: text(ask(port, *stateless("tools/call", calling("meet", {"number": number})))),
            range(8),
            timeout=2 * DEADLINE,
        )
        assert list(asked) == [str(number) for number in range(8)]


@pytest.mark.covers("SHV-04")
@pytest.mark.parametrize(
    ("more", "body", "status", "message"),
    [
        (
            {"Transfer-Encoding": "chunked"},
            [b"{}"],
            411,
            "This server reads no chunked bodies; send the body with a Content-Length",
        ),
        ({"Content-Length": "many"}, b"{}", 400, "The Content-Length is not a number of bytes"),
        ({"Content-Length": "-2"}, b"{}", 400, "The Content-Length is not a number of bytes"),
        ({"Content-Length": "0"}, b"", 400, "The message is not JSON"),
    ],
)
def test_a_body_that_cannot_be_read_by_wsgi_is_refused_as_json_rpc(server, more, body, status, message):
    with serving(server.wsgi()) as port:
        reply = ask(port, HEADERS | more, body, encode_chunked=True)
        assert reply.status == status
        assert json.loads(reply.body)["error"]["message"].startswith(message)
        assert text(ask(port, *stateless("tools/call", calling("add", {"a": 2, "b": 3})))) == "5"


@pytest.mark.covers("SHV-05")
def test_a_wsgi_application_on_a_loopback_address_serves_no_foreign_host_that_is_not_allowed(server):
    headers, body = stateless("tools/list")
    headers["Host"] = "mcp.example.com"
    with serving(at("127.0.0.1", server.wsgi())) as port:
        assert ask(port, headers, body).status == 421
        assert ask(port, headers | {"Host": f"localhost:{port}"}, body).status == 200
    allowed = server.wsgi(allowed_hosts=["mcp.example.com"], allowed_origins=["https://app.example"])
    with serving(at("127.0.0.1", allowed)) as port:
        assert ask(port, headers, body).status == 200
        assert ask(port, headers | {"Origin": "https://app.example"}, body).status == 200
        assert ask(port, headers | {"Origin": "https://evil.example"}, body).status == 403


def at(address: str, app: Any) -> Any:
    """Say the address that is listened on, for which wsgiref looks up a name that differs between machines."""
    return lambda environ, start_response: app(environ | {"SERVER_NAME": address}, start_response)


@pytest.mark.covers("SHV-02")
def test_the_context_of_a_wsgi_request_is_a_value_or_made_from_its_environ(server):
    headers, body = stateless("tools/call", calling("whose"))
    with serving(server.wsgi(server_context="everybody's")) as port:
        assert text(ask(port, headers, body)) == "everybody's for nobody"
    with serving(server.wsgi(server_context=lambda environ: environ["HTTP_X_USER"])) as port:
        assert text(ask(port, headers | {"X-User": "Ada's"}, body)) == "Ada's for nobody"
        assert text(ask(port, headers | {"X-User": "Grace's"}, body)) == "Grace's for nobody"


@pytest.mark.covers("SHV-02")
def test_a_context_that_cannot_be_made_is_reported_and_answered_with_500():
    reports: list[BaseException] = []
    server = Server(configuration=Configuration(exception_reporter=lambda error, info: reports.append(error)))
    with serving(server.wsgi(server_context=lambda environ: environ["NO SUCH THING"])) as port:
        reply = ask(port, *stateless("tools/list"))
    assert reply.status == 500
    assert json.loads(reply.body)["error"] == {"code": -32603, "message": "Internal error"}
    assert [type(error) for error in reports] == [KeyError]
