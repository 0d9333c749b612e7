"""Where each parameter of an author's function comes from.

A parameter is an argument, which the client sends, unless it has a source: a function that makes its value from the
call. `Signature` decodes the arguments, leaves parameters with a source out of the schema, and binds both kinds.
`_Sources` finds the source of a parameter. The context is the only source so far; another one is one more rule there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from dragoman.errors import DefinitionError
from dragoman.runtime.callables import resolved, starter
from dragoman.schema.python.annotations import UnresolvedName
from dragoman.schema.python.signature import Signature, Source
from dragoman.server.request.call import Call
from dragoman.server.request.context import BlockingContext, Context

_CONTEXTS: dict[str, Source] = {"Context": Context, "BlockingContext": BlockingContext}


def signature_of(function: Callable[..., Any]) -> Signature:
    """Inspect a function whose parameters are arguments, except for those that have a source.

    Raises:
        DefinitionError: a parameter cannot be given; the message names it and the remedy.
    """
    return Signature.of(function, source_of=_Sources())


class Hook:
    """An author's function that is called with values by position, as many as it takes, and with its sources."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = signature_of(function)
        self._start = starter(function, in_place=self._signature.is_async)

    async def invoke(self, call: Call, *values: Any) -> Any:
        """Call the function, in a thread if it blocks."""
        args, kwargs = self._signature.bind_values(values, call)
        return await resolved(self._start(*args, **kwargs))


class _Sources:
    """Finds the sources of the parameters of one function."""

    def __init__(self) -> None:
        self._takes_context: str | None = None

    def __call__(self, parameter: inspect.Parameter, *, is_async: bool) -> Source | None:
        annotation = parameter.annotation
        fitting = "Context" if is_async else "BlockingContext"
        # A parameter that is called `ctx` needs no annotation.
        is_bare = annotation is parameter.empty and parameter.name == "ctx" and parameter.default in (annotation, None)
        context = fitting if is_bare else _context_class(annotation)
        if context is None:
            return None
        if self._takes_context is not None:
            raise DefinitionError(f"the context is already given to {self._takes_context!r}; take it once")
        if context != fitting:
            kind, other = ("an `async def`", "a `def`") if is_async else ("a `def`", "an `async def`")
            raise DefinitionError(f"{kind} takes a {fitting}; annotate it so, or make the function {other}")
        self._takes_context = parameter.name
        return _CONTEXTS[context]


def _context_class(annotation: Any) -> str | None:
    """Return the name of the context that an annotation is, also within Optional or Annotated; None if it is none."""
    if get_origin(annotation) in {Annotated, Union, UnionType}:
        found = {_context_class(argument) for argument in get_args(annotation)} - {None}
        return found.pop() if len(found) == 1 else None
    if not isinstance(annotation, type) or annotation.__name__ not in _CONTEXTS:
        return None
    is_ours = isinstance(annotation, UnresolvedName) or annotation.__module__.partition(".")[0] == "dragoman"
    return annotation.__name__ if is_ours else None
