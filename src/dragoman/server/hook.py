"""Functions that an author gives for events, with the parameters that they care for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.server.call import Call
from dragoman.server.context import BlockingContext, Context
from dragoman.server.signature import Signature


class Hook:
    """An author's function that is given values by position, as many as it takes, and a context if it asks for one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = Signature.of(function)
        self._names = [parameter.name for parameter in self._signature.parameters]

    async def invoke(self, call: Call, *values: Any) -> Any:
        """Call the function, in a thread if it blocks."""
        keywords = dict(zip(self._names, values, strict=False))
        context = self._signature.context
        if context is not None:
            keywords[context.name] = (Context if self._signature.is_async else BlockingContext)(call)
        if self._signature.is_async:
            return await self._function(**keywords)
        from dragoman.runtime.offload import offload

        return await offload(self._function, **keywords)
