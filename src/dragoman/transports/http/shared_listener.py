"""`SharedListener`: accepts connections at a socket that several processes share, so that each process gets its part.

The operating system wakes every process when a connection arrives, and the first process that accepts gets it. The
listeners of event loops accept all pending connections at once. So one process could get every connection of a client,
and the others would have nothing to do. A `SharedListener` accepts one connection and then lets the loop continue. It
leaves a connection to the processes that have fewer. `ConnectionCounts` says how many each process has.

    watching   waits for a connection; accepts it, unless a process with fewer connections should
    holding    has left the connection to another process; looks every STEP_SECONDS whether it is still there
    paused     the process has no file left for a connection; tries again after PAUSE_SECONDS
    closed     accepts nothing more

A process that accepts nothing within HOLD_SECONDS is late: a handler blocks it, or it hangs. The others then take the
connection, and do not wait for a late process again until it has looked at the socket.

Rejected: a socket with SO_REUSEPORT for each process. The operating system then assigns connections by a hash, which
spreads few connections unevenly, and the connections that wait for a process are lost if it dies. Rejected: an
exclusive wake-up (EPOLLEXCLUSIVE). Event loops do not offer it, and it prefers the process that began to wait
last, whatever it has to do. Rejected: a process that accepts and passes connections on. All would depend on it.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable
from mmap import mmap
from typing import Any

from dragoman.runtime.tasks import keep_until_done

STEP_SECONDS = 0.001
HOLD_SECONDS = 0.05
"""How long a connection waits for a process that has fewer connections."""
PAUSE_SECONDS = 1.0
_ABSENT = -1
_CELLS = 2
_CELL_BYTES = 8
_logger = logging.getLogger("dragoman.transports")


class ConnectionCounts:
    """How many connections each of several processes has, in memory that they share.

    It is made before the processes are forked. Each process has a place, and writes only there.
    """

    def __init__(self, places: int) -> None:
        self._cells = memoryview(mmap(-1, places * _CELLS * _CELL_BYTES)).cast("q")
        for place in range(places):
            self.leave(place)

    def set(self, place: int, connections: int) -> None:
        """Publish how many connections a process has."""
        self._cells[place * _CELLS] = connections

    def leave(self, place: int) -> None:
        """Publish that a process accepts no connections."""
        self.set(place, _ABSENT)

    def take_turn(self, place: int) -> None:
        """Publish that a process has looked at the socket, and so is not late."""
        self._cells[place * _CELLS + 1] += 1

    def turns_below(self, connections: float) -> dict[int, int]:
        """Return the processes that have fewer connections: the place and the number of turns of each."""
        cells = self._cells.tolist()
        pairs = enumerate(zip(cells[::_CELLS], cells[1::_CELLS], strict=True))
        return {place: turns for place, (count, turns) in pairs if _ABSENT < count < connections}


class OpenConnections(set[Any]):
    """The open connections of a process; calls a function when one of them has closed."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        super().__init__()
        self._on_closed = on_closed

    def discard(self, connection: Any) -> None:
        """Remove a connection that has closed."""
        if connection in self:
            super().discard(connection)
            self._on_closed()


class SharedListener:
    """One process's part of the connections; stands for the server object of an event loop."""

    def __init__(
        self,
        listening: socket.socket,
        counts: ConnectionCounts,
        place: int,
        new_connection: Callable[[], asyncio.Protocol],
    ) -> None:
        self.sockets = (listening,)
        self.connections = OpenConnections(self._count_closed)
        """The connections, which the protocol adds when they begin and discards when they have closed."""
        self._listening = listening
        self._counts = counts
        self._place = place
        self._new_connection = new_connection
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._is_retired = self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        """Ends the holding or the pause."""
        self._opening: set[asyncio.Task[Any]] = set()
        self._awaited: dict[int, int] = {}
        """The processes that the pending connection is left to, with their turns."""
        self._awaited_until = 0.0
        self._late: dict[int, int] = {}
        """The processes that did not take a connection in time, with their turns then."""

    def listen(self, backlog: int) -> None:
        """Begin to accept connections."""
        self._listening.settimeout(0)
        self._listening.listen(backlog)
        self._counts.set(self._place, 0)
        self._watch()

    def is_serving(self) -> bool:
        """Tell whether connections are accepted."""
        return not self._is_closed

    def retire(self) -> None:
        """Leave connections to the other processes, as long as any of them takes them."""
        self._is_retired = True
        self._counts.leave(self._place)

    def close(self) -> None:
        """Accept nothing more, and close the socket of this process."""
        if not self._is_closed:
            self._is_closed = True
            self._counts.leave(self._place)
            self._loop.remove_reader(self._listening)
            if self._timer is not None:
                self._timer.cancel()
            self._listening.close()

    async def wait_opened(self, seconds: float) -> None:
        """Wait at most this long until the accepted connections have begun."""
        if self._opening:
            await asyncio.wait(self._opening, timeout=max(seconds, 0))

    def _watch(self) -> None:
        self._timer = None
        self._awaited = {}
        self._loop.add_reader(self._listening, self._on_pending)

    def _on_pending(self) -> None:
        if self._leaves_it_to_others():
            self._stop_watching(STEP_SECONDS, self._look_again)
        else:
            self._accept()

    def _look_again(self) -> None:
        pending = select.poll()
        pending.register(self._listening, select.POLLIN)
        if pending.poll(0) and self._leaves_it_to_others():
            self._timer = self._loop.call_later(STEP_SECONDS, self._look_again)
        else:
            self._watch()
            self._accept()

    def _leaves_it_to_others(self) -> bool:
        """Tell whether a process with fewer connections should accept the pending one, and is not late."""
        fewer = self._counts.turns_below(float("inf") if self._is_retired else self._open)
        fewer.pop(self._place, None)
        fewer = {place: turns for place, turns in fewer.items() if self._late.get(place) != turns}
        now = self._loop.time()
        if fewer != self._awaited:
            self._awaited, self._awaited_until = fewer, now + HOLD_SECONDS
        if now >= self._awaited_until:
            self._late.update(fewer)
            self._awaited = {}
        return bool(self._awaited)

    def _accept(self) -> None:
        """Accept one connection, if another process has not."""
        self._counts.take_turn(self._place)
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            _logger.error("No connection can be accepted: %s; trying again in %g s", error, PAUSE_SECONDS)  # noqa: TRY400
            self._counts.leave(self._place)
            self._stop_watching(PAUSE_SECONDS, self._resume)
            return
        self._change_open(1)
        keep_until_done(self._loop.create_task(self._begin(accepted)), self._opening)

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            accepted.settimeout(0)
            await self._loop.connect_accepted_socket(self._new_connection, accepted)
        except OSError:  # the client is gone
            accepted.close()
            self._count_closed()

    def _stop_watching(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listening)
        self._timer = self._loop.call_later(seconds, then)

    def _resume(self) -> None:
        self._change_open(0)
        self._watch()

    def _count_closed(self) -> None:
        self._change_open(-1)

    def _change_open(self, change: int) -> None:
        self._open += change
        if not (self._is_retired or self._is_closed):
            self._counts.set(self._place, self._open)
