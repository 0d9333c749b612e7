"""Tools: functions that a model may call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import DefinitionError, ToolError, ValidationError
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import encode
from dragoman.server.call import Call
from dragoman.server.definition import Definition, P, Parameters, R, Returned, check_name, decorated
from dragoman.server.outputs import Output
from dragoman.server.results import ToolResult, wire_object
from dragoman.server.schemas import InputSchema, OutputSchema
from dragoman.server.shapes import Shape
from dragoman.server.signature import ArgumentsRejected

_NO_ARGUMENTS = Raw(b"{}")
_NULL = Raw(b"null")
_OPEN = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"})
"""What may name properties elsewhere than in `properties`."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tool(Definition[Parameters, Returned]):
    """A tool: a class with a `call` method, or what the decorators make of a function.

    Example:
        class Weather(Tool):
            description = "Weather for a city."

            async def call(self, city: str, *, ctx: Context) -> Forecast: ...

        server = Server("weather", tools=[Weather])

    Raises:
        DefinitionError: the name, the signature or a schema cannot be served; the message says why.
    """

    input_schema: InputSchema | types.Json | None = None
    output_schema: OutputSchema | types.Json | None = None
    annotations: types.ToolAnnotations | types.Json | None = None
    scopes: Sequence[str] = ()
    wrap_result: bool = True
    """Send structured content that is no object as `{"result": value}`, also from 2026-07-28 on."""

    _method: ClassVar[str] = "call"

    def call(self, *_: Any, **__: Any) -> Any:
        """What the tool does; a class defines it."""
        raise TypeError(f"{type(self).__name__} must define a method `call`")

    def _compile(self) -> None:
        check_name(self.name, _NAME, "use 1 to 128 letters, digits, underscores, hyphens and dots")
        self._given_schema = _schema(self.input_schema, InputSchema)
        self._whole = None if self._given_schema is None else self._compare_parameters(self._given_schema.document)
        self.output = Output.of(
            self.signature.returns, _schema(self.output_schema, OutputSchema), self.name, is_bare=not self.wrap_result
        )
        self.definition = types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            icons=self._listed_icons(),
            meta=self.meta,
            input_schema=self._given_schema.document if self._given_schema else self.signature.input_schema,
            output_schema=self.output.schema,
            annotations=wire_object(self.annotations, types.ToolAnnotations, f"The annotations of {self.name!r}"),
        )
        self.mirrored = HeaderPlan.of(self.definition.input_schema)

    def _compare_parameters(self, schema: types.Json) -> bytes | None:
        """See that a schema of the author's names what the function needs; return the parameter that takes everything.

        A function of one parameter that the schema does not name, and that may be a dict, takes all arguments as one.

        Raises:
            DefinitionError: the function needs an argument that no client can know of.
        """
        properties = schema.get("properties", {})
        parameters = self.signature.parameters
        self.signature.tolerated = frozenset(properties)
        if len(parameters) == 1 and parameters[0].name not in properties and _may_be_object(parameters[0].schema):
            return encode(parameters[0].name)[1:-1]
        unnamed = [one.name for one in parameters if one.required and one.name not in properties]
        if unnamed and not schema.keys() & _OPEN:
            raise DefinitionError(
                f"The input schema of the tool {self.name!r} has no {', '.join(unnamed)}, which its function needs: add"
                " them to its properties, name the parameters alike, or take all arguments as one parameter"
                " `arguments: dict`"
            )
        return None

    def begin(self, call: Call, arguments: Raw | UnsetType) -> Any:
        """Call the tool with a client's arguments; the outcome is for `output`, or a coroutine that gives it."""
        try:
            if self._given_schema is not None:
                arguments = _fitting(self._given_schema, arguments, validate=call.settings.validates_arguments)
                if self._whole is not None:
                    arguments = Raw(b'{"%s":%s}' % (self._whole, bytes(arguments)))
            make_context = self._make_context
            context = None if make_context is None else make_context(call)
            args, kwargs = self.signature.bind(arguments, context, strict=call.settings.strict_arguments)
        except (ValidationError, ArgumentsRejected) as rejected:
            return failure(str(rejected))
        return self.start(*args, **kwargs)


def _may_be_object(schema: types.Json) -> bool:
    return schema.get("type", "object") == "object" and not schema.keys() & {"enum", "anyOf", "$ref"}


def failure(message: str) -> types.CallToolResult:
    """Return a result that says what went wrong, for the model to read."""
    return types.CallToolResult([types.TextContent(message)], is_error=True)


def error_result(error: ToolError) -> types.CallToolResult:
    """Return the result of a tool that raised a ToolError."""
    return failure(str(error))


def _schema(given: Any, kind: type[Any]) -> Any:
    return given if given is None or isinstance(given, kind) else kind(given)


def _fitting(schema: InputSchema, arguments: Raw | UnsetType, *, validate: bool) -> Raw:
    """Return the arguments as an author's schema takes them: as they came, or mended if only so they fit.

    Raises:
        ValidationError: something is missing or does not fit.
    """
    given = _NO_ARGUMENTS if arguments is UNSET or arguments == _NULL else arguments
    value = msgspec.json.decode(given)
    if not schema.missing(value):
        if not validate or _fits(schema, value):
            return given
        value = _mended(schema, value)
        if _fits(schema, value):
            return Raw(msgspec.json.encode(value))
    raise ValidationError(_problems(schema, value, validate=validate))


def _fits(schema: InputSchema, value: Any) -> bool:
    try:
        schema.validate(value)
    except ValidationError:
        return False
    return True


def _mended(schema: InputSchema, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kinds = {name: kind for name, kind in schema.document.get("properties", {}).items() if isinstance(kind, dict)}
    return {
        name: Shape(kind=Any, schema=kinds[name]).mended(part) if name in kinds else part
        for name, part in value.items()
    }


def _problems(schema: InputSchema, value: Any, *, validate: bool) -> str:
    missing = schema.missing(value)
    parts = [f"Missing required arguments: {', '.join(missing)}"] if missing else []
    if validate:
        others = {keyword: part for keyword, part in schema.document.items() if keyword != "required"}
        try:
            InputSchema.derived(others if missing else schema.document).validate(value)
        except ValidationError as error:
            parts.append(f"Invalid arguments: {error}")
    return ". ".join(parts)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    given_name: str | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: InputSchema | types.Json | None = None,
    output_schema: OutputSchema | types.Json | None = None,
    annotations: types.ToolAnnotations | types.Json | None = None,
    meta: types.Json | None = None,
    icons: Iterable[types.Icon | types.Json] = (),
    inline: bool = False,
    scopes: Sequence[str] = (),
    wrap_result: bool = True,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    given: Callable[P, R] | str | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    input_schema: InputSchema | types.Json | None = None,
    output_schema: OutputSchema | types.Json | None = None,
    annotations: types.ToolAnnotations | types.Json | None = None,
    meta: types.Json | None = None,
    icons: Iterable[types.Icon | types.Json] = (),
    inline: bool = False,
    scopes: Sequence[str] = (),
    wrap_result: bool = True,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function, for any server.

    Example:
        @tool
        def add(a: int, b: int) -> int:
            return a + b

        server = Server("sums", tools=[add])

    `@tool("plus")` and `@tool(name="plus")` give it another name than the function's.

    Raises:
        DefinitionError: the function cannot be a tool; the message says why.
    """
    options = {
        "name": name,
        "title": title,
        "description": description,
        "input_schema": input_schema,
        "output_schema": output_schema,
        "annotations": annotations,
        "meta": meta,
        "icons": icons,
        "inline": inline,
        "scopes": scopes,
        "wrap_result": wrap_result,
    }
    return decorated(Tool[P, R].define, given, options)


__all__ = ["Tool", "ToolResult", "tool"]
