"""The stream of one request in a session, and its response."""

import asyncio
import weakref
from threading import Thread

import pytest

from dragoman import types
from dragoman.protocol.sse import EventId
from dragoman.protocol.subscriptions import Subscription
from dragoman.server.http.channels import ResumableChannel, SubscribedClient
from dragoman.server.http.session import LiveSession
from scenarios.http_peer import DEADLINE, scenario
from unit.server.http.test_session import new_session
from unit.server.http.test_streams import Reader


def new_channel() -> tuple[ResumableChannel, LiveSession, Reader]:
    session, reader = new_session(), Reader()
    return ResumableChannel(session, reader, "call", can_stream=True), session, reader


async def respond(channel: ResumableChannel) -> None:
    await channel.answer(200, b"{}", json=True)
    channel.close()


@scenario
async def test_a_request_that_is_answered_by_one_body_has_no_stream(monkeypatch):
    channel, session, reader = new_channel()
    monkeypatch.setattr(session, "new_stream", lambda: pytest.fail("nothing needs a stream"))
    await channel.wait_for_room()
    await respond(channel)
    assert reader.parts == [b"200 {}"]
    assert reader.opening is None
    assert channel.reader is None


@scenario
async def test_what_a_thread_says_after_the_response_is_said_to_nobody():
    channel, session, reader = new_channel()
    thread = Thread(target=channel.notify, args=("notifications/message", {"data": "late"}))
    thread.start()
    thread.join(DEADLINE)
    await respond(channel)
    await asyncio.sleep(0)
    assert reader.parts == [b"200 {}"]
    assert not session._streams
    assert reader.on_gone is None


@scenario
async def test_what_is_said_while_the_response_is_taken_is_said_to_nobody():
    channel, session, reader = new_channel()
    reader.ended = True
    channel.notify("notifications/message", {"data": "late"})
    channel.close()
    assert reader.parts == []
    assert not session._streams


@scenario
async def test_nothing_follows_the_last_message_of_a_stream():
    (channel, session, _), again = new_channel(), Reader()
    channel.notify("notifications/message", {"data": 1})
    await respond(channel)
    channel.notify("notifications/message", {"data": "late"})
    (stream,) = session._streams
    assert stream.is_finished
    stream.attach(again, 0)
    await stream.flush()
    assert (again.numbers, again.ended) == ([1, 2], True)


@scenario
async def test_a_call_that_is_over_holds_on_to_nobody():
    for says in (False, True):
        channel, _, reader = new_channel()
        if says:
            channel.notify("notifications/message", {"data": 1})
        await respond(channel)
        gone = weakref.ref(reader)
        await asyncio.sleep(0)
        del reader
        assert gone() is None, says


@scenario
async def test_what_is_said_to_one_who_is_gone_goes_nowhere_and_what_it_waits_for_neither():
    channel, session, reader = new_channel()
    reader.gone = True
    channel.notify("notifications/message", {"data": 1})
    assert channel.reader is None
    await respond(channel)
    assert reader.parts == []
    assert [stream.is_finished for stream in session._streams] == [True]


@scenario
async def test_a_response_that_became_a_stream_by_itself_tells_how_to_come_back():
    channel, session, reader = new_channel()
    assert channel.reader is reader
    first = reader.opening()
    reader.streaming = True
    await respond(channel)
    name = next(iter(session._streams)).name
    assert EventId(name, 0).encode().encode() in first
    assert reader.numbers == [1]
    assert reader.opening is reader.on_gone is None


@scenario
async def test_a_change_just_before_the_end_of_a_subscription_is_sent():
    reader = Reader()
    subscription = Subscription("listening", types.SubscriptionFilter(tools_list_changed=True))
    stream = SubscribedClient(subscription, reader)
    running = asyncio.create_task(stream.run())
    await asyncio.sleep(0)
    stream.notify_change("notifications/tools/list_changed")
    stream.end()
    await asyncio.wait_for(running, DEADLINE)
    assert [b"list_changed" in part for part in reader.parts] == [False, True]
