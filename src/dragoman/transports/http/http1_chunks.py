"""Where a chunked body ends (RFC 9112, 7.1)."""

from __future__ import annotations

import re

_SIZE = re.compile(rb"[0-9a-fA-F]+")
_LINE_END_BYTES = 2


class ChunkedBody:
    """Tells where a chunked body ends before the parser gets it, since the parser does not tell.

    It reads only the sizes of the chunks. The parser refuses what is malformed.
    """

    has_ended = False

    def __init__(self) -> None:
        self._left = 0
        """How much is to come of the data of a chunk."""
        self._line = b""
        """What came of a line that is not whole."""
        self._is_behind_chunks = False
        self._is_malformed = False

    def end(self, data: bytes, at: int) -> int:
        """Return where the body ends, or where the data ends if the body goes on."""
        while at < len(data) and not self.has_ended and not self._is_malformed:
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
            else:
                at = self._take_line(data, at)
        return at if self.has_ended else len(data)

    def _take_line(self, data: bytes, at: int) -> int:
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
