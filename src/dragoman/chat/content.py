"""Converts content blocks, tool results, resources, prompts and attachments to parts of messages."""

from __future__ import annotations

import mimetypes
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import msgspec

from dragoman import types
from dragoman.chat.messages import Media, Message, Part, Text
from dragoman.client.results import CallResult, repeated_texts

MAX_RESULT_CHARACTERS = 50_000
_BLOCKS = (*get_args(types.ContentBlock), types.UnknownContent)
_WRAPPERS = frozenset({"result", "content"})
_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml")


def parts_of(blocks: Iterable[Any]) -> list[Part]:
    """Return content blocks as parts of a message; adjacent texts become one text of several lines."""
    parts: list[Part] = []
    for block in blocks:
        part = _part(block)
        if isinstance(part, Text) and parts and isinstance(last := parts[-1], Text):
            parts[-1] = Text(f"{last.text}\n{part.text}")
        else:
            parts.append(part)
    return parts


def _part(block: Any) -> Part:
    match block:
        case types.TextContent(text=text):
            return Text(text)
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return Media(data, kind)
        case types.EmbeddedResource(resource=contents):
            return part_of_contents(contents)
        case types.ResourceLink(uri=uri, name=name, description=description):
            return Text(f"[{name}]({uri})" + (f": {description}" if description else ""))
        case _:
            return Text(msgspec.json.encode(block).decode())


def part_of_contents(contents: types.ResourceContents) -> Part:
    """Return the contents of a resource as a part of a message."""
    if contents.blob is not None:
        return Media(contents.blob, contents.mime_type or "application/octet-stream", contents.uri)
    return Text(contents.text or "")


def separated(parts: list[Part]) -> list[Part]:
    """Return parts of a message, with an empty line before each text after the first part."""
    rest = [Text(f"\n\n{part.text}") if isinstance(part, Text) else part for part in parts[1:]]
    return [*parts[:1], *rest]


def resource_message(title: str, contents: Iterable[types.ResourceContents]) -> Message:
    """Return a resource as a message of the user."""
    return Message("user", separated([Text(title), *map(part_of_contents, contents)]))


def prompt_messages(result: types.GetPromptResult) -> list[Message]:
    """Return the messages of a prompt."""
    return [Message(message.role, parts_of([message.content])) for message in result.messages]


def result_parts(result: CallResult, max_characters: int | None = MAX_RESULT_CHARACTERS) -> list[Part]:
    """Return the result of a tool as parts of a message, cut to a number of characters.

    The parts are the content, followed by the JSON of the structured content unless the content repeats it.
    """
    blocks: list[Any] = list(result.content)
    if result.has_structured and not _repeats(blocks, result.structured):
        blocks.append(types.TextContent(msgspec.json.encode(result.structured).decode()))
    parts = parts_of(blocks)
    return (parts if max_characters is None else _cut_parts(parts, max_characters)) or [Text("(no content)")]


def _repeats(blocks: list[Any], structured: Any) -> bool:
    """Tell whether the content repeats the structured content: as its JSON, as the value itself, or item by item.

    Servers wrap values that are not objects as `{"result": ...}`, in the text, in the structured content, or in both.
    Some repeat the text, or the content blocks themselves, as `{"content": ...}`.
    """
    if structured is None or structured in ({}, []):
        return bool(blocks)
    is_wrapped = isinstance(structured, dict) and len(structured) == 1 and not _WRAPPERS.isdisjoint(structured)
    bare = next(iter(structured.values())) if is_wrapped else structured
    return bool(repeated_texts(blocks, bare)) or (is_wrapped and _are_blocks(bare, blocks))


def _are_blocks(value: Any, blocks: list[Any]) -> bool:
    """Tell whether a value is the JSON of all content blocks, or of the only one."""
    plain = msgspec.json.decode(msgspec.json.encode(blocks))
    return value in (plain, *plain[: len(plain) == 1])


def _cut_parts(parts: list[Part], max_characters: int) -> list[Part]:
    """Return parts with at most `max_characters` in all; the longest texts are cut first."""
    texts = {place: part.text for place, part in enumerate(parts) if isinstance(part, Text)}
    shares: dict[int, int] = {}
    for done, place in enumerate(sorted(texts, key=lambda place: len(texts[place]))):
        shares[place] = min(len(texts[place]), max_characters // (len(texts) - done))
        max_characters -= shares[place]
    return [Text(cut(texts[place], shares[place])) if place in shares else part for place, part in enumerate(parts)]


def cut(text: str, max_characters: int) -> str:
    """Return a text of limited length: its beginning, a note of how much was left out, and its end."""
    if len(text) <= max_characters:
        return text
    head, tail = max_characters - max_characters // 2, max_characters // 2
    note = f"[... {len(text) - max_characters} of {len(text)} characters were left out ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


Attachment = str | Path | tuple[bytes, str] | types.ContentBlock | types.ResourceContents | Part
"""An attachment: a path, bytes with their MIME type, content of a server, or a part of a message."""
Attachments = Iterable[Attachment] | str | Path
"""Several attachments, or one path."""


def attachment(given: object) -> Part:
    """Return an attachment as a part of a message.

    Example:
        attachment("photo.png")
        attachment((data, "image/png"))

    Raises:
        TypeError: `given` cannot be attached.
        OSError: the file cannot be read.
    """
    if isinstance(given, Text | Media):
        return given
    if isinstance(given, str | Path):
        path = Path(given)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return _attached(path.read_bytes(), kind, path.name)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], bytes):
        return _attached(given[0], str(given[1]), None)
    if isinstance(given, types.ResourceContents):
        return part_of_contents(given)
    if isinstance(given, _BLOCKS):
        return _part(given)
    raise TypeError(f"{given!r} cannot be attached; give a path, (bytes, mime type), or content")


def _attached(data: bytes, kind: str, name: str | None) -> Part:
    if kind.startswith(_TEXTUAL):
        text = data.decode("utf-8", "replace")
        return Text(f"{name}:\n\n{text}" if name else text)
    return Media(b64encode(data).decode(), kind, name)
