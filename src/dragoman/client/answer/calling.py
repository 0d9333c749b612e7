"""Calling what a user of a client gave to be called: a function, or an object that does the same.

How many calls of a handler run at a time is bounded by places. A plain function runs in a thread, which cannot be ended
when its request is given up. It keeps its place until it returns, so that a server that asks and gives up again and
again does not take one thread after another.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from dragoman.config import is_async
from dragoman.runtime.callables import invoke
from dragoman.runtime.tasks import is_being_cancelled

LOGGER = logging.getLogger("dragoman.client")

Handler = Callable[..., Any]
Asked = TypeVar("Asked")
Asked_contra = TypeVar("Asked_contra", contravariant=True)
Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)


class Executes(Protocol[Asked_contra, Answer_co]):
    """An object that answers by its method `execute`."""

    def execute(self, asked: Asked_contra, /) -> Answer_co:
        """Answer what is asked."""


# A Future is of exactly one type, so that one of a part of the answers would not do.
AnsweredBy = (
    Callable[[Asked], Answer | Awaitable[Answer] | Future[Any]]
    | Executes[Asked, Answer | Awaitable[Answer] | Future[Any]]
)
"""What a user gives to answer a question: a function, plain or async, or an object that does the same."""


class HandlerGaveUp(Exception):
    """What a handler waited for was cancelled, although nobody cancelled the handler."""


def handler(given: Any, name: str) -> Handler:
    """Return what is to be called: a function, a callable object, or the `execute` of an object that has one.

    Raises:
        TypeError: it is none of these; a class is to be made an object first.
    """
    if isinstance(given, type):
        raise TypeError(f"{name} must be a function or an object, not the class {given.__name__}: give an instance")
    execute: Handler | None = given if callable(given) else getattr(given, "execute", None)
    if not callable(execute):
        raise TypeError(
            f"{name} must be a function, a callable object or an object with an execute method, not {given!r}"
        )
    return execute


def name_of(function: Handler) -> str:
    """Return what a function is called, as it is shown to whoever looks for a mistake."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


async def call(function: Handler, *args: Any) -> Any:
    """Call a function of the user: in the loop if it is async, else in a thread; what it promises is waited for.

    Raises:
        Exception: whatever the function raises.
        HandlerGaveUp: what it waited for was cancelled.
    """
    try:
        given = await invoke(function, *args)
        return await asyncio.wrap_future(given) if isinstance(given, Future) else given
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        raise HandlerGaveUp("What the handler waited for was cancelled") from None


class Places:
    """How many requests are worked on at a time; the others wait in the order in which they came.

    Example:
        places = Places(8)
        async with places.one() as place:
            answer = await place.call(on_sampling, request)

    May be used from any thread and event loop, since a handler may serve several clients.

    Raises:
        TypeError: the number is no integer.
        ValueError: it is less than 1.
    """

    def __init__(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int):
            raise TypeError(f"max_concurrent must be an integer, not {most!r}")
        if most < 1:
            raise ValueError(f"max_concurrent must be at least 1, not {most}")
        self._free = most
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[RequestSlot]:
        """Wait for a place, and keep it until the end and until every plain function that was called has returned."""
        await self._take()
        place = RequestSlot(self._leave)
        try:
            yield place
        finally:
            place.leave()

    async def _take(self) -> None:
        turn: Future[None] = Future()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if turn.cancel():
                with self._lock, suppress(ValueError):
                    self._waiting.remove(turn)
            else:  # the place was given to us in the meantime
                self._leave()
            raise

    def _leave(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        turn.set_result(None)


class RequestSlot:
    """One place, which is free again when nobody keeps it: neither the request nor a function that runs for it."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave = leave
        self._keepers = 1
        self._lock = threading.Lock()

    async def call(self, function: Handler, *args: Any) -> Any:
        """Call a function of the user as `call` does; a plain one keeps the place until it returns."""
        return await call(function if is_async(function) else partial(self._run, function), *args)

    def _run(self, function: Handler, *args: Any) -> Any:
        with self._lock:
            is_kept = self._keepers > 0  # else the request was given up just now
            self._keepers += is_kept
        try:
            return function(*args)
        finally:
            if is_kept:
                self.leave()

    def leave(self) -> None:
        """Keep the place no longer."""
        with self._lock:
            self._keepers -= 1
            is_free = not self._keepers
        if is_free:
            self._leave()
