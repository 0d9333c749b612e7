"""The stream of one request in a session, and its response."""

import asyncio
import weakref
from threading import Thread

import pytest

from dragoman.protocol.sse import EventId
from dragoman.server.http.channels import SessionChannel
from dragoman.server.http.session import HttpSession
from scenarios.http_peer import DEADLINE, scenario
from unit.server.http.test_session import new_session
from unit.server.http.test_streams import Reader


def channel_to(reader: Reader) -> tuple[SessionChannel, HttpSession]:
    session = new_session()
    return SessionChannel(session, reader, can_stream=True), session


@scenario
async def test_a_request_that_is_answered_by_one_body_has_no_stream(monkeypatch):
    reader = Reader()
    channel, session = channel_to(reader)
    monkeypatch.setattr(session, "new_stream", lambda: pytest.fail("nothing needs a stream"))
    await channel.room()
    await channel.answer(200, b"{}", json=True)
    channel.close()
    assert reader.parts == [b"200 {}"]
    assert reader.opening is None
    assert channel.reader is None


@scenario
async def test_what_a_thread_says_after_the_response_is_said_to_nobody():
    reader = Reader()
    channel, session = channel_to(reader)
    thread = Thread(target=channel.notify, args=("notifications/message", {"data": "late"}))
    thread.start()
    thread.join(DEADLINE)
    await channel.answer(200, b"{}", json=True)
    channel.close()
    await asyncio.sleep(0)
    assert reader.parts == [b"200 {}"]
    assert not session._streams
    assert reader.on_gone is None


@scenario
async def test_what_is_said_while_the_response_is_taken_is_said_to_nobody():
    reader = Reader()
    channel, session = channel_to(reader)
    reader.ended = True
    channel.notify("notifications/message", {"data": "late"})
    channel.close()
    assert reader.parts == []
    assert not session._streams


@scenario
async def test_nothing_follows_the_last_message_of_a_stream():
    reader, again = Reader(), Reader()
    channel, session = channel_to(reader)
    channel.notify("notifications/message", {"data": 1})
    await channel.answer(200, b"{}", json=True)
    channel.close()
    channel.notify("notifications/message", {"data": "late"})
    (stream,) = session._streams
    assert stream.is_finished
    stream.attach(again, 0)
    await stream.flush()
    assert (again.numbers, again.ended) == ([1, 2], True)


@scenario
async def test_a_call_that_is_over_holds_on_to_nobody():
    for says in (False, True):
        reader = Reader()
        channel, _ = channel_to(reader)
        if says:
            channel.notify("notifications/message", {"data": 1})
        await channel.answer(200, b"{}", json=True)
        channel.close()
        gone = weakref.ref(reader)
        await asyncio.sleep(0)
        del reader
        assert gone() is None, says


@scenario
async def test_what_is_said_to_one_who_is_gone_goes_nowhere_and_what_it_waits_for_neither():
    reader = Reader()
    channel, session = channel_to(reader)
    reader.gone = True
    channel.notify("notifications/message", {"data": 1})
    assert channel.reader is None
    await channel.answer(200, b"{}", json=True)
    channel.close()
    assert reader.parts == []
    assert [stream.is_finished for stream in session._streams] == [True]


@scenario
async def test_a_response_that_became_a_stream_by_itself_tells_how_to_come_back():
    reader = Reader()
    channel, session = channel_to(reader)
    assert channel.reader is reader
    first = reader.opening()
    reader.streaming = True
    await channel.answer(200, b"{}", json=True)
    channel.close()
    name = next(iter(session._streams)).name
    assert EventId(name, 0).encode().encode() in first
    assert reader.numbers == [1]
    assert reader.opening is reader.on_gone is None
