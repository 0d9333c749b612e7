"""Runs a program on its own loop; a signal ends the program, and no thread delays the exit of the process.

SIGINT and SIGTERM cancel the program, and the remaining tasks get a bounded time to end. A blocked loop (a handler that
sleeps without awaiting, for example) cannot cancel anything. Then a second signal, or a grace period without a turn of
the loop, interrupts the blocking code. In all these cases `run` returns without an exception.

The loop's default executor, which `asyncio.to_thread` uses, is `offload`: the interpreter does not wait for its
threads.
"""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, TypeVarTuple

GRACE_SECONDS = 5.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Arguments = TypeVarTuple("Arguments")


def run(program: Coroutine[Any, Any, None], *, grace: float = GRACE_SECONDS) -> None:
    """Run a coroutine until it ends or until SIGINT or SIGTERM, and return in both cases.

    Example:
        run(serve_stdio(service))

    The remaining tasks are cancelled and get `grace` seconds to end. Signals are handled only in the main thread, and
    only those for which the process has no handler of its own.

    Raises:
        RuntimeError: a loop is running in this thread; await the coroutine there.
        Exception: any exception of the coroutine.
    """
    try:
        require_no_running_loop()
    except RuntimeError:
        program.close()
        raise
    loop = _Loop()
    task = loop.create_task(program)
    signals = _Signals(loop, task, grace)
    try:
        with signals:
            try:
                loop.run_until_complete(task)
            finally:
                end_tasks(loop, grace)
    except (asyncio.CancelledError, KeyboardInterrupt):
        if not signals.received:
            raise
    finally:
        loop.close()


async def until_signal(program: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine in the running loop until it ends or until SIGINT or SIGTERM, and return in both cases.

    Raises:
        Exception: any exception of the coroutine.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(program)
    received = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received or not task.cancelled():
            raise
    finally:
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)


def require_no_running_loop() -> None:
    """Raise RuntimeError if a loop runs in this thread; the caller must await the program there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("A loop is running in this thread already: do not run this there, await it")


def end_tasks(loop: asyncio.AbstractEventLoop, grace: float) -> None:
    """Cancel the tasks of a stopped loop, and wait at most the grace period until they have ended."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=grace))
    loop.run_until_complete(asyncio.wait([loop.create_task(loop.shutdown_asyncgens())], timeout=grace))


class _Loop(asyncio.SelectorEventLoop):
    """A loop that uses `offload` as its default executor unless another is set, and that reports no interrupts."""

    _executor_was_set = False

    def set_default_executor(self, executor: Any) -> None:
        self._executor_was_set = True
        super().set_default_executor(executor)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Any], *args: *Arguments
    ) -> asyncio.Future[Any]:
        if executor is None and not self._executor_was_set:
            from dragoman.runtime.offload import offload  # most servers do not need it

            return self.create_task(offload(func, *args))
        return super().run_in_executor(executor, func, *args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # An interrupted task would report the interrupt again when it is collected.
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            super().call_exception_handler(context)


class _Signals:
    """The signals that end a program, handled while the context is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], grace: float) -> None:
        self.received = False
        self._loop = loop
        self._task = task
        self._grace = grace
        self._previous: dict[signal.Signals, Any] = {}
        self._over = False
        self._ending = threading.Lock()

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDING_SIGNALS:
            previous = signal.getsignal(number)
            if previous in (signal.SIG_DFL, signal.default_int_handler):
                # The loop's own handler only wakes the loop, even if the signal arrives just before the loop starts to
                # wait. Our handler replaces the function that Python calls.
                with suppress(NotImplementedError):  # Windows
                    self._loop.add_signal_handler(number, lambda: None)
                signal.signal(number, self._receive)
                self._previous[number] = previous

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over = True
        with self._ending:
            for number, previous in self._previous.items():
                with suppress(NotImplementedError):
                    self._loop.remove_signal_handler(number)
                signal.signal(number, previous)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._over:
            return
        if self.received:
            raise KeyboardInterrupt
        self.received = True
        self._loop.call_soon_threadsafe(self._task.cancel)
        # A threading.Thread needs locks, which the code that this handler interrupted may hold.
        _thread.start_new_thread(self._interrupt_blocked_loop, (number,))

    def _interrupt_blocked_loop(self, number: int) -> None:
        while not self._over:
            turned = threading.Event()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(turned.set)
            if not turned.wait(self._grace):
                self._interrupt(number)
            time.sleep(self._grace)

    def _interrupt(self, number: int) -> None:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        with self._ending:  # after the handlers are restored, a signal would end the process
            if not self._over:
                signal.pthread_kill(main_thread, number)
