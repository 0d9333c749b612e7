"""Readers: they deliver chunks of bytes from a file descriptor in the running loop.

The loop watches pipes and sockets. It cannot watch regular files, terminals and devices (asyncio refuses or hangs,
uvloop aborts), so a daemon thread reads those. A reader delivers one chunk at a time and can be paused. The thread
reads at most one chunk ahead.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 64 * 1024


def open_reader(descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> Reader:
    """Call `receive` in the running loop with each chunk, and `end` once when the input ends or breaks."""
    if is_watchable(descriptor):
        with suppress(OSError, ValueError, NotImplementedError):
            return _LoopReader(descriptor, receive, end)
    return _ThreadReader(descriptor, receive, end)


def is_watchable(descriptor: int) -> bool:
    """Tell whether a loop can watch a descriptor."""
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class _LoopReader:
    """Reads when the loop reports the descriptor as readable. The loop of asyncio keeps the descriptor blocking."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._receive = receive
        self._end = end
        self._is_open = True
        # After a socket error uvloop reports the socket once only, even if bytes that precede the error are unread.
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        self._needs_renewal = is_socket and not isinstance(self._loop, asyncio.SelectorEventLoop)
        self.resume()

    def pause(self) -> None:
        """Bring nothing until `resume`."""
        self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._is_open:
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Bring nothing any more; the descriptor stays open."""
        self._is_open = False
        self._loop.remove_reader(self._descriptor)

    def _read(self) -> None:
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            self._end()
            return
        if self._needs_renewal:
            self.pause()
            self.resume()
        self._receive(chunk)


class _ThreadReader:
    """Reads in a daemon thread, at most one chunk ahead."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._receive = receive
        self._end = end
        self._is_paused = False
        self._is_closed = False
        self._unreceived: bytes | None = None
        from queue import SimpleQueue  # readers of pipes and sockets do not need it

        self._may_read: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=self._run, name="dragoman-reader", daemon=True).start()

    def pause(self) -> None:
        """Bring nothing until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self._is_paused = False
        if self._unreceived is not None:
            self._loop.call_soon(self._deliver)

    def close(self) -> None:
        """Bring nothing any more; the descriptor stays open."""
        self._is_closed = True
        self._may_read.put(None)

    def _arrive(self, chunk: bytes) -> None:
        self._unreceived = chunk
        self._deliver()

    def _deliver(self) -> None:
        chunk = self._unreceived
        if self._is_closed or self._is_paused or chunk is None:
            return
        self._unreceived = None
        if chunk:
            self._may_read.put(None)
            self._receive(chunk)
        else:
            self.close()
            self._end()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while not self._is_closed:
                chunk = _read_blocking(self._descriptor)
                self._loop.call_soon_threadsafe(self._arrive, chunk)
                if not chunk:
                    return
                self._may_read.get()


Reader = _LoopReader | _ThreadReader


def _read_blocking(descriptor: int) -> bytes:
    """Return the next chunk, empty at the end of the input."""
    while True:
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # another process made this terminal or pipe non-blocking
            select.select([descriptor], [], [])
        except OSError:
            return b""
