"""`View` and `Argument`: how a definition of another server is shown, and what becomes of its arguments and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, structs

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.runtime.callables import raise_at_caller
from dragoman.schema.compile import OutputSchema
from dragoman.schema.walk import REFERENCES, objects
from dragoman.types import Json

ResultFunction: TypeAlias = Callable[[types.CallToolResult, Any], object | Awaitable[object]]
"""Takes the result of a tool and the context of the request, and returns another result, or a JSON value."""


@raise_at_caller("__post_init__")
class Argument(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An argument of a tool, as a view shows it.

    Example:
        Argument(name="query", description="Words to search for")
        Argument(fixed="acme")
        Argument(fixed=lambda ctx: ctx.principal)
        Argument(default=20, schema={"maximum": 100})

    Raises:
        DefinitionError: the options contradict each other, or have the wrong type.
    """

    name: str | None = None
    """The name that clients use."""
    title: str | None = None
    description: str | None = None
    fixed: object = UNSET
    """The value that the tool always receives, or a function of the `Context` that returns it.

    Clients do not see the argument, and a client that sends it is refused. The function may be async; a plain one runs
    in the event loop, so it must be quick."""
    default: object = UNSET
    """The value that the tool receives if the client sends none."""
    hidden: bool = False
    """The tool never receives the argument, and clients do not see it."""
    schema: Json | None = None
    """Further constraints, such as `{"maximum": 100}`: a value must fit them and the argument's own schema."""

    def __post_init__(self) -> None:
        for option in ("name", "title", "description"):
            _require_text(f"{option} of an Argument", getattr(self, option))
        _require_flag("hidden of an Argument", self.hidden)
        shown = [option for option in _OF_SHOWN_ARGUMENT if getattr(self, option) is not _ABSENT[option]]
        if self.hidden and self.fixed is not UNSET:
            raise DefinitionError("An Argument cannot be both fixed and hidden: a fixed argument is not shown anyway")
        if shown and (self.hidden or self.fixed is not UNSET):
            how = "hidden" if self.hidden else "fixed"
            raise DefinitionError(f"A {how} Argument is not shown to clients: leave out {', '.join(shown)}")
        if self.default is not UNSET:
            _require_json("default of an Argument", self.default)
        if self.fixed is not UNSET and not callable(self.fixed):
            _require_json("fixed of an Argument", self.fixed)
        if self.schema is not None:
            _require_constraints(self.schema)

    def __repr__(self) -> str:
        # A fixed value may be a secret.
        values = {name: getattr(self, name) for name in _OF_SHOWN_ARGUMENT}
        fields = [f"{name}={value!r}" for name, value in values.items() if value is not _ABSENT[name]]
        fields += ["fixed=..."] if self.fixed is not UNSET else ["hidden=True"] if self.hidden else []
        return f"Argument({', '.join(fields)})"


_OF_SHOWN_ARGUMENT = ("name", "title", "description", "default", "schema")
_ABSENT = {**dict.fromkeys(_OF_SHOWN_ARGUMENT), "default": UNSET}
"""The options that only a shown argument has, with the values that stand for their absence."""


@raise_at_caller("__post_init__")
class View(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Another form of a tool, prompt or resource. Everything that a view does not name stays as it is.

    Example:
        View(
            name="find_repos",
            arguments={"q": Argument(name="query"), "org": Argument(fixed="acme")},
            pick="items[].full_name",
        )

    Prompts and resources have `name`, `title`, `description`, `meta` and `hidden` only. URIs do not change.

    Raises:
        DefinitionError: the options contradict each other, or have the wrong type.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    arguments: Mapping[str, Argument] = {}
    """The arguments that change, by the names that the tool has for them."""
    pick: str | None = None
    """A JMESPath expression that selects from the structured content, or from the JSON text, of the result."""
    result: ResultFunction | None = None
    """Returns another result: takes the result and the `Context`; a plain function must be quick."""
    annotations: types.ToolAnnotations | Mapping[str, object] | None = None
    """The hints that replace those of the tool, such as `{"readOnlyHint": True}`; other hints stay."""
    meta: Json | None = None
    """Added to the `_meta` of the entry in lists."""
    hidden: bool = False
    """Clients neither see nor reach the definition."""
    confirm: bool | str = False
    """Ask the user before each call; a text is the question."""

    def __post_init__(self) -> None:
        for option in ("name", "title", "description", "pick"):
            _require_text(f"{option} of a View", getattr(self, option))
        _require_flag("hidden of a View", self.hidden)
        confirm: object = self.confirm
        if not isinstance(confirm, bool | str) or confirm == "":
            raise DefinitionError(f"confirm of a View must be True, False or a question, not {confirm!r}")
        options = [name for name in self.__struct_fields__ if name != "hidden" and getattr(self, name)]
        if self.hidden and options:
            raise DefinitionError(f"A hidden View shows nothing: leave out {', '.join(options)}")
        if self.pick is not None and self.result is not None:
            raise DefinitionError("A View has pick or result, not both: let the function of result pick")
        if self.result is not None and not callable(self.result):
            raise DefinitionError(f"result of a View must be a function of a result and a context, not {self.result!r}")
        if self.pick is not None:
            compile_pick(self.pick)
        if self.meta is not None:
            _require_object("meta of a View", self.meta)
        structs.force_setattr(self, "arguments", _checked_arguments(self.arguments))
        if self.annotations is not None:
            structs.force_setattr(self, "annotations", _checked_annotations(self.annotations))

    @property
    def is_for_tools(self) -> bool:
        """Whether the view has options that only tools have."""
        return bool(self.arguments or self.pick or self.result or self.annotations or self.confirm)

    @property
    def hints(self) -> Json:
        """The annotations that the view sets, by their names on the wire."""
        hints: Json = msgspec.to_builtins(self.annotations) if self.annotations is not None else {}
        return hints


def compile_pick(expression: str) -> Any:
    """Return a compiled JMESPath expression.

    Raises:
        DefinitionError: the expression is invalid, or the package jmespath is missing.
    """
    try:
        import jmespath
    except ImportError:
        raise DefinitionError(
            "pick of a View needs the package jmespath: install it with `pip install dragoman[jmespath]`, or use"
            " result= with a function"
        ) from None
    try:
        return jmespath.compile(expression)
    except jmespath.exceptions.JMESPathError as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise DefinitionError(f"pick of a View is no JMESPath expression: {expression!r}: {reason}") from None


def _checked_arguments(arguments: object) -> dict[str, Argument]:
    if not isinstance(arguments, Mapping):
        raise DefinitionError(f"arguments of a View must map names to Argument objects, not {arguments!r}")
    shown: dict[str, str] = {}
    for name, argument in arguments.items():
        if not isinstance(name, str) or not isinstance(argument, Argument):
            remedy = 'write {"q": Argument(name="query")}'
            raise DefinitionError(f"arguments of a View must map names to Argument objects: {name!r}: {remedy}")
        if argument.name is not None and (other := shown.setdefault(argument.name, name)) != name:
            raise DefinitionError(f"A View gives the arguments {other!r} and {name!r} the same name {argument.name!r}")
    return dict(arguments)


def _checked_annotations(annotations: object) -> types.ToolAnnotations:
    if isinstance(annotations, types.ToolAnnotations):
        return annotations
    known = structs.fields(types.ToolAnnotations)
    fields = {spelling: field for field in known for spelling in (field.name, field.encode_name)}
    names = ", ".join(field.encode_name for field in known)
    if not isinstance(annotations, Mapping) or (unknown := [name for name in annotations if name not in fields]):
        reason = f"has no {unknown[0]!r}; it takes {names}" if isinstance(annotations, Mapping) else f"takes {names}"
        raise DefinitionError(f"annotations of a View {reason}")
    try:
        return msgspec.convert(
            {fields[name].encode_name: value for name, value in annotations.items()}, types.ToolAnnotations
        )
    except msgspec.ValidationError as error:
        raise DefinitionError(f"annotations of a View: {error}") from None


def _require_constraints(schema: object) -> None:
    _require_object("schema of an Argument", schema)
    if any(keyword in part for part in objects(schema) for keyword in REFERENCES):
        raise DefinitionError("schema of an Argument cannot have a $ref: write the constraints themselves")
    try:
        OutputSchema(msgspec.to_builtins(schema))
    except DefinitionError as error:
        raise DefinitionError(f"schema of an Argument: {error}") from None


def _require_text(what: str, value: object) -> None:
    if not isinstance(value, str | None) or value == "":
        raise DefinitionError(f"{what} must be text, not {value!r}")


def _require_flag(what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise DefinitionError(f"{what} must be True or False, not {value!r}")


def _require_object(what: str, value: object) -> None:
    if not isinstance(value, dict):
        raise DefinitionError(f"{what} must be a dict, not {type(value).__name__}")
    _require_json(what, value)


def _require_json(what: str, value: object) -> None:
    try:
        same = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise DefinitionError(f"{what} must be a JSON value: {error}") from None
    if not same:
        raise DefinitionError(f"{what} must be a JSON value, such as a list instead of a tuple, not {value!r}")
