import asyncio

import pytest

from dragoman.client.connect.clocks import Clock, Clocks
from scenarios.http_peer import scenario


class Timers:
    """A loop's clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, object]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when, function):
        handle = _Handle(when, function, self)
        self.due.append(handle)
        return handle

    def move(self, seconds: float) -> None:
        self.now += seconds
        for handle in [handle for handle in self.due if handle.when <= self.now]:  # type: ignore[attr-defined]
            self.due.remove(handle)
            handle.function()  # type: ignore[attr-defined]


class _Handle:
    def __init__(self, when, function, timers) -> None:
        self.when, self.function, self._timers = when, function, timers

    def cancel(self) -> None:
        if self in self._timers.due:
            self._timers.due.remove(self)


class Task:
    """What is cancelled when its time is up."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancelling(self) -> int:
        return self.cancelled

    def cancel(self) -> None:
        self.cancelled += 1

    def uncancel(self) -> int:
        self.cancelled -= 1
        return self.cancelled


@pytest.fixture
def timers():
    timers = Timers()
    timers.task = Task()
    return timers


def started(clocks, timers, seconds):
    clock = Clock(seconds, timers.task, timers.task.cancelling())
    clocks.start(clock)
    return clock


def test_a_task_is_cancelled_when_its_time_is_up(timers):
    clocks = Clocks(timers)
    clock = started(clocks, timers, 60)
    timers.move(59)
    assert timers.task.cancelled == 0
    timers.move(1)
    assert (timers.task.cancelled, clock.has_expired, clock.caused_cancellation()) == (1, True, True)
    assert timers.due == []


def test_many_clocks_of_the_same_length_take_one_timer(timers):
    clocks = Clocks(timers)
    for _ in range(100):
        clocks.end(started(clocks, timers, 60))
        timers.move(0.1)
    assert len(timers.due) == 1


def test_a_clock_that_is_wound_up_counts_anew(timers):
    clocks = Clocks(timers)
    clock = started(clocks, timers, 10)
    timers.move(9)
    clocks.restart(clock)
    timers.move(9)
    assert timers.task.cancelled == 0
    timers.move(1)
    assert timers.task.cancelled == 1
    clocks.restart(clock)
    assert clock.deadline is None, "what has run out does not count again"


def test_a_shorter_clock_is_not_late_behind_a_longer_one(timers):
    clocks = Clocks(timers)
    started(clocks, timers, 60)
    short = started(clocks, timers, 1)
    timers.move(1)
    assert short.has_expired
    assert len(timers.due) == 1


def test_clocks_that_stand_still_do_not_expire(timers):
    clocks = Clocks(timers)
    clock = started(clocks, timers, 5)
    endless = started(clocks, timers, None)
    clocks.pause_all()
    late = started(clocks, timers, 5)
    clocks.restart(clock)
    assert (clock.deadline, late.deadline) == (None, None)
    timers.move(300)
    assert not clock.has_expired
    clocks.resume_all()
    assert (clock.deadline, late.deadline, endless.deadline) == (305, 305, None)
    clocks.close()
    clocks.close()
    assert timers.due == []


def test_a_clock_is_not_to_blame_for_what_somebody_else_cancelled(timers):
    clocks = Clocks(timers)
    clock = started(clocks, timers, 5)
    timers.task.cancel()
    assert not clock.caused_cancellation()
    timers.move(5)
    assert not clock.caused_cancellation(), "both cancelled it, and the other's goes on"


@scenario
async def test_a_cancellation_that_came_too_late_is_taken_in():
    task = asyncio.current_task()
    assert task is not None
    clock = Clock(5, task, task.cancelling())
    clock.expire()
    await clock.absorb_cancellation()
    assert task.cancelling() == 0


@scenario
async def test_whoever_waits_for_the_end_of_all_clocks_is_told_when_the_last_is_needed_no_more():
    clocks, task = Clocks(asyncio.get_running_loop()), asyncio.current_task()
    await clocks.ended()
    first, second = Clock(None, task, 0), Clock(None, task, 0)
    clocks.start(first)
    clocks.start(second)
    waiting = asyncio.create_task(clocks.ended())
    clocks.end(first)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    clocks.end(second)
    await asyncio.wait_for(waiting, 10)
