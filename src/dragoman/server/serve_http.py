"""Serving HTTP with uvicorn, in one process or several, until a signal ends it quietly.

With several workers the first process binds the socket, forks, and then only looks after the others: a signal is passed
on to them, and one that dies is replaced, unless they die as fast as they are started. A second signal ends those that
have not ended yet at once; and workers whose first process is gone end by themselves.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from types import FrameType
from typing import Any

import uvicorn

from dragoman.errors import DefinitionError, DragomanError
from dragoman.transports.asgi import AsgiApp

GRACE_SECONDS = 5
KEEP_ALIVE_SECONDS = 75
"""Longer than proxies and clients keep a connection on which nothing is asked for: whoever closes first must not be us,
for a request may be on its way."""
SHORTEST_LIFE = 1.0
MOST_EARLY_DEATHS = 5
_ENDING = (signal.SIGINT, signal.SIGTERM)
_logger = logging.getLogger("dragoman.server")


class _Uvicorn(uvicorn.Server):
    """Ends our streams before it waits for connections, which would wait for them."""

    def __init__(self, config: uvicorn.Config, app: AsgiApp, *, parent: int | None = None) -> None:
        super().__init__(config)
        self._app = app
        self._parent = parent
        """The process that looks after this one, if there is one."""

    async def shutdown(self, sockets: Any = None) -> None:
        for listening in self.servers:
            listening.close()
        await self._app.close()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return is_orphan or await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches all processes of a terminal, and the first one passes it on: taken twice, it would be an order
        # to end without waiting for anybody.
        if self._parent is None or not self.should_exit:
            super().handle_exit(sig, frame)

    def run_quietly(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes, which may be before the loop runs.

        When it has ended, uvicorn raises the signal again; with the usual handlers that were a traceback.
        """
        before = {number: signal.signal(number, self.handle_exit) for number in _ENDING}
        if self._parent is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        try:
            self.run(sockets)
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
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    if workers == 1:
        _Uvicorn(config, app).run_quietly()
    elif not hasattr(os, "fork"):
        raise DragomanError("Several workers need fork, which this system has not; start several processes instead")
    else:
        with config.bind_socket() as shared:
            # asyncio sets it for sockets whose protocol it knows, which uvicorn leaves open.
            shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Workers(config, app, shared, workers).run()


def _http_protocol() -> Any:
    if find_spec("httptools") is None:  # which is not to be had everywhere
        return "h11"
    from dragoman.transports.http1 import Http1Connection

    return Http1Connection


class _Workers:
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
        self._early_deaths = self._early_deaths + 1 if time.monotonic() - began < SHORTEST_LIFE else 0
        if self._early_deaths >= MOST_EARLY_DEATHS:
            self._end(signal.SIGTERM, None)
        else:
            _logger.warning("The worker %d ended with code %d; another takes its place", pid, _exit_code(status))
            self._start()

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        ending = signal.SIGKILL if self._is_ending else signal.SIGTERM
        self._is_ending = True
        for pid in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(pid, ending)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)
