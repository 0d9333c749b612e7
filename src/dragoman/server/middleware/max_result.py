"""`MaxResult`: a middleware that limits the size of results.

The size of a result is the number of bytes of its JSON. The text of a tool's result is cut, with a note for the model.
Everything else is refused: structured content that was cut would not fit its schema, and nobody can read half an image.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from dragoman import types
from dragoman.errors import ToolError, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.server.middleware.selection import checked_count, checked_methods
from dragoman.server.request.context import Context

if TYPE_CHECKING:
    from dragoman.server.dispatch.middleware import CallNext

METHODS = ("tools/call", "resources/read", "prompts/get")
MIN_BYTES = 1000
"""A smaller limit would leave no room for the note."""


class MaxResult:
    """A middleware that limits the bytes of a result.

    Example:
        server.middleware(MaxResult(100_000))

    Text of a tool's result is cut to fit, and a note says how much is left out. A result is refused if it would not fit
    without its text, if it has structured content, or if `cut` is false: the tool's result has `isError`, and another
    method has an error. `methods` are the methods that are limited, by default `tools/call`, `resources/read` and
    `prompts/get`.

    Raises:
        DefinitionError: an option has an invalid value.
    """

    def __init__(self, max_bytes: int, *, cut: bool = True, methods: Iterable[str] = METHODS) -> None:
        self._max_bytes = checked_count("max_bytes", max_bytes, MIN_BYTES)
        self._cut = cut
        self._methods = checked_methods(methods)

    def __repr__(self) -> str:
        return f"<MaxResult of {self._max_bytes} bytes>"

    async def __call__(self, ctx: Context, call_next: CallNext) -> object:
        """Serve a request, and cut or refuse a result that is too large.

        Raises:
            ToolError: the result is too large, and cannot be cut.
        """
        result = await call_next()
        if ctx.method not in self._methods or isinstance(result, types.InputRequiredResult):
            return result
        try:
            size = len(encode(result))
        except ValidationError:  # the runner reports it
            return result
        if size <= self._max_bytes:
            return result
        if self._cut and isinstance(result, types.CallToolResult) and result.structured_content is msgspec.UNSET:
            shorter = self._shortened(result)
            if shorter is not None:
                return shorter
        raise ToolError(
            f"The result has {size} bytes, and at most {self._max_bytes} are sent; ask for less, or for a part"
        )

    def _shortened(self, result: types.CallToolResult) -> types.CallToolResult | None:
        """Return a result whose texts are cut so that it fits; None if it does not fit without its texts."""
        left_out = sum(len(block.text) for block in result.content if isinstance(block, types.TextContent))
        room = self._max_bytes - len(encode(msgspec.structs.replace(result, content=[_note(left_out, left_out)])))
        room -= sum(_size(block) for block in result.content if not isinstance(block, types.TextContent))
        if room < 0:
            return None
        total, content = left_out, list[types.ContentBlock]()
        for block in result.content:
            if not isinstance(block, types.TextContent):
                content.append(block)
                continue
            shorter = msgspec.structs.replace(block, text="")
            shorter.text = _beginning(block.text, room - _size(shorter))
            if shorter.text:
                content.append(shorter)
                room -= _size(shorter)
                left_out -= len(shorter.text)
        return msgspec.structs.replace(result, content=[*content, _note(left_out, total)])


def _note(left_out: int, total: int) -> types.TextContent:
    return types.TextContent(f"[The text was cut: {left_out} of {total} characters are left out.]")


def _size(block: types.ContentBlock) -> int:
    """Return the bytes of a block and of the comma after it."""
    return len(encode(block)) + 1


def _beginning(text: str, room: int) -> str:
    """Return the longest beginning of a text whose JSON, without the quotes, has at most `room` bytes."""
    lengths = range(1, min(len(text), room) + 1)  # a character takes at least a byte
    return text[: bisect_right(lengths, room, key=lambda length: len(encode(text[:length])) - 2)]
