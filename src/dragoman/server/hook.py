"""Functions that an author gives for events, with the parameters that they care for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from dragoman.schema.python.signature import Signature
from dragoman.server.call import Call
from dragoman.server.context import BlockingContext, Context

_TAKES_VALUES = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


class Hook:
    """An author's function that is given values by position, as many as it takes, and a context if it asks for one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = Signature.of(function)
        self._parameters = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in _TAKES_VALUES and not _is_private(parameter)
        ]

    async def invoke(self, call: Call, *values: Any) -> Any:
        """Call the function, in a thread if it blocks."""
        args, kwargs = self._bind(call, list(values))
        if self._signature.is_async:
            return await self._function(*args, **kwargs)
        from dragoman.runtime.offload import offload

        value = await offload(self._function, *args, **kwargs)
        return await value if isinstance(value, CoroutineType) else value

    def _bind(self, call: Call, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        context = self._signature.context
        for parameter in self._parameters:
            if context is not None and parameter.name == context.name:
                value = (Context if self._signature.is_async else BlockingContext)(call)
            elif values:
                value = values.pop(0)
            else:
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return args, kwargs


def _is_private(parameter: inspect.Parameter) -> bool:
    return parameter.name.startswith("_") and parameter.default is not parameter.empty
