"""Blocking twins of asynchronous methods, one line each.

The twin has the name, the parameters and the documentation of the asynchronous method, and drives it; how is the
business of the object's `_drive`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
P = ParamSpec("P")
R = TypeVar("R")


def blocking(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return the blocking twin of a method.

    Example:
        class BlockingContext:
            elicit = blocking(Context.elicit)
    """

    @functools.wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._drive(method, *args, **kwargs)  # type: ignore[no-any-return]

    return run


def begun(method: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, R]:
    """Return the coroutine of an asynchronous method, for its blocking twin.

    Raises:
        TypeError: the arguments do not fit; the error names the blocking twin.
    """
    try:
        return method(*args, **kwargs)
    except TypeError as error:  # nothing of a coroutine function has run yet
        raise TypeError(str(error).replace("Async", "", 1)) from None
