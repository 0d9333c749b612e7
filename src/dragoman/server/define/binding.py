"""The binding of an author's function: which parameters are arguments of the client, and which have a source.

A parameter is an argument that the client sends, unless the parameter has a source. A source is a function that makes
the value from the `Call`. `_Sources` finds the source of a parameter; the context is the only source. `Signature`
leaves parameters with a source out of the schema, and binds both kinds.
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
    """Return the signature of a function; a parameter that has a source is not an argument.

    Raises:
        DefinitionError: a parameter cannot be bound; the message names the parameter and the remedy.
    """
    return Signature.of(function, source_of=_Sources())


class Hook:
    """An author's function that the server calls with positional values, at most as many as the function takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = signature_of(function)
        self._start = starter(function, in_place=self._signature.is_async)

    async def invoke(self, call: Call, *values: Any) -> Any:
        """Call the function with the values and the context, in a thread if it is a `def`."""
        args, kwargs = self._signature.bind_values(values, call)
        return await resolved(self._start(*args, **kwargs))


class _Sources:
    """Finds the sources of the parameters of one function, which may take the context once."""

    def __init__(self) -> None:
        self._takes_context: str | None = None

    def __call__(self, parameter: inspect.Parameter, *, is_async: bool) -> Source | None:
        annotation = parameter.annotation
        fitting = "Context" if is_async else "BlockingContext"
        # A parameter named `ctx` needs no annotation.
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
    """Return the name of the context class in an annotation, Optional or Annotated; None if there is no context."""
    if get_origin(annotation) in {Annotated, Union, UnionType}:
        found = {_context_class(argument) for argument in get_args(annotation)} - {None}
        return found.pop() if len(found) == 1 else None
    if not isinstance(annotation, type) or annotation.__name__ not in _CONTEXTS:
        return None
    is_ours = isinstance(annotation, UnresolvedName) or annotation.__module__.partition(".")[0] == "dragoman"
    return annotation.__name__ if is_ours else None
