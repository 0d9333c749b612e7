"""One turn of a conversation at a time.

A turn that begins while another goes on is refused: to wait would be to wait forever where the other is a stream that
nobody reads on. One that begins while another is given up waits for its end, for only then has every call its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.errors import DragomanError

_LOOKS = 5
"""How often the loop is let go on before a turn is refused: a stream that was dropped is closed by then."""


class Turn:
    """A turn that goes on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self.is_left = False
        """Whether whoever read it went away."""
        self._task = asyncio.current_task()

    @property
    def is_ending(self) -> bool:
        """Whether it is being given up."""
        return self.is_left or (self._task is not None and self._task.cancelling() > 0)


class Turns:
    """The turns of one conversation."""

    def __init__(self) -> None:
        self._current: Turn | None = None

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Turn]:
        """Begin a turn, and end it.

        Raises:
            DragomanError: another turn goes on.
        """
        await self._wait_for_the_last()
        turn = self._current = Turn()
        try:
            yield turn
        finally:
            if self._current is turn:
                self._current = None
            turn.ended.set()

    async def _wait_for_the_last(self) -> None:
        looks = 0
        while (turn := self._current) is not None and not turn.loop.is_closed():
            if turn.is_ending and turn.loop is asyncio.get_running_loop():
                await turn.ended.wait()
            elif looks < _LOOKS:
                looks += 1
                await asyncio.sleep(0)
            else:
                raise DragomanError(
                    "A turn of this conversation goes on: wait for its end, or read or close its stream; those who"
                    " talk at the same time need a chat each"
                )
