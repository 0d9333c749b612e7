"""What authors may return, and what it becomes on the wire.

Tools, prompts and resources return what is natural: text, bytes with a type, content blocks, lists of them, or the full
result. Each kind has one function here that makes the wire result of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.schema.python.shapes import encode_hook
from dragoman.types.content import Block

_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml")


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
    """Sound that a tool or prompt returns.

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

    `data` is bytes, or the path of a file, which is read when the file is returned. Left out, `mime_type` follows from
    the name, `name` is the last part of the path, and `uri` is made of the name: the client does not learn the path.
    Text is sent as text if it is UTF-8, and everything else as base64.
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
            contents.text = data.decode() if mime_type.startswith(_TEXTUAL) else None
        except UnicodeDecodeError:
            contents.text = None
        if contents.text is None:
            contents.blob = b64encode(data).decode("ascii")
        return types.EmbeddedResource(contents, annotations=self.annotations, meta=self.meta)


Piece = str | Image | Audio | File | types.ContentBlock | types.UnknownContent | types.ResourceContents | types.Json
Content = Piece | Sequence[Piece] | None
"""What content is made of: text, images, sounds, files, content blocks or plain dicts of them; one or several."""


class ToolResult(Struct):
    """The full form of what a tool returns.

    Example:
        return ToolResult("3 files", structured={"count": 3}, meta={"example.com/took": 12})

    `content` takes what a tool may return; left out, structured content is mirrored as JSON text, and an empty list
    stays empty. `is_error` marks a failure that the model should read.
    """

    content: Content | UnsetType = UNSET
    structured: Any = UNSET
    is_error: bool = False
    meta: types.Json | None = None


_BLOCKS = (Block, types.UnknownContent)
_KINDS: dict[str, type[Block]] = {kind.type: kind for kind in get_args(types.ContentBlock)}
_PIECES = (Image, Audio, File, types.ResourceContents, *_BLOCKS)


def content_blocks(value: Any) -> list[types.ContentBlock]:
    """Return what an author returned as content blocks.

    Raises:
        TypeError: it is nothing that content can be made of.
        ValueError: a block does not fit its type.
    """
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [_block(item) for item in value]
    return [_block(value)]


def is_content(value: Any) -> bool:
    """Tell whether a value can be taken as content where nothing says what it is.

    Text, blocks, and lists with a block are content. A list of text alone is data, as is an empty list.
    """
    if isinstance(value, list | tuple):
        return holds_content(value) or (any(map(is_block, value)) and all(map(_is_piece, value)))
    return value is None or _is_piece(value)


def holds_content(value: Any) -> bool:
    """Tell whether a value is content whatever is said of it: an object made for content, or a list with one."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, _PIECES) for item in value)
    return isinstance(value, _PIECES)


def _is_piece(value: Any) -> bool:
    return isinstance(value, (str, *_PIECES)) or is_block(value)


def is_block(value: Any) -> bool:
    """Tell whether a value is a dict in the shape of a content block."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or value["type"] not in _KINDS:
        return False
    try:
        _block(value)
    except ValueError:
        return False
    return True


def _block(value: Any) -> types.ContentBlock:
    if isinstance(value, str):
        # Of a subclass of str only the text is known to have a JSON form.
        return types.TextContent(value if type(value) is str else str.__str__(value))
    if isinstance(value, Image | Audio | File):
        value = value.block()
    elif isinstance(value, types.ResourceContents):
        value = types.EmbeddedResource(value)
    if isinstance(value, Block):
        return wire_object(value, type(value), "A content block")  # type: ignore[no-any-return]
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        kind = _KINDS.get(value["type"])
        if kind is None:
            return types.UnknownContent(value)
        return wire_object(value, kind, "A content block", is_open=True)  # type: ignore[no-any-return]
    raise TypeError(
        f"{type(value).__name__} is no content: return text, Image, Audio, File, a content block, or several"
    )


def prompt_result(value: Any, description: str | None) -> types.GetPromptResult:
    """Return what a prompt returned as a result: messages, a whole result, or a dict in the shape of one."""
    if isinstance(value, types.GetPromptResult):
        return structs.replace(value, messages=prompt_messages(value.messages))
    if isinstance(value, dict) and "messages" in value:
        whole = {"description": description, **value, "messages": []}
        result: types.GetPromptResult = wire_object(whole, types.GetPromptResult, "The result of a prompt")
        result.messages = prompt_messages(value["messages"])
        return result
    return types.GetPromptResult(prompt_messages(value), description=description)


def prompt_messages(value: Any) -> list[types.PromptMessage]:
    """Return what a prompt returned as messages; what has no role is the user's.

    Raises:
        TypeError: it is nothing that messages can be made of.
        ValueError: a role is none of the protocol's, or a block does not fit its type.
    """
    if isinstance(value, types.PromptMessage):
        value = {"role": value.role, "content": value.content}
    if isinstance(value, list | tuple):
        return [message for item in value for message in prompt_messages(item)]
    if isinstance(value, dict) and "role" in value:
        role = msgspec.convert(value["role"], types.Role)
        return [types.PromptMessage(role, block) for block in content_blocks(value.get("content"))]
    return [types.PromptMessage("user", block) for block in content_blocks(value)]


def resource_result(value: Any, uri: str, mime_type: str | None) -> types.ReadResourceResult:
    """Return what a resource's reader returned as a result: contents, a whole result, or a dict in its shape."""
    if isinstance(value, types.ReadResourceResult):
        return structs.replace(value, contents=[_contents(contents) for contents in value.contents])
    if isinstance(value, dict) and isinstance(value.get("contents"), list) and all(map(_is_held, value["contents"])):
        result: types.ReadResourceResult = wire_object(value, types.ReadResourceResult, "The result of a resource")
        return result
    return types.ReadResourceResult(resource_contents(value, uri, mime_type))


def resource_contents(value: Any, uri: str, mime_type: str | None) -> list[types.ResourceContents]:
    """Return what a resource's reader returned as contents.

    Text and bytes are what they are; contents, as objects or as dicts in their shape, and lists with contents stay;
    anything else is JSON.
    """
    if value is None:
        return []
    if _is_held(value):
        return [_contents(value)]
    if isinstance(value, list | tuple) and any(map(_is_held, value)):
        return [contents for item in value for contents in resource_contents(item, uri, mime_type)]
    if isinstance(value, str):
        return [types.ResourceContents(uri, mime_type or "text/plain", text=value)]
    if isinstance(value, bytes | bytearray | memoryview):
        blob = b64encode(value).decode("ascii")
        return [types.ResourceContents(uri, mime_type or "application/octet-stream", blob=blob)]
    text = msgspec.json.encode(value, enc_hook=encode_hook).decode()
    return [types.ResourceContents(uri, mime_type or "application/json", text=text)]


def _contents(value: Any) -> types.ResourceContents:
    return wire_object(value, types.ResourceContents, "The contents of a resource")  # type: ignore[no-any-return]


_CONTENTS_KEYS = {"uri", "mimeType", "mime_type", "text", "blob", "_meta", "meta"}


def _is_held(value: Any) -> bool:
    """Tell whether a value is the contents of a resource: an object, or a dict with a URI, and text or a blob."""
    if not isinstance(value, dict):
        return isinstance(value, types.ResourceContents)
    return "uri" in value and len(value.keys() & {"text", "blob"}) == 1 and value.keys() <= _CONTENTS_KEYS


def wire_object(value: Any, kind: type[Any], what: str, *, is_open: bool = False) -> Any:
    """Return a wire object that an author gave as such or as a plain dict, in either spelling.

    An object that is open may have keys that its type does not have; they are left out.

    Raises:
        DefinitionError: it does not fit, or has a key that the object does not have.
    """
    if value is None:
        return None
    if not isinstance(value, dict | kind):
        raise DefinitionError(f"{what} must be a {kind.__name__} or a dict, not {type(value).__name__}")
    try:
        given = _Spelling(is_open=is_open).of(msgspec.to_builtins(value), kind, what)
        made = msgspec.convert(given, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise DefinitionError(f"{what}: {error}") from None
    _refuse_out_of_range(made, what)
    return made


class _Spelling:
    """Gives the keys of plain dicts the spelling of the wire, at every depth that has a type."""

    def __init__(self, *, is_open: bool) -> None:
        self._is_open = is_open

    def of(self, value: Any, annotation: Any, what: str) -> Any:
        """Return a value of an annotation with the keys of the wire."""
        arms = _arms(annotation)
        if isinstance(value, dict):
            kind = _kind_of(value, arms)
            return value if kind is None else self._object(value, kind, what)
        items = [get_args(arm)[0] for arm in arms if get_origin(arm) is list]
        if items and isinstance(value, list | tuple):
            return [self.of(item, items[0], what) for item in value]
        return value

    def _object(self, value: types.Json, kind: type[Struct], what: str) -> types.Json:
        fields = {spelling: field for field in structs.fields(kind) for spelling in (field.name, field.encode_name)}
        tag_field = kind.__struct_config__.tag_field
        spelled = {key: item for key, item in value.items() if key == tag_field}
        for key, item in value.items():
            if key in fields:
                name = fields[key].encode_name
                spelled[name] = self.of(item, fields[key].type, f"{what}: {name}")
            elif key != tag_field and not self._is_open:
                names = sorted({field.encode_name for field in fields.values()})
                raise DefinitionError(f"{what} has no {key!r}; it takes {', '.join(names)}")
        return spelled


def _arms(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [arm for argument in get_args(annotation) for arm in _arms(argument)]
    return [annotation]


def _kind_of(value: types.Json, arms: list[Any]) -> type[Struct] | None:
    """Return the wire type that a dict is of: the one with its tag, or the only one without a tag."""
    for arm in arms:
        if isinstance(arm, type) and issubclass(arm, Struct):
            config = arm.__struct_config__
            if config.tag_field is None or value.get(config.tag_field) == config.tag:
                return arm
    return None


_WITHIN_ONE: dict[type[Struct], tuple[str, ...]] = {
    types.Annotations: ("priority",),
    types.ModelPreferences: ("cost_priority", "speed_priority", "intelligence_priority"),
}


def _refuse_out_of_range(value: Any, what: str) -> None:
    """Refuse numbers that the protocol bounds; clients may refuse them, so we never send them."""
    if isinstance(value, list):
        for item in value:
            _refuse_out_of_range(item, what)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name in _WITHIN_ONE.get(type(value), ()) and held is not None and not 0 <= held <= 1:
                raise DefinitionError(f"{what}: {name} must be a number from 0 to 1, not {held!r}")
            _refuse_out_of_range(held, what)


def wire_objects(values: Iterable[Any] | None, kind: type[Any], what: str) -> list[Any] | None:
    """Return a list of wire objects, or None for none."""
    if values is None:
        return None
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise DefinitionError(f"{what} must be in a list, such as [{kind.__name__}(...)], not {type(values).__name__}")
    objects = [wire_object(value, kind, what) for value in values]
    return objects or None
