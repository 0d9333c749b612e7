"""Serving the server on one connection: its requests that are under way, and the answers that are on their way to it.

A server may ask as often as it likes. What that costs the client has these bounds:

- A request whose outcome is known at once, such as a ping or a method that is not served, is answered at once. It
  takes no task and does not touch the clocks of the client's own requests.
- A request that a handler works on takes a task. At most `max_server_requests` of them, with at most 16 MiB of
  parameters, are under way at a time. Any further one is refused at once with an error. None waits in line to be
  looked at, so requests that wait for a person never stop the reading: the answers to the client's own requests, and
  the server's cancellations, still come through. The clocks of the client's own requests stand still while handlers
  work, but not after the server was refused: then they count until no handler works.
- At most eight answers are being sent at a time. Over HTTP each of them is a POST, which takes a connection.
- A server that does not take its answers could not be told a refusal either. When 100 answers or 1 MiB of them wait,
  the stream that brings further requests is not read on until there is room: `receive` of the connection returns a
  future, and the transport waits for it. The client's own requests still run into their time-outs meanwhile.
- A transport may overlook that future. When 4,096 answers or 16 MiB of them wait, further requests are dropped without
  an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from dragoman import types
from dragoman.client.connect.link import Link, Outgoing
from dragoman.errors import InternalError, MethodNotFound, RpcError, TransportError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.protocol.peer import Peer

MAX_SERVER_REQUESTS = 100
UNDER_WAY_BYTES = 16 * 1024 * 1024
"""Of the parameters of requests that are under way; one request alone may have more."""
MOST_SENDERS = 8
PRESSING_ANSWERS, PRESSING_BYTES = 100, 1024 * 1024
MOST_ANSWERS, MOST_ANSWER_BYTES = 4096, 16 * 1024 * 1024
Work = Callable[[], Awaitable[Any]]
_logger = logging.getLogger("dragoman.client")


class Answers(Protocol):
    """Whoever knows the answers."""

    max_server_requests: int
    """How many requests of the server may be under way at a time."""

    def answer(self, request: jsonrpc.Request) -> Any:
        """Return the result of a request, or a function that is awaited for it.

        Raises:
            RpcError: it is refused.
        """


class Serving:
    """What one connection does for its server.

    `start` starts a task, which the connection ends when it is closed. `standstill` is entered while a handler works.
    """

    def __init__(
        self,
        answers: Answers,
        peer: Peer,
        link: Link,
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        standstill: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.room: asyncio.Future[None] | None = None
        """Done when there is room for further answers; None while there is."""
        self._answers = answers
        self._peer = peer
        self._link = link
        self._start = start
        self._standstill = standstill
        self._tasks: dict[types.RequestId, asyncio.Task[None]] = {}
        self._sizes: dict[types.RequestId, int] = {}
        """How many bytes of parameters each request has that is under way."""
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._senders = 0
        self._has_warned = False
        self._is_closed = False
        self.asked_in_vain = False
        """Whether the server sent a request in a version in which it may not."""

    # Requests.

    def take(self, request: jsonrpc.Request) -> bool:
        """Answer a request, now or when its handler is done; return False if too many are under way for it."""
        if self._is_full():
            self._peer.finish(request.id, None)
            return False
        outcome = self._outcome(request)
        if not callable(outcome):
            self.send(self._encoded(request, outcome))
            return True
        if self._has_room_for(request):
            self._begin(request, outcome)
            return True
        busy = InternalError(f"The client is busy with {len(self._sizes)} requests of the server; try again later")
        self.send(self._encoded(request, busy))
        return False

    def _has_room_for(self, request: jsonrpc.Request) -> bool:
        sizes = self._sizes
        if len(sizes) >= self._answers.max_server_requests:
            return False
        return not sizes or sum(sizes.values()) + len(request.params) <= UNDER_WAY_BYTES

    def _outcome(self, request: jsonrpc.Request) -> Any:
        """Return a result, an RpcError, or a function that is awaited for one of them."""
        if self._peer.version.stateless:
            # A stateless server asks by `input_required`. Over HTTP there is no way to answer a request of its own.
            self.asked_in_vain = True
            return MethodNotFound(f"In {self._peer.version.name} a server sends no requests")
        try:
            return self._answers.answer(request)
        except RpcError as error:
            return error
        except Exception as error:
            return _failure(request, error)

    def _begin(self, request: jsonrpc.Request, work_out: Work) -> None:
        self._sizes[request.id] = len(request.params)
        task = self._start(self._finish(request, work_out))
        if not task.done():  # tasks may be eager
            self._tasks[request.id] = task

    async def _finish(self, request: jsonrpc.Request, work_out: Work) -> None:
        try:
            with self._standstill():
                outcome = await self._worked_out(request, work_out)
        except asyncio.CancelledError:
            self.send(self._peer.finish(request.id, None))
            raise
        else:
            self.send(self._encoded(request, outcome))
        finally:
            del self._sizes[request.id]
            self._tasks.pop(request.id, None)

    async def _worked_out(self, request: jsonrpc.Request, work_out: Work) -> Any:
        try:
            return await work_out()
        except RpcError as error:
            return error
        except Exception as error:
            return _failure(request, error)

    def cancel(self, id: types.RequestId) -> None:
        """Give up a request that the server gave up."""
        task = self._tasks.get(id)
        if task is not None:
            # After its first step, which is scheduled already: a task that never began would not clean up.
            task.get_loop().call_soon(task.cancel)

    def _encoded(self, request: jsonrpc.Request, outcome: Any) -> bytes | None:
        try:
            if not isinstance(outcome, RpcError):
                return self._peer.send_result(request.id, outcome)
            return self._peer.send_error(request.id, outcome)
        except ValidationError as error:
            if isinstance(outcome, RpcError):
                return self._peer.send_error(request.id, RpcError(outcome.code, outcome.message))
            return self._peer.send_error(request.id, _failure(request, error))

    # Answers.

    def send(self, answer: bytes | None) -> None:
        """Let an answer be sent, if there is one, and if not too many wait."""
        if answer is None or self._is_closed or self._is_full():
            return
        self._unsent.append(answer)
        self._unsent_bytes += len(answer)
        if self.room is None and self._has_over(PRESSING_ANSWERS, PRESSING_BYTES):
            self.room = asyncio.get_running_loop().create_future()
        if self._senders < MOST_SENDERS:
            self._senders += 1
            self._start(self._send_unsent())

    def _is_full(self) -> bool:
        is_full = self._has_over(MOST_ANSWERS, MOST_ANSWER_BYTES)
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
                if not self._has_over(PRESSING_ANSWERS // 2, PRESSING_BYTES // 2):
                    self._make_room()
        finally:
            self._senders -= 1

    def _make_room(self) -> None:
        room, self.room = self.room, None
        if room is not None and not room.done():
            room.set_result(None)

    def close(self) -> None:
        """Send nothing any more, and keep nobody waiting."""
        self._is_closed = True
        self._unsent.clear()
        self._make_room()


def _failure(request: jsonrpc.Request, error: Exception) -> RpcError:
    """Log why a request could not be answered, and return what the server is told."""
    _logger.error("The server's request %s could not be answered", request.method[:100], exc_info=error)
    return InternalError("Internal error")
