"""The end of a message that is sent again and again, put into a pipe without being copied.

From the second time on that the same large part is sent, that part and its tail are a file in memory, which nobody
writes to again. Linux puts the pages of such a file into a pipe as they are. What comes before them would be a write of
its own, which would wake up the reader too early. So a message is put together in a pipe of our own first, and moved
from there into the other pipe at once.

Rejected: moving the pages into the other pipe directly. The reader then wakes up twice, and a list of 1,000 tools costs
the server a tenth more. Copying the list instead makes it cost two thirds more.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from msgspec import Raw

MOST_BEFORE = 4096
"""How much may come before the part to be copied into our own pipe."""
_ROOM_BYTES = 4 * MOST_BEFORE
"""SplicedPages that are not full take as much room as those that are."""
MOST_BYTES = 1024 * 1024 - _ROOM_BYTES
"""What a pipe can hold without privileges."""


class SplicedPages:
    """The part that a pipe was sent last, with its tail.

    Example:
        pages = SplicedPages(pipe)
        pages.keep(part, b"}")
        if pages.part is not None and pages.load(memoryview(b"before")):
            while pages.held:
                pages.pour()
    """

    def __init__(self, pipe: int) -> None:
        self.part: Raw | None = None
        """What is a file; None while nothing is."""
        self.held = 0
        """How many bytes of a message are still to be moved."""
        self.tail = b""
        """What follows the part in the file."""
        self._size = 0
        self._pipe = pipe
        self._last: Raw | None = None
        self._file = self._inlet = self._outlet = -1
        has_pages = hasattr(os, "memfd_create") and hasattr(os, "splice")
        self._is_open = has_pages and stat.S_ISFIFO(os.fstat(pipe).st_mode)

    def keep(self, part: Raw, tail: bytes) -> None:
        """Take note that a part is sent, which becomes a file if it was sent the last time, too."""
        if part is not self._last or tail != self.tail:
            self._drop_file()
            self.tail = tail
            self._last = part if self._is_open and len(part) <= MOST_BYTES else None
        elif self.part is None and not self.held:
            self._make(part)

    def _make(self, part: Raw) -> None:
        try:
            self._file = os.memfd_create("dragoman")
            with os.fdopen(self._file, "wb", closefd=False) as file:
                self._size = file.write(part) + file.write(self.tail)
            if self._inlet < 0:
                self._outlet, self._inlet = os.pipe()
                os.set_blocking(self._inlet, False)
            widen(self._inlet, self._size + _ROOM_BYTES)
        except OSError:  # it is forbidden, or too many files are open
            self.close()
        else:
            self.part = part

    def load(self, before: memoryview) -> bool:
        """Put a message together of what comes before the part, and the part; false if that cannot be done here."""
        try:
            os.write(self._inlet, before)
            moved = 0
            while moved < self._size:
                left = self._size - moved
                moved += os.splice(self._file, self._inlet, left, offset_src=moved, flags=os.SPLICE_F_NONBLOCK)
        except OSError:  # our pipe may not be wide, and in a sandbox pipes may take no pages
            self.close()
            return False
        self.held = len(before) + self._size
        return True

    def pour(self) -> tuple[int, bool]:
        """Move as much of the message as fits; return how many bytes that were, and whether it was all.

        Raises:
            BlockingIOError: nothing fits.
            OSError: nobody reads any more, or the pipe takes no pages.
        """
        count = os.splice(self._outlet, self._pipe, self.held, flags=os.SPLICE_F_NONBLOCK)
        self.held -= count
        return count, self.held == 0

    def spill(self) -> bytes:
        """Return what is still to be moved, and let nothing be a file any more."""
        rest = os.read(self._outlet, self.held)
        self.close()
        return rest

    def close(self) -> None:
        """Drop everything, and let nothing be a file any more."""
        self._is_open = False
        self.held = 0
        self._drop_file()
        for end in (self._inlet, self._outlet):
            if end >= 0:
                os.close(end)
        self._inlet = self._outlet = -1

    def _drop_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self.part = self._last = None


def widen(pipe: int, size: int) -> None:
    """Let a pipe hold so many bytes, where the system can do that."""
    with suppress(ImportError, OSError):  # Linux alone can, for pipes alone, and not without end
        from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

        if fcntl(pipe, F_GETPIPE_SZ) < size:
            fcntl(pipe, F_SETPIPE_SZ, size)
