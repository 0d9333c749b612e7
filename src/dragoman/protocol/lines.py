"""Newline-delimited framing, as stdio speaks it.

Theory of operation: every chunk is split once at `\\n`. Its last piece is the start of a line that has not ended yet
and waits with those that follow it; so none of them holds a newline, none is scanned again, and they are joined once.
A line that outgrows the limit is reported at once and dropped up to its newline.

A line is measured without its terminator, `\\n` or `\\r\\n`. One `\\r` at the end of what has arrived may still
turn out to belong to the terminator, so it does not count until the byte after it is known. This makes the answer
depend on the bytes alone and never on how they were cut into chunks.
"""

from __future__ import annotations

from msgspec import Struct

# As numbers, which `in` finds in bytes at once; anything else it first tries to take for a number, and fails slowly.
_NEWLINE, _RETURN = b"\n\r"
(_CLOSING,) = b"}"


class Oversized(Struct, frozen=True):
    """What stands in the place of a line or an event that is larger than the limit."""


def encode(message: bytes) -> bytes:
    """Return a JSON message as one line."""
    if _NEWLINE in message or _RETURN in message:
        message = without_newlines(message)
    return message + b"\n"


def without_newlines(message: bytes) -> bytes:
    """Return JSON without newlines."""
    # MUST NOT: "embedded newlines in a message". In JSON they can only be white space between tokens.
    return message.replace(b"\n", b" ").replace(b"\r", b" ")


class LineDecoder:
    """Cuts a byte stream into lines, dropping blank ones.

    Example:
        decoder = LineDecoder(limit=4_194_304)
        decoder.receive(b'{"id":1}\\n{"id"')    # [b'{"id":1}']
        decoder.receive(b':2}\\r\\n')            # [b'{"id":2}']
    """

    __slots__ = ("_discarding", "_limit", "_unended", "_unended_bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unended: list[bytes] = []
        self._unended_bytes = 0
        self._discarding = False

    def receive(self, chunk: bytes) -> list[bytes | Oversized]:
        """Return the lines that this chunk completes, and an `Oversized` for each line that outgrew the limit."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        found: list[bytes | Oversized] = []
        if lines and (self._discarding or self._unended):
            self._extend(lines[0], found)
            lines[0] = self._take()
        limit = self._limit
        for line in lines:
            if line and line[-1] == _CLOSING and len(line) <= limit:
                found.append(line)
            else:
                self._report(line, found)
        if rest:
            self._extend(rest, found)
        return found

    def finish(self) -> list[bytes | Oversized]:
        """Return the last line if the stream ended without a newline, and be ready for another stream."""
        found: list[bytes | Oversized] = []
        self._report(self._take(), found)
        return found

    def _extend(self, piece: bytes, found: list[bytes | Oversized]) -> None:
        if self._discarding or not piece:
            return
        if self._unended_bytes + len(piece) - piece.endswith(b"\r") <= self._limit:
            self._unended.append(piece)
            self._unended_bytes += len(piece)
            return
        found.append(Oversized())
        self._take()
        self._discarding = True

    def _take(self) -> bytes:
        line = b"".join(self._unended)
        self._unended.clear()
        self._unended_bytes = 0
        self._discarding = False
        return line

    def _report(self, line: bytes, found: list[bytes | Oversized]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            found.append(Oversized())
        elif line and not line.isspace():
            found.append(line)
