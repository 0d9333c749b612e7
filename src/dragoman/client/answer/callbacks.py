"""Calls the author's handlers, such as `on_sampling`, and bounds how many of their requests run at a time.

A handler is a function, a callable object, or an object with an `execute` method. An async handler runs in the event
loop, a plain one in a thread.

`HandlerSlots` bounds how many requests a handler serves at a time. A thread cannot be ended when its request is
cancelled, so a plain function keeps the slot of its request until it returns. Otherwise a server that sends and cancels
requests in a loop would occupy one thread after another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar

from dragoman.config import is_async
from dragoman.errors import Cancelled
from dragoman.runtime.callables import invoke
from dragoman.runtime.tasks import is_being_cancelled

LOGGER = logging.getLogger("dragoman.client")
MAX_CONCURRENT = 8
"""How many requests a handler serves at a time, by default."""

Handler = Callable[..., Any]
HandlerCaller = Callable[..., Awaitable[Any]]
"""A function that calls a handler, such as `call_handler`."""
Asked = TypeVar("Asked")
Asked_contra = TypeVar("Asked_contra", contravariant=True)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Executes(Protocol[Asked_contra, Answer_co]):
    """An object whose method `execute` answers requests."""

    def execute(self, asked: Asked_contra, /) -> Answer_co:
        """Answer a request."""


# `Future` is invariant: `Future[bool]` would not be accepted where `Future[bool | None]` is declared.
AnsweredBy = (
    Callable[[Asked], Answer | Awaitable[Answer] | Future[Any]]
    | Executes[Asked, Answer | Awaitable[Answer] | Future[Any]]
)
"""A handler of the author: a function, plain or async, or an object that can be called or has `execute`."""


def as_function(given: Any, name: str) -> Handler:
    """Return the function of a handler: the handler itself, or its method `execute`.

    Raises:
        TypeError: the handler cannot be called, or is a class instead of an instance.
    """
    if isinstance(given, type):
        raise TypeError(f"{name} must be a function or an object, not the class {given.__name__}: give an instance")
    function: Handler | None = given if callable(given) else getattr(given, "execute", None)
    if not callable(function):
        raise TypeError(
            f"{name} must be a function, a callable object or an object with an execute method, not {given!r}"
        )
    return function


def function_name(function: Handler) -> str:
    """Return the name of a function, for representations."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


async def call_handler(function: Handler, *args: Any) -> Any:
    """Call a handler, in the loop if it is async and else in a thread, and await the awaitable that it returns.

    Raises:
        Exception: the function raised it.
        Cancelled: an awaitable of the function was cancelled, and not the calling task.
    """
    try:
        returned = await invoke(function, *args)
        return await asyncio.wrap_future(returned) if isinstance(returned, Future) else returned
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        raise Cancelled("What the handler waited for was cancelled") from None


_held_slots: ContextVar[tuple[HandlerSlots, ...]] = ContextVar("_held_slots", default=())
"""The slots of the handlers that run in this context; threads and requests of blocking clients inherit it."""


class HandlerSlots:
    """A bound on the requests that a handler serves at a time; further ones wait, first in, first out.

    Example:
        slots = HandlerSlots(8)
        async with slots.acquire() as slot:
            answer = await slot.call(on_sampling, request)

    May be used from any thread and event loop, since one handler may serve several clients.

    Raises:
        TypeError: `max_concurrent` is not an integer.
        ValueError: `max_concurrent` is less than 1.
    """

    def __init__(self, max_concurrent: int) -> None:
        if isinstance(max_concurrent, bool) or not isinstance(max_concurrent, int):
            raise TypeError(f"max_concurrent must be an integer, not {max_concurrent!r}")
        if max_concurrent < 1:
            raise ValueError(f"max_concurrent must be at least 1, not {max_concurrent}")
        self._free = max_concurrent
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[HandlerSlot]:
        """Wait for a slot, and hold it until the block ends and every plain function called in it has returned.

        A handler that has a slot may cause another request to itself, which needs no further slot.
        """
        if self in _held_slots.get():
            yield HandlerSlot(lambda: None)
            return
        turn: Future[None] = Future()
        with self._lock:
            is_free = self._free > 0
            self._free -= is_free
            if not is_free:
                self._waiting.append(turn)
        if not is_free:
            await self._wait_for(turn)
        slot = HandlerSlot(self._release)
        token = _held_slots.set((*_held_slots.get(), self))
        try:
            yield slot
        finally:
            _held_slots.reset(token)
            slot.release()

    async def _wait_for(self, turn: Future[None]) -> None:
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if turn.cancel():
                with self._lock, suppress(ValueError):
                    self._waiting.remove(turn)
            else:  # the slot was handed over in the meantime
                self._release()
            raise

    def _release(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        turn.set_result(None)


class HandlerSlot:
    """One slot, held by a request and by each plain function that runs for the request; the last one frees it."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free
        self._holders = 1
        self._lock = threading.Lock()

    async def call(self, function: Handler, *args: Any) -> Any:
        """Call a handler as `call_handler` does; a plain function holds the slot until it returns."""
        return await call_handler(function if is_async(function) else partial(self._run, function), *args)

    def _run(self, function: Handler, *args: Any) -> Any:
        with self._lock:
            is_held = self._holders > 0  # False if the request was cancelled before the thread began
            self._holders += is_held
        try:
            return function(*args)
        finally:
            if is_held:
                self.release()

    def release(self) -> None:
        """End one hold of the slot; the last one frees the slot."""
        with self._lock:
            self._holders -= 1
            is_free = not self._holders
        if is_free:
            self._free()
