"""Serving HTTP with uvicorn, in one process or several, until a signal ends it.

With several workers the first process binds the socket, forks the workers, and supervises them. It passes signals on to
them, and replaces a worker that dies, unless workers die as fast as they are started. A second signal kills the workers
that have not ended yet. A worker whose first process is gone ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from dragoman.errors import DefinitionError, DragomanError
from dragoman.runtime.program import end_tasks
from dragoman.transports.http.asgi import AsgiApp

if TYPE_CHECKING:
    from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection

GRACE_SECONDS = 5.0
"""How long a request may take when the server ends."""
KEEP_ALIVE_SECONDS = 75
"""Longer than proxies and clients keep an idle connection. The server must not close it first, because a request may be
on its way."""
TICK_SECONDS = 0.02
LAST_SECONDS = 1.0
"""How long clients may take to read the last responses, and tasks to end, when the time of requests is up."""
EARLY_DEATH_SECONDS = 1.0
MAX_EARLY_DEATHS = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_logger = logging.getLogger("dragoman.server")


@contextmanager
def _handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that ends without losing a request.

    The order matters. First it accepts the connections that wait, and stops listening. Then each connection answers the
    requests that it is sent, says that this is its last response, and ends; the application goes on meanwhile. When no
    connection is left, or the time is up, the application is closed, which answers the requests that still run.
    """

    def __init__(self, config: uvicorn.Config, app: AsgiApp, *, parent: int | None = None) -> None:
        super().__init__(config)
        self._app = app
        self._is_ending = False
        self._parent = parent
        """The process that supervises this one, if any."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests that were sent, and end."""
        self.should_exit = self._is_ending = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GRACE_SECONDS
        for accepted in self._stop_listening(sockets or []):
            with suppress(OSError):
                await loop.connect_accepted_socket(self._new_connection, accepted)
        await self._wait_for_connections(GRACE_SECONDS)
        for connection in self._connections():
            connection.end()
        if not self.force_exit:
            await self._app.close(max(deadline - loop.time(), 0))
            await self._wait_for_connections(LAST_SECONDS)
        for connection in self._connections():
            connection.abort()
        await asyncio.sleep(0)

    def _connections(self) -> list[GracefulHttp1Connection]:
        return cast("list[GracefulHttp1Connection]", list(self.server_state.connections))

    def _new_connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _stop_listening(self, sockets: list[socket.socket]) -> list[socket.socket]:
        """Close the listening sockets, and accept and return the connections that wait there.

        The system would reset these when the last process closes the socket, even if requests were sent on them.
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
            with one, suppress(OSError):  # no further connection waits
                one.settimeout(0)
                for _ in range(self.config.backlog):
                    accepted.append(one.accept()[0])  # noqa: PERF401
        return accepted

    async def _wait_for_connections(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.server_state.connections and loop.time() < deadline and not self.force_exit:
            for connection in self._connections():  # some may have been accepted since the last look
                connection.shutdown()
            await asyncio.sleep(TICK_SECONDS)

    async def on_tick(self, counter: int) -> bool:
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return is_orphan or await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches every process of a terminal, and the first process passes it on too. A worker must not count
        # that as a second signal, which ends it without waiting for requests.
        is_second = self.should_exit
        if is_second and self._parent is not None:
            return
        super().handle_exit(sig, frame)
        self.force_exit = is_second
        if is_second and not self._is_ending:
            raise KeyboardInterrupt  # in the handler that blocks the loop, which did not notice the first signal

    def _handle_early_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal before uvicorn does; at its end uvicorn raises again the signals that it handled."""
        if not self._is_ending:
            self.handle_exit(sig, frame)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes; tasks that ignore their cancellation do not delay the end."""
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
        with _handle_signals(self._handle_early_exit):
            if self._parent is not None:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            try:
                self.run(sockets)
            except KeyboardInterrupt:
                if not self.force_exit:
                    raise


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
            # asyncio sets it only for sockets that name their protocol, and uvicorn's does not.
            shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _WorkerProcesses(config, app, shared, workers).run()


def _http_protocol() -> Any:
    if find_spec("httptools") is None:  # it does not exist for every platform
        from dragoman.transports.http.graceful_h11 import GracefulH11Connection

        return GracefulH11Connection
    from dragoman.transports.http.graceful_http1 import GracefulHttp1Connection

    return GracefulHttp1Connection


class _WorkerProcesses:
    """The worker processes that serve one socket, in the process that started them."""

    def __init__(self, config: uvicorn.Config, app: AsgiApp, shared: socket.socket, count: int) -> None:
        self._config = config
        self._app = app
        self._shared = shared
        self._count = count
        self._started: dict[int, float] = {}
        self._is_ending = False
        self._early_deaths = 0

    def run(self) -> None:
        """Supervise the workers until a signal ends them all."""
        with _handle_signals(self._end):
            for _ in range(self._count):
                self._start()
            while self._started:
                self._wait()
        if self._early_deaths >= MAX_EARLY_DEATHS:
            raise DragomanError("The workers die as soon as they start; what they wrote to stderr says why")

    def _start(self) -> None:
        if self._is_ending:
            return
        _flush()  # else every process would write what is buffered
        parent = os.getpid()
        # Until the child has its own handlers, a signal would be handled by those of the parent.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            self._serve_as_worker(parent)
        self._started[pid] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _serve_as_worker(self, parent: int) -> None:
        status = 1
        try:
            _Uvicorn(self._config, self._app, parent=parent).run_quietly([self._shared])
            status = 0
        except BaseException:
            _logger.exception("A worker failed")
        finally:
            # `os._exit` does not run what the parent registered with `atexit`.
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
        # A worker that ended with 0 was told to end.
        died_early = status != 0 and time.monotonic() - began < EARLY_DEATH_SECONDS
        self._early_deaths = self._early_deaths + 1 if died_early else 0
        if self._early_deaths >= MAX_EARLY_DEATHS:
            self._end(signal.SIGTERM, None)
        else:
            code = os.waitstatus_to_exitcode(status)
            _logger.warning("The worker %d ended with code %d; another takes its place", pid, code)
            self._start()

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        ending = signal.SIGKILL if self._is_ending else signal.SIGTERM
        self._is_ending = True
        # So the last worker is the last process to close the socket, after it accepted the connections that wait.
        self._shared.close()
        for pid in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(pid, ending)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
