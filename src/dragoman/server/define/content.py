"""`Image`, `Audio` and `File`, and the conversion of the values of tools and prompts to content blocks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, ClassVar, Self, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from dragoman import types
from dragoman.errors import DragomanError
from dragoman.server.wire_objects import wire_object
from dragoman.types.content import Block

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")
MAX_FILE_BYTES = 16 * 1024 * 1024
"""The greatest size of a file that a tool or prompt returns by its path."""


class FileUnread(DragomanError):
    """A value holds a file that must be read before the value can become content blocks."""


class _Media(Struct, frozen=True):
    data: bytes | None = None
    mime_type: str | None = None
    annotations: types.Annotations | None = None
    meta: types.Json | None = None
    path: str | PathLike[str] | None = None

    _default_type: ClassVar[str]

    def __post_init__(self) -> None:
        name = type(self).__name__
        if (self.data is None) == (self.path is None):
            raise TypeError(f"{name} takes either data or path=...")
        if self.data is not None and not isinstance(self.data, bytes | bytearray | memoryview):
            raise TypeError(f"The data of {name} must be bytes; give the path of a file as {name}(path=...)")

    def __repr__(self) -> str:
        kind, held = self._default_type, f"{len(self.data or b'')} bytes"
        if self.path is not None:
            kind, held = "of any kind", repr(fspath(self.path))
        return f"<{type(self).__name__} {self.mime_type or kind}: {held}>"

    @property
    def is_unread(self) -> bool:
        return self.path is not None

    def read(self) -> Self:
        """Return the media with the data of its file; media without a path are returned as they are."""
        if self.path is None:
            return self
        kind = self._default_type.partition("/")[0]
        mime_type = self.mime_type or _guessed_type(fspath(self.path))
        if mime_type is None or (self.mime_type is None and not mime_type.startswith(f"{kind}/")):
            raise ValueError(f"The name {fspath(self.path)!r} tells no known type of {kind}; give mime_type=")
        return replace(self, data=_read_file(self.path), path=None, mime_type=mime_type)

    def _fields(self) -> tuple[str, str]:
        """Return the data in base64, and its MIME type."""
        read = self.read()
        return b64encode(read.data or b"").decode("ascii"), read.mime_type or self._default_type


class Image(_Media, frozen=True):
    """An image that a tool or prompt returns.

    Example:
        return Image(png_bytes)
        return Image(path="chart.png")

    The server reads the file of `path` when the tool returns. `mime_type` is by default derived from the name of the
    file; for data it is "image/png".

    Raises:
        TypeError: both or neither of data and path are given, or the data is not bytes.
    """

    _default_type: ClassVar[str] = "image/png"

    def block(self) -> types.ImageContent:
        """Return the content block.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large, or its type is unknown.
        """
        return types.ImageContent(*self._fields(), annotations=self.annotations, meta=self.meta)


class Audio(_Media, frozen=True):
    """An audio clip that a tool or prompt returns.

    Example:
        return Audio(wav_bytes)
        return Audio(path="hello.mp3")

    The server reads the file of `path` when the tool returns. `mime_type` is by default derived from the name of the
    file; for data it is "audio/wav".

    Raises:
        TypeError: both or neither of data and path are given, or the data is not bytes.
    """

    _default_type: ClassVar[str] = "audio/wav"

    def block(self) -> types.AudioContent:
        """Return the content block.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large, or its type is unknown.
        """
        return types.AudioContent(*self._fields(), annotations=self.annotations, meta=self.meta)


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

    @property
    def is_unread(self) -> bool:
        """Whether the data is the path of a file."""
        return isinstance(self.data, str | PathLike)

    def read(self) -> File:
        """Return the file with its data; a file that has its data is returned as it is.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large.
        """
        if not isinstance(self.data, str | PathLike):
            return self
        from pathlib import Path

        return replace(self, data=_read_file(self.data), name=self.name or Path(self.data).name)

    def block(self) -> types.EmbeddedResource:
        """Return the content block.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is too large.
        """
        from urllib.parse import quote

        read = self.read()
        data, name = cast("bytes", read.data), read.name or "file"
        mime_type = self.mime_type or _guessed_type(name) or "application/octet-stream"
        contents = types.ResourceContents(self.uri or f"file:///{quote(name)}", mime_type)
        try:
            contents.text = data.decode() if mime_type.startswith(_TEXT_TYPES) else None
        except UnicodeDecodeError:
            contents.text = None
        if contents.text is None:
            contents.blob = b64encode(data).decode("ascii")
        return types.EmbeddedResource(contents, annotations=self.annotations, meta=self.meta)


def _guessed_type(name: str) -> str | None:
    from mimetypes import guess_type

    return guess_type(name)[0]


def _read_file(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a regular file; a pipe or a device could block, or never end.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is not a regular file, or the file is too large.
    """
    from pathlib import Path

    file = Path(path)
    if file.exists() and not file.is_file():
        raise ValueError(f"{str(file)!r} is not a regular file")
    with file.open("rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(
            f"{str(file)!r} has more than {MAX_FILE_BYTES} bytes: return a ResourceLink to a resource or a web address"
        )
    return data


async def read_files(value: Any) -> Any:
    """Return a value of an author with the data of all its files, which are read in a thread."""
    from dragoman.runtime.offload import offload

    return await offload(_with_data, value)


def _with_data(value: Any) -> Any:
    if isinstance(value, Image | Audio | File):
        return value.read()
    if isinstance(value, list | tuple):
        return [_with_data(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_data(part) if key in _HOLDERS else part for key, part in value.items()}
    held = [name for name in _HOLDERS if name in getattr(value, "__struct_fields__", ())]
    return replace(value, **{name: _with_data(getattr(value, name)) for name in held}) if held else value


_HOLDERS = ("content", "messages")
"""The fields of results and messages that hold content."""

Piece = str | Image | Audio | File | types.ContentBlock | types.UnknownContent | types.ResourceContents | types.Json
Content = Piece | Sequence[Piece] | None
"""A value that can become content blocks: text, an image, audio, a file, a content block or its dict, or a list."""
CONTENT_CLASSES = (Image, Audio, File, types.ResourceContents, Block, types.UnknownContent)
"""The classes whose objects are always content; the return annotation does not matter."""
_BLOCK_TYPES: dict[str, type[Block]] = {kind.type: kind for kind in get_args(types.ContentBlock)}


def content_blocks(value: Any) -> list[types.ContentBlock]:
    """Return the content blocks of a value that an author returned.

    Raises:
        FileUnread: the value holds a file by its path; `read_files` reads it.
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
        if value.is_unread:
            raise FileUnread
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
        f"{type(value).__name__} cannot be content: return text, Image, Audio, File, a content block, or several"
    )
