"""The observers of a conversation, told beside its turns.

One task tells them of everything in order, one at a time, while the turn goes on. So an observer that is slow delays
the other observers and the end of the turn, and neither the model nor the calls. An observer that fails is logged. Who
gives a turn up does not wait for its observers, and they are told all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.client.answer.calling import call
from dragoman.runtime.tasks import is_pending_here

Observer = Callable[[Any], Any]
_logger = logging.getLogger("dragoman.chat")


class Observers:
    """What observers are to be told of, and the task that tells them."""

    def __init__(self) -> None:
        self._untold: deque[tuple[Observer, Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def tell(self, observer: Observer | None, given: Any) -> None:
        """Have an observer told of something; called in the loop of the turn."""
        if observer is None:
            return
        self._untold.append((observer, given))
        if not is_pending_here(self._task):
            self._task = asyncio.create_task(self._tell_all())

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[None]:
        """Wait at the end of a turn until observers were told of it; who leaves the turn does not wait."""
        try:
            yield
        except Exception:
            await self._all_told()
            raise
        await self._all_told()

    async def _all_told(self) -> None:
        if is_pending_here(self._task):
            await asyncio.wait([self._task])

    async def _tell_all(self) -> None:
        while self._untold:
            observer, given = self._untold.popleft()
            try:
                await call(observer, given)
            except Exception:
                _logger.exception("An observer of the conversation failed")
