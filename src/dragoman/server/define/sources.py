"""Where the value of a parameter comes from if no client sends it: the context, a header, a lifespan, a dependency.

`Sources` finds the source of a parameter of an author's function. A source is a function that makes the value from the
`Call`. The source of a dependency makes a `Pending`, because a dependency may have to wait; `dependencies` replaces it
by the value before the function is called.

The markers of other packages are known by their names and are never imported. A `Depends` of FastAPI is a dependency.
FastAPI's other parameters have no meaning here, and are refused: a `Security` or a `Header` of FastAPI would otherwise
become an argument that the client chooses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import ExitStack
from types import FunctionType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from dragoman.errors import DefinitionError, DragomanError, InvalidParams
from dragoman.schema.python.annotations import UnresolvedName, describe
from dragoman.schema.python.signature import Source
from dragoman.server.request.call import Call
from dragoman.server.request.context import BlockingContext, Context

_CONTEXTS: dict[str, Source] = {"Context": Context, "BlockingContext": BlockingContext}
_UNIONS = (Union, UnionType)
_EMPTY = inspect.Parameter.empty
_HEADER_TYPES = frozenset({str, int, float, bool, type(None)})
_WEB_FRAMEWORKS = ("fastapi", "starlette")
_REMEDIES = {
    "Request": "take `ctx: Context` and read ctx.headers, ctx.principal or ctx.server_context",
    "Header": 'write Annotated[str, Header("x-name")] with `Header` of dragoman.server',
    "Cookie": 'write Annotated[str, Header("cookie")] with `Header` of dragoman.server',
    "Security": "write Depends(...), and give the scopes to @server.tool(scopes=...)",
}


class Header:
    """A parameter that has the value of an HTTP header.

    Example:
        @server.tool
        async def orders(tenant: Annotated[str, Header("x-tenant")]) -> list[str]: ...

    A request without the header uses the default of the parameter, or None if its type allows it, and is otherwise
    refused with InvalidParams. Requests over stdio, and tools that run as tasks, have no headers.
    """

    def __init__(self, name: str) -> None:
        self.name = name.lower()

    def __repr__(self) -> str:
        return f"Header({self.name!r})"

    def source(self, parameter: inspect.Parameter) -> Source:
        """Return the source of a parameter.

        Raises:
            DefinitionError: text cannot become the type of the parameter.
        """
        kind = str if parameter.annotation is _EMPTY else parameter.annotation
        kinds = get_args(kind) if get_origin(kind) in _UNIONS else (kind,)
        if not _HEADER_TYPES.issuperset(kinds):
            raise DefinitionError(f"a header is a text, which cannot become {describe(kind)}; take a str")
        default = None if parameter.default is _EMPTY and type(None) in kinds else parameter.default
        return lambda call: self._value(call, kind, default)

    def _value(self, call: Call, kind: Any, default: Any) -> Any:
        text = Context(call).headers.get(self.name)
        if text is None:
            if default is _EMPTY:
                raise InvalidParams(f"The request has no HTTP header {self.name!r}, which the server needs")
            return default
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:  # its message may hold the value, which may be a secret
            raise InvalidParams(f"The HTTP header {self.name!r} is not {describe(kind)}") from None


class Lifespan:
    """A parameter that has the value of a lifespan of the server.

    Example:
        @server.tool
        async def orders(database: Annotated[Database, Lifespan()]) -> list[str]: ...

    The value is found by its type. If several lifespans have a value of this type, `Lifespan(open_database)` names the
    function of the one that is meant.
    """

    def __init__(self, function: Callable[..., object] | None = None) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"Lifespan({'' if self.function is None else _name_of(self.function)})"

    def source(self, parameter: inspect.Parameter) -> Source:
        """Return the source of a parameter."""
        return LifespanSource(self, parameter.annotation)


class LifespanSource(Struct, frozen=True):
    """The source of a parameter that has the value of a lifespan."""

    marker: Lifespan
    kind: Any
    """The type of the parameter."""

    def __call__(self, call: Call) -> Any:
        """Return the value for a request."""
        return self.value(call.server.lifespan_values(call.loop))

    def value(self, values: Mapping[Any, Any]) -> Any:
        """Return the one of the values of lifespans, by their functions, that the parameter gets.

        Raises:
            DragomanError: there is no such value, or there are several.
        """
        function = self.marker.function
        named = {key: value for key, value in values.items() if function is None or key == function}
        fitting = [value for value in named.values() if function is not None or _is_of(value, self.kind)]
        if len(fitting) == 1:
            return fitting[0]
        missing = "no lifespan has one: register one with @server.lifespan"
        found = "several lifespans have one: write Lifespan(function)" if fitting else missing
        raise DragomanError(f"{self.marker!r} should give a parameter {describe(self.kind)}, but {found}")


class Dependency:
    """What `Depends` returns: the function, and whether the functions of one request share its value."""

    def __init__(self, function: Callable[..., object] | None, *, use_cache: bool = True) -> None:
        self.function = function
        self.use_cache = use_cache

    def __repr__(self) -> str:
        return f"Depends({'' if self.function is None else _name_of(self.function)})"

    @property
    def key(self) -> Hashable:
        """What tells this dependency from others: its function."""
        return key_of(self.function)

    def source(self, parameter: inspect.Parameter) -> Source:
        """Return the source of a parameter; without a function, the type of the parameter is called.

        Raises:
            DefinitionError: there is nothing to call.
        """
        function = parameter.annotation if self.function is None else self.function
        if not callable(function) or function is _EMPTY:
            raise DefinitionError(f"{function!r} cannot be called; give a function, Depends(function)")
        return PendingSource(Dependency(function, use_cache=self.use_cache))


def Depends(dependency: Callable[..., object] | None = None, *, use_cache: bool = True) -> Any:  # noqa: N802
    """Return the marker of a parameter whose value a function returns for each request.

    Example:
        def current_user(ctx: Context) -> User: ...

        @server.tool
        async def buy(item: str, user: Annotated[User, Depends(current_user)]) -> str: ...

    `user: User = Depends(current_user)` means the same; this is why the type of the marker is Any. The function may be
    async, a generator that cleans up after its `yield`, or a class. Its parameters may be a context, a `Header`, a
    `Lifespan`, other dependencies, and arguments of the tool by name. Without a function, the type of the parameter is
    called. One request has one value of a function, unless `use_cache` is False. A generator cleans up after the
    response was sent.
    """
    return Dependency(dependency, use_cache=use_cache)


class Pending(NamedTuple):
    """The place of a value that a dependency has yet to make."""

    call: Call
    dependency: Dependency


class PendingSource(Struct, frozen=True):
    """The source of a parameter that has a dependency."""

    dependency: Dependency

    def __call__(self, call: Call) -> Pending:
        """Return the place of the value."""
        return Pending(call, self.dependency)


class NamedArgument(NamedTuple):
    """The place of an argument that a dependency takes by its name."""

    name: str


class Sources:
    """Finds the sources of the parameters of one function, which may take the context once."""

    def __init__(self) -> None:
        self._takes_context: str | None = None

    def __call__(self, parameter: inspect.Parameter, *, is_async: bool) -> Source | None:
        """Return the source of a parameter, None if a client sends its value.

        Raises:
            DefinitionError: there is no value for the parameter; the message is the reason.
        """
        _refuse_misplaced_markers(parameter)
        marked, marker = _marker(parameter)
        if marker is not None:
            return marker.source(marked)
        context = self._context(parameter, is_async=is_async)
        if context is None:
            return None
        if self._takes_context is not None:
            raise DefinitionError(f"the context is already given to {self._takes_context!r}; take it once")
        self._require_fitting(context, is_async=is_async)
        self._takes_context = parameter.name
        return _CONTEXTS[context]

    def _context(self, parameter: inspect.Parameter, *, is_async: bool) -> str | None:
        annotation = parameter.annotation
        # A parameter named `ctx` needs no annotation.
        if annotation is _EMPTY and parameter.name == "ctx" and parameter.default in (_EMPTY, None):
            return _fitting(is_async=is_async)
        return _context_class(annotation)

    def _require_fitting(self, context: str, *, is_async: bool) -> None:
        fitting = _fitting(is_async=is_async)
        if context != fitting:
            kind, other = ("an `async def`", "a `def`") if is_async else ("a `def`", "an `async def`")
            raise DefinitionError(f"{kind} takes a {fitting}: annotate the parameter so, or make the function {other}")


class DependencySources(Sources):
    """Finds the sources of the parameters of a dependency; every parameter must have one.

    A `def` may take a `Context` here, because most dependencies only read the request.
    """

    def __init__(self, arguments: Collection[str], owner: str, *, is_async: bool) -> None:
        super().__init__()
        self._arguments = arguments
        self._owner = owner
        self._is_async = is_async

    def __call__(self, parameter: inspect.Parameter, *, is_async: bool) -> Source:  # noqa: ARG002
        """Return the source of a parameter.

        Raises:
            DefinitionError: there is no value for the parameter; the message is the reason.
        """
        source = super().__call__(parameter, is_async=self._is_async)
        if source is not None:
            return source
        if parameter.name in self._arguments:
            given = NamedArgument(parameter.name)
            return lambda _call: given
        if parameter.default is not _EMPTY:
            return lambda _call: parameter.default
        raise DefinitionError(
            f"{self._owner}() has no argument of this name; name the parameter like an argument, annotate it as"
            " Context, Header(...), Lifespan() or Depends(...), or give it a default"
        )

    def _require_fitting(self, context: str, *, is_async: bool) -> None:
        if is_async:
            super()._require_fitting(context, is_async=is_async)


_MARKERS = (Header, Lifespan, Dependency)
_CALLS: dict[Any, str] = {Depends: "Depends(function)", Header: 'Header("x-name")', Lifespan: "Lifespan()"}
"""The markers, which an author may forget to call, and how they are called."""


def key_of(function: Any) -> Hashable:
    """Return the function, or its id if it is an object that cannot be a key of a dict."""
    return function if isinstance(function, Hashable) else id(function)


class Overrides:
    """The functions that replace dependencies and lifespans on one server, such as in tests."""

    def __init__(self) -> None:
        self.functions: Mapping[Hashable, Callable[..., object]] = {}
        """The replacements in force, by the keys of the functions that they replace."""
        self._layers: list[tuple[Hashable, Callable[..., object]]] = []

    def add(self, dependency: Callable[..., object], replacement: Callable[..., object]) -> ExitStack:
        """Replace a function until the returned object is closed; the newest open replacement counts.

        Raises:
            DefinitionError: `dependency` or `replacement` is not a function.
        """
        for name, function in (("dependency", dependency), ("replacement", replacement)):
            if not callable(function):
                raise DefinitionError(f"The {name} of server.override() must be a function, not {function!r}")
        layer, undo = (key_of(dependency), replacement), ExitStack()
        undo.callback(self._remove, layer)
        self._set([*self._layers, layer])
        return undo

    def _remove(self, layer: tuple[Hashable, Callable[..., object]]) -> None:
        self._set([other for other in self._layers if other is not layer])

    def _set(self, layers: list[tuple[Hashable, Callable[..., object]]]) -> None:
        self._layers, self.functions = layers, dict(layers)


def _marker(parameter: inspect.Parameter) -> tuple[inspect.Parameter, Header | Lifespan | Dependency | None]:
    """Return the marker of a parameter, and the parameter with its bare annotation."""
    annotation, metadata = parameter.annotation, list[Any]()
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
    for candidate in (*metadata, parameter.default):
        if type(candidate).__name__ == "Depends" and hasattr(candidate, "dependency"):  # of FastAPI
            candidate = Dependency(candidate.dependency, use_cache=getattr(candidate, "use_cache", True))
        if isinstance(candidate, _MARKERS):
            default = _EMPTY if isinstance(parameter.default, type(candidate)) else parameter.default
            return parameter.replace(annotation=annotation, default=default), candidate
    return parameter, None


def _refuse_misplaced_markers(parameter: inspect.Parameter) -> None:
    """Refuse markers that would have no effect, so that the client would choose the value of the parameter.

    These are markers that are not called, markers inside a type, and what only FastAPI can fill in, such as its
    `Request` and its `Header`.
    """
    annotation, default = parameter.annotation, parameter.default
    outer = (default, *get_args(annotation)[1:]) if get_origin(annotation) is Annotated else (default,)
    for part in (*_parts(annotation), default):
        kind = part if isinstance(part, type | FunctionType) else type(part)
        is_of_web = str(kind.__module__).partition(".")[0] in _WEB_FRAMEWORKS
        if kind is part and (part in _CALLS or (is_of_web and kind.__name__ == "Depends")):
            call = _CALLS.get(kind, _CALLS[Depends])
            raise DefinitionError(f"{kind.__name__} is not called, so it has no effect: write {call}")
        if is_of_web and kind.__name__ != "Depends":
            remedy = _REMEDIES.get(kind.__name__, "take a plain argument of the tool instead")
            raise DefinitionError(f"{kind.__name__} of {kind.__module__} has no value in MCP; {remedy}")
        if _is_marker(part) and not any(part is other for other in outer):
            raise DefinitionError(
                f"{part!r} is inside of a type, where it has no effect: write Annotated[..., {part!r}] around the whole"
                " type"
            )


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and the metadata of an annotation, at every depth."""
    yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _is_marker(part: Any) -> bool:
    is_of_fastapi = type(part).__name__ == "Depends" and hasattr(part, "dependency")
    return is_of_fastapi or isinstance(part, _MARKERS)


def _fitting(*, is_async: bool) -> str:
    return "Context" if is_async else "BlockingContext"


def _context_class(annotation: Any) -> str | None:
    """Return the name of the context class in an annotation, Optional or Annotated; None if there is no context."""
    if get_origin(annotation) in {Annotated, *_UNIONS}:
        found = {_context_class(argument) for argument in get_args(annotation)} - {None}
        return found.pop() if len(found) == 1 else None
    if not isinstance(annotation, type) or annotation.__name__ not in _CONTEXTS:
        return None
    is_ours = isinstance(annotation, UnresolvedName) or annotation.__module__.partition(".")[0] == "dragoman"
    return annotation.__name__ if is_ours else None


def _is_of(value: object, kind: Any) -> bool:
    """Tell whether a value is of a type; a type that cannot be checked, such as a Protocol, accepts every value."""
    if get_origin(kind) in _UNIONS:
        return any(_is_of(value, one) for one in get_args(kind))
    try:
        return kind is _EMPTY or isinstance(value, get_origin(kind) or kind)
    except TypeError:
        return True


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", function))
