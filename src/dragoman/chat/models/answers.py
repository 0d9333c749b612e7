"""ModelAnswer: puts the answer of a model together from its deltas.

Providers number the pieces of calls in different ways: by call, by the blocks of the message, all with 0, or not at
all. `CallPieces` finds out which pieces belong together.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

import msgspec

from dragoman import types
from dragoman.chat.messages import Delta, StopReason, ToolCall, Usage
from dragoman.schema.naming import safe_name

_STOP_REASONS: dict[str, StopReason] = {
    **dict.fromkeys(("stop", "end_turn", "endturn"), "endTurn"),
    **dict.fromkeys(("length", "max_tokens", "maxtokens"), "maxTokens"),
    **dict.fromkeys(("stop_sequence", "stopsequence"), "stopSequence"),
    **dict.fromkeys(("tool_calls", "tool_use", "tooluse", "function_call"), "toolUse"),
    **dict.fromkeys(("content_filter", "refusal", "safety"), "refusal"),
}
"""The stop reasons by the names that providers give them, in lower case."""


class PartialCall(msgspec.Struct):
    """A tool call of which some pieces have arrived."""

    place: int
    """The position of the call in the answer, from 0."""
    number: int | None
    """The number that the provider gives to the pieces of this call."""
    id: str = ""
    name: str = ""
    arguments: str = ""


class CallPieces:
    """The calls of an answer, put together from their pieces.

    A piece begins a new call if its number or id is new; without numbers, also if it has a name after a named call.
    """

    def __init__(self) -> None:
        self._calls: list[PartialCall] = []
        self._latest: dict[int | None, PartialCall] = {}

    def __iter__(self) -> Iterator[PartialCall]:
        return iter(self._calls)

    def add(self, number: int | None, id: str | None, name: str | None, arguments: str) -> PartialCall:
        """Add a piece, and return the call that it belongs to."""
        call = self._latest.get(number)
        if call is None or (id and id != call.id != "") or (number is None and name and call.name):
            call = self._latest[number] = PartialCall(len(self._calls), number)
            self._calls.append(call)
        call.id = call.id or id or ""
        call.name = call.name or name or ""
        call.arguments += arguments
        return call


def new_call_id() -> str:
    """Return an id for a call that has none."""
    return f"call_{uuid.uuid4().hex}"


class ModelAnswer:
    """An answer that arrives in pieces."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls = CallPieces()
        self.usage = Usage()
        self.finish_reason: str | None = None

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the answer ended; None if the model did not say."""
        reason = None if self.finish_reason is None else _STOP_REASONS.get(self.finish_reason.lower(), "other")
        has_calls = next(iter(self._calls), None) is not None
        return "toolUse" if has_calls and reason in (None, "endTurn", "other") else reason

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, delta: Delta) -> None:
        """Add a piece."""
        self._text.append(delta.text)
        if delta.usage is not None:
            self.usage += delta.usage
        self.finish_reason = delta.finish_reason or self.finish_reason
        for piece in delta.tool_calls:
            self._calls.add(piece.index, piece.id, piece.name, piece.arguments)

    def calls(self, used_ids: Collection[str] = ()) -> list[ToolCall]:
        """Return the tool calls of the answer, in order; `used_ids` are the ids of earlier calls in the conversation.

        Providers refuse a conversation with two calls of one id, and names with characters that they do not allow,
        even if their own model wrote them. Such ids and names are replaced.
        """
        known = set(used_ids)
        calls = []
        for call in sorted(self._calls, key=lambda call: call.number or 0):
            id = call.id if call.id and call.id not in known else new_call_id()
            known.add(id)
            calls.append(ToolCall(id, safe_name(call.name), _arguments(call.arguments), call.arguments))
        return calls


def _arguments(raw: str) -> types.Json | None:
    try:
        found = msgspec.json.decode(raw if raw.strip() else "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@asynccontextmanager
async def closing(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Close a stream of deltas at the end of the block, if it has `aclose`."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
