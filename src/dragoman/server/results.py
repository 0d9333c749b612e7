"""What authors may return, and what it becomes on the wire.

Tools, prompts and resources return what is natural: text, bytes with a type, content blocks, lists of them, or the full
result. Each kind has one function here that makes the wire result of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, structs

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.server.shapes import encode_hook
from dragoman.types.content import Block


class _Media(Struct, frozen=True):
    data: bytes
    mime_type: str
    annotations: types.Annotations | None = None
    meta: types.Json | None = None

    def base64(self) -> str:
        return b64encode(self.data).decode("ascii")


class Image(_Media, frozen=True):
    """An image that a tool or prompt returns.

    Example:
        return Image(png_bytes, "image/png")
    """

    mime_type: str = "image/png"

    def block(self) -> types.ImageContent:
        """Return the content block."""
        return types.ImageContent(self.base64(), self.mime_type, annotations=self.annotations, meta=self.meta)


class Audio(_Media, frozen=True):
    """Sound that a tool or prompt returns.

    Example:
        return Audio(wav_bytes, "audio/wav")
    """

    mime_type: str = "audio/wav"

    def block(self) -> types.AudioContent:
        """Return the content block."""
        return types.AudioContent(self.base64(), self.mime_type, annotations=self.annotations, meta=self.meta)


class ToolResult(Struct):
    """The full form of what a tool returns.

    Example:
        return ToolResult("3 files", structured={"count": 3}, meta={"example.com/took": 12})

    `content` takes what a tool may return; left out, structured content is mirrored as JSON text, and an empty list
    stays empty. `is_error` marks a failure that the model should read.
    """

    content: Any = UNSET
    structured: Any = UNSET
    is_error: bool = False
    meta: types.Json | None = None


_BLOCKS = (Block, types.UnknownContent)
_TYPES = frozenset(kind.type for kind in get_args(types.ContentBlock))
_PIECES = (Image, Audio, types.ResourceContents, *_BLOCKS)


def content_blocks(value: Any) -> list[types.ContentBlock]:
    """Return what an author returned as content blocks.

    Raises:
        TypeError: it is nothing that content can be made of.
        ValueError: a dict has the type of a block, but does not fit it.
    """
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [_block(item) for item in value]
    return [_block(value)]


def is_content(value: Any) -> bool:
    """Tell whether a value can be taken as content where nothing says what it is: text, blocks, lists of them."""
    if isinstance(value, list | tuple):
        return bool(value) and (holds_content(value) or all(_is_piece(item) for item in value))
    return value is None or _is_piece(value)


def holds_content(value: Any) -> bool:
    """Tell whether a value is content whatever is said of it: an object made for content, or a list with one."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, _PIECES) for item in value)
    return isinstance(value, _PIECES)


def _is_piece(value: Any) -> bool:
    return isinstance(value, (str, *_PIECES)) or (isinstance(value, dict) and _is_block(value))


def _is_block(value: types.Json) -> bool:
    try:
        msgspec.convert(value, types.ContentBlock)
    except msgspec.ValidationError:
        return False
    return True


def _block(value: Any) -> types.ContentBlock:
    if isinstance(value, str):
        # Of a subclass of str only the text is known to have a JSON form.
        return types.TextContent(value if type(value) is str else str.__str__(value))
    if isinstance(value, Image | Audio):
        return value.block()
    if isinstance(value, types.ResourceContents):
        return types.EmbeddedResource(value)
    if isinstance(value, _BLOCKS):
        return value  # type: ignore[return-value]
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return msgspec.convert(value, types.ContentBlock) if value["type"] in _TYPES else types.UnknownContent(value)
    raise TypeError(f"{type(value).__name__} is no content: return text, Image, Audio, a content block, or several")


def prompt_messages(value: Any) -> list[types.PromptMessage]:
    """Return what a prompt returned as messages; what has no role is the user's.

    Raises:
        TypeError: it is nothing that messages can be made of.
        ValueError: a role is none of the protocol's.
    """
    if isinstance(value, types.PromptMessage):
        return [value]
    if isinstance(value, list | tuple):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, dict) and "role" in value:
        role = msgspec.convert(value["role"], types.Role)
        return [types.PromptMessage(role, block) for block in content_blocks(value.get("content"))]
    return [types.PromptMessage("user", block) for block in content_blocks(value)]


def resource_contents(value: Any, uri: str, mime_type: str | None) -> list[types.ResourceContents]:
    """Return what a resource's reader returned as contents.

    Text and bytes are what they are; contents, and lists of contents, stay; anything else is JSON.
    """
    if value is None:
        return []
    if isinstance(value, types.ResourceContents):
        return [value]
    if isinstance(value, list | tuple) and any(isinstance(item, types.ResourceContents) for item in value):
        return [contents for item in value for contents in resource_contents(item, uri, mime_type)]
    if isinstance(value, str):
        return [types.ResourceContents(uri, mime_type or "text/plain", text=value)]
    if isinstance(value, bytes | bytearray | memoryview):
        blob = b64encode(value).decode("ascii")
        return [types.ResourceContents(uri, mime_type or "application/octet-stream", blob=blob)]
    text = msgspec.json.encode(value, enc_hook=encode_hook).decode()
    return [types.ResourceContents(uri, mime_type or "application/json", text=text)]


def wire_object(value: Any, kind: type[Any], what: str) -> Any:
    """Return a wire object that an author gave as such or as a plain dict, in either spelling.

    Raises:
        DefinitionError: it does not fit, or has a key that the object does not have.
    """
    if value is None:
        return None
    if not isinstance(value, dict | kind):
        raise DefinitionError(f"{what} must be a {kind.__name__} or a dict, not {type(value).__name__}")
    given = _respelled(value, kind, what) if isinstance(value, dict) else msgspec.to_builtins(value)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise DefinitionError(f"{what}: {error}") from None


def _respelled(value: types.Json, kind: type[Struct], what: str) -> types.Json:
    """Return a dict with the keys of the wire, at every depth that has a type."""
    fields = {spelling: field for field in structs.fields(kind) for spelling in (field.name, field.encode_name)}
    unknown = [key for key in value if key not in fields]
    if unknown:
        names = sorted({field.encode_name for field in fields.values()})
        raise DefinitionError(f"{what} has no {unknown[0]!r}; it takes {', '.join(names)}")
    return {fields[key].encode_name: _respelled_part(item, fields[key], what) for key, item in value.items()}


def _respelled_part(value: Any, field: structs.FieldInfo, what: str) -> Any:
    kinds = [kind for kind in get_args(field.type) if isinstance(kind, type) and issubclass(kind, Struct)]
    if not kinds or not isinstance(value, dict):
        return value
    return _respelled(value, kinds[0], f"{what}: {field.encode_name}")


def wire_objects(values: Iterable[Any] | None, kind: type[Any], what: str) -> list[Any] | None:
    """Return a list of wire objects, or None for none."""
    objects = [wire_object(value, kind, what) for value in values or ()]
    return objects or None
