"""Which requests a middleware is about, and for whom a request counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Literal

from dragoman.errors import DefinitionError
from dragoman.server.request.context import Context

TOOL_CALLS = ("tools/call",)
RequestKey = Literal["principal", "session"] | Callable[[Context], str | None]
"""For whom a request counts: the principal, the HTTP session, or the text that a function of the context returns.

Requests without a principal count together. A request without an HTTP session counts for its principal. If the function
returns None, the request does not count.
"""


def key_of(ctx: Context, by: RequestKey) -> str | None:
    """Return the text for which a request counts; None if the request does not count."""
    if by == "principal":
        return ctx.principal or ""
    if by == "session":
        return f"session {ctx.session_id}" if ctx.session_id is not None else f"principal {ctx.principal or ''}"
    key: Any = by(ctx)
    if key is not None and not isinstance(key, str):
        raise TypeError(f"The function for `by` must return a text or None, not {type(key).__name__}")
    return key


def checked_key(by: RequestKey) -> RequestKey:
    """Check the option `by`.

    Raises:
        DefinitionError: it is no function and none of the known texts.
    """
    if by not in ("principal", "session") and not callable(by):
        raise DefinitionError(f'by must be "principal", "session" or a function of the context, not {by!r}')
    return by


def checked_methods(methods: Iterable[str]) -> frozenset[str]:
    """Check the option `methods`.

    Raises:
        DefinitionError: it is one text, or no texts.
    """
    found = frozenset() if isinstance(methods, str) else frozenset(methods)
    if not found or not all(isinstance(method, str) for method in found):
        raise DefinitionError(f'methods must be a list of methods, such as ["tools/call"], not {methods!r}')
    return found


def checked_number(name: str, value: float) -> float:
    """Check an option that is a positive number.

    Raises:
        DefinitionError: it is not.
    """
    given: Any = value
    if not isinstance(given, int | float) or isinstance(given, bool) or not isfinite(given) or given <= 0:
        raise DefinitionError(f"{name} must be a number above 0, not {value!r}")
    return value


def checked_count(name: str, value: int, minimum: int = 1) -> int:
    """Check an option that counts something.

    Raises:
        DefinitionError: it is no integer, or less than the minimum.
    """
    if type(value) is not int or value < minimum:
        raise DefinitionError(f"{name} must be an integer of at least {minimum}, not {value!r}")
    return value
