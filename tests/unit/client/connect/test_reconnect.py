"""Connections: made when needed, made anew when lost, and requests that are repeated; with scripted connections."""

import asyncio

import pytest

from dragoman.client.connect import reconnect
from dragoman.client.connect.reconnect import MAX_ATTEMPTS, MAX_REPETITIONS, Connections, Failures
from dragoman.errors import (
    AuthRequired,
    ConnectError,
    HttpError,
    RpcError,
    ServerCrashed,
    SessionExpired,
    Timeout,
    TransportError,
)
from scenarios.client_peer import scenario


class Link:
    def __init__(self, is_http=False):
        self.is_http = is_http


class Connection:
    """A connection that lives until it is told otherwise."""

    def __init__(self, is_http=False):
        self.link = Link(is_http)
        self.error = None
        self.closed = 0
        self.done = asyncio.Event()

    @property
    def is_alive(self):
        return self.error is None and not self.closed

    async def close(self):
        self.closed += 1

    async def drained(self):
        await self.done.wait()


class Maker:
    """Makes connections, or raises what is next."""

    def __init__(self, *outcomes, is_http=False):
        self.outcomes = list(outcomes)
        self.made = []
        self.prepared = []
        self.is_http = is_http

    async def connect(self):
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, BaseException):
            raise outcome
        self.made.append(Connection(self.is_http))
        return self.made[-1]

    async def prepare(self, connection, again):
        self.prepared.append(again)

    def connections(self):
        return Connections(self.connect, self.prepare)


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.0001)


def raising(*errors):
    pending = list(errors)

    async def work(connection):
        if pending:
            raise pending.pop(0)
        return connection

    return work, pending


async def repeated(line, work, *, is_repeatable):
    """Do something with the connection, again as long as the line says that it may be done again."""
    failures = Failures()
    while True:
        connection = await line.connection()
        try:
            return await work(connection)
        except TransportError as error:
            if not await line.may_repeat(error, connection, failures, is_repeatable=is_repeatable):
                raise


@pytest.mark.covers("HEAL-02")
@scenario
async def test_many_who_ask_get_one_connection():
    maker = Maker()
    line = maker.connections()
    assert (line.status, line.current) == ("new", None)
    found = await asyncio.gather(*(line.connection() for _ in range(50)))
    assert set(found) == {maker.made[0]}
    assert line.status == "ready"
    maker.made[0].error = TransportError("gone")
    assert line.lose(maker.made[0])
    assert not line.lose(maker.made[0])
    assert (line.status, line.current) == ("lost", None)
    found = await asyncio.gather(*(line.connection() for _ in range(50)))
    assert set(found) == {maker.made[1]}
    assert maker.prepared == [False, True]
    assert maker.made[0].closed == 1
    await line.stop()
    assert maker.made[1].closed == 1


@pytest.mark.covers("HEAL-04")
@scenario
async def test_the_first_connection_is_tried_once_and_a_lost_one_a_few_times():
    maker = Maker(ConnectError("no"))
    line = maker.connections()
    with pytest.raises(ConnectError):
        await line.connection()
    assert line.status == "failed"
    (await line.connection()).error = TransportError("gone")
    maker.outcomes = [ConnectError("no")] * (MAX_ATTEMPTS - 1)
    (await line.connection()).error = TransportError("gone")
    assert len(maker.made) == 2
    maker.outcomes = [ConnectError("no")] * MAX_ATTEMPTS
    with pytest.raises(ConnectError):
        await line.connection()
    assert maker.outcomes == []
    await line.stop()


@pytest.mark.covers("HEAL-04")
@pytest.mark.parametrize(
    "error", [AuthRequired("who?"), Timeout("slow"), HttpError("gone", 410), RpcError(-32603, "no"), ValueError()]
)
@scenario
async def test_what_will_not_pass_is_not_tried_again(error):
    maker = Maker()
    line = maker.connections()
    (await line.connection()).error = TransportError("gone")
    maker.outcomes = [error, None]
    with pytest.raises(type(error)):
        await line.connection()
    assert line.status == "failed"
    await line.stop()


@pytest.mark.covers("HEAL-08")
@scenario
async def test_a_connection_that_cannot_be_prepared_or_dies_of_it_is_closed():
    maker = Maker()
    line = maker.connections()
    (await line.connection()).error = TransportError("gone")
    outcomes = [TransportError("no"), None]

    async def prepare(connection, again):
        outcome = outcomes.pop(0) if outcomes else "fine"
        if outcome is None:
            connection.error = ConnectError("died")
        elif isinstance(outcome, Exception):
            raise outcome

    line._prepare = prepare
    assert await line.connection() is maker.made[3]
    assert [connection.closed for connection in maker.made] == [1, 1, 1, 0]
    await line.stop()


@pytest.mark.covers("HEAL-03")
@pytest.mark.parametrize("error", [ConnectError("no"), SessionExpired("old")])
@scenario
async def test_what_the_server_did_not_serve_is_done_again_whatever_it_is(error):
    line = Maker().connections()
    work, left = raising(error)
    assert await repeated(line, work, is_repeatable=False)
    assert left == []
    await line.stop()


@pytest.mark.covers("HEAL-03", "HEAL-04")
@pytest.mark.parametrize(
    ("error", "times"),
    [
        (ConnectError("no"), MAX_ATTEMPTS),
        (SessionExpired("old"), 1 + MAX_REPETITIONS),
        (TransportError("broke"), 1 + MAX_REPETITIONS),
        (HttpError("busy", 503), 1 + MAX_REPETITIONS),
        (HttpError("bad", 400), 1),
        (Timeout("slow"), 1),
        (AuthRequired("who?"), 1),
        (RpcError(1, "no"), 1),
    ],
)
@scenario
async def test_what_may_be_done_twice_is_repeated_a_bounded_number_of_times(error, times):
    line = Maker().connections()
    work, left = raising(*[error] * 20)
    with pytest.raises(type(error)):
        await repeated(line, work, is_repeatable=True)
    assert 20 - len(left) == times
    await line.stop()


@pytest.mark.covers("HEAL-03")
@scenario
async def test_what_must_not_be_done_twice_says_that_it_may_have_been_done():
    line = Maker().connections()
    error = ServerCrashed("died", 3, "tail")
    work, left = raising(error, error)
    with pytest.raises(ServerCrashed, match=r"^The request may have been served.*: died$") as caught:
        await repeated(line, work, is_repeatable=False)
    assert len(left) == 1
    assert caught.value is not error
    assert (caught.value.exit_code, caught.value.stderr_tail) == (3, "tail")
    assert str(error) == "died"
    await line.stop()


@pytest.mark.covers("HEAL-10")
@scenario
async def test_requests_over_http_that_are_under_way_keep_their_old_connection():
    maker = Maker(is_http=True)
    line = maker.connections()
    first = await line.connection()
    first.error = SessionExpired("old")
    second = await line.connection()
    assert second is not first
    assert first.closed == 0
    first.done.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert first.closed == 1
    second.error = SessionExpired("old")
    await line.connection()
    await line.stop()
    assert [connection.closed for connection in maker.made] == [1, 1, 1]


@pytest.mark.covers("HEAL-07")
@scenario
async def test_a_stopped_line_connects_no_more_until_it_is_restarted():
    maker = Maker()
    line = maker.connections()
    await line.connection()
    await asyncio.gather(line.stop(), line.stop())
    assert (line.status, line.current) == ("stopped", None)
    with pytest.raises(ConnectError, match="start"):
        await line.connection()
    line.restart()
    assert line.status == "new"
    await line.connection()
    assert maker.prepared == [False, False]
    await line.stop()


@pytest.mark.covers("HEAL-07")
@scenario
async def test_work_that_fails_because_the_line_was_stopped_is_not_repeated():
    line = Maker().connections()

    async def work(connection):
        await line.stop()
        raise ConnectError("closed")

    with pytest.raises(ConnectError, match="closed"):
        await repeated(line, work, is_repeatable=True)


@pytest.mark.covers("HEAL-09")
@scenario
async def test_what_is_abandoned_is_forgotten_and_not_closed():
    maker = Maker()
    line = maker.connections()
    first = await line.connection()
    line.abandon()
    assert (line.status, line.current, first.closed) == ("new", None, 0)
    assert await line.connection() is not first
    await line.stop()
    line.abandon()
    assert line.status == "stopped"


@pytest.mark.covers("HEAL-04")
@scenario
async def test_pauses_grow_and_have_a_bound(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(reconnect.asyncio, "sleep", sleep)
    monkeypatch.setattr(reconnect, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr("dragoman.runtime.backoff.random.uniform", lambda low, high: 1)
    for attempt in (1, 2, 3, 100_000):
        await reconnect.pause(attempt)
    assert slept == [0.1, 0.2, 0.4, 2.0]
    monkeypatch.undo()
