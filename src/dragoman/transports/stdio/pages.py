"""Sends a repeated large message into a Linux pipe with `tee` and `splice`, which do not copy its bytes.

A message consists of a head, a large part (an encoded result, such as a list of tools) and a short tail. `SplicedPages`
has two pipes besides the pipe to the client:

- The copy holds the part and its tail. It is filled when the same part is sent the second time in a row, and no code
  reads from it.
- The assembly pipe holds one message. `load` writes the bytes before the part into it. Then `tee` adds the part and
  the tail: this Linux call makes the memory pages of one pipe appear in a second pipe, and leaves them in the first.

`move` calls `os.splice`, which moves the pages from the assembly pipe into the client's pipe. A message that fits into
the pipe arrives in one piece.

A `SplicedPages` is in one of these states:

    empty    `part` is None; the writer writes messages in the usual way
    kept     `part` is set; the copy holds the part and its tail
    loaded   `unmoved` is not 0; the assembly pipe holds the rest of a message
    closed   a system call failed or the writer closed; nothing is kept any more

While a message is loaded, `note_sent` may drop the copy, because the assembly pipe has its own reference to the pages.

Python has no `os.tee`, so `ctypes` calls the C function. The first repetition of a part imports `ctypes`, so a server
that repeats no large part does not load it.

Rejected: a file in memory instead of the copy, from which `os.splice` fills the client's pipe. Linux then looks up each
page of the file, and a list of 1,000 tools costs the server a quarter more.

Rejected: no assembly pipe; the writer writes the head, and `tee` puts the part into the client's pipe. The client then
wakes up twice for one message, and a list of 1,000 tools costs the server a tenth more. A plain write, which copies the
list, costs two thirds more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from msgspec import Raw

MAX_BEFORE_BYTES = 4096
"""The most bytes before the part that `load` copies into the assembly pipe."""
_ROOM_BYTES = 4 * MAX_BEFORE_BYTES
"""Extra capacity of both pipes, because a page that is not full takes as much room in a pipe as a full one."""
MAX_PART_BYTES = 1024 * 1024 - _ROOM_BYTES
"""The largest part that is kept: without privileges, Linux lets a pipe hold 1 MiB."""

Tee = Callable[[int, int, int, int], int]


class SplicedPages:
    """Keeps the part that was sent last, with its tail, and splices it into a pipe when it is sent again.

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
        """The part that the copy holds, None while there is no copy."""
        self.unmoved = 0
        """How many bytes of the loaded message `move` has not moved yet."""
        self.tail = b""
        """The bytes after the part, with the newline."""
        self._size = 0
        self._pipe = pipe
        self._last_part: Raw | None = None
        self._copy = self._inlet = self._outlet = -1
        can_splice = hasattr(os, "splice")
        self._is_open = can_splice and stat.S_ISFIFO(os.fstat(pipe).st_mode)

    def note_sent(self, part: Raw, tail: bytes) -> None:
        """Record that a part is sent; make the copy if the previous call recorded the same part and tail."""
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
            with os.fdopen(inlet, "wb"):  # `with` closes the inlet
                widen(inlet, self._size + _ROOM_BYTES)
                is_whole = os.writev(inlet, (part, self.tail)) == self._size
            if self._inlet < 0:
                self._outlet, self._inlet = _open_pipe()
            widen(self._inlet, self._size + _ROOM_BYTES)
        except (OSError, ImportError, AttributeError):  # there is no `tee` here, or too many files are open
            is_whole = False
        if is_whole:
            self.part = part
        else:
            self.close()

    def load(self, before: memoryview) -> bool:
        """Put `before`, the part and its tail into the assembly pipe. If that fails, close and return False."""
        try:
            os.write(self._inlet, before)
            is_whole = self._tee(self._copy, self._inlet, self._size, os.SPLICE_F_NONBLOCK) == self._size
        except OSError:
            is_whole = False
        if not is_whole:  # the assembly pipe may be too small, and a sandbox may not support `tee`
            self.close()
            return False
        self.unmoved = len(before) + self._size
        return True

    def move(self) -> tuple[int, bool]:
        """Move as much of the message as fits into the client's pipe; return the byte count, and whether it was all.

        Raises:
            BlockingIOError: the pipe is full.
            OSError: the client closed the pipe, or the pipe does not support `splice`.
        """
        count = os.splice(self._outlet, self._pipe, self.unmoved, flags=os.SPLICE_F_NONBLOCK)
        self.unmoved -= count
        return count, self.unmoved == 0

    def take_back(self) -> bytes:
        """Return the bytes that `move` has not moved yet, and close."""
        rest = os.read(self._outlet, self.unmoved)
        self.close()
        return rest

    def close(self) -> None:
        """Close both pipes, drop a loaded message, and keep no part any more."""
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
    """Return the C function `tee`, which the module `os` lacks."""
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
    """Enlarge a pipe to at least `size` bytes, where the system permits it."""
    with suppress(ImportError, OSError):  # only Linux can, only for pipes, and only up to a limit
        from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

        if fcntl(pipe, F_GETPIPE_SZ) < size:
            fcntl(pipe, F_SETPIPE_SZ, size)
