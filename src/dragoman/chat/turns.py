"""The turns of a conversation, one at a time, and the observers of a turn.

A conversation refuses a turn while another turn is running. While the other turn is being cancelled, the new turn
waits for its end: only then does every tool call have a result.

Rejected: to wait for a running turn. The other turn may be a stream that nobody reads any more, and would never end.

Observers (`on_message`, `on_tool_call`, `on_tool_result`) are called by one task, in order and one at a time, while the
turn is running. A slow observer delays the other observers and the end of the turn, but neither the model nor the
calls. The exception of an observer is logged. A cancelled turn does not wait for its observers; they are still called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.client.answer.callbacks import call_handler
from dragoman.errors import DragomanError
from dragoman.runtime.tasks import is_pending_here

Observer = Callable[[Any], Any]
_GRACE_STEPS = 5
"""How many steps of the event loop pass before a turn is refused: by then, a dropped stream is closed."""
_logger = logging.getLogger("dragoman.chat")


class Turn:
    """A running turn."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self.is_abandoned = False
        """Whether the turn was cancelled, or its stream was closed."""
        self._task = asyncio.current_task()

    @property
    def is_ending(self) -> bool:
        """Whether the turn is being cancelled."""
        return self.is_abandoned or (self._task is not None and self._task.cancelling() > 0)


class Turns:
    """The turns of one conversation."""

    def __init__(self) -> None:
        self._current: Turn | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Turn]:
        """Run the block as a turn.

        Raises:
            DragomanError: another turn is running.
        """
        await self._wait_for_current()
        turn = self._current = Turn()
        try:
            yield turn
        finally:
            if self._current is turn:
                self._current = None
            turn.ended.set()

    async def _wait_for_current(self) -> None:
        steps = 0
        while (turn := self._current) is not None and not turn.loop.is_closed():
            if turn.is_ending and turn.loop is asyncio.get_running_loop():
                await turn.ended.wait()
            elif steps < _GRACE_STEPS:
                steps += 1
                await asyncio.sleep(0)
            else:
                raise DragomanError(
                    "A turn of this chat still runs: wait for its end, or read or close its stream. For two"
                    " conversations at the same time, use two chats"
                )


class Observers:
    """The pending calls of observers, and the task that makes them."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Observer, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def notify(self, observer: Observer | None, value: Any) -> None:
        """Queue a call of an observer; must run in the event loop of the turn."""
        if observer is None:
            return
        self._pending.append((observer, value))
        if not is_pending_here(self._task):
            self._task = asyncio.create_task(self._call_all())

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[None]:
        """Wait at the end of the block until all observers were called; a cancelled block does not wait."""
        try:
            yield
        except Exception:
            await self._wait()
            raise
        await self._wait()

    async def _wait(self) -> None:
        if is_pending_here(self._task):
            await asyncio.wait([self._task])

    async def _call_all(self) -> None:
        while self._pending:
            observer, value = self._pending.popleft()
            try:
                await call_handler(observer, value)
            except Exception:
                _logger.exception("An observer of the conversation failed")
