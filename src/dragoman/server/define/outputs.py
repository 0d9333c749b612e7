"""What a tool's result becomes: content, and structured content where its return annotation says more than text.

A return annotation of text, media or content blocks has no schema. Any other has one, and the value travels as
structured content with its JSON as text beside it; it is encoded once for both. What a tool returns is compared with
its annotation before it is sent; exact plain types, which most tools return, need no look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, structs

from dragoman import types
from dragoman.errors import ValidationError
from dragoman.protocol.fields import needs_wrapping, wrap_output_schema
from dragoman.schema.compile import OutputSchema
from dragoman.schema.python.annotations import Codec, UnresolvedName
from dragoman.schema.python.shapes import encode_hook, union_of
from dragoman.server.define.results import (
    Audio,
    File,
    Image,
    ToolResult,
    content_blocks,
    holds_content,
    is_block,
    is_content,
)
from dragoman.server.request.questions import InputRequired
from dragoman.types.content import Block

_CONTENT = (Image, Audio, File, Block, types.ResourceContents, types.UnknownContent)
_FULL = (ToolResult, types.Result, InputRequired)
_SEQUENCES = (list, tuple, Sequence)
_PLAIN = frozenset((str, int, float, bool, dict))
_READY: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "object": frozenset({dict}),
}
"""Which exact types fit a schema that says no more than a type."""
_WORDS = frozenset({"title", "description", "examples", "default"})
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)

Admits = Callable[[Any], bool]


class Output:
    """How the results of one tool are made.

    Structured content that is no object travels as `{"result": value}`. An output that is bare does so only before
    2026-07-28, where the protocol demands an object; its schema and its values are then wrapped when they are sent.
    """

    def __init__(self, tool: str, schema: OutputSchema | None = None, *, is_bare: bool = False) -> None:
        self._tool = tool
        self._schema = schema
        self._is_compared = False
        """Whether results are compared with the schema: it was derived from the return annotation."""
        self._admits: Admits | None = None
        """What content the return annotation allows; None for anything."""
        self._lists_content = False
        self._ready = frozenset({str}) if schema is None else _PLAIN
        """The exact types whose values need no comparison."""
        self.is_bare = is_bare
        self.wraps = schema is not None and needs_wrapping(schema.document)
        self.schema = None if schema is None else schema.document
        if schema is not None and self.wraps and not is_bare:
            self.schema = wrap_output_schema(schema.document)

    @classmethod
    def of(cls, returns: Any, given: OutputSchema | None, tool: str, *, is_bare: bool = False) -> Output:
        """Return how to make results of a return annotation, or of a schema that the author gave.

        Raises:
            DefinitionError: the annotation has no JSON form; the message names the remedy.
        """
        if given is not None:
            return cls(tool, given, is_bare=is_bare)
        data = _data_of(returns)
        schema = {} if data is UNSET else Codec(data, f"The return annotation of {tool!r}", for_output=True).schema
        output = cls(tool, OutputSchema.derived(schema) if schema else None, is_bare=is_bare)
        if schema:
            output._is_compared = True
            output._ready = _ready_types(schema)
        else:
            output._admits = None if data is not UNSET else _admission(returns)
            output._lists_content = get_origin(returns) in _SEQUENCES and _any_admission(_items(returns)) is not None
            output._ready = frozenset({str}) if output._fits_content("") else frozenset()
        return output

    def result(self, value: Any) -> Any:
        """Return what a tool returned as a result.

        Raises:
            TypeError: it has no JSON form.
            ValidationError: it does not fit the return annotation.
        """
        if type(value) in self._ready:
            if self._schema is None:
                return types.CallToolResult([types.TextContent(value)])
            if (plain := self.plain_result(value)) is not None:
                return plain
        if isinstance(value, InputRequired):
            return value
        if isinstance(value, types.Result):
            return self._given_result(value)
        if isinstance(value, ToolResult):
            return self._full_result(value)
        if self._schema is None:
            return self._unstructured_result(value)
        if holds_content(value):
            if self._is_compared:
                self._refuse(value, f"{_listed_types(value)} is content")
            return types.CallToolResult(content_blocks(value))
        return self._structured_result(value)

    def plain_result(self, value: Any) -> types.CallToolResult | None:
        """Return a value of an exact plain type as a result, or None if it must be looked at more closely."""
        kind = type(value)
        if kind not in self._ready or (kind is float and not isfinite(value)):
            return None
        if self._schema is None:
            return types.CallToolResult([types.TextContent(value)])
        data = _encoder.encode(value)
        held: Any = Raw(data)
        if not self.is_bare and (self.wraps or kind is not dict):
            held = {"result": held}
        return types.CallToolResult([types.TextContent(data.decode())], structured_content=held)

    def _unstructured_result(self, value: Any) -> types.CallToolResult:
        if not self._fits_content(value):
            self._refuse(value, f"{_listed_types(value)} is not what it names")
        if is_content(value) or (self._lists_content and isinstance(value, list | tuple) and _is_text(value)):
            return types.CallToolResult(content_blocks(value))
        return self._structured_result(value)

    def _fits_content(self, value: Any) -> bool:
        return self._admits is None or self._admits(value)

    def _structured_result(self, value: Any) -> types.CallToolResult:
        data = _encoder.encode(value)
        self._compare(value, data)
        return types.CallToolResult([types.TextContent(data.decode())], structured_content=self._held(data))

    def _held(self, data: bytes) -> Any:
        """Return encoded structured content as it travels."""
        held = Raw(data)
        is_object = not self.wraps and data.startswith(b"{")
        return held if self.is_bare or is_object else {"result": held}

    def _given_result(self, result: types.Result) -> types.Result:
        """Return a copy of a whole result that has been looked through."""
        if not isinstance(result, types.CallToolResult):
            return result
        made = structs.replace(result, content=content_blocks(result.content))
        if made.structured_content is not UNSET:
            data = _encoder.encode(made.structured_content)
            if not made.is_error:
                self._compare(made.structured_content, data)
            made.structured_content = self._held(data)
        return made

    def _full_result(self, value: ToolResult) -> types.CallToolResult:
        result = types.CallToolResult([])
        if value.structured is not UNSET:
            data = _encoder.encode(value.structured)
            if not value.is_error:
                self._compare(value.structured, data)
            result = types.CallToolResult([types.TextContent(data.decode())], structured_content=self._held(data))
        if value.content is not UNSET:
            result.content = content_blocks(value.content)
        result.is_error = value.is_error or None
        result.meta = value.meta
        return result

    def _compare(self, value: Any, data: bytes) -> None:
        if self._is_compared and self._schema is not None:
            misfit = self._schema.misfit(msgspec.json.decode(data))
            if misfit is not None:
                self._refuse(value, str(misfit), misfit.path)

    def _refuse(self, value: Any, reason: str, path: str = "$") -> NoReturn:
        raise ValidationError(
            f"The tool {self._tool!r} returned a value of type {type(value).__name__} that does not fit its return"
            f" annotation: {reason}",
            path,
        )

    def check(self, result: types.CallToolResult) -> None:
        """Compare a result with the output schema.

        Raises:
            ValidationError: its structured content does not fit, or is missing.
        """
        if self._schema is None:
            return
        structured = result.structured_content
        if structured is UNSET:
            raise ValidationError("Invalid result: the tool has an output schema, but gave no structured content")
        held = structured["result"] if isinstance(structured, dict) else structured
        self._schema.validate_result(msgspec.json.decode(held))


def _listed_types(value: Any) -> str:
    kinds = value if isinstance(value, list | tuple) and value else [value]
    return ", ".join(dict.fromkeys(type(kind).__name__ for kind in kinds))


def _is_text(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _ready_types(schema: types.Json) -> frozenset[type]:
    """Return the exact types whose values fit a schema without a look at them."""
    said = {keyword: value for keyword, value in schema.items() if keyword not in _WORDS}
    kind = said.pop("type", None)
    return _READY.get(kind, frozenset()) if isinstance(kind, str) and not said else frozenset()


def _data_of(annotation: Any) -> Any:
    """Return what an annotation says of structured content; UNSET when its values are content, or it says nothing.

    A full result may carry anything, so that beside data it does not count.
    """
    if get_origin(annotation) not in (Union, UnionType):
        return UNSET if _says_content(annotation) else annotation
    arms = [arm for arm in get_args(annotation) if not _is_kind(arm, _FULL)]
    is_open = any(_says_content(arm) and arm not in (NoneType, str) for arm in arms)
    return UNSET if is_open or all(map(_says_content, arms)) else union_of(*arms)


def _says_content(annotation: Any) -> bool:
    """Tell whether values of an annotation are content, or it says nothing of what they are."""
    if annotation in (UNSET, Any, object, None, NoneType, str, *_SEQUENCES) or isinstance(annotation, UnresolvedName):
        return True
    if hasattr(annotation, "__supertype__"):
        return _says_content(annotation.__supertype__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _says_content(arguments[0])
    if origin in (Union, UnionType):
        return all(_says_content(arm) for arm in arguments)
    if origin in _SEQUENCES:
        return all(arm is not str and (arm is ... or _says_content(arm)) for arm in arguments)
    return _is_kind(annotation, (*_CONTENT, *_FULL))


def _is_kind(annotation: Any, kinds: tuple[type[Any], ...]) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, kinds)


def _admission(annotation: Any) -> Admits | None:
    """Return what tells whether a value is of an annotation of content; None where anything is."""
    if hasattr(annotation, "__supertype__"):
        return _admission(annotation.__supertype__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _admission(arguments[0])
    if origin in (Union, UnionType):
        return _any_admission(arguments)
    if annotation in _SEQUENCES or origin in _SEQUENCES:
        return _sequence_admission(_items(annotation))
    if annotation in (None, NoneType):
        return lambda value: value is None
    if annotation is str or _is_kind(annotation, (*_CONTENT, *_FULL)):
        return partial(_is_instance, annotation)
    return None


def _any_admission(annotations: Iterable[Any]) -> Admits | None:
    every = [_admission(annotation) for annotation in annotations]
    some = [admits for admits in every if admits is not None]
    return (lambda value: any(admits(value) for admits in some)) if len(some) == len(every) else None


def _items(annotation: Any) -> tuple[Any, ...]:
    return tuple(argument for argument in get_args(annotation) if argument is not ...)


def _sequence_admission(items: tuple[Any, ...]) -> Admits:
    admits = _any_admission(items) if items else None
    return lambda value: isinstance(value, list | tuple) and (admits is None or all(map(admits, value)))


def _is_instance(kind: type[Any], value: Any) -> bool:
    return isinstance(value, kind) or (issubclass(kind, Block) and is_block(value))
