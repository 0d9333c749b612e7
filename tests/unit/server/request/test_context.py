"""What a handler knows of its request, where the wire does not show it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec import UNSET, Raw

from dragoman import BlockingContext, Cancelled, Context, Server, types
from dragoman.protocol.eras import Caller, McpRequest
from dragoman.protocol.methods import METHODS
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.request.call import Call, Session
from dragoman.server.request.driving import drive
from dragoman.server.request.facts import readable

KINDS = pytest.mark.parametrize("kind", [Context, BlockingContext])


def call(meta: Any = UNSET, principal: str | None = None, **options: Any) -> Call:
    request = McpRequest(7, METHODS[0], None, Caller(LATEST_HANDSHAKE), meta=meta)
    return Call(request, Session(principal=principal), Server().dispatcher, **options)


@KINDS
def test_the_end_of_a_request_is_noticed_when_asked_for(kind):
    served = call()
    context = kind(served)
    context.raise_if_cancelled()
    assert context.cancelled is False
    served.cancelled = True
    assert context.cancelled is True
    with pytest.raises(Cancelled, match="The client cancelled request 7"):
        context.raise_if_cancelled()


@KINDS
def test_the_meta_of_a_request_is_read_anew_each_time(kind):
    context = kind(call(Raw(b'{"traceparent":"00-1","baggage":5,"x":{"y":1}}')))
    context.meta["x"]["y"] = 2
    assert context.meta["x"] == {"y": 1}
    assert context.trace == {"traceparent": "00-1"}
    assert kind(call()).meta == {}
    assert kind(call()).trace == {}


@KINDS
def test_a_context_knows_who_asks(kind):
    context = kind(call(principal="ada", server_context=[1]))
    assert (context.request_id, context.session_id, context.principal, context.server_context) == (7, None, "ada", [1])
    assert context.client.version is LATEST_HANDSHAKE


# Telling a client that does not read.

DEADLINE = 60
TOLD: dict[str, Callable[[Any], Any]] = {
    "progress": lambda context: context.report_progress(1),
    "log": lambda context: context.log("error", "text"),
    "level": lambda context: context.error("text"),
}
TELLING = pytest.mark.parametrize("tell", TOLD.values(), ids=TOLD)


class Congested:
    """A way back that has no room until it is relieved."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.waits = asyncio.Event()
        self.relieved = asyncio.Event()

    def notify(self, method: str, params: Any) -> None:
        self.told.append(method)

    async def wait_for_room(self) -> None:
        self.waits.set()
        await self.relieved.wait()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, DEADLINE))


def congested_call(*, token: int | None = 1, level: types.LoggingLevel | None = "info") -> Call:
    session = Session()
    session.log_level = level
    request = McpRequest(7, METHODS[0], None, Caller(LATEST_HANDSHAKE), progress_token=token)
    served = Call(request, session, Server().dispatcher, Congested())
    served.loop = asyncio.get_running_loop()
    return served


@TELLING
def test_telling_waits_for_room_after_it_has_told(tell):
    async def talk() -> None:
        served = congested_call()
        telling = asyncio.ensure_future(tell(Context(served)))
        await served.channel.waits.wait()
        assert len(served.channel.told) == 1
        assert not telling.done()
        served.channel.relieved.set()
        await telling

    run(talk())


@TELLING
def test_a_blocking_handler_waits_for_room_too(tell):
    async def talk() -> None:
        served = congested_call()
        told = threading.Event()

        def handle() -> None:
            tell(BlockingContext(served))
            told.set()

        handling = asyncio.ensure_future(asyncio.to_thread(handle))
        await served.channel.waits.wait()
        assert not told.is_set()
        served.channel.relieved.set()
        await handling
        assert told.is_set()

    run(talk())


@TELLING
def test_a_blocking_handler_that_waits_for_room_is_ended_when_its_request_is_cancelled(tell):
    async def talk() -> None:
        served = congested_call()
        handling = asyncio.ensure_future(asyncio.to_thread(tell, BlockingContext(served)))
        await served.channel.waits.wait()
        served.cancel()
        with pytest.raises(Cancelled):
            await handling

    run(talk())


@TELLING
def test_an_inline_handler_does_not_wait_because_nothing_would_be_written_meanwhile(tell):
    async def talk() -> None:
        served = congested_call()
        tell(BlockingContext(served))
        assert len(served.channel.told) == 1
        assert not served.channel.waits.is_set()

    run(talk())


@TELLING
def test_who_tells_nothing_does_not_wait(tell):
    async def talk() -> None:
        served = congested_call(token=None, level=None)
        await tell(Context(served))
        assert served.channel.told == []

    run(talk())


@TELLING
def test_a_blocking_handler_that_outlives_its_loop_is_cancelled(tell):
    served: list[Call] = []

    async def talk() -> None:
        served.append(congested_call())

    run(talk())
    with pytest.raises(Cancelled, match="The server has ended"):
        tell(BlockingContext(served[0]))


def test_what_is_driven_after_the_cancellation_does_not_wait():
    async def talk() -> None:
        served = congested_call()
        served.cancelled = True
        forever = asyncio.Event()
        with pytest.raises(Cancelled):
            await asyncio.to_thread(drive, served, forever.wait())

    run(talk())


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":[1,2.5,null]}', {"a": [1, 2.5, None]}),
        (b"null", None),
        (b'{"a":1e999}', '{"a":1e999}'),
        (b'"\xff"', '"\ufffd"'),
    ],
)
def test_what_a_client_sent_is_readable_whatever_it_is(raw, value):
    assert readable(Raw(raw)) == value
