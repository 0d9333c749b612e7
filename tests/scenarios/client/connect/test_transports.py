"""Transports of one's own: the full contract, the contract of one method, and names for them."""

import asyncio
import threading

import pytest

from dragoman import AsyncClient, InvalidParams, Server, ServerCrashed, TransportError
from dragoman.client import register_transport
from dragoman.client.connect import endpoint as targets
from dragoman.errors import ConnectError, MethodNotFound
from dragoman.transports.memory import MemoryTransport
from scenarios.client_peer import NEWEST, STATELESS, until


def sums() -> Server:
    server = Server("sums")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    return server


class Plain:
    """The least that a transport can be."""

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.threads: set[int] = set()

    def send_request(self, request: dict) -> dict:
        self.sent.append(request)
        self.threads.add(threading.get_ident())
        if request["method"] == "tools/list":
            return {"result": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}}
        total = sum(request["params"]["arguments"].values())
        return {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": str(total)}]}}


class Async(Plain):
    async def send_request(self, request: dict) -> dict:
        return super().send_request(request)


@pytest.fixture
def name():
    yield "carrier-pigeon"
    targets._registered.pop("carrier-pigeon", None)


@pytest.mark.covers("CTR-01")
@pytest.mark.parametrize("kind", [Plain, Async])
async def test_one_method_is_enough_and_nothing_is_sent_before_the_first_request(kind):
    transport = kind()
    async with AsyncClient(transport) as client:
        assert transport.sent == []
        assert client.protocol_version == NEWEST
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert [tool.name for tool in await client.tools()] == ["add"]
        assert "initialize" not in [request["method"] for request in transport.sent]
        in_loop = threading.get_ident() in transport.threads
        assert in_loop == (kind is Async)


@pytest.mark.covers("CTR-01")
async def test_one_method_may_carry_the_stateless_era():
    transport = Plain()
    async with AsyncClient(transport, mode="stateless") as client:
        assert client.protocol_version == STATELESS
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert transport.sent[0]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == STATELESS


class Saying:
    """A transport that returns, or raises, whatever it was given."""

    def __init__(self, *replies) -> None:
        self.replies = list(replies)
        self.notifications: list[dict] = []
        self.closed = 0

    async def send_request(self, request: dict):
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def send_notification(self, notification: dict) -> None:
        self.notifications.append(notification)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.covers("CTR-01", "CTR-03")
@pytest.mark.parametrize(
    ("reply", "kind", "match"),
    [
        ({"error": {"code": -32601, "message": "no such"}}, MethodNotFound, "no such"),
        ({"id": "of another", "error": {"code": -32602, "message": "bad"}}, InvalidParams, "bad"),
        (None, TransportError, "as a dict, not None"),
        ("text", TransportError, "as a dict"),
        ([], TransportError, "as a dict"),
        ({}, TransportError, "a result or an error"),
        ({"result": object()}, TransportError, "can be JSON"),
        (OSError("the pigeon died"), TransportError, "send_request failed: the pigeon died"),
        (ValueError(), TransportError, "send_request failed: ValueError"),
        (TimeoutError(), TransportError, "send_request failed: TimeoutError"),
        (ServerCrashed("dead", 3), ServerCrashed, "dead"),
    ],
)
async def test_what_one_method_returns_or_raises_is_made_sense_of(reply, kind, match):
    transport = Saying(reply, {"id": 99, "result": {"content": [{"type": "text", "text": "ok"}]}})
    async with AsyncClient(transport) as client:
        with pytest.raises(kind, match=match):
            await client.call_tool("x")
        assert (await client.call_tool("x")).text == "ok"
    assert transport.closed >= 1


@pytest.mark.covers("CTR-02", "CCN-05")
async def test_notifications_go_to_a_second_method_if_there_is_one():
    class Slow(Saying):
        async def send_request(self, request):
            await asyncio.Event().wait()

    transport = Slow()
    async with AsyncClient(transport) as client:
        with pytest.raises(TimeoutError):
            await client.call_tool("x", timeout=0.1)
        await until(lambda: transport.notifications)
        assert transport.notifications[0]["method"] == "notifications/cancelled"


@pytest.mark.covers("CTR-02")
async def test_a_transport_with_one_method_may_want_to_connect_and_may_fail_to():
    class Connecting(Plain):
        connected = 0

        def connect(self) -> None:
            self.connected += 1
            if self.connected == 1:
                raise OSError("no wind")

    transport = Connecting()
    client = AsyncClient(transport)
    with pytest.raises(ConnectError, match="cannot connect: no wind"):
        await client.start()
    assert client.status == "failed"
    assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert transport.connected == 2
    await client.stop()


class Breakable(MemoryTransport):
    """A transport of the full contract that breaks when it is told to, and may be opened again."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.connect)
        self.opened = 0
        self.fails: Exception | None = None

    async def open(self, receive, closed) -> None:
        self.opened += 1
        self.closed = closed
        await super().open(receive, closed)

    async def send(self, message: bytes) -> None:
        if self.fails is not None:
            raise self.fails
        await super().send(message)


@pytest.mark.covers("CTR-04", "LTR-03", "LTR-04")
@pytest.mark.parametrize("version", [NEWEST, STATELESS])
async def test_a_transport_of_the_full_contract_is_opened_again_after_it_broke(version):
    transport = Breakable(sums())
    async with AsyncClient(transport, protocol_version=version) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        transport.closed(OSError("cut"))
        transport.closed(None)
        assert client.status == "lost"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert transport.opened == 2


@pytest.mark.covers("LTR-05", "CTR-04")
async def test_whatever_a_transport_raises_is_a_transport_error():
    transport = Breakable(sums())
    async with AsyncClient(transport, mode="handshake") as client:
        transport.fails = OSError("the line is dead")
        with pytest.raises(TransportError, match="the line is dead"):
            await client.call_tool("add", {"a": 1, "b": 2})
        transport.fails = TimeoutError()
        with pytest.raises(TransportError, match="TimeoutError"):
            await client.call_tool("add", {"a": 1, "b": 2}, timeout=5)
        transport.fails = None
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


@pytest.mark.covers("CTR-04")
async def test_a_broken_transport_fails_what_waits_at_once_with_the_cause():
    server = sums()
    began = asyncio.Event()

    @server.tool
    async def wait() -> str:
        began.set()
        await asyncio.Event().wait()

    transport = Breakable(server)
    async with AsyncClient(transport, mode="handshake") as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await asyncio.wait_for(began.wait(), 10)
        transport.closed(OSError("cut"))
        with pytest.raises(TransportError, match=r"may have been served.*cut") as caught:
            await asyncio.wait_for(call, 10)
        assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.covers("LTR-01", "LTR-02")
async def test_a_registered_name_works_for_a_client_and_in_a_configuration_entry(name):
    made = []

    def make(*target, **options):
        made.append((target, options))
        return MemoryTransport(sums().connect)

    register_transport(name, make)
    async with AsyncClient("over there", transport=name) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    for key in ("transport", "type", "transport_type"):
        async with AsyncClient({key: name, "loft": 7}) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert made == [(("over there",), {}), *[((), {"loft": 7})] * 3]


@pytest.mark.covers("LTR-01")
@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("python x.py", {"transport": "pigeon"}),
        ("http://localhost/mcp", {"transport": "pigeon"}),
        ("http://localhost/mcp", {"transport": "stdio"}),
        ("python x.py", {"transport": "http"}),
        ({"url": "http://localhost/mcp", "type": "pigeon"}, {}),
        ({"command": "python", "type": "http"}, {}),
        ({"type": "pigeon"}, {}),
    ],
)
def test_a_transport_that_is_not_known_is_refused_with_those_that_are(name, target, options):
    register_transport(name, Plain)
    with pytest.raises(ValueError, match=r"There is no transport .*carrier-pigeon,.* http,.* sse,.* stdio"):
        AsyncClient(target, **options)


@pytest.mark.covers("LTR-01")
@pytest.mark.parametrize("taken", ["http", "sse", "stdio", "streamable"])
def test_the_names_of_our_own_transports_cannot_be_taken(taken):
    with pytest.raises(ValueError, match="own"):
        register_transport(taken, Plain)


@pytest.mark.covers("LTR-01")
@pytest.mark.parametrize("target", [7, object(), None, b"python"])
def test_what_a_client_cannot_be_pointed_at_is_refused(target):
    with pytest.raises(TypeError, match="cannot connect to"):
        AsyncClient(target)


@pytest.mark.covers("LTR-01")
@pytest.mark.parametrize("target", ["ws://localhost", "ftp://x/y", {}, {"args": []}])
def test_a_target_without_a_way_is_refused(target):
    with pytest.raises(ValueError, match=r"transport|needs `command`"):
        AsyncClient(target)
