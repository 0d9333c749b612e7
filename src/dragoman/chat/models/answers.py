"""The answer of a model, put together from its deltas.

Providers number the pieces of calls in different ways: by call, by the blocks of the message, all with 0, or not at
all. `CallPieces` finds out which pieces belong together.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

import msgspec

from dragoman import types
from dragoman.chat.messages import Delta, ToolCall, Usage
from dragoman.schema.naming import safe_name


class PartialCall(msgspec.Struct):
    """A call of which some pieces arrived."""

    place: int
    """How many calls of the answer began before this one."""
    number: int | None
    """The number that the provider gives its pieces."""
    id: str = ""
    name: str = ""
    arguments: str = ""


class CallPieces:
    """The calls of an answer, put together from their pieces.

    A call begins where a number or an id is new, and without numbers also where a name follows a call with a name.
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
        """Return the calls that the answer asks for, in order; `used_ids` are the ids of the conversation's calls.

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
    """Close an answer at the end of the block, also in its middle, if it can be closed."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
