"""`Tool`: a function that a model may call, with the validation of its arguments and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman import types
from dragoman.errors import DefinitionError, ToolError, ValidationError
from dragoman.protocol.fields import wrap_structured_content
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import at_caller, resolved
from dragoman.schema.coerce import coerce
from dragoman.schema.compile import InputSchema, OutputSchema
from dragoman.schema.python.signature import ArgumentsRejected
from dragoman.schema.walk import CHOICES, COMPOSED
from dragoman.server.define.content import FileUnread, read_files
from dragoman.server.define.definition import (
    Definition,
    DefinitionOptions,
    P,
    Parameters,
    R,
    Returned,
    decorated,
    lists_options,
)
from dragoman.server.define.tool_results import Output, ResultMisfit, ToolResult
from dragoman.server.request.call import Call
from dragoman.server.wire_objects import optional_wire_object

if TYPE_CHECKING:
    from dragoman.server.extensions.tasks.options import TaskOptions
    from dragoman.types.apps import UiVisibility

_NO_ARGUMENTS = Raw(b"{}")
_NULL = Raw(b"null")
_OTHER_PLACES = COMPOSED - {"not", *CHOICES} | {"patternProperties"}
"""The keywords under which a schema may define properties outside of `properties`."""
OFFICIAL_OPTIONS = ("ui", "ui_visibility", "task")
"""The options of the extensions of this package; a server installs the extension when a tool has its option."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tool(Definition[Parameters, Returned]):
    """A tool: a class with a `call` method, or an object that a decorator made from a function.

    Example:
        class Weather(Tool):
            description = "Weather for a city."

            async def call(self, city: str, *, ctx: Context) -> Forecast: ...

        server = Server("weather", tools=[Weather])

    Raises:
        DefinitionError: the name, the signature or a schema cannot be served; the message says why.
    """

    input_schema: InputSchema | types.Json | None = None
    """The schema of the arguments; in a tool that was made, always an `InputSchema`, given or derived."""
    output_schema: OutputSchema | types.Json | None = None
    """The schema of the values that the tool returns; in a tool that was made, an `OutputSchema`, or None."""
    annotations: types.ToolAnnotations | types.Json | None = None
    scopes: Sequence[str] = ()
    wrap_result: bool = True
    """Send structured content that is not an object as `{"result": value}`, also from 2026-07-28 on."""
    timeout: float | None = None
    """How many seconds the tool may run, without the time in which questions wait for the client."""

    # The options of the extensions of this package have no value here: a tool has them only if its author sets them.
    ui: str
    """The `ui://` URI of the app that shows the results of the tool."""
    ui_visibility: Sequence[UiVisibility] | UiVisibility
    """Who may call the tool: "model", "app" or both."""
    task: bool | Literal["required"] | TaskOptions
    """Whether the tool runs as a task, for clients that can use tasks."""

    _method: ClassVar[str] = "call"
    _flags: ClassVar[tuple[str, ...]] = (*Definition._flags, "wrap_result")
    further_options: ClassVar[set[str]] = set(OFFICIAL_OPTIONS)

    @property
    def official_options(self) -> list[str]:
        """The options of extensions of this package that the tool has."""
        return [option for option in OFFICIAL_OPTIONS if hasattr(self, option)]

    def call(self, *_: Any, **__: Any) -> Any:
        """Run the tool; a subclass overrides this."""
        raise TypeError(f"{type(self).__name__} must define a method `call`")

    def _compile(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            remedy = "use 1 to 128 letters, digits, underscores, hyphens and dots"
            raise DefinitionError(f"The name {self.name!r} is not allowed: {remedy}")
        self._check_timeout()
        given_input, given_output = _schema(self.input_schema, InputSchema), _schema(self.output_schema, OutputSchema)
        self._given_schema: InputSchema | None = given_input
        self._has_given_output = given_output is not None
        self._takes_all = None if given_input is None else self._compare_parameters(given_input.document)
        self.output = Output.of(self.signature.returns, given_output, self.name, is_bare=not self.wrap_result)
        derived = InputSchema.derived(self.signature.input_schema)
        self.input_schema = derived if given_input is None else given_input
        self.output_schema = self.output.value_schema
        hints = optional_wire_object(self.annotations, types.ToolAnnotations, f"The annotations of {self.name!r}")
        self.definition = self._described(
            types.Tool,
            input_schema=self.input_schema.document,
            output_schema=self.output.schema,
            annotations=hints,
        )
        self.mirrored = HeaderPlan.of(self.definition.input_schema)

    def _check_timeout(self) -> None:
        seconds: Any = self.timeout
        self._seconds = seconds  # an attribute that the class lacks is read more quickly
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not isfinite(seconds) or seconds <= 0:
            raise DefinitionError(f"timeout of the tool {self.name!r} must be a number of seconds, not {seconds!r}")
        if self.inline and not self.signature.is_async:
            raise DefinitionError(
                f"The tool {self.name!r} is inline, so nothing can end it early: leave out inline or timeout"
            )

    def without_derived_parts(self) -> types.Tool:
        """Return the entry in lists without an output schema that was derived from the return annotation."""
        entry: types.Tool = self.definition
        return entry if self._has_given_output else msgspec.structs.replace(entry, output_schema=None)

    def _compare_parameters(self, schema: types.Json) -> str | None:
        """Check that an author's schema fits the function; return the parameter that takes all arguments, if any.

        If a function has one parameter, the schema does not name it, and it may be a dict, it takes all arguments.

        Raises:
            DefinitionError: the function requires an argument that the schema does not have.
        """
        properties = schema.get("properties", {})
        parameters = self.signature.parameters
        self.signature.tolerated = frozenset(properties)
        if len(parameters) == 1 and parameters[0].name not in properties and _may_be_object(parameters[0].schema):
            return parameters[0].name
        unnamed = [one.name for one in parameters if one.required and one.name not in properties]
        if unnamed and not schema.keys() & _OTHER_PLACES:
            raise DefinitionError(
                f"The input schema of the tool {self.name!r} has no {', '.join(unnamed)}, which its function needs: add"
                " them to its properties, name the parameters alike, or take all arguments as one parameter"
                " `arguments: dict`"
            )
        return None

    def begin(self, call: Call) -> Any:
        """Call the tool with a client's arguments; return its value, or a coroutine that returns the value.

        Raises:
            ToolError: the arguments do not fit.
        """
        arguments = call.request.params.arguments
        try:
            if self._given_schema is not None:
                arguments = _fitting(self._given_schema, arguments, validate=call.settings.validates_arguments)
                if self._takes_all is not None:
                    arguments = Raw(encode({self._takes_all: arguments}))
            args, kwargs = self.signature.bind(arguments, call, call.settings.strict_arguments)
        except (ValidationError, ArgumentsRejected) as rejected:
            raise ToolError(str(rejected)) from None
        value = self.start(*args, **kwargs) if kwargs else self.start(*args)
        if self._seconds is None:
            return value
        from dragoman.server.request.time_limit import within_limit

        return within_limit(call, resolved(value), self._seconds, self.name)

    def result(self, call: Call, value: object) -> object:
        """Return the result for the tool's value, or the value itself if it is `InputRequired`.

        If the value holds files to read, the result is a coroutine that returns the value with their data.

        Raises:
            TypeError: the value has no JSON form.
            ValidationError: the value does not fit the return annotation.
            ResultMisfit: the value does not fit the output schema, and the server validates results.
        """
        output = self.output
        try:
            result = output.result(value)
        except FileUnread:
            return read_files(value)
        if call.settings.validates_results and isinstance(result, types.CallToolResult) and not result.is_error:
            try:
                output.check(result)
            except ValidationError as error:
                raise ResultMisfit(f"The result of {self.name!r} does not fit its output schema") from error
        is_unwrapped = output.wraps and output.is_bare and not call.request.caller.version.any_structured_content
        return wrap_structured_content(result) if is_unwrapped else result


def _may_be_object(schema: types.Json) -> bool:
    return schema.get("type", "object") == "object" and not schema.keys() & {"enum", "anyOf", "$ref"}


def _schema(given: Any, kind: type[Any]) -> Any:
    return given if given is None or isinstance(given, kind) else kind(given)


def _fitting(schema: InputSchema, arguments: Raw | UnsetType, *, validate: bool) -> Raw:
    """Return arguments that fit an author's schema: as received, or coerced if the received ones do not fit.

    Raises:
        ValidationError: an argument is missing or does not fit.
    """
    given = _NO_ARGUMENTS if arguments is UNSET or arguments == _NULL else arguments
    value = msgspec.json.decode(given)
    if not schema.missing(value):
        if not validate or _fits(schema, value):
            return given
        value = coerce(value, schema.document)
        if _fits(schema, value):
            return Raw(msgspec.json.encode(value))
    raise ValidationError(_problems(schema, value, validate=validate))


def _fits(schema: InputSchema, value: Any) -> bool:
    try:
        schema.validate(value)
    except ValidationError:
        return False
    return True


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


class ToolOptions(DefinitionOptions, total=False):
    """The options of a tool that is made from a function."""

    input_schema: InputSchema | types.Json | None
    """The schema of the arguments; by default derived from the parameters."""
    output_schema: OutputSchema | types.Json | None
    """The schema of the structured content; by default derived from the return annotation."""
    annotations: types.ToolAnnotations | types.Json | None
    """Hints for clients, such as `{"readOnlyHint": True}`."""
    scopes: Sequence[str]
    """The OAuth scopes that a caller must have."""
    wrap_result: bool
    """Send structured content that is not an object as `{"result": value}`, also from 2026-07-28 on."""
    timeout: float | None
    """How many seconds the tool may run, without the time in which questions wait for the client."""
    ui: str | None
    """The `ui://` URI of the app that shows the results (`server.add_app`)."""
    ui_visibility: Sequence[UiVisibility] | UiVisibility | None
    """Who may call the tool: "model", "app" or, by default, both."""
    task: bool | Literal["required"] | TaskOptions | None
    """Run the tool as a task: for clients that can use tasks, or, if required, only for them."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    given_name: str | None = None, /, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@at_caller
@lists_options(ToolOptions, Tool)
def tool(
    given: Callable[P, R] | str | None = None, /, **further: object
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool from a function; any server can register it.

    Example:
        @tool
        def add(a: int, b: int) -> int:
            return a + b

        server = Server("sums", tools=[add])

    `@tool("plus")` and `@tool(name="plus")` set the name "plus" instead of the function's name.

    Raises:
        DefinitionError: the function cannot be a tool; the message says why.
    """
    return decorated(Tool[P, R].define, given, further)


__all__ = ["Tool", "ToolResult", "tool"]
