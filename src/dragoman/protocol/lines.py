"""Newline-delimited framing of the stdio transport.

`LineDecoder` splits each chunk once at `\\n`. The last piece of a chunk has no newline yet. The decoder keeps this
piece and joins it with the following pieces when the newline arrives, so it searches no byte twice. When a line exceeds
the limit, the decoder reports `Oversized` at once and discards the rest of the line.

The size of a line excludes its terminator, `\\n` or `\\r\\n`. A `\\r` at the end of a chunk may belong to the
terminator, so the decoder does not count it until the next byte arrives. The result does not depend on the boundaries
of the chunks.
"""

from __future__ import annotations

from msgspec import Struct


class Oversized(Struct, frozen=True):
    """Stands in the place of a line or an event that exceeds the limit."""


def encode(message: bytes) -> bytes:
    """Return a JSON message as one line."""
    return without_newlines(message) + b"\n"


def without_newlines(message: bytes) -> bytes:
    """Return JSON with spaces instead of newlines."""
    # MUST NOT (all versions): "embedded newlines in a message". In JSON they are white space between tokens.
    return message.replace(b"\n", b" ").replace(b"\r", b" ")


class LineDecoder:
    """Cuts a byte stream into lines, dropping blank ones.

    Example:
        decoder = LineDecoder(limit=4_194_304)
        decoder.receive(b'{"id":1}\\n{"id"')    # [b'{"id":1}']
        decoder.receive(b':2}\\r\\n')            # [b'{"id":2}']
    """

    __slots__ = ("_discarding", "_limit", "_partial", "_partial_bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._discarding = False

    def receive(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that this chunk completes, and an `Oversized` for each line that exceeds the limit."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        found: list[bytes | Oversized] = []
        if lines and (self._discarding or self._partial):
            self._append(lines.pop(0), found)
            self._report(self._pop_partial(), found)
        for line in lines:
            self._report(line, found)
        if rest:
            self._append(rest, found)
        return found

    def finish(self) -> list[bytes | Oversized]:
        """Return the last line if the stream ended without a newline, and reset the decoder."""
        found: list[bytes | Oversized] = []
        self._report(self._pop_partial(), found)
        return found

    def _append(self, piece: bytes, found: list[bytes | Oversized]) -> None:
        if self._discarding or not piece:
            return
        if self._partial_bytes + len(piece) - piece.endswith(b"\r") <= self._limit:
            self._partial.append(piece)
            self._partial_bytes += len(piece)
            return
        found.append(Oversized())
        self._pop_partial()
        self._discarding = True

    def _pop_partial(self) -> bytes:
        line = b"".join(self._partial)
        self._partial.clear()
        self._partial_bytes = 0
        self._discarding = False
        return line

    def _report(self, line: bytes, found: list[bytes | Oversized]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            found.append(Oversized())
        elif line and not line.isspace():
            found.append(line)
