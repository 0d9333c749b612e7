"""`TimeLimit`: ends the run of a tool that takes longer than the `timeout` of the tool.

A limit has these states:

    counting   the handler runs, and a timer is set to the end of its time
    paused     a question waits for the client; this time does not count
    over       the time is used up: the context says so, and the task that runs the handler is cancelled
    stopped    the run has ended

A handler that asks may run several times for one request or task. The recording carries the time that earlier runs
took. A run that was lost with its process is not counted.

Rejected: `asyncio.timeout`. It ends an await, but a `def` in a thread learns of the end only from its context.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from dragoman.errors import InternalError, RpcError, ToolError
from dragoman.server.request.asking import asking_of
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired

if TYPE_CHECKING:
    import asyncio

_logger = logging.getLogger("dragoman.server")


class TimeLimit:
    """The time that the handler of one call has left."""

    def __init__(self, call: Call, seconds: float, reason: str) -> None:
        task = call.handler_task or call.task
        assert task is not None
        self.is_over = False
        self.used = 0.0
        """The seconds that counted until the last pause."""
        self._call = call
        self._seconds = seconds
        self._reason = reason
        self._task = task
        self._loop = task.get_loop()
        self._questions = 0
        self._timer: asyncio.TimerHandle | None = None
        self._count()

    def _count(self) -> None:
        self._began = self._loop.time()
        self._timer = self._loop.call_later(max(0.0, self._seconds - self.used), self._end)

    def stop(self) -> None:
        """Count no further."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.used += self._loop.time() - self._began

    def pause(self) -> None:
        """Count no further until the question that begins now has its answer."""
        self._questions += 1
        self.stop()

    def resume(self) -> None:
        """Count again, unless another question waits."""
        self._questions -= 1
        if not self._questions and not self.is_over:
            self._count()

    def _end(self) -> None:
        self.stop()
        if not self._call.cancelled:
            self.is_over = True
            self._call.mark_late(self._reason)
            self._task.cancel()

    def end(self) -> None:
        """Count no further, and withdraw the cancellation of a late handler: its request goes on."""
        self.stop()
        if self.is_over:
            self._task.uncancel()


async def within_limit(call: Call, work: Coroutine[Any, Any, Any], seconds: float, tool: str) -> Any:
    """Await the handler of a tool, and cancel it when its time is used up.

    Raises:
        ToolError: the time is used up.
        InternalError: the time is used up, and the call runs as a task; the task then fails.
        BaseException: the exception of the handler.
    """
    has_state = getattr(call.request.params, "request_state", None) is not None
    before = asking_of(call).recording.seconds if has_state or call.asking is not None else 0.0
    reason = f"The tool {tool!r} took longer than {seconds:g} seconds; it may have done a part of its work"
    if call.is_late:  # a middleware runs the tool again
        call.is_late, call.cancel_reason = False, None
    limit = call.time_limit = TimeLimit(call, seconds - before, reason)
    value: Any = None
    try:
        value = await work
    except BaseException as error:
        if not limit.is_over:
            raise
        raise _overdue(call, reason) from error
    else:
        return value
    finally:
        call.time_limit = None
        limit.end()
        if call.asking is not None or isinstance(value, InputRequired):
            asking_of(call).recording.seconds = before + limit.used


def _overdue(call: Call, reason: str) -> RpcError | ToolError:
    _logger.warning("%s", reason)
    return ToolError(reason) if call.within is None else InternalError(reason)
