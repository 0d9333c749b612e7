"""One request while it is served: its channel, its cancellation, and which log messages its client wants."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from dragoman import Cancelled, DragomanError, Server
from dragoman.protocol.eras import Caller, McpRequest
from dragoman.protocol.methods import METHODS
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.request.call import LEVELS, NO_CHANNEL, Call, Session, wants_log

DEADLINE = 60


def call() -> Call:
    return Call(McpRequest(7, METHODS[0], None, Caller(LATEST_HANDSHAKE)), Session(), Server().dispatcher)


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, DEADLINE))


def test_without_a_way_back_nothing_is_sent_and_nothing_waits():
    async def tell() -> None:
        NO_CHANNEL.notify("notifications/message", {})
        NO_CHANNEL.notify_updated("file:///a")
        await NO_CHANNEL.wait_for_room()
        await NO_CHANNEL.listen(object())
        with pytest.raises(DragomanError, match="The client cannot be asked"):
            await NO_CHANNEL.request("ping", {}, 1)

    run(tell())


def test_a_session_begins_with_nothing():
    session = Session()
    assert (session.caller, session.id, session.log_level, session.subscribed) == (None, None, None, set())


def test_giving_up_cancels_the_task_after_its_first_step_and_what_threads_wait_for():
    steps: list[str] = []

    async def serve() -> None:
        steps.append("begun")
        await asyncio.Event().wait()

    async def talk() -> None:
        served = call()
        waiting: Future[None] = Future()
        served.on_cancel(waiting.cancel)
        served.task = asyncio.ensure_future(serve())
        served.cancel()
        assert served.cancelled
        assert waiting.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await served.task

    run(talk())
    assert steps == ["begun"]


def test_a_request_without_a_task_is_given_up_too():
    served = call()
    served.cancel()
    assert served.cancelled


@pytest.mark.parametrize(
    ("error", "cancelled", "is_given_up"),
    [
        (asyncio.CancelledError(), False, False),
        (asyncio.CancelledError(), True, True),
        (Cancelled("gone"), False, False),
        (Cancelled("gone"), True, True),
        (GeneratorExit(), False, False),
        (LookupError("gone"), True, False),
    ],
    ids=repr,
)
def test_only_what_the_client_gave_up_is_given_up(error, cancelled, is_given_up):
    async def ask() -> bool:
        served = call()
        served.cancelled = cancelled
        return served.is_cancelled_by(error)

    assert run(ask()) is is_given_up


def test_a_task_that_is_being_cancelled_from_outside_is_given_up():
    async def serve() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            return call().is_cancelled_by(error)
        return False

    async def talk() -> bool:
        task = asyncio.ensure_future(serve())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert run(talk()) is True


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threshold", LEVELS)
def test_a_message_is_wanted_from_the_threshold_on(level, threshold):
    assert wants_log(Server().capabilities, level, threshold) is (LEVELS.index(level) >= LEVELS.index(threshold))


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_wanted_without_a_threshold_or_without_the_capability(level):
    assert not wants_log(Server().capabilities, level, None)
    assert not wants_log(Server(capabilities={"logging": False}).capabilities, level, "debug")


@pytest.mark.parametrize("threshold", [None, "debug"])
def test_an_unknown_level_is_refused_by_name_whether_anybody_wants_it_or_not(threshold):
    with pytest.raises(ValueError, match="There is no log level 'loud'; there are debug, info, notice, warning"):
        wants_log(Server().capabilities, "loud", threshold)
