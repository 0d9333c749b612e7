"""What servers give, as a model can take it: content blocks, results of tools, resources, prompts, attachments."""

from __future__ import annotations

import mimetypes
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from dragoman import types
from dragoman.chat.messages import Media, Message, Part, Text
from dragoman.client.results import CallResult

MOST_RESULT_CHARACTERS = 50_000
_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml")


def parts_of(blocks: Iterable[Any]) -> list[Part]:
    """Return content blocks as parts of a message."""
    return [_part(block) for block in blocks]


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
    """Return what a resource holds as a part of a message."""
    if contents.blob is not None:
        return Media(contents.blob, contents.mime_type or "application/octet-stream", contents.uri)
    return Text(contents.text or "")


def resource_message(title: str, contents: Iterable[types.ResourceContents]) -> Message:
    """Return a resource as something that the user shows the model."""
    parts = [part_of_contents(part) for part in contents]
    return Message("user", [Text(f"{title}\n\n"), *parts])


def prompt_messages(result: types.GetPromptResult) -> list[Message]:
    """Return the messages of a prompt."""
    return [Message(message.role, parts_of([message.content])) for message in result.messages]


def result_parts(result: CallResult, most: int = MOST_RESULT_CHARACTERS) -> list[Part]:
    """Return the result of a tool as a model is told it: its content, else what is structured, cut to a budget."""
    parts = parts_of(result.content)
    if not parts and result.has_structured:
        parts = [Text(msgspec.json.encode(result.structured).decode())]
    return [Text(cut(part.text, most)) if isinstance(part, Text) else part for part in parts] or [Text("(no content)")]


def cut(text: str, most: int) -> str:
    """Return text that is not too long: its beginning, its end, and a note of what is missing."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} of {len(text)} characters were left out ...]\n{text[-half:]}"


def attachment(given: Any) -> Part:
    """Return what a user attaches: a path, bytes with a kind, a content block, or a part of a message.

    Example:
        attachment("photo.png")
        attachment((data, "image/png"))

    Raises:
        TypeError: it is nothing that can be attached.
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
    if isinstance(given, msgspec.Struct):
        return _part(given)
    raise TypeError(f"{given!r} cannot be attached; give a path, (bytes, mime type), or content")


def _attached(data: bytes, kind: str, name: str | None) -> Part:
    if kind.startswith(_TEXTUAL):
        text = data.decode("utf-8", "replace")
        return Text(f"{name}:\n\n{text}" if name else text)
    return Media(b64encode(data).decode(), kind, name)
