"""A large part of messages that is sent again and again, put into a pipe without being copied.

Theory of operation: from the second time on that a part is sent, it is a file in memory, which nobody writes to again.
Linux puts the pages of such a file into a pipe as they are. What comes before the part and after it would be writes of
their own, and each would wake up whoever reads. So a message is put together in a pipe of our own first, and moved from
there into the other at once.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from msgspec import Raw

MOST_AROUND = 4096
"""How much may come before the part, or after it, to be copied into our own pipe."""
_AROUND_BYTES = 4 * MOST_AROUND
"""Pages that are not full take as much room as those that are."""
MOST_BYTES = 1024 * 1024 - _AROUND_BYTES
"""What a pipe can hold without privileges."""


class Pages:
    """The part that a pipe was sent last.

    Example:
        pages = Pages(pipe)
        pages.keep(part)
        if pages.part is not None and pages.load(b"before", b"after"):
            while pages.held:
                pages.pour()
    """

    def __init__(self, pipe: int) -> None:
        self.part: Raw | None = None
        """What is a file; None while nothing is."""
        self.held = 0
        """How many bytes of a message are still to be moved."""
        self._pipe = pipe
        self._last: Raw | None = None
        self._file = self._inlet = self._outlet = -1
        has_pages = hasattr(os, "memfd_create") and hasattr(os, "splice")
        self._is_open = has_pages and stat.S_ISFIFO(os.fstat(pipe).st_mode)

    def keep(self, part: Raw) -> None:
        """Take note that a part is sent, which becomes a file if it was sent the last time, too."""
        if part is not self._last:
            self._drop_file()
            self._last = part if self._is_open and len(part) <= MOST_BYTES else None
        elif self.part is None and not self.held:
            self._make(part)

    def _make(self, part: Raw) -> None:
        try:
            self._file = os.memfd_create("dragoman")
            with os.fdopen(self._file, "wb", closefd=False) as file:
                file.write(part)
            if self._inlet < 0:
                self._outlet, self._inlet = os.pipe()
                os.set_blocking(self._inlet, False)
            widen(self._inlet, len(part) + _AROUND_BYTES)
        except OSError:  # it is forbidden, or too many files are open
            self.close()
        else:
            self.part = part

    def load(self, before: bytes | memoryview, after: bytes) -> bool:
        """Put a message together of the part and what is around it; false if that cannot be done here."""
        part = self.part
        assert part is not None
        try:
            if before:
                os.write(self._inlet, before)
            moved = 0
            while moved < len(part):
                left = len(part) - moved
                moved += os.splice(self._file, self._inlet, left, offset_src=moved, flags=os.SPLICE_F_NONBLOCK)
            if after:
                os.write(self._inlet, after)
        except OSError:  # our pipe may not be wide, and in a sandbox pipes may take no pages
            self.close()
            return False
        self.held = len(before) + len(part) + len(after)
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
