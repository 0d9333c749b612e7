"""The requests of the server on one connection, and the answers that the client sends to them.

A server may send requests as often as it likes. These bounds limit what they cost the client:

- A request whose outcome is known at once, such as `ping` or an unknown method, is answered at once. It takes no task
  and does not stop the clocks of the client's own requests.
- A request that a handler works on takes a task. At most `max_server_requests` of them, with at most 16 MiB of
  parameters, are under way at a time. The client refuses a further one with an error. Requests never wait in a queue:
  while a handler waits for a person, a full queue would stop the reading, and with it the answers to the client's own
  requests and the server's cancellations. The clocks of the client's own requests are paused while handlers work.
  After a refusal they count, until no handler works.
- At most eight answers are being sent at a time. Over HTTP each of them is a POST, which takes a connection.
- A server that does not read its answers does not read refusals either. When 100 answers or 1 MiB of them are unsent,
  the stream that brings further requests is paused: `receive` of the connection returns the future `room`, and the
  transport waits for it. The time-outs of the client's own requests continue to count.
- A transport may ignore that future. When 4,096 answers or 16 MiB of them are unsent, further requests are dropped
  without an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from functools import partial
from sys import modules
from typing import Any, Protocol

from dragoman import types
from dragoman.client.connect.link import Link, Outgoing
from dragoman.client.connect.recording import recorded_answer
from dragoman.errors import InternalError, MethodNotFound, RpcError, TransportError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.peer import Peer
from dragoman.telemetry import API, active_recorder

MAX_SERVER_REQUESTS = 100
MAX_PARAMS_BYTES = 16 * 1024 * 1024
"""The limit of the parameters of all requests that are under way together; a single request may have more."""
MAX_SENDERS = 8
PAUSE_ANSWERS, PAUSE_BYTES = 100, 1024 * 1024
MAX_ANSWERS, MAX_ANSWER_BYTES = 4096, 16 * 1024 * 1024
_logger = logging.getLogger("dragoman.client")


class AnswersServer(Protocol):
    """The part of a client that answers the server's requests."""

    max_server_requests: int
    """How many requests of the server may be under way at a time."""

    def answer(self, request: jsonrpc.Request) -> Any:
        """Return the result of a request, or a function to await for the result.

        Raises:
            RpcError: the client refuses the request.
        """


class ServerRequests:
    """The server's requests on one connection.

    `start` starts a task that ends with the connection. `paused_clocks` returns a context manager that pauses
    the clocks while a handler works.
    """

    def __init__(
        self,
        client: AnswersServer,
        peer: Peer,
        link: Link,
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        paused_clocks: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.room: asyncio.Future[None] | None = None
        """A future that is done when there is room for further answers; None while there is room."""
        self.refused_stateless = False
        """Whether the server sent a request in a stateless version, which forbids that."""
        self._client = client
        self._peer = peer
        self._link = link
        self._start = start
        self._paused_clocks = paused_clocks
        self._tasks: dict[types.RequestId, asyncio.Task[None]] = {}
        self._sizes: dict[types.RequestId, int] = {}
        """The bytes of parameters of each request that is under way."""
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._senders = 0
        self._has_warned = False
        self._is_closed = False

    # Requests.

    def receive(self, request: jsonrpc.Request) -> bool:
        """Answer a request, now or when its handler is done; return False if too many are pending."""
        if self._is_full():
            self._peer.finish(request.id, None)
            return False
        outcome = self._outcome(request)
        if not callable(outcome):
            self.send(self._encoded(request, outcome))
            return True
        sizes = self._sizes
        is_busy = len(sizes) >= self._client.max_server_requests
        if is_busy or (sizes and sum(sizes.values()) + len(request.params) > MAX_PARAMS_BYTES):
            busy = InternalError(f"The client is busy with {len(sizes)} requests of the server; try again later")
            self.send(self._encoded(request, busy))
            return False
        if API in modules and (recorder := active_recorder()) is not None:
            outcome = partial(recorded_answer, recorder, self._link, self._peer.version, request, outcome)
        sizes[request.id] = len(request.params)
        task = self._start(self._run(request, outcome))
        if not task.done():  # tasks may be eager
            self._tasks[request.id] = task
        return True

    def _outcome(self, request: jsonrpc.Request) -> Any:
        """Return a result, an RpcError, or a function to await for one of them."""
        if self._peer.version.asks_in_results:
            # Over HTTP a client could not answer a request of the server.
            self.refused_stateless = True
            return MethodNotFound(f"In {self._peer.version.name} a server sends no requests")
        try:
            return self._client.answer(request)
        except Exception as error:
            return _error_for(request, error)

    async def _run(self, request: jsonrpc.Request, handle: Callable[[], Awaitable[Any]]) -> None:
        try:
            with self._paused_clocks():
                try:
                    outcome = await handle()
                except Exception as error:
                    outcome = _error_for(request, error)
        except asyncio.CancelledError:
            self.send(self._peer.finish(request.id, None))
            raise
        else:
            self.send(self._encoded(request, outcome))
        finally:
            del self._sizes[request.id]
            self._tasks.pop(request.id, None)

    def cancel(self, id: types.RequestId) -> None:
        """Cancel a request that the server cancelled."""
        task = self._tasks.get(id)
        if task is not None:
            # `call_soon` lets the task run its first step before the cancellation: without it, `finally` would not run.
            task.get_loop().call_soon(task.cancel)

    def _encoded(self, request: jsonrpc.Request, outcome: Any) -> bytes | None:
        try:
            if not isinstance(outcome, RpcError):
                return self._peer.send_result(request.id, outcome)
            return self._peer.send_error(request.id, outcome)
        except ValidationError as error:
            is_error = isinstance(outcome, RpcError)
            plain = RpcError(outcome.code, outcome.message) if is_error else _error_for(request, error)
            return self._peer.send_error(request.id, plain)

    # Answers.

    def send(self, answer: bytes | None) -> None:
        """Send an answer, if there is one, unless too many are unsent."""
        if answer is None or self._is_closed or self._is_full():
            return
        self._unsent.append(answer)
        self._unsent_bytes += len(answer)
        if self.room is None and self._has_over(PAUSE_ANSWERS, PAUSE_BYTES):
            self.room = asyncio.get_running_loop().create_future()
        if self._senders < MAX_SENDERS:
            self._senders += 1
            self._start(self._send_unsent())

    def _is_full(self) -> bool:
        is_full = self._has_over(MAX_ANSWERS, MAX_ANSWER_BYTES)
        if is_full and not self._has_warned:
            self._has_warned = True
            _logger.warning("The server does not take its answers; further requests of it are dropped")
        return is_full

    def _has_over(self, count: int, size: int) -> bool:
        return len(self._unsent) > count or self._unsent_bytes > size

    async def _send_unsent(self) -> None:
        try:
            while self._unsent:
                answer = self._unsent.popleft()
                try:
                    with suppress(TransportError, RpcError):
                        await self._link.send(Outgoing(answer))
                finally:
                    self._unsent_bytes -= len(answer)
                if not self._has_over(PAUSE_ANSWERS // 2, PAUSE_BYTES // 2):
                    self._resume()
        finally:
            self._senders -= 1

    def _resume(self) -> None:
        room, self.room = self.room, None
        if room is not None and not room.done():
            room.set_result(None)

    def close(self) -> None:
        """Send no further answers, and resume a paused stream."""
        self._is_closed = True
        self._unsent.clear()
        self._resume()


def _error_for(request: jsonrpc.Request, error: Exception) -> RpcError:
    """Return an RpcError unchanged; log any other exception, and return an InternalError for the server."""
    if isinstance(error, RpcError):
        return error
    _logger.error("The server's request %s could not be answered", request.method[:100], exc_info=error)
    return InternalError("Internal error")
