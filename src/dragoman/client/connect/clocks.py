"""How long requests wait: one timer for all clocks of a connection.

Most requests are answered long before their time is up, so that a timer for each would be set and cancelled for
nothing. The one timer stands at the earliest time that any clock had when it was set; when it goes off, whose time is
really up is found, and it is set anew. A clock whose time is up cancels the task that it counts for, which then tells
by the clock that it was not somebody else who did.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct


class Clock(Struct, eq=False):
    """Counts the seconds of one task, from when it was last wound up."""

    seconds: float | None
    task: asyncio.Task[Any]
    cancelling: int
    """How often the task was being cancelled before."""
    deadline: float | None = None
    """When its time is up; None while it stands still."""
    has_run_out: bool = False

    def run_out(self) -> None:
        """Cancel the task: its time is up."""
        self.has_run_out = True
        self.deadline = None
        self.task.cancel()

    def is_to_blame(self) -> bool:
        """Tell whether a cancellation that arrived is this clock's, and nobody else's; it then goes no further."""
        return self.has_run_out and self.task.uncancel() <= self.cancelling

    async def forgive(self) -> None:
        """Take in a cancellation that was on its way when the task had what it waited for."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.is_to_blame():
                raise
        else:
            self.task.uncancel()


class Clocks:
    """The clocks of one connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.running: set[Clock] = set()
        self._loop = loop
        self._now = loop.time
        self._idle: asyncio.Event | None = None
        """Somebody waits until no clock is needed."""
        self._stand_still = False
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = 0.0
        self._is_closed = False

    def start(self, clock: Clock) -> None:
        """Let a clock count, unless all stand still; if none is to go off any more, its time is up."""
        if self._is_closed:
            clock.run_out()
            return
        self.running.add(clock)
        self.wind(clock)

    def wind(self, clock: Clock) -> None:
        """Let a clock count from now, unless all stand still."""
        if clock.seconds is None or self._stand_still or self._is_closed or clock.has_run_out:
            return
        deadline = clock.deadline = self._now() + clock.seconds
        if self._timer is None or deadline < self._goes_off:
            self._set(deadline)

    def wind_all(self) -> None:
        """Let all clocks count from now."""
        self._stand_still = False
        for clock in self.running:
            self.wind(clock)

    def stop_all(self) -> None:
        """Let all clocks stand still."""
        self._stand_still = True
        for clock in self.running:
            clock.deadline = None

    def end(self, clock: Clock) -> None:
        """Need a clock no longer."""
        self.running.discard(clock)
        if self._idle is not None and not self.running:
            self._idle.set()

    async def ended(self) -> None:
        """Wait until no clock is needed."""
        while self.running:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def _set(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._goes_off = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        late = [clock for clock in self.running if clock.deadline is not None and clock.deadline <= now]
        for clock in late:
            clock.run_out()
        left = [clock.deadline for clock in self.running if clock.deadline is not None]
        if left:
            self._set(min(left))

    def close(self) -> None:
        """Go off no more; whoever still waits for something else than an answer is called back."""
        current = asyncio.current_task(self._loop)
        for clock in self.running:
            if clock.task is not current and not clock.has_run_out:
                clock.run_out()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
