"""`run_http`: serves HTTP with uvicorn, in one process or several, until a signal ends it.

With several workers, the parent process binds the socket, forks the workers, and supervises them. It forwards signals
to the workers. It replaces a worker that dies, unless several workers in a row die right after their start. A second
signal kills the workers that have not ended. A worker ends itself if the parent process is gone. Each worker gets its
part of the connections (`shared_listener`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NamedTuple, cast

import uvicorn

from dragoman.errors import DefinitionError, DragomanError
from dragoman.runtime.program import end_tasks
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.http1 import Http1Connection
from dragoman.transports.http.shared_listener import ConnectionCounts, SharedListener

GRACE_SECONDS = 5.0
"""The seconds that running requests have when the server ends."""
KEEP_ALIVE_SECONDS = 75
"""Longer than proxies and clients keep an idle connection. If the server closed it first, a request could be lost."""
TICK_SECONDS = 0.02
LAST_SECONDS = 1.0
"""The seconds that clients have to read the last responses, and tasks to end, after `GRACE_SECONDS`."""
SUPERVISION_SECONDS = 0.1
"""Between two looks at the workers. A signal that came just before an endless wait would be handled only after it."""
EARLY_DEATH_SECONDS = 1.0
MAX_EARLY_DEATHS = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Announce = Callable[[Any], None]
"""Says where the server listens; called with the address of the socket."""
_logger = logging.getLogger("dragoman.server")


@contextmanager
def _handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def _explaining_address(host: str, port: int) -> Iterator[None]:
    """Log the remedy if uvicorn ends the process because it cannot listen at the address."""
    try:
        yield
    except SystemExit as end:
        if isinstance(end.__context__, OSError):
            _logger.error(_address_problem(end.__context__, host, port))  # noqa: TRY400
        raise


def _address_problem(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Another program listens at port {port}: end it, or choose another port (port=, or --port)"
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME) or isinstance(error, socket.gaierror):
        return f"The host {host!r} is not an address or a name of this machine: choose another (host=, or --host)"
    return f"The server cannot listen at host {host!r}, port {port}: {error.strerror}"


class _Place(NamedTuple):
    """The place of a worker among those that share a socket."""

    parent: int
    """The process that supervises the workers."""
    shared: socket.socket
    counts: ConnectionCounts
    number: int


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that ends without losing a request.

    The shutdown has three steps. The server accepts the pending connections and stops listening. Each connection then
    answers the requests that it received, with `Connection: close`, and closes. When no connection is left, or the time
    is up, the server closes the application, which answers the requests that still run.

    If the application serves its health, the server goes on listening until the connections that were open at the start
    of the shutdown have closed, so that a probe learns that the server drains.
    """

    def __init__(
        self, config: uvicorn.Config, app: AsgiApp, *, place: _Place | None = None, announce: Announce | None = None
    ) -> None:
        super().__init__(config)
        self._app = app
        self._announce = announce
        self._is_ending = False
        self._place = place
        """The place of this process, if it is one of several workers."""
        self._listener: SharedListener | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Get the application ready, and listen."""
        await self._app.start()
        with _explaining_address(self.config.host, self.config.port):
            await super().startup(sockets if self._place is None else [])
        if self._place is not None:
            self._listener = self._listen(self._place)
        if self._announce is not None and self.started:
            self._announce(self.servers[0].sockets[0].getsockname())

    def _listen(self, place: _Place) -> SharedListener:
        listener = SharedListener(place.shared, place.counts, place.number, self._new_connection)
        self.servers = [cast("asyncio.Server", listener)]
        self.server_state.connections = listener.connections
        listener.listen(self.config.backlog)
        return listener

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the received requests, close the connections and the application."""
        self.should_exit = self._is_ending = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GRACE_SECONDS
        self._app.served.is_draining = True
        if self._app.served.listens_while_draining:
            if self._listener is not None:
                self._listener.retire()
            await self._wait_for_connections(GRACE_SECONDS, set(self._connections()))
        for accepted in self._stop_listening(sockets or []):
            with suppress(OSError):
                await loop.connect_accepted_socket(self._new_connection, accepted)
        if self._listener is not None:
            await self._listener.wait_opened(deadline - loop.time())
        await self._wait_for_connections(deadline - loop.time())
        for connection in self._connections():
            connection.end()
        if not self.force_exit:
            await self._app.close(max(deadline - loop.time(), 0))
            await self._wait_for_connections(LAST_SECONDS)
        for connection in self._connections():
            connection.abort()
        await asyncio.sleep(0)

    def _connections(self) -> list[Http1Connection]:
        return cast("list[Http1Connection]", list(self.server_state.connections))

    def _new_connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _stop_listening(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Close the listening sockets, and return the pending connections, accepted.

        The operating system resets pending connections when the last process closes the socket, and their requests
        would be lost.
        """
        listening = []
        for server in self.servers:
            with suppress(OSError):  # Windows cannot duplicate sockets
                listening += [socket.socket(fileno=os.dup(one.fileno())) for one in server.sockets]
            server.close()
        for given in sockets:
            given.close()
        accepted = []
        for one in listening:
            with one, suppress(OSError):  # `accept` raises if no connection is pending
                one.settimeout(0)
                for _ in range(self.config.backlog):
                    accepted.append(one.accept()[0])  # noqa: PERF401
        return accepted

    async def _wait_for_connections(self, seconds: float, awaited: set[Http1Connection] | None = None) -> None:
        """Wait at most this long until the awaited connections are closed, by default all; they serve their last."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (left := self._connections()) and loop.time() < deadline and not self.force_exit:
            if awaited is not None and awaited.isdisjoint(left):
                return
            for connection in self._connections():  # includes connections that were accepted since the last tick
                connection.shutdown()
            await asyncio.sleep(TICK_SECONDS)

    async def on_tick(self, counter: int) -> bool:
        is_orphan = self._place is not None and os.getppid() != self._place.parent
        return is_orphan or await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches every process of a terminal, and the parent forwards it too. A worker ignores the second
        # signal, which would otherwise end it without waiting for requests.
        is_second = self.should_exit
        if is_second and self._place is not None:
            return
        super().handle_exit(sig, frame)
        self.force_exit = is_second
        if is_second and not self._is_ending:
            raise KeyboardInterrupt  # interrupts a handler that blocks the loop, which did not see the first signal

    def _handle_early_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal before uvicorn installs its handlers; ignore those that uvicorn raises again at its end."""
        if not self._is_ending:
            self.handle_exit(sig, frame)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives; a task that ignores its cancellation does not delay the end."""
        loop = (self.config.get_loop_factory() or asyncio.new_event_loop)()
        try:
            try:
                loop.run_until_complete(self.serve(sockets))
            finally:
                end_tasks(loop, 0 if self.force_exit else LAST_SECONDS)
        finally:
            loop.close()

    def run_quietly(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal arrives, which may happen before the loop runs."""
        with _handle_signals(self._handle_early_exit):
            if self._place is not None:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            try:
                self.run(sockets)
            except KeyboardInterrupt:
                if not self.force_exit:
                    raise


def run_http(app: AsgiApp, *, host: str, port: int, workers: int = 1, announce: Announce | None = None) -> None:
    """Serve an application until SIGINT or SIGTERM, which end the process with exit code 0.

    `announce` is called once, with the address of the socket, when the server listens.

    Raises:
        DefinitionError: the number of workers is not positive.
        DragomanError: the operating system has no fork, or several workers in a row die right after their start.
    """
    if workers < 1:
        raise DefinitionError(f"workers must be at least 1, not {workers!r}")
    config = _config(app, host, port)
    if workers == 1:
        _Uvicorn(config, app, announce=announce).run_quietly()
    elif not hasattr(os, "fork"):
        raise DragomanError("Several workers need fork, which this system lacks; start several processes instead")
    else:
        with _explaining_address(host, port):
            bound = config.bind_socket()
        with bound as shared:
            # asyncio sets TCP_NODELAY only for sockets with an explicit protocol number, and uvicorn's has none.
            shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _WorkerProcesses(config, app, shared, workers, announce).run()


async def serve_http(app: AsgiApp, *, host: str, port: int, announce: Announce | None = None) -> None:
    """Serve an application in the running loop until the task is cancelled, and leave signals alone.

    Raises:
        OSError: the address cannot be listened on.
    """
    config = _config(app, host, port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=config.backlog)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}. {_address_problem(error, host, port)}") from None
    with listener as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = _EmbeddedUvicorn(config, app, announce=announce)
        task = asyncio.get_running_loop().create_task(server.serve([listening]))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            server.should_exit = True
            if not server.started:  # nothing is served yet, and the lifespan may take long to begin
                await cancel_and_wait(task)
                await app.close(0)
            else:
                await task
            raise


class _EmbeddedUvicorn(_Uvicorn):
    """A uvicorn server in the loop of a program, which handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: AsgiApp, host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Http1Connection,
        ws="none",
        log_level="warning",
        lifespan="off",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


class _WorkerProcesses:
    """The parent's view of the worker processes that serve one socket: starts, replaces and ends them."""

    def __init__(
        self, config: uvicorn.Config, app: AsgiApp, shared: socket.socket, count: int, announce: Announce | None
    ) -> None:
        self._announce = announce
        self._config = config
        self._app = app
        self._shared = shared
        self._count = count
        self._counts = ConnectionCounts(count)
        self._started: dict[int, tuple[float, int]] = {}
        """When each process was started, and its place in `_counts`."""
        self._is_ending = False
        self._early_deaths = 0

    def run(self) -> None:
        """Start and supervise the workers until a signal has ended all of them."""
        with _handle_signals(self._end):
            for number in range(self._count):
                self._start(number)
            if self._announce is not None and not self._is_ending:
                self._shared.listen(self._config.backlog)  # the workers listen only when they have started
                self._announce(self._shared.getsockname())
            while self._started:
                self._wait()
        if self._early_deaths >= MAX_EARLY_DEATHS:
            raise DragomanError("The workers end as soon as they start; read their error on stderr")

    def _start(self, number: int) -> None:
        if self._is_ending:
            return
        _flush()  # otherwise parent and child would both write the buffered output
        place = _Place(os.getpid(), self._shared, self._counts, number)
        # Signals are blocked until the child has its own handlers, because it inherits those of the parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._serve_as_worker(place)
        self._started[pid] = time.monotonic(), number
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _serve_as_worker(self, place: _Place) -> None:
        status = 1
        try:
            _Uvicorn(self._config, self._app, place=place).run_quietly([self._shared])
            status = 0
        except BaseException:
            _logger.exception("A worker failed")
        finally:
            # `os._exit` skips the `atexit` functions that the parent registered.
            _flush()
            os._exit(status)

    def _wait(self) -> None:
        """Replace a worker that has ended, or sleep a moment."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            self._started.clear()
            return
        if pid == 0:
            time.sleep(SUPERVISION_SECONDS)
        if pid not in self._started:
            return
        began, number = self._started.pop(pid)
        self._counts.leave(number)
        if self._is_ending:
            return
        # Status 0: the worker was asked to end, so its end is not an early death.
        died_early = status != 0 and time.monotonic() - began < EARLY_DEATH_SECONDS
        self._early_deaths = self._early_deaths + 1 if died_early else 0
        if self._early_deaths >= MAX_EARLY_DEATHS:
            self._end(signal.SIGTERM, None)
        else:
            code = os.waitstatus_to_exitcode(status)
            _logger.warning("The worker %d ended with code %d; another takes its place", pid, code)
            self._start(number)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        ending = signal.SIGKILL if self._is_ending else signal.SIGTERM
        self._is_ending = True
        # The parent closes its socket first. A worker closes the last one, after it accepted the pending connections.
        self._shared.close()
        for pid in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(pid, ending)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
