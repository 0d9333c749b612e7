"""Tables in which every method has an entry: a proxy also passes methods that this package does not know."""

from __future__ import annotations

from typing import Any

from dragoman import types
from dragoman.protocol.methods import METHOD_NAMES, Method

NOTIFICATIONS = "notifications/"


class EveryMethod(dict[str, Method]):
    """The methods of a version, and a row without types for each method that the protocol does not define."""

    def __contains__(self, name: object) -> bool:
        is_of_another_version = name in METHOD_NAMES and not str(name).startswith(NOTIFICATIONS)
        return super().__contains__(name) or not is_of_another_version

    def __missing__(self, name: str) -> Method:
        if name not in self:
            raise KeyError(name)
        return Method(name=name, result=types.Result)


class Forwarding(dict[str, Any]):
    """A table of handlers in which every method has one."""

    def __init__(self, forward: Any, **own: Any) -> None:
        super().__init__(own)
        self._forward = forward

    def __missing__(self, _: str) -> Any:
        return self._forward
