"""`Image`, `Audio` and `File`, and the conversion of the values of tools and prompts to content blocks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from os import PathLike
from typing import Any, get_args

from msgspec import Struct

from dragoman import types
from dragoman.server.wire_objects import wire_object
from dragoman.types.content import Block

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")


class _Media(Struct, frozen=True):
    data: bytes
    mime_type: str
    annotations: types.Annotations | None = None
    meta: types.Json | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mime_type}: {len(self.data)} bytes>"

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
    """An audio clip that a tool or prompt returns.

    Example:
        return Audio(wav_bytes, "audio/wav")
    """

    mime_type: str = "audio/wav"

    def block(self) -> types.AudioContent:
        """Return the content block."""
        return types.AudioContent(self.base64(), self.mime_type, annotations=self.annotations, meta=self.meta)


class File(Struct, frozen=True):
    """A file that a tool or prompt returns, embedded as a resource.

    Example:
        return File(Path("report.pdf"))
        return File(pdf_bytes, "application/pdf", name="report.pdf")

    `data` is bytes, or the path of a file; the server reads the file when the tool returns. `name` is by default the
    last part of the path. `mime_type` is by default derived from the name. `uri` is by default made from the name, so
    the client does not see the path. UTF-8 data of a text type is sent as text, and other data as base64.
    """

    data: bytes | str | PathLike[str]
    mime_type: str | None = None
    name: str | None = None
    uri: str | None = None
    annotations: types.Annotations | None = None
    meta: types.Json | None = None

    def __repr__(self) -> str:
        held = f"{len(self.data)} bytes" if isinstance(self.data, bytes) else repr(str(self.data))
        return f"<File {self.mime_type or 'of any kind'}: {held}>"

    def block(self) -> types.EmbeddedResource:
        """Return the content block.

        Raises:
            OSError: the file cannot be read.
        """
        from mimetypes import guess_type
        from pathlib import Path
        from urllib.parse import quote

        path = None if isinstance(self.data, bytes) else Path(self.data)
        name = self.name or ("file" if path is None else path.name)
        mime_type = self.mime_type or guess_type(name)[0] or "application/octet-stream"
        data = self.data if isinstance(self.data, bytes) else Path(self.data).read_bytes()
        contents = types.ResourceContents(self.uri or f"file:///{quote(name)}", mime_type)
        try:
            contents.text = data.decode() if mime_type.startswith(_TEXT_TYPES) else None
        except UnicodeDecodeError:
            contents.text = None
        if contents.text is None:
            contents.blob = b64encode(data).decode("ascii")
        return types.EmbeddedResource(contents, annotations=self.annotations, meta=self.meta)


Piece = str | Image | Audio | File | types.ContentBlock | types.UnknownContent | types.ResourceContents | types.Json
Content = Piece | Sequence[Piece] | None
"""A value that can become content blocks: text, an image, audio, a file, a content block or its dict, or a list."""
CONTENT_CLASSES = (Image, Audio, File, types.ResourceContents, Block, types.UnknownContent)
"""The classes whose objects are always content; the return annotation does not matter."""
_BLOCK_TYPES: dict[str, type[Block]] = {kind.type: kind for kind in get_args(types.ContentBlock)}


def content_blocks(value: Any) -> list[types.ContentBlock]:
    """Return the content blocks of a value that an author returned.

    Raises:
        TypeError: the value cannot become content.
        ValueError: a block does not fit its type.
    """
    if value is None:
        return []
    return [_block(item) for item in (value if isinstance(value, list | tuple) else [value])]


def is_content(value: Any) -> bool:
    """Tell whether a value without a return annotation is content or data.

    Text, blocks, and lists with at least one block are content. A list that holds only text, and an empty list, are
    data.
    """
    if isinstance(value, list | tuple):
        return holds_content(value) or (any(map(is_block, value)) and all(map(_is_piece, value)))
    return value is None or _is_piece(value)


def holds_content(value: Any) -> bool:
    """Tell whether a value is, or is a list with, an object of `CONTENT_CLASSES`; the return annotation is ignored."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, CONTENT_CLASSES) for item in value)
    return isinstance(value, CONTENT_CLASSES)


def _is_piece(value: Any) -> bool:
    return isinstance(value, (str, *CONTENT_CLASSES)) or is_block(value)


def is_block(value: Any) -> bool:
    """Tell whether a value is a dict that fits a content block."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or value["type"] not in _BLOCK_TYPES:
        return False
    try:
        _block(value)
    except ValueError:
        return False
    return True


def _block(value: Any) -> types.ContentBlock:
    if isinstance(value, str):
        # The block holds a plain `str`, because an object of a subclass may have no JSON form.
        return types.TextContent(value if type(value) is str else str.__str__(value))
    if isinstance(value, Image | Audio | File):
        value = value.block()
    elif isinstance(value, types.ResourceContents):
        value = types.EmbeddedResource(value)
    if isinstance(value, Block):
        return wire_object(value, type(value), "A content block")  # type: ignore[return-value]
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        kind = _BLOCK_TYPES.get(value["type"])
        if kind is None:
            return types.UnknownContent(value)
        return wire_object(value, kind, "A content block", is_open=True)  # type: ignore[return-value]
    raise TypeError(
        f"{type(value).__name__} is no content: return text, Image, Audio, File, a content block, or several"
    )
