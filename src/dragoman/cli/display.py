"""Display: writes results, text and JSON to stdout and other data to files."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from dragoman import types
from dragoman.cli.terminal import Terminal
from dragoman.client.results import CallResult, repeated_texts
from dragoman.runtime.terminal import printable_line

MAX_NAMES = 10_000
KILOBYTE = 1_000
_SUFFIXES = {"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "image/webp": ".webp"}


class Display:
    """Writes results; images, sounds and other data are saved to new files in a folder."""

    def __init__(self, terminal: Terminal, name: str, folder: str | None = None) -> None:
        self._terminal = terminal
        self._name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "result"
        self._folder = Path(folder or ".")

    def result(self, result: CallResult) -> None:
        """Write the result of a tool."""
        if self._terminal.settings.json:
            self._terminal.write_json(call_json(result))
            return
        repeats = repeated_texts(result.content, result.structured) if result.has_structured else []
        texts = [block for block in result.content if isinstance(block, types.TextContent)]
        if not result.has_structured or len(repeats) < len(texts):
            self.blocks(result.content)
            if result.has_structured:
                self._terminal.report("dragoman: the result also has structured content; --json shows it", "dim")
            return
        self._terminal.write_json(result.structured)
        self.blocks(block for block in result.content if not any(block is one for one in repeats))

    def blocks(self, blocks: Iterable[Any], before: str = "") -> None:
        """Write content blocks, one after the other."""
        for block in blocks:
            self._terminal.write_content(before + self._shown(block))

    def contents(self, contents: Iterable[types.ResourceContents]) -> None:
        """Write the contents of a resource."""
        for part in contents:
            self._terminal.write_content(self._resource(part).removesuffix("\n"))

    def _shown(self, block: Any) -> str:
        match block:
            case types.TextContent():
                return block.text
            case types.ImageContent() | types.AudioContent():
                return self._saved(block.data, block.mime_type)
            case types.EmbeddedResource():
                return self._resource(block.resource)
            case types.ResourceLink():
                return f"{block.title or block.name} <{block.uri}>"
        return msgspec.json.encode(block).decode()

    def _resource(self, part: types.ResourceContents) -> str:
        return self._saved(part.blob, part.mime_type) if part.blob is not None else part.text or ""

    def _saved(self, data: str, mime_type: str | None) -> str:
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{mime_type or 'data'} that is not valid base64]"
        path = self._write(content, _suffix(mime_type))
        return f"{path} ({mime_type or 'data'}, {len(content):,} bytes)"

    def _write(self, content: bytes, suffix: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, MAX_NAMES):
            path = self._folder / f"{self._name}-{number}{suffix}"
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                continue
            return path
        raise FileExistsError(f"{self._folder} holds too many files called {self._name}; save to another folder")


def _suffix(mime_type: str | None) -> str:
    plain = (mime_type or "").partition(";")[0].strip().lower()
    return _SUFFIXES.get(plain) or mimetypes.guess_extension(plain) or ".bin"


def media_label(data: str, mime_type: str) -> str:
    """Return a label for media in base64, such as `[image/png, 12 kB]`."""
    size = len(data.rstrip("=")) * 3 // 4
    shown = f"{size:,} bytes" if size < KILOBYTE else f"{size / KILOBYTE:,.0f} kB"
    return printable_line(f"[{mime_type}, {shown}]")


def call_json(result: CallResult) -> types.Json:
    """Return the result of a tool as it is on the wire."""
    found: types.Json = {"content": result.content}
    if result.has_structured:
        found["structuredContent"] = result.structured
    if result.meta:
        found["_meta"] = result.meta
    return found | {"isError": result.is_error}
