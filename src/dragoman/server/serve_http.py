"""Serving an ASGI application with uvicorn, in one process or several, until a signal ends it quietly.

With several workers the first process binds the socket, forks, and then only looks after the others: a signal is passed
on to them, and one that dies is replaced, unless they die as fast as they are started.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn

from dragoman.errors import DragomanError
from dragoman.transports.asgi import AsgiApp

GRACE_SECONDS = 5
SHORTEST_LIFE = 1.0
MOST_EARLY_DEATHS = 5
_ENDING = (signal.SIGINT, signal.SIGTERM)
_logger = logging.getLogger("dragoman.server")


class _Uvicorn(uvicorn.Server):
    """Ends our streams before it waits for connections, which would wait for them."""

    def __init__(self, config: uvicorn.Config, app: AsgiApp) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: Any = None) -> None:
        await self._app.close()
        await super().shutdown(sockets)


def run_http(app: AsgiApp, *, host: str, port: int, workers: int = 1) -> None:
    """Serve an application; SIGINT and SIGTERM end it, with exit code 0.

    Raises:
        DragomanError: there is no fork on this system, or every worker dies as soon as it starts.
    """
    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=GRACE_SECONDS
    )
    if workers == 1:
        _serve(config, app)
    elif not hasattr(os, "fork"):
        raise DragomanError("Several workers need fork, which this system has not; start several processes instead")
    else:
        with config.bind_socket() as shared:
            _Workers(config, app, shared, workers).run()


def _serve(config: uvicorn.Config, app: AsgiApp, sockets: list[socket.socket] | None = None) -> None:
    # uvicorn raises the signal again when it has ended, which would end the process with a traceback.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        _Uvicorn(config, app).run(sockets)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        pid = os.fork()
        if pid == 0:
            self._serve_as_worker()
        self._started[pid] = time.monotonic()
        if self._is_ending:
            self._pass_on(signal.SIGTERM)

    def _serve_as_worker(self) -> None:
        status = 1
        try:
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            _serve(self._config, self._app, [self._shared])
            status = 0
        except BaseException:
            _logger.exception("A worker failed")
        finally:
            # What the parent registered to be done at its exit is not to be done by its children.
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
        self._is_ending = True
        self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        for pid in list(self._started):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)
