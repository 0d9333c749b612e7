"""The binding of an author's function: which parameters are arguments of the client, and which have a source.

A parameter is an argument that the client sends, unless the parameter has a source (`sources`). `Signature` leaves
parameters with a source out of the schema, and binds both kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.runtime.callables import resolved, starter
from dragoman.schema.python.signature import Signature
from dragoman.server.define.sources import LifespanSource, Overrides, PendingSource, Sources
from dragoman.server.request.call import Call


def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature of a function; a parameter that has a source is not an argument.

    Raises:
        DefinitionError: a parameter cannot be bound; the message names the parameter and the remedy.
    """
    return Signature.of(function, source_of=Sources())


def starter_of(function: Callable[..., Any], signature: Signature, *, in_place: bool) -> Callable[..., Any]:
    """Return the function that calls a function with what `Signature` bound, in a thread unless `in_place`.

    Raises:
        DefinitionError: a dependency of the function cannot be made; the message says why.
    """
    start = starter(function, in_place=in_place)
    if not any(isinstance(parameter.source, PendingSource) for parameter in signature.injected):
        return start
    from dragoman.server.define.dependencies import DependencyPlan

    return DependencyPlan(function, signature, {}).starter(start, in_place=in_place)


def lifespan_sources(function: Callable[..., Any], signature: Signature, overrides: Overrides) -> list[LifespanSource]:
    """Return the sources of all lifespan values that a function and its dependencies take."""
    signatures = [signature]
    if any(isinstance(parameter.source, PendingSource) for parameter in signature.injected):
        from dragoman.server.define.dependencies import DependencyPlan

        plan = DependencyPlan(function, signature, overrides.functions)
        signatures += [provider.signature for provider in plan.providers.values()]
    sources = [parameter.source for signature in signatures for parameter in signature.injected]
    return [source for source in sources if isinstance(source, LifespanSource)]


class Hook:
    """An author's function that the server calls with positional values, at most as many as the function takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = signature_of(function)
        self._start = starter_of(function, self._signature, in_place=self._signature.is_async)

    def lifespan_sources(self, overrides: Overrides) -> list[LifespanSource]:
        """Return the sources of all lifespan values that the function and its dependencies take."""
        return lifespan_sources(self._function, self._signature, overrides)

    async def invoke(self, call: Call, *values: Any) -> Any:
        """Call the function with the values and the context, in a thread if it is a `def`."""
        args, kwargs = self._signature.bind_values(values, call)
        return await resolved(self._start(*args, **kwargs))
