"""The streams of a session and the sessions of a server."""

import asyncio
import gc
import weakref
from collections.abc import Iterable
from threading import Thread

import pytest

from dragoman import Server
from dragoman.protocol.eras import Caller
from dragoman.protocol.sse import EventId
from dragoman.protocol.versions import find_version
from dragoman.server.http import streams
from dragoman.server.http.retention import MOST_STREAMS, Retention, SessionStreams
from dragoman.server.http.session import HttpSession, SessionChannel, SessionRefused, SharedSession
from dragoman.server.http.sessions import Sessions
from dragoman.server.http.streams import EventStream
from dragoman.server.http.workers import Workers
from dragoman.stores.memory import MAX_EVENTS, Memory
from dragoman.types import Implementation
from scenarios.http_peer import DEADLINE, SECRET, scenario

NEWEST = find_version("2025-11-25")


class Reader:
    """Takes what is written to it, slowly if it is told to."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.opening = None
        self.ended = self.gone = self.streaming = False
        self.on_gone = None
        self.parts: list[bytes] = []
        self.may_take = asyncio.Event()
        self.may_take.set()

    async def stream(self, data: bytes, *, last: bool = False) -> None:
        await asyncio.wait_for(self.may_take.wait(), DEADLINE)
        self.streaming, self.ended = True, last
        self.parts.append(data)

    async def reply(self, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.ended = True
        self.parts.append(b"%d %b" % (status, body))

    @property
    def numbers(self) -> list[int]:
        lines = b"".join(self.parts).split(b"\r\n")
        return [int(line.rpartition(b"-")[2]) for line in lines if line.startswith(b"id: ")]


def stream_alone() -> EventStream:
    return EventStream(Memory(), SessionStreams(lambda: "s", Retention()), primes=False)


@scenario
async def test_what_is_added_while_a_reader_is_slow_follows_in_order():
    stream, reader = stream_alone(), Reader()
    stream.attach(reader)
    reader.may_take.clear()
    for _ in range(3):
        stream.add(b"{}")
        await asyncio.sleep(0)
    reader.may_take.set()
    await stream.flush()
    assert reader.numbers == [1, 2, 3]
    await stream.close()


@scenario
async def test_who_attaches_while_another_is_written_to_gets_everything_after_its_number():
    stream, slow, newer = stream_alone(), Reader(), Reader()
    stream.attach(slow)
    slow.may_take.clear()
    stream.add(b"{}")
    await asyncio.sleep(0)
    stream.add(b"{}")
    stream.attach(newer, 0)
    slow.may_take.set()
    await stream.flush()
    assert newer.numbers == [1, 2]
    await stream.close()


@scenario
async def test_a_number_that_was_never_given_is_taken_for_the_last():
    stream, reader = stream_alone(), Reader()
    stream.attach(reader, 99)
    stream.add(b"{}", last=True)
    await stream.flush()
    assert reader.numbers == [1]
    assert stream.reader is None


@scenario
async def test_a_stream_keeps_the_newest_events():
    stream, reader = stream_alone(), Reader()
    for _ in range(MAX_EVENTS + 5):
        stream.add(b"{}")
    stream.attach(reader, 0)
    await stream.flush()
    assert reader.numbers == list(range(6, MAX_EVENTS + 6))


@scenario
async def test_one_who_is_gone_before_it_reads_is_let_go():
    stream, reader = stream_alone(), Reader()
    reader.gone = True
    let_go = asyncio.get_running_loop().create_future()
    stream.attach(reader, let_go=let_go)
    await asyncio.wait_for(let_go, DEADLINE)
    assert stream.reader is None


@scenario
async def test_one_who_is_let_go_and_does_not_read_holds_up_no_end(monkeypatch):
    monkeypatch.setattr(streams, "PART_SECONDS", 0.01)
    stream, first, second = stream_alone(), Reader(), Reader()
    for reader in (first, second):
        reader.streaming = True
        reader.may_take.clear()
        stream.attach(reader)
    await asyncio.wait_for(stream.close(), DEADLINE)
    await asyncio.sleep(0)
    assert first.parts == second.parts == []


def channel_to(reader: Reader) -> tuple[SessionChannel, HttpSession]:
    server = Server()
    session = HttpSession(server, SharedSession(Caller(NEWEST)), workers=Workers(server), retention=Retention())
    return SessionChannel(session, reader, streams=True), session


@scenario
async def test_a_request_that_is_answered_by_one_body_has_no_stream(monkeypatch):
    reader = Reader()
    channel, session = channel_to(reader)
    monkeypatch.setattr(session, "open_stream", lambda: pytest.fail("nothing needs a stream"))
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


@scenario
async def test_a_session_forgets_its_oldest_finished_streams():
    server = Server()
    session = HttpSession(server, SharedSession(Caller(NEWEST)), workers=Workers(server), retention=Retention())
    open_one = session.open_stream()
    assert session.resumed(EventId(open_one.name, 3).encode()) == (open_one, 3)
    first = session.open_stream()
    first.add(b"{}", last=True)
    for _ in range(MOST_STREAMS):
        session.open_stream().add(b"{}", last=True)
    with pytest.raises(SessionRefused, match="not kept"):
        session.resumed(EventId(first.name, 1).encode())
    with pytest.raises(SessionRefused, match="not kept"):
        session.resumed("no id of ours")
    assert session.resumed(EventId(open_one.name, 0).encode()) == (open_one, 0)
    assert len(session._streams) == MOST_STREAMS


@scenario
async def test_a_session_is_busy_while_the_answer_of_a_request_that_is_over_is_read_again():
    server, reader = Server(), Reader()
    session = HttpSession(server, SharedSession(Caller(NEWEST)), workers=Workers(server), retention=Retention())
    stream = session.open_stream()
    stream.add(b"{}", last=True)
    assert not session.is_busy
    stream.attach(reader, 0)
    assert session.is_busy
    await stream.flush()
    assert not session.is_busy


@scenario
async def test_of_a_client_that_says_much_of_itself_that_is_kept_which_the_id_carries():
    sessions = Sessions(Server(secret=SECRET))
    kept = []
    for size in (100, 5000):
        info = Implementation("client", "1", title="x" * size)
        id = sessions.begin(SharedSession(Caller(NEWEST, info=info), principal="ann"))
        kept.append((await sessions.find(id, "ann")).data.caller.info)
    assert kept == [Implementation("client", "1", title="x" * 100), Implementation("client", "1")]


@scenario
async def test_a_session_that_ends_before_its_timeout_is_not_taken_up_again():
    server = Server(secret=SECRET)
    sessions = Sessions(server)
    id = sessions.begin(SharedSession(Caller(NEWEST)))
    await sessions.end(id)
    with pytest.raises(SessionRefused) as refused:
        await sessions.find(id)
    assert refused.value.status == 404


@scenario
async def test_a_session_that_works_while_it_is_idle_for_long_is_looked_at_once():
    now = 0.0
    looked: list[str] = []

    class Watched(HttpSession):
        @property
        def is_busy(self) -> bool:
            looked.append(self.data.id)
            return True

    server = Server(secret=SECRET)
    sessions = Sessions(server, idle_timeout=100, clock=lambda: now)
    ids = [sessions.begin(SharedSession(Caller(NEWEST))) for _ in range(3)]
    for id in ids[:2]:
        (await sessions.find(id)).__class__ = Watched
    now = 100.0
    sessions._expire(now)
    sessions._expire(now)
    assert looked == ids[:2]
    assert list(sessions._known) == ids[:2]
    now = 200.0
    sessions._expire(now)
    assert len(looked) == 4


def test_whoever_tells_after_the_loop_has_ended_tells_nobody():
    server = Server(secret=SECRET)
    sessions = Sessions(server)

    async def begin() -> None:
        session = await sessions.find(sessions.begin(SharedSession(Caller(NEWEST))))
        session.standalone()

    asyncio.run(begin())
    server.notify_tools_list_changed()
    gc.collect()
    assert len(server.audience.members()) == 1
