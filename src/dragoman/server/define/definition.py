"""`Definition`: the base class of tools, prompts, resources and templates.

A definition is an author's function with its name, description and schema. There are three ways to make one: a class
with a method, an object made from a function (`Tool.define`, `@tool`), and a decorator of the server (`@server.tool`).
All of them make one object that inspects the function once. The object can be registered with several servers, and
called like the function.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from msgspec import UNSET, Struct

from dragoman import types
from dragoman.errors import DefinitionError, RpcError, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import at_caller, did_you_mean, raise_at_caller, resolved
from dragoman.schema.python import docstrings
from dragoman.schema.python.annotations import UnresolvedName
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.server.define.binding import lifespan_sources, signature_of, starter_of
from dragoman.server.define.sources import LifespanSource, Overrides
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context
from dragoman.server.settings import ServerType
from dragoman.server.wire_objects import wire_objects

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    # Defaults let `class Weather(Tool)` pass a strict type checker. `typing` has them from Python 3.13 on.
    import typing_extensions

    Parameters = typing_extensions.ParamSpec("Parameters", default=...)
    Returned = typing_extensions.TypeVar("Returned", default=Any)
else:
    Parameters = P
    Returned = R

Listed = TypeVar("Listed")
Visible = Callable[[Context], bool | Awaitable[bool]]
"""Tells whether the caller of a request sees a definition; a plain function runs in the loop, so it must be quick."""
Function = TypeVar("Function", bound=Callable[..., object])
_OURS = "dragoman.server."
_BLOCKING = {
    "time": {"sleep"},
    "requests": {"get", "post", "put", "patch", "delete", "head", "request"},
    "subprocess": {"run", "call", "check_call", "check_output"},
}
"""Functions that block, by module, of which authors call some in an `async def`."""
_BLOCKING_NAMES = frozenset().union(*_BLOCKING.values())
MAX_WRAPPERS = 20
"""The most decorators of one function that are looked through."""
_EMPTY_CELL = CellType()
_LAMBDA = "<lambda>"
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _stub() -> None: ...


def _documented_stub() -> None:
    """Do nothing."""


async def _async_stub() -> None: ...


async def _documented_async_stub() -> None:
    """Do nothing."""


_STUBS: tuple[Any, ...] = (_stub, _documented_stub, _async_stub, _documented_async_stub)
"""Functions whose bytecode is that of a function without a body."""


class DefinitionOptions(TypedDict, total=False):
    """The options that every definition has."""

    name: str | None
    """The name in lists; by default the name of the function."""
    title: str | None
    """The name to show to people."""
    description: str | None
    """The description in lists; by default the docstring of the function."""
    meta: types.Json | None
    """The `_meta` of the entry in lists."""
    icons: Iterable[types.Icon | types.Json]
    """The icons to show to people."""
    inline: bool
    """Run a `def` in the event loop, because it is quick and does not block."""
    tags: Iterable[str]
    """The tags by which `include_tags` and `exclude_tags` of `run` and `asgi` select; clients do not see them."""
    enabled: bool
    """Whether the server serves the definition before `server.enable` (True)."""
    visible: Visible | None
    """Tells by the `Context` whether the caller may list and use the definition; by default every caller may."""


@raise_at_caller("__init__ define")
class Definition(Generic[Parameters, Returned]):
    """An author's function with its description for clients."""

    name: str = ""
    title: str | None = None
    description: str | None = None
    icons: Iterable[types.Icon | types.Json] = ()
    meta: types.Json | None = None
    inline: bool = False
    """Run a `def` in the event loop, because it is quick and does not block."""
    tags: Iterable[str] = ()
    """The tags by which `include_tags` and `exclude_tags` select; clients do not see them."""
    enabled: bool = True
    """Whether a server that registers the definition serves it at first."""
    visible: Visible | None = None
    """Tells by the `Context` whether the caller may list and use the definition; None: every caller may."""

    _method: ClassVar[str]
    """The name of the method that a subclass implements, such as `call`."""
    _flags: ClassVar[tuple[str, ...]] = ("inline", "enabled")
    """The options that are True or False."""
    further_options: ClassVar[set[str]] = set()
    """The options that extensions add to definitions of this kind."""
    _has_decorator_above = False
    """Whether the source has another decorator above the one that made the definition."""

    definition: Any
    """The entry in lists."""
    start: Callable[..., Any]
    """Calls the function, in a thread if it may block; returns its value, or a coroutine that returns the value."""

    def __init__(self, **options: Any) -> None:
        kind = type(self)
        if getattr(kind, self._method).__module__.startswith(_OURS):
            raise DefinitionError(f"{kind.__name__} must define a method `{self._method}`")
        self._set(options)
        documentation = None if kind.__module__.startswith(_OURS) else kind.__doc__
        self._adopt(getattr(self, self._method), kind.__name__, docstrings.parse(documentation).description)

    def without_derived_parts(self) -> Struct:
        """Return the entry in lists without the parts that a pinned version may drop without an error."""
        entry: Struct = self.definition
        return entry

    def _set(self, options: dict[str, Any]) -> None:
        for option, value in options.items():
            if not self._takes(option):
                known = {name for name in {*dir(type(self)), *self.further_options} if self._takes(name)}
                raise DefinitionError(f"{type(self).__name__} has no option {option!r}{did_you_mean(option, known)}")
            if option == "name" and value == "":
                raise DefinitionError("The name '' is not allowed: leave `name` out to use the name of the function")
            if value is not None:
                setattr(self, option, value)

    def _takes(self, option: str) -> bool:
        return option in self.further_options or (not option.startswith("_") and _is_option(type(self), option))

    def require_options_known(self, known: Container[str]) -> None:
        """Refuse the definition if it has an option of an extension that the server lacks.

        Raises:
            DefinitionError: an option is not in `known`.
        """
        for option in sorted(self.further_options):
            # No `vars` here: an object whose dict was looked at is slower to read, and each call reads the definition.
            is_given = getattr(self, option, None) is not getattr(type(self), option, None)
            if is_given and option not in known:
                raise DefinitionError(
                    f"{self.name!r} has the option {option!r}, which belongs to an extension that this server lacks:"
                    " give the extension as Server(extensions=[...])"
                )

    @classmethod
    def add_options(cls, names: Iterable[str]) -> None:
        """Let definitions take the options of an extension; a server without it refuses a definition that has one."""
        cls.further_options.update(name for name in names if not hasattr(cls, name))

    @classmethod
    def define(cls, function: Callable[Parameters, Returned], /, **options: Any) -> Self:
        """Make a definition from a function.

        Example:
            weather = Tool.define(api.forecast, name="weather", description="Weather for a city.")

        The options are the attributes that a subclass would set; None leaves the default.

        Raises:
            DefinitionError: the function cannot be served; the message names the remedy.
        """
        if isinstance(function, cls):
            if options:
                raise DefinitionError(
                    f"{function!r} has its options already: give them where it is made, or to its function"
                )
            return function
        _refuse_class(function, cls)
        made = cls.__new__(cls)
        made._has_decorator_above = _has_decorator_above(function)
        made._set(options)
        made._adopt(function, _name_of(function), None)
        functools.update_wrapper(made, function, updated=())
        return made

    def __call__(self, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """Call the function directly, without the checks for clients."""
        return self._function(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def lifespan_sources(self, overrides: Overrides) -> list[LifespanSource]:
        """Return the sources of all lifespan values that the function and its dependencies take."""
        return lifespan_sources(self._function, self.signature, overrides)

    def doubts(self) -> Iterator[str]:
        """Yield what is probably a mistake of the author, with its remedy."""
        if self._is_decorated():
            yield (
                f"The decorator above {self.name!r} does not run for clients: write the decorator of the server above"
                " it"
            )
        if self.signature.returns not in (UNSET, None, NoneType) and _has_empty_body(self._function):
            yield (
                f"The function of {self.name!r} has no body, so it always returns None: if it is a stub of"
                " typing.overload, decorate the implementation instead"
            )
        for name in _unresolved(self.signature.returns):
            yield f"The return annotation {name.__name__!r} of {self.name!r} is ignored: {name.remedy}"
        if (blocking := _blocking_call(self._function)) is not None:
            yield (
                f"The `async def` of {self.name!r} calls {blocking}, which stops the server for all clients meanwhile:"
                " write `def`, or await what takes long"
            )

    def _is_decorated(self) -> bool:
        """Tell whether a decorator above `@server.tool` and its like has wrapped the definition; clients bypass it."""
        value: Any = sys.modules.get(getattr(self._function, "__module__", ""))
        for name in getattr(self._function, "__qualname__", "<locals>").split("."):
            if name == "<locals>":  # the variable cannot be looked at
                return self._has_decorator_above
            value = getattr(value, name, None)
        if value is None or isinstance(value, Definition):
            return False
        cells = [cell for cell in getattr(value, "__closure__", None) or () if cell != _EMPTY_CELL]
        is_called = any(cell.cell_contents is self for cell in cells)
        return self._has_decorator_above or is_called or wrapped_definition(value) is self

    def _adopt(self, function: Callable[..., Any], source: str, documentation: str | None) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(f"{source}() cannot be served because it yields; return a list instead")
        self._check_options(source)
        self._function = function
        self.signature = signature_of(function)
        self.start = starter_of(function, self.signature, in_place=self.signature.is_async or self.inline)
        self.name = self.name or self._default_name(source)
        if self.description is None:
            self.description = documentation or self.signature.description
        self._compile()
        self._refuse_unlistable()

    def _default_name(self, source: str) -> str:
        """Return the name of a definition whose author gave none; `source` is the name of its function or class."""
        if source == _LAMBDA:
            kind = type(self).__name__
            raise DefinitionError(
                f'A lambda has no name: give it one, as in {kind}.define(function, name="double"), or write a `def`'
            )
        return snake_case(source)

    def _check_options(self, source: str) -> None:
        """Check the flags, and the options that decide who may see the definition."""
        for option in ("name", "title", "description"):
            if not isinstance(text := getattr(self, option), str | None):
                raise DefinitionError(f"{option} of {source} must be text, not {text!r}")
        for flag in self._flags:
            if not isinstance(value := getattr(self, flag), bool):
                raise DefinitionError(f"{flag} of {source} must be True or False, not {value!r}")
        given, self.tags = self.tags, list(self.tags)  # a generator can be read only once
        if isinstance(given, str) or not all(isinstance(tag, str) for tag in self.tags):
            raise DefinitionError(f'The tags of {source} must be a set of texts, such as {{"admin"}}, not {given!r}')
        self.tags = frozenset(self.tags)
        if self.visible is not None and not callable(self.visible):
            raise DefinitionError(f"visible of {source} must be a function that takes a Context, not {self.visible!r}")

    def _compile(self) -> None:
        """Set `definition`, the entry in lists; a subclass overrides this."""

    def _refuse_unlistable(self) -> None:
        """Refuse an entry that a client could not decode, because it would make the whole list fail."""
        definition = getattr(self, "definition", None)
        try:
            types.decode(encode(definition), type(definition))
        except ValidationError as error:
            raise DefinitionError(f"{self.name!r} cannot be listed: {error}") from None

    def _described(self, kind: Callable[..., Listed], **fields: Any) -> Listed:
        """Return the entry in lists: the fields that every definition has, and `fields`."""
        icons = wire_objects(self.icons, types.Icon, f"An icon of {self.name!r}")
        texts = {"name": self.name, "title": self.title, "description": self.description}
        return kind(**texts, icons=icons, meta=self.meta, **fields)

    def begin(self, call: Call) -> Any:
        """Call the function with a client's arguments; return its value, or a coroutine that returns the value.

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
        """Return the unsealed result for the function's value; a subclass overrides this."""
        return value


def _has_decorator_above(function: Any) -> bool:
    """Tell whether another decorator stands above the one that calls this.

    The code of a decorated function begins at the line of the topmost decorator, and the caller is at the line of the
    decorator that it applies.
    """
    code, frame = getattr(function, "__code__", None), sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "dragoman":
        frame = frame.f_back
    if code is None or frame.f_code.co_filename != code.co_filename:
        return False
    body = [line for *_, line in code.co_lines() if line is not None and line > code.co_firstlineno]
    return bool(body) and code.co_firstlineno < frame.f_lineno < min(body)


def wrapped_definition(function: Any) -> Definition[..., Any] | None:
    """Return the definition that decorators have wrapped with `functools.wraps`, if any."""
    for _ in range(MAX_WRAPPERS):
        function = getattr(function, "__wrapped__", None)
        if function is None or isinstance(function, Definition):
            return function
    return None


def snake_case(name: str) -> str:
    """Return the name of a class or function in snake case: `HTTPFetch` becomes `http_fetch`."""
    return _WORD_STARTS.sub("_", name).replace("-", "_").lower()


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


Defined = TypeVar("Defined")


async def is_visible(call: Call, definition: Definition[..., Any], answers: dict[Visible, bool]) -> bool:
    """Tell whether the caller sees a definition; `answers` holds those of the functions that were called already."""
    visible = definition.visible
    if visible is None:
        return True
    if visible not in answers:
        try:
            answers[visible] = bool(await resolved(visible(Context(call))))
        except Exception as error:
            call.server.report(error, call)
            answers[visible] = False
    return answers[visible]


def lists_options(options: type[Any], *kinds: object) -> Callable[[Function], Function]:
    """Let `help` list the options of a TypedDict in place of `**options`; the defaults are the attributes of `kinds`.

    A parameter `**further` stays in the list.
    """
    defaults = {name: getattr(kind, name) for kind in kinds for name in options.__annotations__ if hasattr(kind, name)}
    defaults["name"] = None
    listed = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=hint.__forward_arg__
        )
        for name, hint in options.__annotations__.items()
    ]

    def list_options(function: Function) -> Function:
        signature = inspect.signature(function)
        *given, rest = signature.parameters.values()
        further = [rest] if rest.name == "further" else []
        function.__signature__ = signature.replace(parameters=[*given, *listed, *further])  # type: ignore[attr-defined]
        return function

    return list_options


def decorated(
    make: Callable[..., Defined], given: Callable[P, R] | str | None, options: dict[str, Any]
) -> Defined | Callable[[Callable[P, R]], Defined]:
    """Return a definition of a function, or a decorator if `given` is a name or None.

    Raises:
        DefinitionError: two names are given, or the function cannot be served.
    """
    if isinstance(given, str):
        if options.get("name") is not None:
            raise DefinitionError(f"Two names are given, {given!r} and {options['name']!r}; give one")
        options, given = {**options, "name": given}, None
    if given is None:
        return at_caller(lambda function: make(function, **options))
    return make(given, **options)


def _refuse_class(function: Any, kind: type[Any]) -> None:
    if isinstance(function, type):
        what = kind.__name__
        raise DefinitionError(
            f"{function.__name__} is a class, and a {what} is made of a function: decorate a function or a method of an"
            f" object, or let the class extend dragoman.{what} and give it to the server"
        )
    if isinstance(function, classmethod):
        name = function.__name__
        raise DefinitionError(
            f"{name} is a class method that belongs to no class yet: register it after the class, such as"
            f" server.tool(Thing.{name})"
        )
    if isinstance(type(function), ServerType):
        raise DefinitionError(f"{function!r} is a server, not a function: serve what it has with server.mount()")
    if not callable(function):
        raise DefinitionError(f"{function!r} cannot be called: give a function")
    if getattr(function, "__qualname__", "") == "_overload_dummy":
        raise DefinitionError(
            f"The function is a stub of typing.overload, which cannot be called: make the {kind.__name__} of the"
            " implementation below the stubs"
        )


def _is_option(kind: type[Any], name: str) -> bool:
    value = getattr(kind, name, _is_option)
    return not callable(value) and not isinstance(value, property)


def _unresolved(returns: Any) -> list[UnresolvedName]:
    """Return the names of a return annotation that do not exist at run time."""
    arms = get_args(returns) if get_origin(returns) in (Union, UnionType) else (returns,)
    return [arm for arm in arms if isinstance(arm, UnresolvedName)]


def _has_empty_body(function: Callable[..., Any]) -> bool:
    """Tell whether a function consists of `...`, `pass`, a docstring or `return None`."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_code not in [stub.__code__.co_code for stub in _STUBS]:
        return False
    import dis

    constants = [step.argval for step in dis.get_instructions(code) if "CONST" in step.opname]
    return constants == [None]


def _blocking_call(function: Callable[..., Any]) -> str | None:
    """Return the name of a function that blocks, if an `async def` calls it."""
    code = getattr(function, "__code__", None)
    if code is None or not inspect.iscoroutinefunction(function) or _BLOCKING_NAMES.isdisjoint(code.co_names):
        return None
    import dis

    loaded: Any = None
    for step in dis.get_instructions(code):
        scope = function.__globals__
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            scope = vars(loaded) if issubclass(type(loaded), ModuleType) else {}
        loaded = scope.get(step.argval) if isinstance(step.argval, str) else None
        if type(loaded) in (FunctionType, BuiltinFunctionType):  # `isinstance` would evaluate a lazy object
            module = str(loaded.__module__).partition(".")[0]
            if loaded.__name__ in _BLOCKING.get(module, ()):
                return f"{module}.{loaded.__name__}"
    return None
