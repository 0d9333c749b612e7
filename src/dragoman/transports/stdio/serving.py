"""One connection served on stdin and stdout.

Theory of operation: each chunk of input goes to the connection in the turn of the loop in which it arrives; what
the connection sends leaves in one write per turn. While the client does not take what is sent, nothing is read from it
either. The connection is over when the input ends, and then what is in flight gets a grace to finish; or when the
output breaks, and then at once; or when the serving task is cancelled, and then what was sent is still written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from typing import Protocol

from dragoman.runtime.program import GRACE_SECONDS, require_no_running_loop, run
from dragoman.transports.contract import Sink
from dragoman.transports.stdio.descriptors import open_reader, open_writer
from dragoman.transports.stdio.streams import Streams, claim

__all__ = ["StdioConnection", "StdioService", "Streams", "claim", "run_stdio", "serve_stdio"]

_logger = logging.getLogger(__name__)


class StdioConnection(Protocol):
    """The conversation with one client."""

    def receive(self, chunk: bytes) -> None:
        """Take a chunk of input, which may end anywhere; must not block, may start tasks."""

    def receive_end(self) -> None:
        """The input has ended, perhaps within a line."""

    async def drain(self) -> None:
        """Return when nothing is in flight any more."""

    def close(self) -> None:
        """Cancel what is left."""


class StdioService(Protocol):
    """What can be served."""

    def connect(self, sink: Sink, /) -> StdioConnection:
        """Return the conversation with a client that has just come."""


def run_stdio(service: StdioService, *, streams: Streams | None = None, grace: float = GRACE_SECONDS) -> None:
    """Serve until the input ends, the client is gone, or SIGINT or SIGTERM arrives; then return.

    Example:
        run_stdio(service)

    Nothing that is still running, neither a task nor a thread of `offload`, holds up the exit of the process.

    Raises:
        RuntimeError: a loop is running in this thread; await `serve_stdio` there.
    """
    require_no_running_loop()
    # Before the loop is made: descriptors of its own would take the places of standard ones that are closed.
    streams = streams or claim()
    run(serve_stdio(service, streams=streams, grace=grace), grace=grace)


async def serve_stdio(service: StdioService, *, streams: Streams | None = None, grace: float = GRACE_SECONDS) -> None:
    """Serve in the running loop until the input ends or the client is gone.

    Example:
        await serve_stdio(service)

    At the end of the input, what is in flight has `grace` seconds to finish. What was sent is written as long as
    the client takes something of it every `grace` seconds; this also when the serving task is cancelled.
    """
    await _Conversation(streams or claim()).serve(service, grace)


class _Conversation:
    """A connection between its reader and its writer; the writer regulates the reader."""

    def __init__(self, streams: Streams) -> None:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._broken: asyncio.Future[None] = loop.create_future()
        self._outgoing = open_writer(streams.output, self)
        self._incoming = open_reader(streams.input, self._receive, self._receive_end)
        self._connection: StdioConnection

    async def serve(self, service: StdioService, grace: float) -> None:
        with closing(self._outgoing), closing(self._incoming):
            self._connection = service.connect(self._outgoing)
            try:
                await self._until_over(grace)
            finally:
                self._incoming.close()
                _attempt(self._connection.close)
                await self._outgoing.flush(grace)

    async def _until_over(self, grace: float) -> None:
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
        self._outgoing.hold()
        _attempt(self._connection.receive, chunk)
        self._outgoing.write_now()

    def _receive_end(self) -> None:
        _attempt(self._connection.receive_end)
        self._ended.set_result(None)

    def pause(self) -> None:
        self._incoming.pause()

    def resume(self) -> None:
        self._incoming.resume()

    def break_off(self) -> None:
        self._broken.set_result(None)


def _attempt(function: Callable[..., None], *args: bytes) -> None:
    """Call a connection, which is not supposed to fail: one chunk may be lost to a defect, but not the client."""
    try:
        function(*args)
    except Exception:
        _logger.exception("The connection failed in %s", function.__name__)
