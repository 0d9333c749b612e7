"""What a server reads at most, on every carrier, and what it declares where it can tell nothing."""

import asyncio
import io
import json
import sys

import pytest

from dragoman import Context, DefinitionError, Server
from dragoman.testing import WirePeer
from scenarios.http_peer import NEWEST, SECRET, STATELESS, HttpPeer, serve
from scenarios.http_travels import session
from scenarios.wire import DEADLINE

LIMIT = 2000
HEADERS = {"content-type": "application/json"}


def echoing(limit: int = LIMIT) -> Server:
    server = Server("echo", secret=SECRET, max_message_bytes=limit)

    @server.tool
    async def echo(text: str) -> int:
        return len(text)

    return server


def call(length: int, id: int = 1, **meta: object) -> bytes:
    params = {"name": "echo", "arguments": {"text": "x" * length}, **({"_meta": meta} if meta else {})}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).encode()


@pytest.mark.covers("SHT-19")
@pytest.mark.parametrize("limit", [LIMIT, 8 * 1024 * 1024])
async def test_the_largest_message_can_be_set_over_a_connection_and_by_handle(limit):
    server = echoing(limit)
    async with WirePeer(server, NEWEST) as peer:
        # More than is the default, where more is allowed.
        fits = await peer.request("tools/call", {"name": "echo", "arguments": {"text": "x" * (limit // 2 + 200)}})
        assert fits["result"]["structuredContent"] == {"result": limit // 2 + 200}
        peer.send(call(limit))
        refused = await peer.request("ping")
        assert "result" in refused
        assert [one["error"]["code"] for one in peer.received if "error" in one] == [-32700]
    assert f"at most {limit} are accepted" in (await server.handle_json_async(call(limit))).decode()


@pytest.mark.parametrize("limit", [LIMIT, 8 * 1024 * 1024])
async def test_the_largest_message_can_be_set_over_http(limit):
    server = echoing(limit)
    peer = await session(server)
    assert (await peer.call("echo", {"text": "x" * (limit // 2 + 200)}).end()).status == 200
    refused = await peer.call("echo", {"text": "x" * limit}).end()
    assert (refused.status, refused.json["error"]["code"]) == (413, -32700)


@pytest.mark.parametrize("length", [1000, LIMIT])
def test_the_largest_message_can_be_set_for_views_and_wsgi(length):
    server, body = echoing(), call(length)
    expected = 200 if length < LIMIT else 413
    assert server.handle_http("POST", HEADERS, body).status == expected
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/mcp",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": "localhost",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http",
    }
    b"".join(server.wsgi()(environ, lambda status, *_: statuses.append(status)))
    assert statuses[0].startswith(str(expected))


async def test_the_largest_line_can_be_set_for_a_process_that_serves_stdio():
    source = (
        "from dragoman import Server\n"
        f"server = Server('echo', max_message_bytes={LIMIT})\n"
        "@server.tool\ndef echo(text: str) -> int:\n    return len(text)\nserver.run()\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    written, _ = await asyncio.wait_for(process.communicate(call(LIMIT) + b"\n" + call(10, 2) + b"\n"), DEADLINE)
    answers = [json.loads(line) for line in written.splitlines()]
    assert sorted(one.get("error", {}).get("code", 0) for one in answers) == [-32700, 0]


@pytest.mark.parametrize("value", [0, -1, 2.5, "4", True, None])
def test_a_limit_that_makes_no_sense_is_refused(value):
    with pytest.raises(DefinitionError, match="max_message_bytes must be an integer of at least 1"):
        Server("echo", max_message_bytes=value)


def changing() -> Server:
    server = Server("echo", secret=SECRET, capabilities={"experimental": {"x": {"listChanged": True}}})
    server.on_subscribe(lambda uri: None)
    return server


def discover(peer: HttpPeer) -> tuple[dict[str, str], bytes]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": peer.meta()}}
    named = {"mcp-protocol-version": STATELESS, "mcp-method": "server/discover"}
    return {**HEADERS, **named}, json.dumps(message).encode()


def initialize() -> bytes:
    params = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


UNTOLD = {"tools": {}, "prompts": {}, "resources": {}}


def declared(capabilities):
    return {name: capabilities[name] for name in UNTOLD}


async def test_a_view_declares_nothing_that_it_could_not_tell():
    server = changing()
    headers, body = discover(HttpPeer(serve(server), STATELESS))
    for given, sent in ((headers, body), (HEADERS, initialize())):
        reply = await server.handle_http_async("POST", given, sent)
        capabilities = json.loads(reply.body)["result"]["capabilities"]
        assert declared(capabilities) == UNTOLD
        assert capabilities["experimental"] == {"x": {"listChanged": True}}
    follow = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}}
    reply = await server.handle_http_async("POST", HEADERS, json.dumps(follow))
    assert json.loads(reply.body)["error"]["code"] == -32601


async def test_without_sessions_only_clients_that_can_listen_are_told_that_they_may():
    app = serve(changing(), sessions=False)
    earlier = await HttpPeer(app).initialize()
    assert declared(earlier.json["result"]["capabilities"]) == UNTOLD
    newest = await HttpPeer(app, STATELESS).request("server/discover")
    assert newest.json["result"]["capabilities"]["tools"] == {"listChanged": True}


async def test_with_sessions_every_client_is_told_that_it_may_listen():
    app = serve(changing())
    earlier = await HttpPeer(app).initialize()
    assert earlier.json["result"]["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}


@pytest.mark.parametrize(("answer", "said"), [({}, "there"), ({"_meta": {}}, "there"), ("pong", None), (None, None)])
async def test_a_ping_is_answered_by_an_object(answer, said):
    server = Server("pings")

    @server.tool
    async def ping(ctx: Context) -> str:
        await ctx.ping()
        return "there"

    async with WirePeer(server, NEWEST) as peer:
        asked = peer.start("tools/call", {"name": "ping"})
        question = await peer.receive("ping")
        peer.answer(question["id"], answer)
        response = await peer.response(asked)
    if said is None:
        assert "malformed" in response["error"]["message"]
    else:
        assert response["result"]["content"][0]["text"] == said
