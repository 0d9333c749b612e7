"""Listeners that share a socket, as several processes do: who accepts which connection."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dragoman.transports.http import shared_listener
from dragoman.transports.http.shared_listener import ConnectionCounts, SharedListener
from unit.loops import DEADLINE, in_each_loop

BACKLOG = 128
FAMILIES = {"ipv4": (socket.AF_INET, "127.0.0.1"), "ipv6": (socket.AF_INET6, "::1"), "unix": (socket.AF_UNIX, "")}


class Connection(asyncio.Protocol):
    """A connection that says which listener accepted it, and closes when its client does."""

    def __init__(self, place: int, connections: set[Any]) -> None:
        self._name = b"%d" % place
        self._connections = connections

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._connections.add(self)
        transport.write(self._name)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)


class Listeners:
    """Listeners of one socket in one loop, each with a file of its own as in a process, and their clients."""

    def __init__(self, listening: socket.socket, present: int, places: int) -> None:
        self.counts = ConnectionCounts(places)
        self.all = [self._listener(listening, place) for place in range(present)]
        self._address, self._family = listening.getsockname(), listening.family
        self._clients: list[asyncio.StreamWriter] = []

    def _listener(self, listening: socket.socket, place: int) -> SharedListener:
        listener = SharedListener(listening.dup(), self.counts, place, lambda: Connection(place, listener.connections))
        listener.listen(BACKLOG)
        return listener

    async def connect(self) -> int:
        """Open a connection that stays open, and return the place of the listener that accepted it."""
        client = socket.socket(self._family)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, self._address)
        reader, writer = await asyncio.open_connection(sock=client)
        self._clients.append(writer)
        return int(await reader.readexactly(1))

    async def connect_many(self, count: int) -> list[int]:
        """Open connections one after another, and return how many each listener accepted."""
        accepted = [await self.connect() for _ in range(count)]
        return [accepted.count(place) for place in range(len(self.all))]

    def sizes(self) -> list[int]:
        return [len(listener.connections) for listener in self.all]

    async def close(self) -> None:
        for listener in self.all:
            listener.close()
            for connection in list(listener.connections):
                connection.transport.abort()
        for client in self._clients:
            client.close()
            with contextlib.suppress(OSError):
                await client.wait_closed()
        await until(lambda: not any(self.sizes()))


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def shared(
    present: int, *, places: int | None = None, listening: socket.socket | None = None
) -> AsyncIterator[Listeners]:
    """Yield listeners; there may be more places than listeners."""
    bound = listening or socket.create_server(("127.0.0.1", 0))
    with bound:
        listeners = Listeners(bound, present, places or present)
        try:
            yield listeners
        finally:
            await listeners.close()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("count", "present"), [(16, 2), (64, 4)])
@in_each_loop
async def test_each_listener_accepts_its_part_of_the_connections(family, count, present, tmp_path_factory):
    kind, host = FAMILIES[family]
    with socket.socket(kind) as bound:
        bound.bind(str(tmp_path_factory.mktemp("u") / "s") if family == "unix" else (host, 0))
        bound.listen(BACKLOG)
        async with shared(present, listening=bound) as listeners:
            assert await listeners.connect_many(count) == [count // present] * present


@in_each_loop
async def test_connections_that_arrive_at_once_are_spread_too():
    async with shared(2) as listeners:
        await asyncio.gather(*(listeners.connect() for _ in range(16)))
        assert listeners.sizes() == [8, 8]


@in_each_loop
async def test_a_connection_that_has_closed_does_not_count():
    async with shared(2) as listeners:
        assert await listeners.connect_many(8) == [4, 4]
        for connection in list(listeners.all[1].connections):
            connection.transport.abort()
        await until(lambda: listeners.sizes() == [4, 0])
        assert await listeners.connect_many(4) == [0, 4]


@in_each_loop
async def test_only_the_first_connection_waits_for_a_process_that_does_not_accept(monkeypatch):
    asked: list[bool] = []
    leaves = SharedListener._leaves_it_to_others

    def note(self: SharedListener) -> bool:
        asked.append(leaves(self))
        return asked[-1]

    monkeypatch.setattr(SharedListener, "_leaves_it_to_others", note)
    async with shared(1, places=2) as listeners:
        listeners.counts.set(1, 0)
        assert await listeners.connect_many(1) == [1]  # both have none, so that nobody waits
        assert not any(asked)
        assert await listeners.connect_many(1) == [1]
        assert any(asked)
        asked.clear()
        assert await listeners.connect_many(6) == [6]
        assert not any(asked)
        listeners.counts.take_turn(1)
        assert await listeners.connect_many(1) == [1]
        assert any(asked)


@in_each_loop
async def test_nobody_waits_for_a_process_that_has_left():
    async with shared(1, places=2) as listeners:
        listeners.counts.set(1, 0)
        listeners.counts.leave(1)
        assert listeners.counts.turns_below(8) == {0: 0}
        assert await listeners.connect_many(4) == [4]
        assert not listeners.all[0]._late


@in_each_loop
async def test_a_listener_that_retires_leaves_connections_to_the_others_and_takes_them_if_nobody_does():
    async with shared(2) as listeners:
        listeners.all[0].retire()
        assert await listeners.connect_many(4) == [0, 4]
        listeners.all[1].close()
        assert await listeners.connect_many(4) == [4, 0]


@in_each_loop
async def test_a_connection_is_accepted_later_if_the_process_has_no_file_left(monkeypatch, caplog):
    monkeypatch.setattr(shared_listener, "PAUSE_SECONDS", 0.01)

    class Exhausted(socket.socket):
        failures = 3

        def accept(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

        def dup(self) -> Any:
            return Exhausted(self.family, self.type, fileno=super().dup().detach())

    bound = Exhausted()
    bound.bind(("127.0.0.1", 0))
    bound.listen(BACKLOG)
    async with shared(1, listening=bound) as listeners:
        assert await listeners.connect_many(2) == [2]
        assert listeners.counts.turns_below(8).keys() == {0}
    assert [record.getMessage() for record in caplog.records] == [
        "No connection can be accepted: [Errno 24] Too many open files; trying again in 0.01 s"
    ] * 3


@in_each_loop
async def test_a_closed_listener_has_begun_what_it_accepted_and_closes_its_socket():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        async with shared(1, listening=bound.dup()) as listeners:
            (listener,) = listeners.all
            assert listener.is_serving()
            with socket.create_connection(bound.getsockname()):
                await until(lambda: listener._opening)
                listener.close()
                listener.close()
                await listener.wait_opened(DEADLINE)
                assert listeners.sizes() == [1]
                assert not listener.is_serving()
                assert listener.sockets[0].fileno() == -1
                assert listeners.counts.turns_below(8) == {}
                await listener.wait_opened(DEADLINE)


@in_each_loop
async def test_a_connection_that_cannot_begin_does_not_count(monkeypatch):
    async with shared(1) as listeners:
        (listener,) = listeners.all

        def fail() -> Any:
            raise OSError(errno.ENOTCONN, "Not connected")

        monkeypatch.setattr(listener, "_new_connection", fail)
        with socket.create_connection(listener.sockets[0].getsockname()) as client:
            client.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        assert listener._open == 0
