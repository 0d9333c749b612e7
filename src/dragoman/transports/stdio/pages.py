"""Pages: the large end of a message that is sent repeatedly, moved into a pipe without a copy.

When the same large part is sent a second time, the part and its tail become a file in memory, which is never written
again. Linux moves the pages of such a file into a pipe without a copy. The head of the message would need a write of
its own, which would wake the reader too early. So the message is first put together in a pipe of our own, and then
moved from there into the reader's pipe at once.

Rejected: moving the pages into the reader's pipe directly. The reader then wakes up twice, and a list of 1,000 tools
costs the server a tenth more. Copying the list costs two thirds more.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from msgspec import Raw

MAX_BEFORE_BYTES = 4096
"""How much may come before the part; it is copied into our own pipe."""
_ROOM_BYTES = 4 * MAX_BEFORE_BYTES
"""Pages that are not full take as much room in a pipe as full ones."""
MAX_PART_BYTES = 1024 * 1024 - _ROOM_BYTES
"""A pipe can hold one MiB without privileges."""


class SplicedPages:
    """The large part that was sent last to a pipe, with its tail.

    Example:
        pages = SplicedPages(pipe)
        pages.note_sent(part, b"}")
        if pages.part is not None and pages.load(memoryview(b"before")):
            while pages.unmoved:
                pages.move()
    """

    def __init__(self, pipe: int) -> None:
        self.part: Raw | None = None
        """The part that is a file now, if any."""
        self.unmoved = 0
        """How many bytes of a loaded message are not moved yet."""
        self.tail = b""
        """The bytes that follow the part in the file."""
        self._size = 0
        self._pipe = pipe
        self._last_part: Raw | None = None
        self._file = self._inlet = self._outlet = -1
        can_splice = hasattr(os, "memfd_create") and hasattr(os, "splice")
        self._is_open = can_splice and stat.S_ISFIFO(os.fstat(pipe).st_mode)

    def note_sent(self, part: Raw, tail: bytes) -> None:
        """Note that a part is sent; it becomes a file if it is the part that was sent last time."""
        if part is not self._last_part or tail != self.tail:
            self._drop_file()
            self.tail = tail
            self._last_part = part if self._is_open and len(part) <= MAX_PART_BYTES else None
        elif self.part is None and not self.unmoved:
            self._make_file(part)

    def _make_file(self, part: Raw) -> None:
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
        """Put a message together: the bytes before the part, and the part; return false if the system cannot."""
        try:
            os.write(self._inlet, before)
            moved = 0
            while moved < self._size:
                left = self._size - moved
                moved += os.splice(self._file, self._inlet, left, offset_src=moved, flags=os.SPLICE_F_NONBLOCK)
        except OSError:  # our pipe may be too small, and pipes of a sandbox may not accept pages
            self.close()
            return False
        self.unmoved = len(before) + self._size
        return True

    def move(self) -> tuple[int, bool]:
        """Move as much of the message as fits; return how many bytes were moved, and whether that is the rest of it.

        Raises:
            BlockingIOError: nothing fits.
            OSError: the reader is gone, or the pipe does not accept pages.
        """
        count = os.splice(self._outlet, self._pipe, self.unmoved, flags=os.SPLICE_F_NONBLOCK)
        self.unmoved -= count
        return count, self.unmoved == 0

    def take_back(self) -> bytes:
        """Return the bytes that are not moved yet, and use no file any more."""
        rest = os.read(self._outlet, self.unmoved)
        self.close()
        return rest

    def close(self) -> None:
        """Drop everything, and use no file any more."""
        self._is_open = False
        self.unmoved = 0
        self._drop_file()
        for end in (self._inlet, self._outlet):
            if end >= 0:
                os.close(end)
        self._inlet = self._outlet = -1

    def _drop_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self.part = self._last_part = None


def widen(pipe: int, size: int) -> None:
    """Let a pipe hold so many bytes, where the system allows it."""
    with suppress(ImportError, OSError):  # only Linux can, only for pipes, and only up to a limit
        from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

        if fcntl(pipe, F_GETPIPE_SZ) < size:
            fcntl(pipe, F_SETPIPE_SZ, size)
