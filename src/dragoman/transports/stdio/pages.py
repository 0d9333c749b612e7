"""The end of a message that is sent again and again, put into a pipe without being copied.

From the second time on that the same large part is sent, a pipe of our own keeps that part and its tail, and nobody
reads that pipe. `tee` of Linux puts the pages that a pipe holds into another pipe as they are. What comes before them
would be a write of its own, which would wake up the reader too early. So a message is put together in a second pipe of
our own first, and moved from there into the other pipe at once.

Python has no `tee`, so `ctypes` calls it. `ctypes` is loaded when a large part is sent the second time.

Rejected: keeping the part as a file in memory, whose pages `os.splice` puts into a pipe. Linux then looks up each page,
and a list of 1,000 tools costs the server a quarter more.

Rejected: moving the pages into the other pipe directly. The reader then wakes up twice, and a list of 1,000 tools costs
the server a tenth more. Copying the list instead makes it cost two thirds more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from msgspec import Raw

MAX_BEFORE_BYTES = 4096
"""How much may come before the part to be copied into our own pipe."""
_ROOM_BYTES = 4 * MAX_BEFORE_BYTES
"""Pages that are not full take as much room in a pipe as full ones."""
MAX_PART_BYTES = 1024 * 1024 - _ROOM_BYTES
"""What a pipe can hold without privileges."""

Tee = Callable[[int, int, int, int], int]


class SplicedPages:
    """The part that a pipe was sent last, with its tail.

    Example:
        pages = SplicedPages(pipe)
        pages.note_sent(part, b"}")
        if pages.part is not None and pages.load(memoryview(b"before")):
            while pages.unmoved:
                pages.move()
    """

    _tee: Tee

    def __init__(self, pipe: int) -> None:
        self.part: Raw | None = None
        """What is kept in a pipe; None while nothing is."""
        self.unmoved = 0
        """How many bytes of a message are still to be moved."""
        self.tail = b""
        """What follows the part in the pipe."""
        self._size = 0
        self._pipe = pipe
        self._last_part: Raw | None = None
        self._copy = self._inlet = self._outlet = -1
        can_splice = hasattr(os, "splice")
        self._is_open = can_splice and stat.S_ISFIFO(os.fstat(pipe).st_mode)

    def note_sent(self, part: Raw, tail: bytes) -> None:
        """Take note that a part is sent, and keep it in a pipe if it was sent the last time, too."""
        if part is not self._last_part or tail != self.tail:
            self._drop_copy()
            self.tail = tail
            self._last_part = part if self._is_open and len(part) <= MAX_PART_BYTES else None
        elif self.part is None and not self.unmoved:
            self._make(part)

    def _make(self, part: Raw) -> None:
        try:
            self._tee = _find_tee()
            self._size = len(part) + len(self.tail)
            self._copy, inlet = _open_pipe()
            with os.fdopen(inlet, "wb"):  # which closes it
                widen(inlet, self._size + _ROOM_BYTES)
                is_whole = os.writev(inlet, (part, self.tail)) == self._size
            if self._inlet < 0:
                self._outlet, self._inlet = _open_pipe()
            widen(self._inlet, self._size + _ROOM_BYTES)
        except (OSError, ImportError, AttributeError):  # the system has no `tee`, or too many files are open
            is_whole = False
        if is_whole:
            self.part = part
        else:
            self.close()

    def load(self, before: memoryview) -> bool:
        """Put a message together of what comes before the part, and the part; false if that cannot be done here."""
        try:
            os.write(self._inlet, before)
            is_whole = self._tee(self._copy, self._inlet, self._size, os.SPLICE_F_NONBLOCK) == self._size
        except OSError:
            is_whole = False
        if not is_whole:  # our pipe may not be wide, and in a sandbox pipes may take no pages
            self.close()
            return False
        self.unmoved = len(before) + self._size
        return True

    def move(self) -> tuple[int, bool]:
        """Move as much of the message as fits; return how many bytes that were, and whether it was all.

        Raises:
            BlockingIOError: nothing fits.
            OSError: nobody reads any more, or the pipe takes no pages.
        """
        count = os.splice(self._outlet, self._pipe, self.unmoved, flags=os.SPLICE_F_NONBLOCK)
        self.unmoved -= count
        return count, self.unmoved == 0

    def take_back(self) -> bytes:
        """Return what is still to be moved, and keep nothing in a pipe any more."""
        rest = os.read(self._outlet, self.unmoved)
        self.close()
        return rest

    def close(self) -> None:
        """Drop everything, and keep nothing in a pipe any more."""
        self._is_open = False
        self.unmoved = 0
        self._drop_copy()
        for end in (self._inlet, self._outlet):
            if end >= 0:
                os.close(end)
        self._inlet = self._outlet = -1

    def _drop_copy(self) -> None:
        if self._copy >= 0:
            os.close(self._copy)
        self._copy = -1
        self.part = self._last_part = None


def _find_tee() -> Tee:
    """Return the system's `tee`, which Python does not offer."""
    from ctypes import CDLL, c_int, c_size_t, c_ssize_t, c_uint

    tee = CDLL(None).tee
    tee.argtypes, tee.restype = (c_int, c_int, c_size_t, c_uint), c_ssize_t
    return cast("Tee", tee)


def _open_pipe() -> tuple[int, int]:
    """Return the outlet and the inlet of a pipe; the inlet does not block."""
    outlet, inlet = os.pipe()
    os.set_blocking(inlet, False)
    return outlet, inlet


def widen(pipe: int, size: int) -> None:
    """Let a pipe hold so many bytes, where the system can do that."""
    with suppress(ImportError, OSError):  # Linux alone can, for pipes alone, and not without end
        from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

        if fcntl(pipe, F_GETPIPE_SZ) < size:
            fcntl(pipe, F_SETPIPE_SZ, size)
