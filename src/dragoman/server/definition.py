"""What tools, prompts, resources and templates share: a function, a name and how they are described.

There are three ways to define each: a class with a method, an object made of a function (`Tool.define`, or the free
decorators), and a decorator on the server. All of them end in one object whose function is inspected once; it can be
registered with any number of servers, and called like the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

from msgspec import Raw, UnsetType

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.server.call import Call
from dragoman.server.context import BlockingContext, Context
from dragoman.server.results import wire_objects
from dragoman.server.signature import Signature

P = ParamSpec("P")
R = TypeVar("R")
Self = TypeVar("Self", bound="Definition[Any, Any]")

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Definition(Generic[P, R]):
    """A function of the author's, described for clients."""

    name: str = ""
    title: str | None = None
    description: str | None = None
    icons: Iterable[types.Icon | types.Json] = ()
    meta: types.Json | None = None
    inline: bool = False
    """Run a `def` in the event loop, because it is quick and does not block."""

    _method: ClassVar[str]
    """The method that a class defines."""

    def __init__(self, **options: Any) -> None:
        self._set(options)
        kind = type(self)
        documentation = None if kind.__module__.startswith("dragoman.server.") else kind.__doc__
        self._adopt(getattr(self, self._method), kind.__name__, documentation)

    def _set(self, options: dict[str, Any]) -> None:
        for option, value in options.items():
            if not hasattr(type(self), option) or option.startswith("_"):
                raise DefinitionError(f"{type(self).__name__} has no option {option!r}")
            if value is not None:
                setattr(self, option, value)

    @classmethod
    def define(cls: type[Self], function: Callable[..., Any], /, **options: Any) -> Self:
        """Make one of a function; the options are the attributes that a class would set."""
        made = cls.__new__(cls)
        made._set(options)
        made._adopt(function, getattr(function, "__name__", type(function).__name__), None)
        return made

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it is."""
        return self._function(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _adopt(self, function: Callable[..., Any], source: str, documentation: str | None) -> None:
        self._function = function
        self.signature = Signature.of(function)
        self.name = self.name or snake_case(source)
        self.description = self.description or self.signature.description or _first_paragraph(documentation)
        self._compile()

    def _compile(self) -> None:
        """Make the definition that is listed; a subclass says which."""

    def _listed_icons(self) -> list[types.Icon] | None:
        return wire_objects(self.icons, types.Icon, f"An icon of {self.name!r}")

    def invoke(self, call: Call, arguments: Raw | UnsetType) -> Any:
        """Call the function with a client's arguments; the outcome is a value, or a coroutine that gives it.

        Raises:
            ArgumentsRejected: the arguments do not fit.
        """
        signature = self.signature
        context = None if signature.context is None else (Context if signature.is_async else BlockingContext)(call)
        args, kwargs = signature.bind(arguments, context)
        if signature.is_async or self.inline:
            return self._function(*args, **kwargs)
        from dragoman.runtime.offload import offload

        return offload(self._function, *args, **kwargs)


def snake_case(name: str) -> str:
    """Return a class or function name in the spelling of tool names: `HTTPFetch` is `http_fetch`."""
    return _WORD_STARTS.sub("_", name).replace("-", "_").lower()


def _first_paragraph(documentation: str | None) -> str | None:
    return " ".join(documentation.strip().split("\n\n")[0].split()) if documentation else None


def check_name(name: str, pattern: re.Pattern[str], remedy: str) -> None:
    """Refuse a name that clients may not be able to use."""
    if not pattern.fullmatch(name):
        raise DefinitionError(f"The name {name!r} is not allowed: {remedy}")
