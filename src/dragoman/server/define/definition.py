"""`Definition`, the base class of tools, prompts, resources and templates: an author's function with its description.

There are three ways to define each: a class with a method, an object made of a function (`Tool.define`, or the free
decorators), and a decorator on the server. All of them make one object whose function is inspected once. The object can
be registered with any number of servers, and called like the function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypedDict, TypeVar

from dragoman import types
from dragoman.errors import DefinitionError, RpcError, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import starter
from dragoman.schema.python import docstrings
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.define.binding import signature_of
from dragoman.server.request.call import Call
from dragoman.server.wire_objects import wire_objects

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    # Defaults let `class Weather(Tool)` pass a strict type checker; before Python 3.13 `typing` has none.
    import typing_extensions

    Parameters = typing_extensions.ParamSpec("Parameters", default=...)
    Returned = typing_extensions.TypeVar("Returned", default=Any)
else:
    Parameters = P
    Returned = R

Listed = TypeVar("Listed")
_OURS = "dragoman.server."
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class DefinitionOptions(TypedDict, total=False):
    """The options that every definition has."""

    name: str | None
    """By default the name of the function."""
    title: str | None
    """The name that people are shown."""
    description: str | None
    """By default the docstring of the function."""
    meta: types.Json | None
    """The `_meta` of its entry in lists."""
    icons: Iterable[types.Icon | types.Json]
    """The icons that people are shown."""
    inline: bool
    """Run a `def` in the event loop, because it is quick and does not block."""


class Definition(Generic[Parameters, Returned]):
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

    definition: Any
    """The entry in lists."""
    start: Callable[..., Any]
    """Calls the function, in a thread if it may block; returns its value, or a coroutine that gives it."""

    def __init__(self, **options: Any) -> None:
        kind = type(self)
        if getattr(kind, self._method).__module__.startswith(_OURS):
            raise DefinitionError(f"{kind.__name__} must define a method `{self._method}`")
        self._set(options)
        documentation = None if kind.__module__.startswith(_OURS) else kind.__doc__
        self._adopt(getattr(self, self._method), kind.__name__, docstrings.parse(documentation).description)

    def _set(self, options: dict[str, Any]) -> None:
        for option, value in options.items():
            if not self._takes(option):
                raise DefinitionError(f"{type(self).__name__} has no option {option!r}")
            if value is not None:
                setattr(self, option, value)

    def _takes(self, option: str) -> bool:
        return not option.startswith("_") and _is_option(type(self), option)

    @classmethod
    def define(cls, function: Callable[Parameters, Returned], /, **options: Any) -> Self:
        """Make a definition of a function; the options are the attributes that a class would set, and None sets none.

        Raises:
            DefinitionError: the function cannot be served; the message names the remedy.
        """
        _refuse_class(function, cls)
        made = cls.__new__(cls)
        made._set(options)
        made._adopt(function, _name_of(function), None)
        functools.update_wrapper(made, function, updated=())
        return made

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """Call the function as it is."""
        return self._function(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _adopt(self, function: Callable[..., Any], source: str, documentation: str | None) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"{source}() cannot be served because it yields; return a list instead")
        self._function = function
        self.signature = signature_of(function)
        self.start = starter(function, in_place=self.signature.is_async or self.inline)
        self.name = self.name or snake_case(source)
        if self.description is None:
            self.description = documentation or self.signature.description
        self._compile()
        self._refuse_unlistable()

    def _compile(self) -> None:
        """Make the entry for lists; a subclass overrides this."""

    def _refuse_unlistable(self) -> None:
        """Refuse an entry that would make the whole list fail."""
        definition = getattr(self, "definition", None)
        try:
            types.decode(encode(definition), type(definition))
        except ValidationError as error:
            raise DefinitionError(f"{self.name!r} cannot be listed: {error}") from None

    def _described(self, kind: Callable[..., Listed], **fields: Any) -> Listed:
        """Return the entry for lists, from the fields that every kind has and from others."""
        icons = wire_objects(self.icons, types.Icon, f"An icon of {self.name!r}")
        texts = {"name": self.name, "title": self.title, "description": self.description}
        return kind(**texts, icons=icons, meta=self.meta, **fields)

    def begin(self, call: Call) -> Any:
        """Call the function with a client's arguments; return its value, or a coroutine that gives it, for `result`.

        Raises:
            RpcError: the arguments do not fit.
        """
        try:
            args, kwargs = self.signature.bind(call.arguments, call)
        except ArgumentsRejected as rejected:
            raise self._refusal(call, rejected) from None
        return self.start(*args, **kwargs)

    def _refusal(self, call: Call, rejected: ArgumentsRejected) -> RpcError:  # noqa: ARG002
        return rejected.refusal()

    def result(self, call: Call, value: object) -> object:  # noqa: ARG002
        """Return the result for the function's value, not sealed; a subclass overrides this."""
        return value


def snake_case(name: str) -> str:
    """Return a class or function name in the spelling of tool names: `HTTPFetch` is `http_fetch`."""
    return _WORD_STARTS.sub("_", name).replace("-", "_").lower()


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


Defined = TypeVar("Defined")


def options_among(names: dict[str, Any], kind: type[Any]) -> Any:
    """Return the options of a TypedDict that a function has among its local names.

    A public function has each option as a parameter, so that `help` lists them; this passes them on without a second
    list.
    """
    return {option: names[option] for option in kind.__annotations__ if option in names}


def decorated(
    make: Callable[..., Defined], given: Callable[P, R] | str | None, options: dict[str, Any]
) -> Defined | Callable[[Callable[P, R]], Defined]:
    """Return a definition of a function, or a decorator if a name or options were given.

    Raises:
        DefinitionError: two names are given, or the function cannot be served.
    """
    if isinstance(given, str):
        if options.get("name") is not None:
            raise DefinitionError(f"Two names are given, {given!r} and {options['name']!r}; give one")
        options, given = {**options, "name": given}, None
    if given is None:
        return lambda function: make(function, **options)
    return make(given, **options)


def _refuse_class(function: Any, kind: type[Any]) -> None:
    if isinstance(function, type):
        what = kind.__name__
        raise DefinitionError(
            f"{function.__name__} is a class, and a {what} is made of a function: decorate a function or a method of an"
            f" object, or let the class extend dragoman.{what} and give it to the server"
        )
    if not callable(function):
        raise DefinitionError(f"{function!r} cannot be called: give a function")


def _is_option(kind: type[Any], name: str) -> bool:
    value = getattr(kind, name, _is_option)
    return not callable(value) and not isinstance(value, property)
