"""One session: its streams, and when it is busy."""

import asyncio

import pytest

from dragoman import Server
from dragoman.protocol.eras import Caller
from dragoman.protocol.sse import EventId
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.session import LiveSession, SessionData
from dragoman.server.http.streams import MAX_STREAMS, Retention
from dragoman.server.http.workers import Workers
from scenarios.http_peer import DEADLINE, scenario
from unit.server.http.test_streams import Reader


def new_session() -> LiveSession:
    server = Server()
    return LiveSession(
        server.dispatcher,
        SessionData(Caller(LATEST_HANDSHAKE), "session"),
        workers=Workers(server.dispatcher),
        retention=Retention(),
    )


async def resumed(session: LiveSession, last_event_id: str) -> list[bytes]:
    """Resume a stream that is complete, and return what is sent."""
    reader = Reader()
    await asyncio.wait_for(session.serve_stream(reader, last_event_id), DEADLINE)
    return reader.parts


@scenario
async def test_a_session_forgets_its_oldest_finished_streams():
    session = new_session()
    first, last = session.new_stream(1), session.new_stream("last")
    first.add(b"{}", last=True)
    for number in range(MAX_STREAMS - 1):
        session.new_stream(number).add(b"{}", last=True)
    last.add(b"{}", last=True)
    assert len(session._streams) == MAX_STREAMS
    assert b"data: {}" in b"".join(await resumed(session, EventId(last.name, 0).encode()))
    forgotten = b"".join(await resumed(session, EventId(first.name, 0).encode()))
    assert b'"id":1,"error":{"code":-32603,"message":"The events of this request are not kept any more' in forgotten


@pytest.mark.parametrize("id", ["no id of ours", "", "other-7", "0000-1.-3"])
@scenario
async def test_an_event_of_no_stream_of_ours_is_refused(id):
    session = new_session()
    with pytest.raises(HttpRefusal, match="not kept") as refused:
        await session.serve_stream(Reader(), id)
    assert refused.value.status == 400


@scenario
async def test_a_session_is_busy_while_the_answer_of_a_request_that_is_over_is_read_again():
    session, reader = new_session(), Reader()
    stream = session.new_stream()
    stream.add(b"{}", last=True)
    assert not session.is_busy
    stream.attach(reader, 0)
    assert session.is_busy
    await stream.flush()
    assert not session.is_busy
