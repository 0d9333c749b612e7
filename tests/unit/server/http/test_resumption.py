"""A stream in the log of the store: the names of streams, what their owner writes, and what another process sends."""

import asyncio
import json
from typing import Any

import pytest

from dragoman.errors import StoreUnavailable
from dragoman.protocol.sse import EventDecoder, EventId
from dragoman.server.http import resumption
from dragoman.server.http.resumption import FollowedStream, StreamLog, StreamName
from dragoman.server.http.streams import EventStream, Retention, SessionStreams
from dragoman.server.http.workers import StreamFollowed, StreamState
from dragoman.stores import Memory
from dragoman.stores.memory import MemoryLog
from scenarios.http_crew import until
from scenarios.http_peer import DEADLINE, scenario
from unit.server.http.test_streams import Reader

ALIVE, UNKNOWN, TAKEN = StreamState(), StreamState(is_known=False), StreamState(is_taken=True)


@pytest.mark.parametrize("request_id", [0, 7, -3, 2**53, "", "call", "7", "a-1.b-2", "é\n", "9f8b4c5e-1d2a"])
def test_a_name_says_whose_stream_it_is_and_of_which_request(request_id):
    name = StreamName.encode("4f1c-12", request_id)
    assert StreamName.decode(name) == StreamName("4f1c", is_standalone=False, request_id=request_id)
    assert EventId.decode(EventId(name, 5).encode()) == EventId(name, 5)


def test_the_name_of_a_standalone_stream_has_no_request():
    assert StreamName.encode("4f1c-12", None) == "4f1c-12"
    assert StreamName.decode("4f1c-12") == StreamName("4f1c", is_standalone=True)


def test_a_long_request_id_is_left_out_of_the_name():
    name = StreamName.encode("4f1c-12", "x" * 300)
    assert StreamName.decode(name) == StreamName("4f1c", is_standalone=False)


@pytest.mark.parametrize(
    "name", ["", "nonsense", "other", "4f1c-", "-1", "4f1c-1.!", "4f1c-1.bm8", "4f1c-1.W10", "é-1"]
)
def test_what_is_no_name_of_a_stream_says_nothing(name):
    assert StreamName.decode(name) is None


class Log(MemoryLog):
    """A log that can be away, or slow, and that counts what is written to it."""

    def __init__(self) -> None:
        super().__init__(Memory()._logs, "stream")
        self.appended: list[int] = []
        self.is_away = False
        self.may_flush = asyncio.Event()
        self.may_flush.set()
        self.flushed = asyncio.Event()

    def append(self, sequence: int, event: bytes) -> None:
        self.appended.append(sequence)
        if not self.is_away:
            super().append(sequence, event)

    async def flush(self) -> None:
        await asyncio.wait_for(self.may_flush.wait(), DEADLINE)
        self.flushed.set()
        if self.is_away:
            raise StoreUnavailable("no store")

    async def after(self, sequence: int) -> list[tuple[int, bytes]]:
        if self.is_away:
            raise StoreUnavailable("no store")
        return await super().after(sequence)


class Owner:
    """The process that has a stream, with a log that other processes read."""

    def __init__(self) -> None:
        self.log = Log()
        self.told: list[str] = []
        self.failures: list[Exception] = []
        self.streams = SessionStreams(lambda: "4f1c-1", Retention(), self._open)
        self.stream = EventStream(self.streams, sends_priming_event=False, request_id="call")

    def _open(self, stream: EventStream) -> StreamLog:
        def told(name: str, worker: str) -> None:
            assert name == stream.name
            self.told.append(worker)

        return StreamLog(stream, lambda _: self.log, on_written=told, on_failure=self.failures.append)

    def followed_by(self, worker: str, reader: int = 1, *, is_check: bool = False) -> StreamState:
        return self.stream.hand_over(StreamFollowed("session", self.stream.name, worker, reader, is_check))

    async def written(self) -> list[int]:
        """Wait until everything is written, and return the numbers of the events in the log."""
        if self.stream.shared is not None and self.stream.shared._flushing is not None:
            await asyncio.wait_for(asyncio.shield(self.stream.shared._flushing), DEADLINE)
        follower = Follower(self.log)
        return numbers_of(await follower.stream._read())


def refused(reason: str) -> bytes:
    return json.dumps({"id": "call", "error": {"code": -32603, "message": reason}}).encode()


class Follower:
    """A process in which a client resumes a stream."""

    def __init__(self, log: Log, after: int = 0, *owner: StreamState | None) -> None:
        self.owner = list(owner)
        self.asked: list[bool] = []
        self.failures: list[Exception] = []
        self.stream = FollowedStream(log, after, ask=self._ask, refuse=refused, on_failure=self.failures.append)
        self.reader = Reader()
        self.reader.on_ending = None  # type: ignore[attr-defined]

    async def _ask(self, *, is_check: bool) -> StreamState | None:
        self.asked.append(is_check)
        return self.owner.pop(0) if len(self.owner) > 1 else self.owner[0]

    async def serve(self) -> list[Any]:
        await asyncio.wait_for(self.stream.serve(self.reader), DEADLINE)
        return messages_of(b"".join(self.reader.parts))


def numbers_of(data: bytes) -> list[int]:
    return [int(line.rpartition(b"-")[2]) for line in data.split(b"\r\n") if line.startswith(b"id: ")]


def messages_of(data: bytes) -> list[Any]:
    return [json.loads(event.data) for event in EventDecoder(2**20).receive(data)]


@scenario
async def test_what_nobody_reads_is_written_at_once():
    owner = Owner()
    owner.stream.add(b"1")
    assert owner.log.appended == [1]
    assert await owner.written() == [1]


@scenario
async def test_what_a_client_reads_is_written_after_a_while_or_when_the_client_leaves(monkeypatch):
    monkeypatch.setattr(resumption, "WRITE_SECONDS", 3600)
    owner, reader = Owner(), Reader()
    owner.stream.attach(reader)
    owner.stream.add(b"1")
    owner.stream.add(b"2")
    await owner.stream.flush()
    assert owner.log.appended == []
    owner.stream.detach()
    assert await owner.written() == [1, 2]
    assert owner.log.appended == [2], "one record has both events"
    await owner.stream.close()


@scenario
async def test_what_a_client_reads_for_longer_is_written_while_it_reads(monkeypatch):
    monkeypatch.setattr(resumption, "WRITE_SECONDS", 0)
    owner = Owner()
    owner.stream.attach(Reader())
    owner.stream.add(b"1")
    await asyncio.wait_for(owner.log.flushed.wait(), DEADLINE)
    assert await owner.written() == [1]
    await owner.stream.close()


@scenario
async def test_a_stream_that_is_delivered_to_its_end_before_that_is_never_written(monkeypatch):
    monkeypatch.setattr(resumption, "WRITE_SECONDS", 3600)
    owner = Owner()
    owner.stream.attach(Reader())
    owner.stream.add(b"1")
    owner.stream.add(b"2", last=True)
    await owner.stream.flush()
    assert owner.stream.is_delivered
    await owner.stream.close()
    owner.streams.close()
    assert owner.log.appended == []


@scenario
async def test_what_is_added_while_events_are_written_follows_together():
    owner = Owner()
    owner.log.may_flush.clear()
    for number in range(5):
        owner.stream.add(b"%d" % number, last=number == 4)
        await asyncio.sleep(0)
    owner.log.may_flush.set()
    assert await owner.written() == [1, 2, 3, 4, 5]
    assert owner.log.appended == [1, 5]


@scenario
async def test_what_could_not_be_written_is_written_with_what_comes_next():
    owner = Owner()
    owner.log.is_away = True
    owner.stream.add(b"1")
    await asyncio.wait_for(owner.log.flushed.wait(), DEADLINE)
    await asyncio.sleep(0)
    assert [str(failure) for failure in owner.failures] == ["no store"]
    owner.log.is_away = False
    owner.stream.add(b"2")
    assert await owner.written() == [1, 2]


@scenario
async def test_undelivered_events_that_the_owner_drops_stay_in_the_log(monkeypatch):
    monkeypatch.setattr(resumption, "WRITE_SECONDS", 3600)
    owner, slow = Owner(), Reader()
    slow.may_take.clear()
    owner.stream.attach(slow)
    owner.stream.add(b"1")
    owner.streams.close()
    assert await owner.written() == [1]
    slow.may_take.set()
    await owner.stream.close()


@scenario
async def test_an_owner_that_ends_does_not_wait_long_for_the_store(monkeypatch):
    monkeypatch.setattr(resumption, "CLOSE_SECONDS", 0.01)
    owner = Owner()
    owner.log.may_flush.clear()
    owner.stream.add(b"1")
    await asyncio.wait_for(owner.stream.close(), DEADLINE)
    await asyncio.sleep(0)


@scenario
async def test_who_resumes_elsewhere_takes_the_stream_and_is_told_of_what_follows(monkeypatch):
    monkeypatch.setattr(resumption, "WRITE_SECONDS", 3600)
    owner, reader = Owner(), Reader()
    owner.stream.attach(reader)
    owner.stream.add(b"1")
    await owner.stream.flush()
    assert owner.followed_by("other") == StreamState(sequence=1)
    assert owner.stream.reader is None
    assert await owner.written() == [1]
    assert owner.followed_by("other", is_check=True) == StreamState(sequence=1)
    owner.stream.add(b"2", last=True)
    assert await owner.written() == [1, 2]
    assert owner.told == ["other", "other"]
    assert owner.followed_by("other", 2) == StreamState(sequence=2, is_finished=True)
    await owner.stream.close()


@scenario
async def test_only_the_newest_reader_has_the_stream():
    owner, reader = Owner(), Reader()
    owner.stream.add(b"1")
    owner.followed_by("first")
    owner.followed_by("second")
    assert owner.followed_by("first", is_check=True).is_taken
    assert not owner.followed_by("second", is_check=True).is_taken
    assert owner.followed_by("second", 2, is_check=True).is_taken
    owner.stream.attach(reader, 1)
    assert owner.followed_by("second", is_check=True).is_taken
    await owner.stream.close()


@scenario
async def test_a_complete_log_is_sent_to_its_end_whether_the_owner_lives_or_not():
    owner = Owner()
    for number in range(1, 5):
        owner.stream.add(b"%d" % number, last=number == 4)
    await owner.written()
    for state in (ALIVE, UNKNOWN, TAKEN, None):
        follower = Follower(owner.log, 2, state)
        assert await follower.serve() == [3, 4]
        assert follower.reader.ended
        assert follower.asked == [False]


@scenario
async def test_an_event_within_a_record_is_where_a_client_may_resume():
    owner = Owner()
    owner.log.may_flush.clear()
    for number in range(1, 8):
        owner.stream.add(b"%d" % number, last=number == 7)
    owner.log.may_flush.set()
    await owner.written()
    for after in range(8):
        follower = Follower(owner.log, after, UNKNOWN)
        assert await follower.serve() == list(range(after + 1, 8))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, "The process that served this request is gone; the request may have run"),
        (UNKNOWN, "The events of this request are not kept any more; the request may have run"),
    ],
)
@scenario
async def test_who_resumes_what_nobody_goes_on_with_gets_the_rest_and_an_error(state, reason):
    owner = Owner()
    owner.stream.add(b"1")
    await owner.written()
    *sent, error = await Follower(owner.log, 0, state).serve()
    assert sent == [1]
    assert error["error"]["message"] == reason


@scenario
async def test_an_owner_that_dies_while_it_is_followed_is_noticed(monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.01)
    owner = Owner()
    owner.stream.add(b"1")
    await owner.written()
    follower = Follower(owner.log, 0, ALIVE, ALIVE, None)
    *sent, error = await follower.serve()
    assert (sent, error["error"]["code"]) == ([1], -32603)
    assert follower.asked == [False, True, True]


@scenario
async def test_what_the_owner_wrote_last_is_sent_though_it_is_gone(monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.01)
    owner = Owner()

    class Dying(Follower):
        async def _ask(self, *, is_check: bool) -> StreamState | None:
            if is_check:
                owner.stream.add(b"2", last=True)
            return None if is_check else ALIVE

    owner.stream.add(b"1")
    await owner.written()
    assert await Dying(owner.log).serve() == [1, 2]


@scenario
async def test_events_that_never_come_to_the_log_end_with_an_error(monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.01)
    (error,) = await Follower(Log(), 3, StreamState(sequence=5)).serve()
    assert error["error"]["message"] == "The events of this request cannot be read here; the request may have run"


@scenario
async def test_an_owner_that_dies_before_it_has_written_is_noticed(monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.01)
    (error,) = await Follower(Log(), 3, StreamState(sequence=5), None).serve()
    assert error["error"]["message"] == resumption.OWNER_LOST


@scenario
async def test_a_newer_reader_elsewhere_ends_the_older(monkeypatch):
    monkeypatch.setattr(resumption, "CHECK_SECONDS", 0.01)
    for state in (ALIVE, StreamState(sequence=5)):
        follower = Follower(Log(), 0, state, TAKEN)
        assert await follower.serve() == []
        assert follower.reader.ended


@pytest.mark.parametrize("how", ["on_gone", "on_ending"])
@scenario
async def test_a_follower_ends_with_its_client_and_its_process(how):
    follower = Follower(Log(), 0, ALIVE)
    serving = asyncio.create_task(follower.serve())
    await until(lambda: getattr(follower.reader, how))
    getattr(follower.reader, how)()
    assert await serving == []


@scenario
async def test_a_client_that_left_while_the_owner_was_asked_is_not_served():
    follower = Follower(Log(), 0, ALIVE)
    follower.reader.gone = True
    assert await follower.serve() == []


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(resumption, "STORE_SECONDS", 0.02)
    monkeypatch.setattr(resumption, "STORE_PAUSE", 0.01)


@scenario
async def test_who_resumes_while_the_store_is_away_waits_until_it_is_back(monkeypatch):
    monkeypatch.setattr(resumption, "STORE_PAUSE", 0.01)
    owner = Owner()
    owner.stream.add(b"1")
    await owner.written()
    owner.log.is_away = True
    follower = Follower(owner.log, 0, ALIVE)
    serving = asyncio.create_task(follower.serve())
    await until(lambda: len(follower.failures) > 2)
    owner.log.is_away = False
    await until(lambda: follower.reader.parts)
    owner.log.is_away = True
    follower.stream.grow()
    failed = len(follower.failures)
    await until(lambda: len(follower.failures) > failed)
    owner.log.is_away = False
    owner.stream.add(b"2", last=True)
    assert await serving == [1, 2]


@scenario
async def test_a_store_that_stays_away_ends_the_stream_with_an_error(hasty):
    owner = Owner()
    owner.stream.add(b"1")
    await owner.written()
    follower = Follower(owner.log, 0, ALIVE)
    serving = asyncio.create_task(follower.serve())
    await until(lambda: follower.reader.parts)
    owner.log.is_away = True
    follower.stream.grow()
    sent, error = await serving
    assert (sent, error["error"]["message"]) == (1, resumption.STORE_AWAY)
    (error,) = await Follower(owner.log, 0, ALIVE).serve()
    assert error["error"]["message"] == resumption.STORE_AWAY


@scenario
async def test_a_follower_that_waits_for_the_store_ends_with_its_client():
    log = Log()
    log.is_away = True
    follower = Follower(log, 0, ALIVE)
    serving = asyncio.create_task(follower.serve())
    await until(lambda: follower.failures)
    follower.reader.on_gone()
    assert await serving == []


@scenario
async def test_a_client_whose_standalone_stream_cannot_be_read_comes_back_later(hasty):
    log = Log()
    log.is_away = True
    follower = Follower(log, 0, ALIVE)
    await asyncio.wait_for(follower.stream.replay(follower.reader), DEADLINE)
    assert follower.stream.is_over
    assert follower.reader.parts == []


@scenario
async def test_what_was_missed_of_a_standalone_stream_is_sent_when_it_has_come(monkeypatch):
    owner = Owner()
    owner.log.may_flush.clear()
    owner.stream.add(b"1")
    follower = Follower(owner.log, 0, StreamState(sequence=2))
    replaying = asyncio.create_task(follower.stream.replay(follower.reader))
    await until(lambda: follower.asked)
    owner.log.may_flush.set()
    owner.stream.add(b"2")
    await owner.written()
    follower.stream.grow()
    await asyncio.wait_for(replaying, DEADLINE)
    assert follower.reader.numbers == [1, 2]
    assert not follower.reader.ended
    monkeypatch.setattr(resumption, "REPLAY_SECONDS", 0.01)
    late = Follower(owner.log, 0, StreamState(sequence=3))
    await asyncio.wait_for(late.stream.replay(late.reader), DEADLINE)
    assert late.reader.numbers == [1, 2]
    nobody = Follower(owner.log, 1, None)
    await nobody.stream.replay(nobody.reader)
    assert nobody.reader.numbers == [2]
