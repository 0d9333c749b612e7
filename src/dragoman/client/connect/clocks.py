"""Time-outs of the requests of one connection, on one timer.

A timer for each request was rejected: most requests are answered long before their deadline, so nearly all timers would
be set and cancelled for nothing. The one timer is set to the earliest deadline. When it fires, it expires the clocks
whose deadline has passed and is set to the next deadline.

A clock that expires cancels the task of its request. The task then asks the clock whether the clock or other code
cancelled the task.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct


class Clock(Struct, eq=False):
    """The time-out of one request: counts the seconds since its start or last restart."""

    seconds: float | None
    task: asyncio.Task[Any]
    cancelling: int
    """How many cancellations the task had before the request."""
    deadline: float | None = None
    """None while the clock is paused."""
    has_expired: bool = False

    def expire(self) -> None:
        """Cancel the task, because its time is up."""
        self.has_expired = True
        self.deadline = None
        self.task.cancel()

    def caused_cancellation(self) -> bool:
        """Tell whether this clock alone cancelled the task; withdraw the clock's cancellation."""
        return self.has_expired and self.task.uncancel() <= self.cancelling

    async def absorb_cancellation(self) -> None:
        """Await and drop the cancellation of this clock, if the request ended before the cancellation arrived."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.caused_cancellation():
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
        """Set when no clock runs; None while no task waits for that."""
        self._is_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0
        self._is_closed = False

    def start(self, clock: Clock) -> None:
        """Start a clock; it expires at once if the clocks are closed."""
        if self._is_closed:
            clock.expire()
            return
        self.running.add(clock)
        self.restart(clock)

    def restart(self, clock: Clock) -> None:
        """Let a clock count from now, unless all clocks are paused."""
        if clock.seconds is None or self._is_paused or self._is_closed or clock.has_expired:
            return
        deadline = clock.deadline = self._now() + clock.seconds
        if self._timer is None or deadline < self._fires_at:
            self._set_timer(deadline)

    def resume_all(self) -> None:
        """Let all clocks count from now."""
        self._is_paused = False
        for clock in self.running:
            self.restart(clock)

    def pause_all(self) -> None:
        """Stop all clocks until `resume_all`."""
        self._is_paused = True
        for clock in self.running:
            clock.deadline = None

    def end(self, clock: Clock) -> None:
        """Remove the clock of a request that has ended."""
        self.running.discard(clock)
        if self._idle is not None and not self.running:
            self._idle.set()

    async def ended(self) -> None:
        """Wait until no clock runs."""
        while self.running:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = deadline
        self._timer = self._loop.call_at(deadline, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._now()
        for clock in list(self.running):
            if clock.deadline is not None and clock.deadline <= now:
                clock.expire()
        left = [clock.deadline for clock in self.running if clock.deadline is not None]
        if left:
            self._set_timer(min(left))

    def close(self) -> None:
        """Expire the clocks of all tasks but the current one, and stop the timer."""
        current = asyncio.current_task(self._loop)
        for clock in self.running:
            if clock.task is not current and not clock.has_expired:
                clock.expire()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
