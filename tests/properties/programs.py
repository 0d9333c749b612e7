"""Small coroutines made by hypothesis, to be run in more than one way: what each does and sees goes to its log."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from hypothesis import strategies as st

MOST_STEPS = 5
_WAITS = ("wait", "wait in time", "wait shielded", "wait in a group", "wait and survive")
steps = st.one_of(
    st.sampled_from(_WAITS),
    st.sampled_from(("pause", "set", "fail", "cancel itself")),
)
programs = st.lists(steps, max_size=MOST_STEPS)
_seen: ContextVar[int] = ContextVar("seen", default=-1)


class Program:
    """A coroutine that takes its steps one after another, and whoever decides what becomes of what it waits for."""

    def __init__(self, script: list[str]) -> None:
        self.log: list[Any] = []
        self.task: asyncio.Task[Any] | None = None
        self._script = script
        self._held = [asyncio.get_running_loop().create_future() for _ in script]

    async def run(self) -> str:
        """Take every step; an error is logged and raised."""
        self.task = task = asyncio.current_task()
        try:
            for which, what in enumerate(self._script):
                self.log.append((what, which, _seen.get(), asyncio.current_task() is task))
                self.log.append(await self._step(what, which))
        except BaseException as error:
            self.log.append(repr(error))
            raise
        return "done"

    async def quietly(self) -> None:
        """Take every step, and raise nothing; whoever has ended is not cancelled any more."""
        try:
            self.log.append(await self.run())
        except BaseException as error:
            self.log.append(type(error).__name__)
        finally:
            self.task = None

    async def _step(self, what: str, which: int) -> object:
        held = self._held[which]
        match what:
            case "wait":
                return await held
            case "wait in time":
                async with asyncio.timeout(3600):
                    return await held
            case "wait shielded":
                return await asyncio.shield(held)
            case "wait in a group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(_awaited(held))
                return None
            case "wait and survive":
                return await self._survive(held)
            case "pause":
                return await asyncio.sleep(0, which)
            case "set":
                return _seen.set(which) and None
            case "cancel itself":
                assert self.task is not None
                return self.task.cancel("enough")
        raise ValueError(which)

    async def _survive(self, held: Awaitable[Any]) -> object:
        try:
            return await held
        except asyncio.CancelledError as cancelled:
            assert self.task is not None
            return cancelled.args, self.task.uncancel()

    def resolve(self, which: int) -> None:
        """Give what it waits for."""
        if which < len(self._held) and not self._held[which].done():
            self._held[which].set_result(which)

    def reject(self, which: int) -> None:
        """Let what it waits for fail."""
        if which < len(self._held) and not self._held[which].done():
            self._held[which].set_exception(OSError(which))
            self._held[which].exception()  # nobody may ever wait for it

    def cancel(self, _: int) -> None:
        """Cancel the task that runs it."""
        if self.task is not None:
            self.task.cancel("enough")

    def end(self) -> None:
        """Give all that it may wait for."""
        for which in range(len(self._held)):
            self.resolve(which)


async def _awaited(held: Awaitable[Any]) -> None:
    await held


actions = st.tuples(st.sampled_from(("resolve", "reject", "cancel", "settle")), st.integers(0, 3), st.integers(0, 4))
"""What is done (`settle` is to all), to which program, and to what it waits for in which of its steps."""


async def settled() -> None:
    """Let everything go on until it waits."""
    for _ in range(30):
        await asyncio.sleep(0)


async def act(running: list[Program], script: list[tuple[str, int, int]]) -> None:
    """Do to programs what a script says."""
    for what, whose, which in script:
        if what == "settle":
            await settled()
        elif whose < len(running):
            getattr(running[whose], what)(which)


async def ended(running: list[Program]) -> list[Any]:
    """Let programs end, and return their logs, and how many tasks are left."""
    await settled()
    for program in running:
        program.end()
    await settled()
    return [*(program.log for program in running), len(asyncio.all_tasks())]


def both(work: Callable[[bool], Awaitable[Any]]) -> tuple[Any, Any]:
    """Return what comes of a work in its plain way, and in its fast one."""

    async def limited(*, is_fast: bool) -> Any:
        async with asyncio.timeout(60):
            return await work(is_fast)

    return asyncio.run(limited(is_fast=False)), asyncio.run(limited(is_fast=True))
