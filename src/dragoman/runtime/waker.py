"""`waker`: how a thread wakes a loop.

On Linux a loop of asyncio watches an eventfd. A wake-up then takes two system calls, of which the loop makes one, and
the loop calls the function in the same turn. Rejected: `call_soon_threadsafe` alone. It takes four system calls, and
the loop calls the function one turn later.

A thread may write to the eventfd of a loop that was closed meanwhile, but never to a descriptor that has got the same
number: the eventfd stays open while a thread can write to it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial


def waker(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> Callable[[], object]:
    """Return a function that any thread may call to have another function called in a loop.

    The other function is called after the functions that the thread passed to `call_soon_threadsafe` before. If the
    loop is closed, the returned function does nothing or raises RuntimeError.
    """
    # uvloop calls a reader before functions that were scheduled earlier.
    if sys.platform == "linux" and isinstance(loop, asyncio.SelectorEventLoop):
        with suppress(OSError):  # the process has no further descriptor
            return _watched_event(loop, function).set
    return partial(loop.call_soon_threadsafe, function)


def _watched_event(loop: asyncio.SelectorEventLoop, function: Callable[[], None]) -> _Event:
    event = _Event()

    def receive() -> None:
        os.eventfd_read(event.descriptor)
        function()

    loop.add_reader(event.descriptor, receive)
    return event


class _Event:
    """An eventfd, which is closed when nothing refers to it: an open loop does, and a thread that may write to it."""

    __slots__ = ("descriptor",)

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        with suppress(AttributeError):  # there is no descriptor
            close(self.descriptor)
