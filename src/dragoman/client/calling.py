"""Calling what a user of a client gave to be called: a function, or an object that does the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from dragoman.config import is_async
from dragoman.runtime.offload import offload

LOGGER = logging.getLogger("dragoman.client")

Handler = Callable[..., Any]


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


async def call(function: Handler, *args: Any) -> Any:
    """Call a function of the user: in the loop if it is async, else in a thread; what it promises is waited for.

    Raises:
        Exception: whatever the function raises.
        HandlerGaveUp: what it waited for was cancelled.
    """
    try:
        if is_async(function):
            return await function(*args)
        return await _kept(await offload(function, *args))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise HandlerGaveUp("What the handler waited for was cancelled") from None


async def _kept(promise: Any) -> Any:
    """Return what a plain function gave, or in the end will have given."""
    from concurrent.futures import Future

    if isinstance(promise, Future):
        return await asyncio.wrap_future(promise)
    return await promise if isawaitable(promise) else promise
