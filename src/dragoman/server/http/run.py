"""Serving HTTP with uvicorn, in one process or several, until a signal ends it quietly.

With several workers the first process binds the socket, forks, and then only looks after the others: a signal is passed
on to them, and one that dies is replaced, unless they die as fast as they are started. A second signal ends those that
have not ended yet at once; and workers whose first process is gone end by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from types import FrameType
from typing import Any, Protocol, cast

import uvicorn

from dragoman.errors import DefinitionError, DragomanError
from dragoman.runtime.program import end_tasks
from dragoman.transports.http.asgi import AsgiApp

GRACE_SECONDS = 5.0
"""How long a request may take when the server ends."""
KEEP_ALIVE_SECONDS = 75
"""Longer than proxies and clients keep a connection on which nothing is asked for: whoever closes first must not be us,
for a request may be on its way."""
TICK_SECONDS = 0.02
LAST_SECONDS = 1.0
"""How long clients have to take the answers that are sent when the time is up, and tasks to end."""
SHORTEST_LIFE = 1.0
MOST_EARLY_DEATHS = 5
_ENDING = (signal.SIGINT, signal.SIGTERM)
_logger = logging.getLogger("dragoman.server")


class _Connection(Protocol):
    """What is asked of a connection when the server ends."""

    def shutdown(self) -> None:
        """Answer what was sent, and what still comes within a moment, and then end."""

    def end(self) -> None:
        """Take no further request; one that is served is answered."""

    def abort(self) -> None:
        """End at once, though something may be unwritten."""


class _Uvicorn(uvicorn.Server):
    """Ends without losing a request.

    The order matters. First no more connections are accepted, and those that wait to be accepted are. Then each
    connection answers what it is sent, says that this is its last response, and ends; the application works as ever.
    Only when no connection is left, or the time is up, the application is closed: it answers what is still served.
    """

    def __init__(self, config: uvicorn.Config, app: AsgiApp, *, parent: int | None = None) -> None:
        super().__init__(config)
        self._app = app
        self._is_ending = False
        self._parent = parent
        """The process that looks after this one, if there is one."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was sent, and end."""
        self.should_exit = self._is_ending = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + GRACE_SECONDS
        for accepted in self._stop_listening(sockets or []):
            with suppress(OSError):
                await loop.connect_accepted_socket(self._new_connection, accepted)
        await self._wait_for_connections(GRACE_SECONDS)
        for connection in self._connections():
            connection.end()
        if not self.force_exit:
            await self._app.close(max(ends - loop.time(), 0))
            await self._wait_for_connections(LAST_SECONDS)
        for connection in self._connections():
            connection.abort()
        await asyncio.sleep(0)

    def _connections(self) -> list[_Connection]:
        return cast("list[_Connection]", list(self.server_state.connections))

    def _new_connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _stop_listening(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Close the listening sockets, and return the connections that waited to be accepted.

        The system resets those when the last process closes the socket, though requests may have been sent on them.
        """
        listening = []
        for server in self.servers:
            with suppress(OSError):  # Windows has no duplicates of sockets
                listening += [socket.socket(fileno=os.dup(one.fileno())) for one in server.sockets]
            server.close()
        for given in sockets:
            given.close()
        accepted = []
        for one in listening:
            with one, suppress(OSError):  # which says that no connection waits
                one.settimeout(0)
                for _ in range(self.config.backlog):
                    accepted.append(one.accept()[0])  # noqa: PERF401
        return accepted

    async def _wait_for_connections(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while self.server_state.connections and loop.time() < ends and not self.force_exit:
            for connection in self._connections():  # one that was accepted just before may be new
                connection.shutdown()
            await asyncio.sleep(TICK_SECONDS)

    async def on_tick(self, counter: int) -> bool:
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return is_orphan or await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches all processes of a terminal, and the first one passes it on: taken twice, it would be an order
        # to end without waiting for anybody.
        is_second = self.should_exit
        if is_second and self._parent is not None:
            return
        super().handle_exit(sig, frame)
        self.force_exit = is_second
        if is_second and not self._is_ending:
            raise KeyboardInterrupt  # into the handler that holds up the loop, which did not hear of the first signal

    def _handle_outside(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal before uvicorn handles signals; those that uvicorn raises again at its end are old."""
        if not self._is_ending:
            self.handle_exit(sig, frame)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes; tasks that go on although they are cancelled do not hold up the end."""
        loop = (self.config.get_loop_factory() or asyncio.new_event_loop)()
        try:
            try:
                loop.run_until_complete(self.serve(sockets))
            finally:
                end_tasks(loop, 0 if self.force_exit else LAST_SECONDS)
        finally:
            loop.close()

    def run_quietly(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes, which may be before the loop runs."""
        before = {number: signal.signal(number, self._handle_outside) for number in _ENDING}
        if self._parent is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        try:
            self.run(sockets)
        except KeyboardInterrupt:
            if not self.force_exit:
                raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_http(app: AsgiApp, *, host: str, port: int, workers: int = 1) -> None:
    """Serve an application; SIGINT and SIGTERM end it, with exit code 0.

    Raises:
        DefinitionError: the number of workers is not positive.
        DragomanError: there is no fork on this system, or every worker dies as soon as it starts.
    """
    if workers < 1:
        raise DefinitionError(f"workers must be at least 1, not {workers!r}")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=_http_protocol(),
        ws="none",
        log_level="warning",
        lifespan="off",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    if workers == 1:
        _Uvicorn(config, app).run_quietly()
    elif not hasattr(os, "fork"):
        raise DragomanError("Several workers need fork, which this system has not; start several processes instead")
    else:
        with config.bind_socket() as shared:
            # asyncio sets it for sockets whose protocol it knows, which uvicorn leaves open.
            shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _WorkerProcesses(config, app, shared, workers).run()


def _http_protocol() -> Any:
    if find_spec("httptools") is None:  # which is not to be had everywhere
        from dragoman.transports.http.graceful_h11 import GracefulH11Connection

        return GracefulH11Connection
    from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection

    return GracefulHttp1Connection


class _WorkerProcesses:
    """The processes that serve one socket, seen from the one that started them."""

    def __init__(self, config: uvicorn.Config, app: AsgiApp, shared: socket.socket, count: int) -> None:
        self._config = config
        self._app = app
        self._shared = shared
        self._count = count
        self._started: dict[int, float] = {}
        self._is_ending = False
        self._early_deaths = 0

    def run(self) -> None:
        """Look after them until a signal ends them all."""
        before = {number: signal.signal(number, self._end) for number in _ENDING}
        try:
            for _ in range(self._count):
                self._start()
            while self._started:
                self._wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._early_deaths >= MOST_EARLY_DEATHS:
            raise DragomanError("The workers die as soon as they start; what they wrote to stderr says why")

    def _start(self) -> None:
        if self._is_ending:
            return
        _flush()  # what is buffered would be written by every process
        parent = os.getpid()
        # A signal that came to the child before it has handlers of its own would be taken by ours.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        pid = os.fork()
        if pid == 0:
            self._serve_as_worker(parent)
        self._started[pid] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def _serve_as_worker(self, parent: int) -> None:
        status = 1
        try:
            _Uvicorn(self._config, self._app, parent=parent).run_quietly([self._shared])
            status = 0
        except BaseException:
            _logger.exception("A worker failed")
        finally:
            # What the parent registered to be done at its exit is not to be done by its children.
            _flush()
            os._exit(status)

    def _wait(self) -> None:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            self._started.clear()
            return
        began = self._started.pop(pid, None)
        if began is None or self._is_ending:
            return
        # One that ended with 0 was told to end.
        died_early = status != 0 and time.monotonic() - began < SHORTEST_LIFE
        self._early_deaths = self._early_deaths + 1 if died_early else 0
        if self._early_deaths >= MOST_EARLY_DEATHS:
            self._end(signal.SIGTERM, None)
        else:
            _logger.warning("The worker %d ended with code %d; another takes its place", pid, _exit_code(status))
            self._start()

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        ending = signal.SIGKILL if self._is_ending else signal.SIGTERM
        self._is_ending = True
        # The last worker is then the last to close the socket, after it accepted what waits there.
        self._shared.close()
        for pid in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(pid, ending)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)
