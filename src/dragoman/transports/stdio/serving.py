"""Serves one connection on stdin and stdout.

Each chunk of input goes to the connection in the turn of the loop in which it arrives. The messages that the connection
sends in one turn leave in one write. While too much output is unwritten, no input is read.

The connection ends in one of three ways. When the input ends, requests in flight get a grace period. When the output
breaks, the connection ends at once. When the serving task is cancelled, messages that were sent are still written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from typing import Protocol

from dragoman.runtime.program import GRACE_SECONDS, require_no_running_loop, run
from dragoman.transports.contract import Sink
from dragoman.transports.stdio.readers import open_reader
from dragoman.transports.stdio.streams import Streams, claim
from dragoman.transports.stdio.writers import open_writer

__all__ = ["StdioConnection", "StdioService", "Streams", "claim", "run_stdio", "serve_stdio"]

_logger = logging.getLogger(__name__)


class StdioConnection(Protocol):
    """A server's connection to one client."""

    def receive(self, chunk: bytes) -> None:
        """Receive a chunk of input, which may end anywhere; must not block, may start tasks."""

    def receive_end(self) -> None:
        """Handle the end of the input, which may come within a line."""

    async def drain(self) -> None:
        """Return when no request is in flight."""

    def close(self) -> None:
        """Cancel the requests in flight."""


class StdioService(Protocol):
    """Makes the connection that `serve_stdio` serves."""

    def connect(self, sink: Sink, /) -> StdioConnection:
        """Return a connection that sends to `sink`."""

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which connections are served."""


def run_stdio(service: StdioService, *, streams: Streams | None = None, grace: float = GRACE_SECONDS) -> None:
    """Serve until the input ends, the client is gone, or SIGINT or SIGTERM arrives; then return.

    Example:
        run_stdio(service)

    Tasks and threads of `offload` that still run do not delay the exit of the process.

    Raises:
        RuntimeError: a loop is running in this thread; await `serve_stdio` there.
    """
    require_no_running_loop()
    # Claim before the loop exists: descriptors of the loop would take the numbers of closed standard descriptors.
    streams = streams or claim()
    run(serve_stdio(service, streams=streams, grace=grace), grace=grace)


async def serve_stdio(service: StdioService, *, streams: Streams | None = None, grace: float = GRACE_SECONDS) -> None:
    """Serve in the running loop until the input ends or the client is gone.

    Example:
        await serve_stdio(service)

    At the end of the input, requests in flight get `grace` seconds to finish. Messages that were sent are written as
    long as the client reads some of them every `grace` seconds, also when the serving task is cancelled.
    """
    streams = streams or claim()
    async with service.serving():
        await _StdioServing(streams).serve(service, grace)


class _StdioServing:
    """One connection with its reader and its writer. The writer pauses the reader while much output is unwritten."""

    def __init__(self, streams: Streams) -> None:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._broken: asyncio.Future[None] = loop.create_future()
        self._writer = open_writer(streams.output, self)
        self._reader = open_reader(streams.input, self._receive, self._receive_end)
        self._connection: StdioConnection

    async def serve(self, service: StdioService, grace: float) -> None:
        with closing(self._writer), closing(self._reader):
            self._connection = service.connect(self._writer)
            try:
                await self._wait_for_end(grace)
            finally:
                self._reader.close()
                _call_safely(self._connection.close)
                await self._writer.flush(grace)

    async def _wait_for_end(self, grace: float) -> None:
        await asyncio.wait([self._ended, self._broken], return_when=asyncio.FIRST_COMPLETED)
        if self._broken.done():
            return
        draining = asyncio.ensure_future(self._drain())
        try:
            await asyncio.wait([draining, self._broken], timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()

    async def _drain(self) -> None:
        try:
            await self._connection.drain()
        except Exception:
            _logger.exception("The connection failed to drain")

    def _receive(self, chunk: bytes) -> None:
        self._writer.hold()
        _call_safely(self._connection.receive, chunk)
        self._writer.write_now()

    def _receive_end(self) -> None:
        _call_safely(self._connection.receive_end)
        self._ended.set_result(None)

    def pause(self) -> None:
        self._reader.pause()

    def resume(self) -> None:
        self._reader.resume()

    def break_off(self) -> None:
        self._broken.set_result(None)


def _call_safely(function: Callable[..., None], *args: bytes) -> None:
    """Call a method of the connection and log its exception: a defect may lose one chunk, but not the connection."""
    try:
        function(*args)
    except Exception:
        _logger.exception("The connection failed in %s", function.__name__)
