"""What a tool's result becomes: content, and structured content where its return annotation says more than text.

A return annotation of text, media or content blocks has no schema. Any other has one, and the value travels as
structured content with its JSON as text beside it; it is encoded once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import ValidationError
from dragoman.protocol.fields import wraps
from dragoman.server.annotations import Codec, Unresolved
from dragoman.server.questions import InputRequired
from dragoman.server.results import Audio, Image, ToolResult, content_blocks, holds_content, is_content
from dragoman.server.schemas import OutputSchema
from dragoman.server.shapes import encode_hook, union_of
from dragoman.types.content import Block

_CONTENT = (Image, Audio, Block, types.ResourceContents, types.UnknownContent)
_FULL = (ToolResult, types.Result, InputRequired)
_PLAIN = frozenset((str, int, float, bool, dict))
_SEQUENCES = (list, tuple, Sequence)
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


class Output:
    """How the results of one tool are made."""

    def __init__(self, schema: OutputSchema | None, *, lists_content: bool = False) -> None:
        self._schema = schema
        self._lists_content = lists_content
        self.schema = None if schema is None else schema.document
        self.wraps = self.schema is not None and wraps(self.schema)
        """Whether structured content travels inside an object, where a version demands one."""

    @classmethod
    def of(cls, returns: Any, given: OutputSchema | None, tool: str) -> Output:
        """Return how to make results of a return annotation, or of a schema that the author gave.

        Raises:
            DefinitionError: the annotation has no JSON form; the message names the remedy.
        """
        if given is not None:
            return cls(given)
        data = _data_of(returns)
        if data is UNSET:
            return cls(None, lists_content=get_origin(returns) in _SEQUENCES)
        codec = Codec(data, f"The return annotation of {tool!r}", for_output=True)
        return cls(OutputSchema.derived(codec.schema) if codec.schema else None)

    def result(self, value: Any) -> Any:
        """Return what a tool returned as a result.

        Raises:
            TypeError: it has no JSON form.
        """
        kind = type(value)
        if self._schema is not None and kind in _PLAIN:
            return _structured_result(value)
        if kind is str:
            return types.CallToolResult([types.TextContent(value)])
        if isinstance(value, InputRequired):
            return value
        if isinstance(value, types.Result):
            return _encoded(value)
        if isinstance(value, ToolResult):
            return _full_result(value)
        if holds_content(value) or (self._schema is None and is_content(value)):
            return types.CallToolResult(content_blocks(value))
        if self._lists_content and value in ([], ()):
            return types.CallToolResult([])
        return _structured_result(value)

    def plain_result(self, value: Any) -> types.CallToolResult | None:
        """Return a plain value as a result whose structured content is an object; None if it is not plain."""
        kind = type(value)
        if self._schema is None:
            return types.CallToolResult([types.TextContent(value)]) if kind is str else None
        if kind not in _PLAIN:
            return None
        result = _structured_result(value)
        if self.wraps or kind is not dict:
            result.structured_content = {"result": result.structured_content}
        return result

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
        self._schema.validate_result(
            msgspec.json.decode(structured if isinstance(structured, Raw) else _encoder.encode(structured))
        )


def _structured_result(value: Any) -> types.CallToolResult:
    data = _encoder.encode(value)
    return types.CallToolResult([types.TextContent(data.decode())], structured_content=Raw(data))


def _encoded(result: types.Result) -> types.Result:
    """Return a result whose structured content is JSON: only there it shows whether that is an object."""
    structured = getattr(result, "structured_content", UNSET)
    if structured is UNSET:
        return result
    return msgspec.structs.replace(result, structured_content=Raw(_encoder.encode(structured)))


def _full_result(value: ToolResult) -> types.CallToolResult:
    result = types.CallToolResult([]) if value.structured is UNSET else _structured_result(value.structured)
    if value.content is not UNSET:
        result.content = content_blocks(value.content)
    result.is_error = value.is_error or None
    result.meta = value.meta
    return result


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
    if annotation in (UNSET, Any, object, None, NoneType, str, *_SEQUENCES) or isinstance(annotation, Unresolved):
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
