"""`Output`: converts the value of a tool to a result with content and structured content.

A return annotation of text, media or content blocks has no output schema. Any other annotation has an output schema.
Its values are sent as structured content, and the same JSON is sent as text content; a value is encoded once for both.
The server validates a value against the annotation before it sends the value. It skips the validation for values whose
exact type cannot violate the schema, such as an `int` for `-> int`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from dragoman import types
from dragoman.errors import InternalError, ValidationError
from dragoman.protocol.fields import marked_as_wrapped, needs_wrapping, wrap_output_schema
from dragoman.schema.compile import OutputSchema
from dragoman.schema.python.annotations import Codec, UnresolvedName, describe
from dragoman.schema.python.shapes import encode_hook, encode_json, union_of
from dragoman.server.define.content import CONTENT_CLASSES, Content, content_blocks, holds_content, is_block, is_content
from dragoman.server.request.questions import InputRequired
from dragoman.types import CallToolResult
from dragoman.types.content import Block, text_block


class ResultMisfit(InternalError):
    """A result that cannot be sent: the client receives the message, and the author the report of the cause."""


class ToolResult(Struct):
    """A result of a tool with all its parts: content, structured content, error flag and `_meta`.

    Example:
        return ToolResult("3 files", structured={"count": 3}, meta={"example.com/took": 12})

    `content` is text, an image, audio, a file, content blocks or a list of them; by default it is the JSON text of
    `structured`. An empty list sends no content. `is_error` marks a failure that the model should read.
    """

    content: Content | UnsetType = UNSET
    structured: Any = UNSET
    is_error: bool = False
    meta: types.Json | None = None


_FULL_RESULTS = (ToolResult, types.Result, InputRequired)
_SEQUENCES = (list, tuple, Sequence)
_EXACT_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
}
"""Maps a JSON type to the exact Python types whose values fit a schema with `type` as its only constraint."""
_DESCRIPTIONS = frozenset({"title", "description", "examples", "default"})
"""The keywords that constrain no value."""
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)

Allows = Callable[[Any], bool]


class Output:
    """Makes the results of one tool.

    Structured content that is not an object is sent as `{"result": value}`. A bare output sends the value itself from
    2026-07-28 on. Earlier versions require an object, so the server wraps a bare schema and value when it sends them.
    """

    def __init__(self, tool: str, schema: OutputSchema | None = None, *, is_bare: bool = False) -> None:
        self._tool = tool
        self.value_schema = schema
        """The schema of the values that the tool returns; `schema` is the schema that clients see."""
        self._annotation = ""
        """The return annotation as the author would write it; only values of annotated tools are refused."""
        self._is_compared = False
        """Whether every value is validated against the schema: true if the return annotation is its source."""
        self._allows: Allows | None = None
        """Tells whether a value fits the return annotation of content; None if every value fits."""
        self._lists_content = False
        self._exact_types = frozenset((str,) if schema is None else (str, int, float, bool, dict))
        """The exact types whose values fit: they need no comparison with the annotation and the schema."""
        self.is_bare = is_bare
        self.wraps = schema is not None and needs_wrapping(schema.document)
        self.schema = None if schema is None else schema.document
        if schema is not None and self.wraps and not is_bare:
            self.schema = wrap_output_schema(schema.document)

    @classmethod
    def of(cls, returns: Any, given: OutputSchema | None, tool: str, *, is_bare: bool = False) -> Output:
        """Return the output of a tool with a return annotation, or with a schema that the author gave.

        Raises:
            DefinitionError: the annotation has no JSON form; the message names the remedy.
        """
        if given is not None:
            return cls(tool, given, is_bare=is_bare)
        data = _data_of(returns)
        schema = {} if data is UNSET else Codec(data, f"The return annotation of {tool!r}", for_output=True).schema
        output = cls(tool, OutputSchema.derived(schema) if schema else None, is_bare=is_bare)
        output._annotation = "None" if returns in (None, NoneType) else describe(returns)
        if schema:
            output._is_compared = True
            output._exact_types = _exact_types(schema)
        else:
            output._allows = None if data is not UNSET else _allowing(returns)
            output._lists_content = get_origin(returns) in _SEQUENCES and _allowing_any(_items(returns)) is not None
            output._exact_types = frozenset({str} if output._fits_content("") else ())
        return output

    def result(self, value: Any) -> Any:
        """Return the result for a value that a tool returned.

        Raises:
            TypeError: the value has no JSON form.
            ValidationError: the value does not fit the return annotation.
        """
        if type(value) in self._exact_types:
            return CallToolResult([text_block(value)]) if self.value_schema is None else self._structured_result(value)
        if isinstance(value, ToolResult):
            return self._full_result(value)
        if isinstance(value, CallToolResult):
            made = structs.replace(value, content=content_blocks(value.content))
            if made.structured_content is not UNSET:
                self._hold(made, self._encode(made.structured_content, is_error=bool(made.is_error)))
            return made
        if isinstance(value, _FULL_RESULTS):
            return value
        if self.value_schema is None and not self._fits_content(value):
            self._refuse(value, f"{_type_names(value)} is not {self._annotation}")
        if self.value_schema is None and (is_content(value) or self._is_text_list(value)):
            return CallToolResult(content_blocks(value))
        if self.value_schema is not None and holds_content(value):
            if self._is_compared:
                self._refuse(value, f"{_type_names(value)} is content")
            return CallToolResult(content_blocks(value))
        return self._structured_result(value)

    def _is_text_list(self, value: Any) -> bool:
        return self._lists_content and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)

    def _fits_content(self, value: Any) -> bool:
        return self._allows is None or self._allows(value)

    def _structured_result(self, value: Any, *, is_error: bool = False) -> CallToolResult:
        data = self._encode(value, is_error=is_error)
        result = CallToolResult([text_block(data.decode())])
        self._hold(result, data)
        return result

    def _full_result(self, value: ToolResult) -> CallToolResult:
        result = CallToolResult([])
        if value.structured is not UNSET:
            result = self._structured_result(value.structured, is_error=value.is_error)
        if value.content is not UNSET:
            result.content = content_blocks(value.content)
        result.is_error = value.is_error or None
        if value.meta is not None:
            result.meta = {**(result.meta or {}), **value.meta}
        return result

    def _encode(self, value: Any, *, is_error: bool) -> bytes:
        """Encode structured content, and validate it against the schema unless the result is an error.

        Raises:
            ValidationError: the value does not fit, or has a NaN or an infinity.
        """
        try:
            data = encode_json(value)
        except ValidationError as error:
            cause = f"The result of the tool {self._tool!r} cannot be sent: {error}"
            raise ValidationError(cause, error.path) from None
        if (
            not is_error
            and self._is_compared
            and type(value) not in self._exact_types
            and self.value_schema is not None
        ):
            misfit = self.value_schema.misfit(msgspec.json.decode(data))
            if misfit is not None:
                self._refuse(value, str(misfit), misfit.path)
        return data

    def _hold(self, result: CallToolResult, data: bytes) -> None:
        """Set encoded structured content, wrapped in `{"result": ...}` if needed; without a schema, mark the result."""
        if self.is_bare or (not self.wraps and data.startswith(b"{")):
            result.structured_content = Raw(data)
            return
        result.structured_content = {"result": Raw(data)}
        if self.value_schema is None:
            result.meta = marked_as_wrapped(result.meta)

    def _refuse(self, value: Any, reason: str, path: str = "$") -> NoReturn:
        subject = f"The tool {self._tool!r} returned"
        if value is None:
            remedy = "return a value in every case, or annotate it as"
            raise ValidationError(
                f"{subject} None for `-> {self._annotation}`: {remedy} `{self._annotation} | None`", path
            )
        kind = type(value).__name__
        raise ValidationError(
            f"{subject} a value of type {kind} that does not fit its return annotation: {reason}", path
        )

    def check(self, result: CallToolResult) -> None:
        """Validate a result against the output schema.

        Raises:
            ValidationError: the structured content does not fit, or is missing.
        """
        if self.value_schema is None:
            return
        structured = result.structured_content
        if structured is UNSET:
            raise ValidationError("Invalid result: the tool has an output schema, but gave no structured content")
        held = structured["result"] if isinstance(structured, dict) else structured
        self.value_schema.validate_result(msgspec.json.decode(held))


def _type_names(value: Any) -> str:
    values = value if isinstance(value, list | tuple) and value else [value]
    return ", ".join(dict.fromkeys(type(one).__name__ for one in values))


def _exact_types(schema: types.Json) -> frozenset[type]:
    """Return the exact types whose values always fit a schema."""
    constraints = {keyword: value for keyword, value in schema.items() if keyword not in _DESCRIPTIONS}
    kind = constraints.pop("type", None)
    return _EXACT_TYPES.get(kind, frozenset()) if isinstance(kind, str) and not constraints else frozenset()


def _data_of(annotation: Any) -> Any:
    """Return the part of an annotation that describes structured content.

    UNSET: the annotation describes content, or nothing. In a union, the classes of full results are ignored, because a
    full result may hold any value.
    """
    if get_origin(annotation) not in (Union, UnionType):
        return UNSET if _is_content_type(annotation) else annotation
    arms = [arm for arm in get_args(annotation) if not _is_subclass(arm, _FULL_RESULTS)]
    is_open = any(_is_content_type(arm) and arm not in (NoneType, str) for arm in arms)
    return UNSET if is_open or all(map(_is_content_type, arms)) else union_of(*arms)


def _is_content_type(annotation: Any) -> bool:
    """Tell whether the values of an annotation are content; also true for an annotation that describes nothing."""
    annotation = _unwrapped(annotation)
    if annotation in (UNSET, Any, object, None, NoneType, str, *_SEQUENCES) or isinstance(annotation, UnresolvedName):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return all(_is_content_type(arm) for arm in arguments)
    if origin in _SEQUENCES:
        return all(arm is not str and (arm is ... or _is_content_type(arm)) for arm in arguments)
    return _is_subclass(annotation, (*CONTENT_CLASSES, *_FULL_RESULTS))


def _unwrapped(annotation: Any) -> Any:
    """Return an annotation without the NewType and Annotated around it."""
    if get_origin(annotation) is Annotated:
        return _unwrapped(get_args(annotation)[0])
    return _unwrapped(annotation.__supertype__) if hasattr(annotation, "__supertype__") else annotation


def _is_subclass(annotation: Any, kinds: tuple[type[Any], ...]) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, kinds)


def _allowing(annotation: Any) -> Allows | None:
    """Return a function that tells whether a value fits an annotation of content; None if every value fits."""
    annotation = _unwrapped(annotation)
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _allowing_any(get_args(annotation))
    if annotation in _SEQUENCES or origin in _SEQUENCES:
        items = _items(annotation)
        allows = _allowing_any(items) if items else None
        return lambda value: isinstance(value, list | tuple) and (allows is None or all(map(allows, value)))
    if annotation in (None, NoneType):
        return lambda value: value is None
    if annotation is str or _is_subclass(annotation, (*CONTENT_CLASSES, *_FULL_RESULTS)):
        return partial(_is_instance, annotation)
    return None


def _allowing_any(annotations: Iterable[Any]) -> Allows | None:
    every = [_allowing(annotation) for annotation in annotations]
    some = [allows for allows in every if allows is not None]
    return (lambda value: any(allows(value) for allows in some)) if len(some) == len(every) else None


def _items(annotation: Any) -> tuple[Any, ...]:
    return tuple(argument for argument in get_args(annotation) if argument is not ...)


def _is_instance(kind: type[Any], value: Any) -> bool:
    return isinstance(value, kind) or (issubclass(kind, Block) and is_block(value))
