"""An answer of a model, put together from its pieces."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import msgspec

from dragoman import types
from dragoman.chat.messages import Delta, ToolCall, Usage
from dragoman.schema.naming import safe_name


class Gathered:
    """An answer that comes in pieces."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self.usage = Usage()
        self.finish_reason: str | None = None

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._text)

    def add(self, delta: Delta) -> None:
        """Take a piece."""
        self._text.append(delta.text)
        if delta.usage is not None:
            self.usage += delta.usage
        self.finish_reason = delta.finish_reason or self.finish_reason
        for piece in delta.tool_calls:
            known = self._calls.setdefault(piece.index, ["", "", ""])
            known[0] = known[0] or piece.id or ""
            known[1] = known[1] or piece.name or ""
            known[2] += piece.arguments

    def calls(self, taken: Collection[str] = ()) -> list[ToolCall]:
        """Return the calls that the answer wants, in order; `taken` are ids that the conversation has already.

        Providers refuse a conversation with two calls of one id, and one with a name in another alphabet than theirs,
        whoever wrote them.
        """
        known = set(taken)
        calls = []
        for _, (given, name, raw) in sorted(self._calls.items()):
            id = given if given and given not in known else f"call_{uuid.uuid4().hex}"
            known.add(id)
            calls.append(ToolCall(id, safe_name(name), _arguments(raw), raw))
        return calls


def _arguments(raw: str) -> types.Json | None:
    try:
        found = msgspec.json.decode(raw if raw.strip() else "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@asynccontextmanager
async def closing(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Close an answer when it is left, also in the middle; one that cannot be closed is left alone."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
