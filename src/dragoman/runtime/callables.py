"""Calling what an author gave to be called.

An async function is called in the event loop. A plain function may block, so it is called in a thread, unless the
caller knows that it is quick. Either may return something to be awaited: a plain function often hands out the coroutine
of an async one. `is_async` looks at what is called, and not at what that wraps: a plain wrapper may run an async
function to its end, which it cannot do in the loop. `is_async` is defined in `config`, which checks the functions that
it is given, and which may not import this room.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from dragoman.config import is_async


async def invoke(function: Callable[..., Any], /, *args: Any, in_place: bool = False) -> Any:
    """Call a function of an author, in a thread unless it is async, and return what it gives in the end.

    `in_place` calls a plain one in the loop: it is quick, or has to see the caller's context variables.

    Raises:
        Exception: whatever the function raises.
    """
    return await resolved(starter(function, in_place=in_place or is_async(function))(*args))


def starter(function: Callable[..., Any], *, in_place: bool) -> Callable[..., Any]:
    """Return what calls a function, in place or in a thread; it gives a value, or a coroutine for `resolved`."""
    return function if in_place else partial(_offloaded, function)


async def resolved(value: Any) -> Any:
    """Return a value, or what it is once it was awaited."""
    while isawaitable(value):
        value = await value
    return value


def then(outcome: Any, make: Callable[[Any], Any]) -> Any:
    """Return what a function makes of an outcome: at once, or of a coroutine, a coroutine that gives it."""
    return _made_later(outcome, make) if isinstance(outcome, CoroutineType) else make(outcome)


async def _made_later(outcome: Any, make: Callable[[Any], Any]) -> Any:
    return make(await resolved(outcome))


def _offloaded(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    from dragoman.runtime.offload import offload  # loads asyncio, which a server needs only once it serves

    return offload(function, *args, **kwargs)
