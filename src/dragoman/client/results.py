"""Results of requests: decoding them, and `CallResult`, the result of a tool call."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from dragoman import types
from dragoman.errors import ToolError, ValidationError
from dragoman.protocol.fields import is_marked_as_wrapped
from dragoman.types import Dropped, decode
from dragoman.types.decoding import decoders

R = TypeVar("R", bound=types.Result)
T = TypeVar("T")
if TYPE_CHECKING:
    # With the default, `CallResult` and a call without `result_type` mean `CallResult[Any]`.
    import typing_extensions

    from dragoman.schema.python.annotations import Codec

    Structured = typing_extensions.TypeVar("Structured", default=Any)
else:
    Structured = TypeVar("Structured")
_logger = logging.getLogger("dragoman.client")
COMPLETE, INPUT_REQUIRED = types.ResultType.COMPLETE, types.ResultType.INPUT_REQUIRED


class FurtherResult(Struct):
    """A result whose type belongs to an extension; `fields` are its fields."""

    result_type: str
    raw: Raw

    def __repr__(self) -> str:
        return f"<FurtherResult of the type {self.result_type!r}>"

    @property
    def fields(self) -> types.Json:
        """The fields of the result, as the server sent them."""
        return msgspec.json.decode(self.raw, type=types.Json)


def read(raw: Raw, kind: type[R], method: str) -> R | types.InputRequiredResult | FurtherResult:
    """Decode a result: of the given kind, `input_required`, or of a type that an extension finishes.

    Malformed list entries are left out, with a warning.

    Raises:
        ValidationError: the result cannot be decoded.
    """
    try:
        result = decoders[kind].decode(raw)
    except (msgspec.DecodeError, RecursionError):
        unfinished = _unfinished(raw)
        if unfinished is not None:
            return unfinished
        result = _repaired(raw, kind, method)
    # MUST (2026-07-28): an absent type means complete, and an unrecognized one makes the result invalid.
    if result.result_type not in (None, COMPLETE):
        return _unfinished(raw) or FurtherResult(result.result_type, raw)
    return result  # type: ignore[no-any-return]


def contents_bytes(contents: types.ResourceContents) -> bytes:
    """Return the contents of a resource as bytes.

    Raises:
        ValidationError: the blob is not base64.
    """
    from base64 import b64decode

    if contents.blob is None:
        return (contents.text or "").encode()
    try:
        return b64decode(contents.blob)
    except ValueError as error:
        raise ValidationError(f"The blob of {contents.uri} is not valid base64: {error}") from None


def unwrap(result: types.CallToolResult, *, wraps: bool) -> None:
    """Replace structured content whose only field is `result` by that field, if the server wrapped a value in it.

    `wraps` tells whether the output schema of the tool says so; without a schema, the `_meta` of the result may.
    """
    structured = result.structured_content
    if result.is_error or not (wraps or is_marked_as_wrapped(result.meta)):
        return
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        result.structured_content = structured["result"]


def _repaired(raw: Raw, kind: type[R], method: str) -> R:
    dropped: list[Dropped] = []
    try:
        result = decode(_with_content(raw) if kind is types.CallToolResult else raw, kind, dropped)
    except ValidationError as error:
        raise ValidationError(f"The result of {method} cannot be read: {error}", error.path) from None
    for entry in dropped:
        name = entry.entry.get("name") if isinstance(entry.entry, dict) else None
        _logger.warning("%s: %s was left out: %s", method, entry.path if name is None else repr(name), entry.reason)
    return result


def _with_content(raw: Raw) -> bytes | Raw:
    """Return a result of a tool with `content`, which some servers leave out if it is empty."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError):
        return raw
    return raw if "content" in fields else msgspec.json.encode({"content": [], **fields})


def _unfinished(raw: Raw) -> types.InputRequiredResult | FurtherResult | None:
    """Return a result whose type is not `complete`, if it can be decoded."""
    try:
        result_type = decode(raw, types.Result).result_type
        if result_type == INPUT_REQUIRED:
            return decode(raw, types.InputRequiredResult)
    except ValidationError:
        return None
    return None if result_type in (None, COMPLETE) else FurtherResult(result_type, raw)


def repeated_texts(content: Iterable[Any], structured: Any) -> list[types.TextContent]:
    """Return the texts that repeat the structured content: as the value, as its JSON, wrapped, or item by item."""
    texts = [block for block in content if isinstance(block, types.TextContent)]
    if isinstance(structured, list) and len(structured) == len(texts) and all(map(_says, texts, structured)):
        return texts
    return [block for block in texts if _says(block, structured) or _says(block, {"result": structured})]


def _says(block: types.TextContent, value: Any) -> bool:
    try:
        return bool(block.text == value or msgspec.json.decode(block.text) == value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


@lru_cache(256)
def _codec(kind: Any) -> Codec:
    from dragoman.schema.python.annotations import Codec

    return Codec(kind, "result_type", local_names={})


class CallResult(Struct, Generic[Structured], frozen=True):
    """The result of a tool call.

    Example:
        result = client.call_tool("forecast", {"city": "Oslo"})
        print(result.text, result.structured)
    """

    content: list[types.ContentBlock]
    structured: Structured = None  # type: ignore[assignment]  # a call with a `result_type` has structured content
    """The structured content, converted to the call's `result_type` if one was given; None if the result has none."""
    is_error: bool = False
    meta: types.Json | None = None
    has_structured: bool = False

    @staticmethod
    def of(result: types.CallToolResult) -> CallResult[Any]:
        """Return the result of a call."""
        structured = result.structured_content
        if structured is UNSET:
            return CallResult(result.content, None, bool(result.is_error), result.meta)
        return CallResult(result.content, structured, bool(result.is_error), result.meta, has_structured=True)

    def of_type(self, kind: type[T]) -> CallResult[T]:
        """Return the result with its structured content converted to a type; a failure is returned unchanged.

        Raises:
            ValidationError: the result has no structured content, or the content does not fit the type; the message
                names every place that does not fit, and `path` is the first.
            DefinitionError: JSON has no form for the type.
        """
        result: CallResult[Any] = self
        key: Any = kind
        name = getattr(kind, "__name__", kind)
        if self.is_error:
            return result
        if not self.has_structured:
            raise ValidationError(f"The result has no structured content that could become a {name}")
        try:
            return structs.replace(result, structured=_codec(key).convert(self.structured, repairs=False))
        except ValidationError as error:
            raise ValidationError(f"The structured content does not fit {name}: {error}", error.path or "$") from error

    @property
    def text(self) -> str:
        """The text of the content."""
        if len(self.content) == 1 and type(only := self.content[0]) is types.TextContent:
            return only.text
        return "\n".join([block.text for block in self.content if type(block) is types.TextContent])

    def raise_for_error(self) -> None:
        """Raise a `ToolError` if the tool failed.

        Raises:
            ToolError: the tool failed; the error's `result` is this result.
        """
        if self.is_error:
            raise ToolError(self.failure, self)

    @property
    def failure(self) -> str:
        """The error text of a failed call."""
        return self.text or "The tool failed and did not say why"

    def __str__(self) -> str:
        return self.text
