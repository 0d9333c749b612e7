"""One session: its streams, and when it is busy."""

import pytest

from dragoman import Server
from dragoman.protocol.eras import Caller
from dragoman.protocol.sse import EventId
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.session import HttpSession, SharedSession
from dragoman.server.http.streams import MAX_STREAMS, Retention
from dragoman.server.http.workers import Workers
from scenarios.http_peer import scenario
from unit.server.http.test_streams import Reader


def new_session() -> HttpSession:
    server = Server()
    return HttpSession(server, SharedSession(Caller(LATEST_HANDSHAKE)), workers=Workers(server), retention=Retention())


@scenario
async def test_a_session_forgets_its_oldest_finished_streams():
    session = new_session()
    open_one = session.new_stream()
    assert session.find_stream(EventId(open_one.name, 3).encode()) == (open_one, 3)
    first = session.new_stream()
    first.add(b"{}", last=True)
    for _ in range(MAX_STREAMS):
        session.new_stream().add(b"{}", last=True)
    with pytest.raises(HttpRefusal, match="not kept"):
        session.find_stream(EventId(first.name, 1).encode())
    with pytest.raises(HttpRefusal, match="not kept"):
        session.find_stream("no id of ours")
    assert session.find_stream(EventId(open_one.name, 0).encode()) == (open_one, 0)
    assert len(session._streams) == MAX_STREAMS


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
