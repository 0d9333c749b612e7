"""`ChunkedBody` finds the end of a chunked body (RFC 9112, 7.1)."""

from __future__ import annotations

import re

_SIZE = re.compile(rb"[0-9a-fA-F]+")
_LINE_END_BYTES = 2


class ChunkedBody:
    """Finds the end of a chunked body before the parser gets the bytes; the parser does not report this position.

    It reads only the sizes of the chunks. The parser refuses malformed chunks.
    """

    has_ended = False

    def __init__(self) -> None:
        self._left = 0
        """How many bytes of the current chunk are missing."""
        self._line = b""
        """An incomplete line."""
        self._is_behind_chunks = False
        self._is_malformed = False

    def end(self, data: bytes, at: int) -> int:
        """Return where the body ends, or the end of the data if the body continues."""
        while at < len(data) and not self.has_ended and not self._is_malformed:
            if self._left:
                skipped = min(self._left, len(data) - at)
                self._left -= skipped
                at += skipped
            else:
                at = self._read_line(data, at)
        return at if self.has_ended else len(data)

    def _read_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at) + 1
        if end == 0:
            self._line += data[at:]
            return len(data)
        line, self._line = self._line + data[at:end], b""
        if self._is_behind_chunks:
            self.has_ended = line == b"\r\n"
            return end
        size = _SIZE.match(line)
        if size is None:
            self._is_malformed = True
        elif (count := int(size[0], 16)) == 0:
            self._is_behind_chunks = True
        else:
            self._left = count + _LINE_END_BYTES
        return end
