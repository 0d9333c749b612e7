"""Exchanges by ASGI, without a server behind them."""

import asyncio
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.errors import TooLarge
from dragoman.transports.http.asgi import AsgiApp, AsgiExchange
from dragoman.transports.http.exchange import Exchange, Pace
from scenarios.http_peer import DEADLINE, live, scenario
from scenarios.http_peer import Exchange as Client

SCOPE = {"type": "http", "method": "POST", "path": "/mcp", "root_path": "", "headers": []}


class Service:
    """Serves exchanges by a function."""

    begin = None

    def __init__(self, serve: Any) -> None:
        self._serve = serve
        self.started = False
        self.closed = False

    async def start(self) -> None:
        self.started = True

    async def serve(self, exchange: Exchange) -> None:
        await self._serve(exchange)

    async def close(self, seconds: float | None = None) -> None:
        self.closed = True


def begin(serve: Any, chunks: list[bytes] | None = None, *, pace: Pace | None = None, **options: Any) -> Client:
    app = AsgiApp(Service(serve), pace=pace or Pace(tick=0.001))
    return Client(app, dict(SCOPE), [b""] if chunks is None else chunks, **options)


@scenario
async def test_a_body_comes_in_pieces_up_to_a_limit():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, await exchange.read(4))

    client = await begin(serve, [b"ab", b"", b"cd"]).end()
    assert client.body == b"abcd"
    with pytest.raises(TooLarge):
        await begin(serve, [b"ab", b"cde"]).end()


@scenario
async def test_only_the_first_answer_counts():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"first")
        await exchange.reply(500, b"second")
        await exchange.stream(b"third")

    client = await begin(serve).end()
    assert (client.status, client.body) == (200, b"first")
    assert len(client.messages) == 2


@scenario
async def test_a_reply_after_a_stream_has_begun_is_not_sent_and_nothing_follows_the_last_part():
    async def serve(exchange: Exchange) -> None:
        exchange.opening = lambda: b"opening "
        await exchange.stream(b"a")
        await exchange.reply(500)
        await exchange.stream(b"b", last=True)
        await exchange.stream(b"c")

    client = await begin(serve).end()
    assert (client.status, client.body) == (200, b"opening ab")


@scenario
async def test_one_who_leaves_without_a_body_to_read_is_noticed_too():
    noticed = asyncio.Event()

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = noticed.set
        await exchange.stream(b"")
        await asyncio.wait_for(noticed.wait(), DEADLINE)
        await exchange.stream(b"nobody reads this", last=True)

    client = begin(serve)
    await client.until(lambda one: one.messages)
    client.leave()
    await client.end()
    assert client.body == b""


@scenario
async def test_a_body_that_is_read_late_is_whole():
    async def serve(exchange: Exchange) -> None:
        assert exchange.check(exchange.started + 3600) is None
        await asyncio.sleep(0)
        await exchange.reply(200, await exchange.read(10))

    client = await begin(serve, [b"ab", b"cd"]).end()
    assert (client.status, client.body) == (200, b"abcd")


class Dripping(Client):
    """A client that never sends the end of its body."""

    async def _receive(self) -> dict[str, Any]:
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(0), "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError


@scenario
async def test_a_cancellation_that_is_not_ours_goes_on_while_a_body_is_late():
    async def serve(exchange: Exchange) -> None:
        await exchange.read(10)

    client = Dripping(AsgiApp(Service(serve), pace=Pace(tick=0.001)), dict(SCOPE), [b"a"])
    await asyncio.sleep(0)
    client.task.cancel()
    await asyncio.wait([client.task])
    assert client.task.cancelled()


@scenario
async def test_one_who_left_before_anything_was_sent_gets_a_response_into_the_void():
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def serve(exchange: Exchange) -> None:
        await exchange.read(10)

    await AsgiApp(Service(serve))(dict(SCOPE), receive, send)
    assert [message.get("status") for message in sent] == [499, None]


@pytest.mark.parametrize("error", [OSError, RuntimeError, ConnectionResetError, BrokenPipeError])
@scenario
async def test_a_send_that_fails_means_that_the_client_is_gone(error):
    lost: list[bool] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        raise error

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = lambda: lost.append(True)
        await exchange.stream(b"a")
        await exchange.stream(b"b")
        lost.append(exchange.gone)

    await AsgiApp(Service(serve))(dict(SCOPE), receive, send)
    assert lost == [True, True]


class UnreadRequest:
    """A request as servers keep it, whose client reads nothing; `receive` and `send` are all that ASGI promises."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        self.sent.append(message["type"])
        await asyncio.Event().wait()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is no part of ASGI")


@pytest.mark.covers("SHT-35")
@pytest.mark.parametrize("way", ["a small reply", "a large reply", "a stream", "a document"])
@scenario
async def test_blocked_send_is_given_up_and_nothing_is_sent_after_it(way):
    gone: list[bool] = []

    async def serve(exchange: Exchange) -> None:
        exchange.on_gone = lambda: gone.append(True)
        if way == "a stream":
            await exchange.stream(b"a")
            await exchange.stream(b"b", last=True)
        else:
            await exchange.reply(200, b"a" * (100_000 if way == "a large reply" else 1))

    request = UnreadRequest()
    app = AsgiApp(Service(serve), pace=Pace(tick=0.001, send=0.01), documents={"/document": b"{}"})
    scope = SCOPE | {"path": "/document" if way == "a document" else "/mcp"}
    async with asyncio.timeout(DEADLINE):
        await app(scope, request.receive, request.send)
    assert request.sent == ["http.response.start"]
    assert gone == [True] * (way != "a document")
    assert not app.served._open
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


@scenario
async def test_a_cancellation_that_is_not_ours_goes_on_while_a_reply_is_not_read():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"a")

    client = begin(serve, reads=False)
    await asyncio.wait_for(client.blocked.wait(), DEADLINE)
    client.task.cancel()
    await asyncio.wait([client.task])
    assert client.task.cancelled()


@scenario
async def test_a_large_reply_ends_after_it_was_taken():
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"x" * 100_000)

    client = await begin(serve).end()
    assert client.body == b"x" * 100_000
    assert [message.get("more_body") for message in client.messages] == [None, True, None]


@scenario
async def test_a_stream_is_kept_alive_only_while_nothing_else_is_written():
    async def serve(exchange: Exchange) -> None:
        await exchange.stream(b"")
        await asyncio.Event().wait()

    client = begin(serve, pace=Pace(tick=0.001, keep_alive=0))
    assert await client.until(lambda one: one.body.count(b":") >= 3)
    client.task.cancel()
    await asyncio.wait([client.task])


@scenario
async def test_a_failure_of_the_service_leaves_no_watcher():
    async def serve(exchange: Exchange) -> None:
        await exchange.stream(b"a")
        raise LookupError("as the test wants")

    with pytest.raises(LookupError):
        await begin(serve).end()


@scenario
async def test_a_lifespan_starts_and_closes_the_service():
    service = Service(None)
    await live(AsgiApp(service))
    assert (service.started, service.closed) == (True, True)


@scenario
async def test_a_service_that_cannot_start_fails_the_lifespan():
    class Failing(Service):
        async def start(self) -> None:
            raise KeyError("database")

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    await AsgiApp(Failing(None))({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "KeyError: 'database'"}]


@scenario
async def test_a_web_socket_is_closed():
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await AsgiApp(Service(None))({"type": "websocket"}, None, send)
    assert sent == ["websocket.close"]


def test_whoever_has_left_is_ended_into_the_void_and_a_framework_around_sees_a_response():
    async def measure():
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [], "server": ("127.0.0.1", 8000)}
        exchange = AsgiExchange(scope, None, send)
        exchange.lose()
        await exchange.reply(200, b"too late")
        assert sent == []
        await exchange.close()
        return sent

    sent = asyncio.run(measure())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 499


class Ending:
    """A server as uvicorn's is: it handles signals by a method, and says that it was told to end."""

    def __init__(self) -> None:
        self.should_exit = False
        self.is_listening = True
        self.servers = [SimpleNamespace(is_serving=lambda: self.is_listening)]

    def handle_exit(self, number: int, frame: Any) -> None:
        self.should_exit = True


@pytest.fixture
def ending():
    server = Ending()
    before = signal.signal(signal.SIGTERM, server.handle_exit)
    yield server
    signal.signal(signal.SIGTERM, before)


async def answered(version: str, respond: Callable[[AsgiExchange], Any]) -> list[Any]:
    """Return the headers of a response to a request of a version of HTTP."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "http_version": version, "method": "POST", "path": "/mcp", "headers": []}
    await respond(AsgiExchange(scope, None, send))
    return sent[0]["headers"]


@pytest.mark.parametrize(
    "respond",
    [lambda exchange: exchange.reply(200, b"a"), lambda exchange: exchange.stream(b"a", last=True)],
    ids=["a body", "a stream"],
)
@scenario
async def test_a_server_that_was_told_to_end_tells_clients_to_use_their_connections_no_more(respond, ending):
    close = (b"connection", b"close")
    assert close not in await answered("1.1", respond)
    signal.raise_signal(signal.SIGTERM)
    assert close in await answered("1.1", respond)
    assert close not in await answered("2", respond)


@scenario
async def test_a_stream_without_an_end_is_told_to_end_when_the_server_listens_no_more(ending):
    ended = asyncio.Event()

    async def serve(exchange: AsgiExchange) -> None:
        exchange.on_ending = ended.set
        await exchange.stream(b"a")
        await ended.wait()
        await exchange.stream(b"", last=True)

    async def nothing() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    app = AsgiApp(Service(serve), pace=Pace(tick=0.001))
    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": []}
    serving = asyncio.create_task(app(scope, nothing, send))
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0.02)
    assert not serving.done()
    ending.is_listening = False
    await asyncio.wait_for(serving, DEADLINE)
