"""The signature of a function: its input schema, and the binding of a client's arguments to its parameters.

A function is inspected once. Its parameters become the fields of one Struct, so that one decoding binds all arguments.
If the decoding fails, the arguments are repaired by the schema (`"3"` becomes 3 for an integer) and decoded again. If
they still do not fit, the error lists every problem.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Annotated, Any, NoReturn, Protocol, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import astuple

from dragoman.config import is_async
from dragoman.errors import DefinitionError, DragomanError, InvalidParams
from dragoman.schema.coerce import coerce
from dragoman.schema.python import docstrings
from dragoman.schema.python.annotations import (
    AnnotationReader,
    UnresolvedName,
    UnsupportedAnnotation,
    caller_names,
    describe,
)
from dragoman.schema.python.constraints import is_pydantic_field, read_metadata
from dragoman.schema.python.defaults import DefaultFactory, misfit_of, with_default
from dragoman.schema.python.shapes import Problem, Shape, decode_hook, is_accepted, problem_of, union_of
from dragoman.types import Json

__all__ = ["ArgumentsRejected", "Injected", "Parameter", "Problem", "Signature"]

MAX_PROBLEMS = 100
MAX_REPAIRED_BYTES = 256 * 1024
"""Larger arguments are not repaired, because a repair visits every part of the arguments."""
_NO_ARGUMENTS = Raw(b"{}")
_EMPTY = inspect.Parameter.empty
_UNBOUND = ("self", "cls")
_SHAREABLE = (str, int, float, type(None), bytes, tuple, frozenset, Enum)
ADDED_BY_HOSTS = frozenset({"sessionId", "action", "chatInput", "toolCallId"})
"""Arguments that hosts add to every call; they never count as misspelled parameters."""
MAX_COMPARED = 100
MAX_COMPARED_LENGTH = 128
"""The number and length of unknown arguments that are compared with the names of parameters."""
CLOSE = 0.75
"""A name with at least this ratio of difflib counts as misspelled; `dayz` and `days` have 0.75."""
_FAILURES = (ValueError, RecursionError, TypeError)
"""The exceptions of msgspec; a TypeError means that a value cannot be in a set."""
_objects = msgspec.json.Decoder(dict[str, Raw])

Source = Callable[[Any], Any]
"""Returns the value of a parameter for the call that is served."""


MISSING_ARGUMENTS = "missing_required_arguments"
"""The label of an error that names missing arguments."""


class ArgumentsRejected(DragomanError):
    """Arguments that do not fit a function; `problems` are in the order of the parameters."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        missing = ", ".join(problem.path for problem in problems if problem.missing)
        invalid = "; ".join(str(problem) for problem in problems if not problem.missing)
        parts = [
            f"Missing required arguments: {missing}" if missing else "",
            f"Invalid arguments: {invalid}" if invalid else "",
        ]
        super().__init__(". ".join(part for part in parts if part))

    def refusal(self) -> InvalidParams:
        """Return the JSON-RPC error for a client."""
        error = InvalidParams(str(self))
        if any(problem.missing for problem in self.problems):
            error.label = MISSING_ARGUMENTS
        return error


class Parameter(Struct, frozen=True):
    """A parameter whose value a client sends."""

    name: str
    required: bool
    description: str | None
    schema: Json


class SourceOf(Protocol):
    """Finds the parameters whose values no client sends."""

    def __call__(self, parameter: inspect.Parameter, *, is_async: bool) -> Source | None:
        """Return the source of a parameter, None if a client sends its value.

        Raises:
            DefinitionError: there is no value for the parameter; the message is the reason.
        """


class Injected(Struct, frozen=True):
    """A parameter whose value a source returns. The value is passed at `position`, or by name if that is None."""

    name: str
    source: Source
    position: int | None


class _ParameterSlot(Struct, frozen=True):
    """A decoded parameter: its name in Python and in JSON, its default, and whether it is passed by keyword."""

    name: str
    key: str
    shape: Shape
    annotation: Any
    default: Any
    by_keyword: bool


class Signature:
    """The parameters of a function that a client fills, and its return annotation.

    Example:
        signature = Signature.of(forecast)
        signature.input_schema  # {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        arguments, keywords = signature.bind(Raw(b'{"city": "Oslo"}'), call)
        forecast(*arguments, **keywords)
    """

    input_schema: Json
    parameters: tuple[Parameter, ...]
    description: str | None
    injected: tuple[Injected, ...]
    """The parameters whose values no client sends."""
    is_async: bool
    returns: Any
    """The return annotation; UNSET if there is none, an `UnresolvedName` if it does not exist at run time."""
    takes_any: bool
    """Whether `**kwargs` collects arguments without a parameter."""
    tolerated: Collection[str] = ()
    """Arguments without a parameter that clients may send."""

    @staticmethod
    def of(
        function: Callable[..., Any], *, source_of: SourceOf | None = None, localns: Mapping[str, Any] | None = None
    ) -> Signature:
        """Inspect a function; `source_of` finds the parameters whose values no client sends.

        Annotations may use the names in `localns`, by default the local names of the function that called dragoman.

        Raises:
            DefinitionError: a parameter has no JSON form; the message names the parameter and the remedy.
        """
        return Signature(_Inspection(function, source_of, caller_names() if localns is None else localns))

    def __init__(self, inspection: _Inspection) -> None:
        slots, extra = inspection.slots, inspection.extra
        self.parameters = tuple(inspection.parameters)
        self.injected = tuple(inspection.injected)
        self.is_async = inspection.is_async
        self.description = inspection.documentation.description or None
        self.returns = inspection.hints.get("return", UNSET)
        self.takes_any = extra is not None
        self.input_schema = _input_schema(self.parameters, extra, inspection.walk.definitions)
        self._defaults = tuple(slot.default for slot in slots)
        self._named = [(slot.name, index) for index, slot in enumerate(slots) if slot.by_keyword]
        self._positional = len(slots) - len(self._named)
        self.name = inspection.name
        self._keys = {slot.key: None for slot in slots}
        self._shape = inspection.arguments_shape()
        self._decode = msgspec.json.Decoder(self._shape.kind, dec_hook=decode_hook).decode
        self._decode_extra = msgspec.json.Decoder(extra.kind if extra else Any, dec_hook=decode_hook).decode
        self._reserved = self.input_schema["properties"].keys() | inspection.reserved_names()

    def bind(
        self,
        arguments: Raw | UnsetType | None,
        call: Any = None,
        strict: bool = False,  # noqa: FBT001, FBT002 - an argument by name takes longer, and every call passes it
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments to call the function with, for the arguments of a client.

        An argument without a parameter is ignored, unless its name is similar to that of a parameter that was not
        given. `strict` refuses every argument without a parameter.

        Raises:
            ArgumentsRejected: an argument is missing, misspelled or does not fit.
        """
        given = _NO_ARGUMENTS if arguments is None or arguments is UNSET else arguments
        try:
            values = astuple(self._decode(given))
            keywords = self._extras(given) if self.takes_any else {}
        except _FAILURES as error:
            values, keywords = self._bind_known(given, error, strict=strict)
        return self._placed(values, keywords, call)

    def bind_values(self, values: Sequence[Any], call: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the function with, for values by position; superfluous values are dropped.

        Raises:
            TypeError: there are fewer values than the function needs.
        """
        defaults = [one.make() if isinstance(one, DefaultFactory) else one for one in self._defaults[len(values) :]]
        given = (*values[: len(self._defaults)], *defaults)
        if any(value is _EMPTY for value in given):
            raise TypeError(f"{self.name}() needs more values than the {len(values)} that there are")
        return self._placed(given, {}, call)

    def _placed(
        self, values: tuple[Any, ...], keywords: dict[str, Any], call: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for name, index in self._named:
            keywords[name] = values[index]
        values = values[: self._positional]
        for parameter in self.injected:
            value, position = parameter.source(call), parameter.position
            if position is None:
                keywords[parameter.name] = value
            else:
                values = (*values[:position], value, *values[position:])
        return values, keywords

    def _extras(self, arguments: Raw | bytes) -> dict[str, Any]:
        """Decode the arguments for `**kwargs`: those without a parameter of any kind."""
        parts = _objects.decode(arguments)
        return {key: self._decode_extra(part) for key, part in parts.items() if key not in self._reserved}

    def _bind_known(
        self, arguments: Raw, failure: Exception, *, strict: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Bind after a failed decoding, without the arguments that have no parameter."""
        if self.takes_any:
            return self._bind_repaired(arguments, failure)
        try:
            parts = _objects.decode(arguments)
        except (ValueError, RecursionError):
            return self._bind_repaired(arguments, failure)
        known = {name: part for name, part in parts.items() if name in self._keys}
        unknown = [name for name in parts if name not in known and name not in self.tolerated and name != "_meta"]
        problems = tuple(islice(self._misspelled(unknown, known, strict=strict), MAX_PROBLEMS))
        if problems:
            raise ArgumentsRejected((*problems, *self._problems(known)))
        if unknown:
            _report_ignored(self.name, unknown)
        if len(known) == len(parts):
            return self._bind_repaired(arguments, failure)
        fitting = Raw(msgspec.json.encode(known))
        try:
            return astuple(self._decode(fitting)), {}
        except _FAILURES as error:
            return self._bind_repaired(fitting, error)

    def _problems(self, parts: Mapping[str, Raw]) -> list[Problem]:
        """Return the problems of the known arguments, as far as they can be decoded."""
        try:
            value = msgspec.json.decode(msgspec.json.encode(parts))
        except (ValueError, RecursionError):
            return []
        return list(islice(self._shape.problems_within(coerce(value, self.input_schema), ""), MAX_PROBLEMS))

    def _misspelled(self, unknown: list[str], known: Collection[str], *, strict: bool) -> Iterator[Problem]:
        """Yield the unknown arguments that are refused: misspelled ones, and with `strict` all."""
        from difflib import get_close_matches

        free = [name for name in self._keys if name not in known]
        for name in unknown[:MAX_COMPARED]:
            is_added = name in ADDED_BY_HOSTS
            close = [] if is_added or len(name) > MAX_COMPARED_LENGTH else get_close_matches(name, free, 1, CLOSE)
            if close:
                yield Problem(name, f"there is no such argument; did you mean {close[0]!r}?")
            elif strict:
                yield Problem(name, "there is no such argument")

    def _bind_repaired(self, arguments: Raw, failure: Exception) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if len(arguments) > MAX_REPAIRED_BYTES:
            raise ArgumentsRejected((problem_of(str(failure)),))
        try:
            value = msgspec.json.decode(arguments)
            repaired = {} if value is None else coerce(value, self.input_schema)
            data = msgspec.json.encode(repaired)
        except (ValueError, RecursionError) as error:
            raise _unreadable_arguments(error) from None
        try:
            return astuple(self._decode(data)), self._extras(data) if self.takes_any else {}
        except _FAILURES as error:
            found = tuple(islice(self._shape.problems_within(repaired, ""), MAX_PROBLEMS))
            raise ArgumentsRejected(found or (problem_of(str(error)),)) from None


class _Inspection:
    def __init__(
        self, function: Callable[..., Any], source_of: SourceOf | None, local_names: Mapping[str, Any]
    ) -> None:
        layers = self._layers = list(_layers(function))
        self.name = _name_of(function)
        self.walk = AnnotationReader(local_names)
        self.hints = _hints(layers[-1], local_names, self.name)
        self.is_async = any(map(is_async, layers))
        self.documentation = docstrings.parse(_documentation(layers))
        self.parameters: list[Parameter] = []
        self.slots: list[_ParameterSlot] = []
        self.injected: list[Injected] = []
        self.extra: Shape | None = None
        self._source_of = source_of
        self._hidden = {name for layer in layers if isinstance(layer, functools.partial) for name in layer.keywords}
        self._by_keyword = False
        for parameter in _parameters(function, self.name):
            self._read(parameter)

    def _read(self, parameter: inspect.Parameter) -> None:
        annotation = self.hints.get(parameter.name, parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            self._refuse(
                parameter,
                "arguments of a client have names: take a list, or name each of them. If the function belongs to a"
                " decorator, write @functools.wraps(function) above it",
            )
        if parameter.name in self._hidden or _is_private(parameter):
            self._by_keyword = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            self.extra = self._shape(parameter, Any if annotation is _EMPTY else annotation)
        elif (source := self._source(parameter, annotation)) is not None:
            self._add_injected(parameter, source)
        elif annotation is _EMPTY and parameter.name in _UNBOUND and not self.slots:
            self._refuse(
                parameter,
                "it is a method that belongs to no object yet; register the method of an object instead, after the"
                f" class, such as server.tool(thing.{self.name.rpartition('.')[2]})",
            )
        else:
            self._add_client_parameter(parameter, Any if annotation is _EMPTY else annotation)

    def _source(self, parameter: inspect.Parameter, annotation: Any) -> Source | None:
        try:
            resolved = parameter.replace(annotation=annotation)
            return self._source_of(resolved, is_async=self.is_async) if self._source_of else None
        except DefinitionError as error:
            self._refuse(parameter, str(error))

    def reserved_names(self) -> set[str]:
        """Return the names that `**kwargs` must not collect: those of all parameters."""
        if self.extra is None:
            return set()
        every = [parameter for layer in self._layers for parameter in _parameters(layer, self.name)]
        return {parameter.name for parameter in every if parameter.kind is not parameter.VAR_KEYWORD}

    def _passed_by_keyword(self, parameter: inspect.Parameter) -> bool:
        by_keyword = self._by_keyword or parameter.kind is parameter.KEYWORD_ONLY
        if by_keyword and parameter.kind is parameter.POSITIONAL_ONLY:
            self._refuse(parameter, "it takes a position, and follows one that no client gives; take it by name")
        return by_keyword

    def _add_injected(self, parameter: inspect.Parameter, source: Source) -> None:
        position = None if self._passed_by_keyword(parameter) else len(self.slots) + len(self.injected)
        self.injected.append(Injected(parameter.name, source, position))

    def _add_client_parameter(self, parameter: inspect.Parameter, annotation: Any) -> None:
        default = parameter.default
        if is_pydantic_field(default):
            annotation, default = cast("Any", Annotated)[annotation, default], _EMPTY
        facts = read_metadata(get_args(annotation)[1:] if get_origin(annotation) is Annotated else ())
        if default is _EMPTY and facts.default is not UNSET:
            default = facts.default
        shape = self._shape(parameter, annotation)
        if default is None and not shape.accepts(None):
            annotation = union_of(annotation, None)
            shape = self._shape(parameter, annotation)
        if default is not _EMPTY and (misfit := misfit_of(default, shape)) is not None:
            self._refuse(
                parameter, f"its default {default!r} does not fit its annotation: {misfit}; change one of them"
            )
        key = facts.alias or parameter.name
        self.slots.append(
            _ParameterSlot(parameter.name, key, shape, annotation, default, self._passed_by_keyword(parameter))
        )
        described = self.documentation.parameters.get(parameter.name)
        schema = shape.schema if default is _EMPTY else with_default(shape.schema, default)
        if described is not None and "description" not in schema:
            schema = {**schema, "description": described}
        self.parameters.append(Parameter(key, default is _EMPTY, schema.get("description"), schema))

    def _shape(self, parameter: inspect.Parameter, annotation: Any) -> Shape:
        try:
            return self.walk.shape(annotation)
        except UnsupportedAnnotation as error:
            self._refuse(parameter, str(error))

    def _refuse(self, parameter: inspect.Parameter, reason: str) -> NoReturn:
        raise DefinitionError(f"{self.name}() cannot be served because of its parameter {parameter.name!r}: {reason}")

    def arguments_shape(self) -> Shape:
        """Return the shape of all arguments: a Struct with one field for each parameter."""
        fields = []
        for index, slot in enumerate(self.slots):
            kind = slot.shape.kind
            if not is_accepted(kind):
                raise DefinitionError(
                    f"{self.name}() cannot be served because of its parameter {slot.name!r}:"
                    f" {describe(slot.annotation)} has no JSON form; use a simpler type"
                )
            fields.append((f"argument_{index}", kind, *_struct_default(slot.default)))
        names = {f"argument_{index}": slot.key for index, slot in enumerate(self.slots)}
        return Shape(
            # The Struct lives only until its values are read, so the garbage collector need not track it.
            # Unknown arguments make the decoding fail; only then `_bind_known` looks at them.
            kind=msgspec.defstruct(
                "Arguments", fields, rename=names, kw_only=True, gc=False, forbid_unknown_fields=self.extra is None
            ),
            schema={"type": "object"},
            fields={slot.key: slot.shape for slot in self.slots},
            required=[slot.key for slot in self.slots if slot.default is _EMPTY],
            item=self.extra,
        )


def _report_ignored(function: str, unknown: list[str]) -> None:
    import logging

    names = ", ".join(unknown[:MAX_COMPARED])
    logging.getLogger("dragoman.server").debug("%s() has no parameters for %s; they are ignored", function, names)


def _unreadable_arguments(error: Exception) -> ArgumentsRejected:
    return ArgumentsRejected((Problem("", f"The arguments cannot be read: {error}"),))


def _struct_default(default: Any) -> tuple[Any, ...]:
    """Return the default of a Struct field: a copy for each call of a list, dict or set; empty without a default."""
    if default is _EMPTY:
        return ()
    if isinstance(default, _SHAREABLE):
        return (default,)
    if isinstance(default, DefaultFactory):
        return (msgspec.field(default_factory=default.make),)
    is_copied = isinstance(default, list | dict | set)
    return (msgspec.field(default_factory=default.copy if is_copied else lambda: default),)


def _input_schema(parameters: Sequence[Parameter], extra: Shape | None, definitions: Json) -> Json:
    schema: Json = {"type": "object", "properties": {parameter.name: parameter.schema for parameter in parameters}}
    if required := [parameter.name for parameter in parameters if parameter.required]:
        schema["required"] = required
    if extra is not None and extra.schema:
        schema["additionalProperties"] = extra.schema
    if definitions:
        schema["$defs"] = definitions
    return schema


def _layers(function: Any) -> Iterator[Any]:
    """Yield a callable and all that it wraps, down to the function of the author."""
    while True:
        yield function
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.ismethod(function):
            function = function.__func__
        elif isinstance(function, type):
            function = function.__init__  # type: ignore[misc]
        elif not inspect.isroutine(function) and callable(function):
            function = type(function).__call__
        else:
            return


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2]


def _documentation(layers: list[Any]) -> str | None:
    """Return the outermost docstring of a function; for an object without one, that of its class."""
    routines = [layer for layer in layers if inspect.isroutine(layer)]
    classes = [layer if isinstance(layer, type) else type(layer) for layer in layers if layer not in routines]
    authored = [*routines, *(kind for kind in classes if kind is not functools.partial)]
    return next((layer.__doc__ for layer in authored if layer.__doc__), None)


def _parameters(function: Any, name: str) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{name} cannot be served: {error}; wrap it in a function of your own") from None


def _hints(function: Any, local_names: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the annotations of a function; an unknown name becomes an `UnresolvedName`."""
    names: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(function, localns=names or None, include_extras=True)
        except NameError as error:
            if error.name is None or error.name in names:
                raise _unreadable(name, error) from None
            known = {*local_names, *getattr(function, "__globals__", ())}
            names[error.name] = local_names.get(error.name, UnresolvedName(error.name, known))
        except Exception as error:
            raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> DefinitionError:
    return DefinitionError(f"The annotations of {name}() cannot be read: {error}")


def _is_private(parameter: inspect.Parameter) -> bool:
    return parameter.name.startswith("_") and parameter.default is not _EMPTY
