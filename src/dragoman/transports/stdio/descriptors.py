"""Lines in and out of file descriptors, whatever they are.

Theory of operation: pipes and sockets are watched by the loop. Regular files, terminals and devices cannot be (asyncio
refuses or hangs, uvloop aborts), so a daemon thread reads or writes those. Readers hand over one chunk at a time and
can be paused; a thread does not read on before its chunk was taken.

What is sent in one turn of the loop leaves in one write: small messages are joined, and a large one that is given in
parts stays a segment of its own, which is not copied. One that is sent again, as a list is until it changes, is not
even copied by the system (`pages.py`); it takes a write of its own. While much is unwritten the writer pauses its
source, until most of it is gone. What is sent nevertheless is kept; but an other side that takes nothing for seconds
while very much waits for it counts as gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from dragoman.protocol import lines
from dragoman.transports.stdio.pages import MOST_BEFORE, SplicedPages, widen

if TYPE_CHECKING:
    from queue import SimpleQueue

CHUNK_BYTES = 64 * 1024
CONGESTED_BYTES = 1024 * 1024
RELIEVED_BYTES = CONGESTED_BYTES // 4
UNREAD_BYTES = 64 * 1024 * 1024
UNREAD_SECONDS = 5.0
WIDE_PIPE_BYTES = 1024 * 1024
TURN_BYTES = 1024 * 1024
"""After which others have their turn of the loop, however fast the other side reads."""
MOST_SEGMENTS = 16
"""That are handed to the system in one write; it would take a thousand."""

Segment = bytes | Raw

_STDERR = 2
_logger = logging.getLogger(__name__)


class Reader(Protocol):
    """What brings the chunks of a descriptor."""

    def pause(self) -> None:
        """Bring nothing until `resume`."""

    def resume(self) -> None:
        """Go on after `pause`."""

    def close(self) -> None:
        """Bring nothing any more; the descriptor stays open."""


class Flow(Protocol):
    """What a writer regulates: the source of what makes it write."""

    def pause(self) -> None:
        """Too much is unwritten."""

    def resume(self) -> None:
        """Most of it is written."""

    def break_off(self) -> None:
        """Nothing can be written any more; called once."""


def open_reader(descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> Reader:
    """Call `receive` in the running loop for each chunk of a descriptor, and `end` once when it ends or breaks."""
    if _is_watchable(descriptor):
        with suppress(OSError, ValueError, NotImplementedError):
            return _WatchingReader(descriptor, receive, end)
    return _ThreadReader(descriptor, receive, end)


def open_writer(descriptor: int, flow: Flow) -> Writer:
    """Return what sends lines to a descriptor from the running loop."""
    # O_NONBLOCK belongs to what the descriptor leads to: were it set on a pipe that is stderr too, prints would fail.
    if _is_watchable(descriptor) and not _are_same_file(descriptor, _STDERR):
        return _WatchingWriter(descriptor, flow)
    return _ThreadWriter(descriptor, flow)


def _is_watchable(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def _is_socket(descriptor: int) -> bool:
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


def _are_same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


class _WatchingReader:
    """Reads when the loop says that there is something to read; this leaves the descriptor's flags alone."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._receive = receive
        self._end = end
        self._open = True
        # After an error on a socket uvloop calls once and never again, though bytes may come before the error.
        self._renewing = _is_socket(descriptor) and not isinstance(self._loop, asyncio.SelectorEventLoop)
        self.resume()

    def pause(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        if self._open:
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        self._open = False
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
        if self._renewing:
            self.pause()
            self.resume()
        self._receive(chunk)


class _ThreadReader:
    """Reads in a daemon thread, one chunk ahead at most."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None], end: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._receive = receive
        self._end = end
        self._paused = False
        self._closed = False
        self._waiting: bytes | None = None
        self._taken: SimpleQueue[None] = _queue()
        threading.Thread(target=self._run, name="dragoman-reader", daemon=True).start()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._waiting is not None:
            self._loop.call_soon(self._take)

    def close(self) -> None:
        self._closed = True
        self._taken.put(None)

    def _arrive(self, chunk: bytes) -> None:
        self._waiting = chunk
        self._take()

    def _take(self) -> None:
        chunk = self._waiting
        if self._closed or self._paused or chunk is None:
            return
        self._waiting = None
        if chunk:
            self._taken.put(None)
            self._receive(chunk)
        else:
            self.close()
            self._end()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while not self._closed:
                chunk = _read_blocking(self._descriptor)
                self._loop.call_soon_threadsafe(self._arrive, chunk)
                if not chunk:
                    return
                self._taken.get()


def _read_blocking(descriptor: int) -> bytes:
    """Return the next chunk, or nothing at the end."""
    while True:
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:  # another process that has this terminal or pipe made it so
            select.select([descriptor], [], [])
        except OSError:
            return b""


class Writer(ABC):
    """Sends lines: what one turn of the loop sends is one batch, and there is one batch on its way at a time."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._flow = flow
        self._segments: list[Segment] = []
        self._ready: list[bytes] = []
        """What is to be joined, and follows the segments."""
        self._unwritten = 0
        self._since = 0.0
        self._congested = False
        self._scheduled = False
        self._is_held = False
        self._writing = False
        self._closed = False
        self._moved = asyncio.Event()

    def send(self, message: bytes, /) -> None:
        """Send one encoded message. This never blocks; it must be called in the loop's thread."""
        if self._closed:
            return
        if self._unwritten > UNREAD_BYTES and self._loop.time() - self._since > UNREAD_SECONDS:
            _logger.warning("The other side has stopped reading: gave up with %d bytes unwritten", self._unwritten)
            self._break()
            return
        line = lines.encode(message)
        self._ready.append(line)
        self._unwritten += len(line)
        if self._unwritten > CONGESTED_BYTES and not self._congested:
            self._congested = True
            self._flow.pause()
        if not (self._scheduled or self._writing or self._is_held):
            self._scheduled = True
            self._since = self._loop.time()
            self._loop.call_soon(self._write_ready)

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message whose large part, which must not hold a newline, is not to be copied."""
        if not self._closed:
            if not self._unwritten:
                self._since = self._loop.time()
            self._ready.append(head)
            self._segments += (b"".join(self._ready), large)
            self._ready.clear()
            self._unwritten += len(head) + len(large)
            self.send(tail)

    def hold(self) -> None:
        """Let what is sent wait for `write_now`, which must follow in this turn, and no write be scheduled for it."""
        self._is_held = True
        if not self._unwritten:
            self._since = self._loop.time()

    def write_now(self) -> None:
        """Write what was sent in this turn of the loop, of which nothing more is to come."""
        self._is_held = False
        self._write_ready()

    @property
    def has_room(self) -> bool:
        """Whether little is unwritten, or nothing can be written any more."""
        return not self._congested

    async def room(self) -> None:
        """Return when little is unwritten, or when nothing can be written any more."""
        while self._congested:
            self._moved.clear()
            await self._moved.wait()

    async def flush(self, patience: float) -> None:
        """Return when everything is written, or when nothing was for so many seconds."""
        while self._unwritten:
            self._moved.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._moved.wait()
            except TimeoutError:
                return

    def close(self) -> None:
        """Drop what is unwritten and write nothing any more; the descriptor stays open."""
        self._closed = True
        self._segments.clear()
        self._ready.clear()
        self._unwritten = 0
        self._congested = False
        self._moved.set()

    def _write_ready(self) -> None:
        self._scheduled = False
        if self._ready and not self._writing:
            batch, self._segments = self._segments, []
            batch.append(b"".join(self._ready))
            self._ready.clear()
            self._writing = True
            self._write(batch)

    @abstractmethod
    def _write(self, batch: list[Segment]) -> None:
        """Start to write; `_written` is to follow until the batch is, or `_break`."""

    def _written(self, count: int, *, whole: bool) -> None:
        if self._closed:
            return
        self._unwritten -= count
        self._since = self._loop.time()
        self._moved.set()
        if self._congested and self._unwritten < RELIEVED_BYTES:
            self._congested = False
            self._flow.resume()
        if whole:
            self._writing = False
            self._write_ready()

    def _break(self) -> None:
        if not self._closed:
            self.close()
            self._flow.break_off()


class _WatchingWriter(Writer):
    """Writes what fits, and goes on when the loop says that there is room again."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._rest = memoryview(b"")
        self._following: list[Segment] = []
        """The segments after that of which a rest is unwritten."""
        self._pages = SplicedPages(descriptor)
        self._watching = False
        self._is_wide = False
        self._was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)

    def close(self) -> None:
        super().close()
        self._rest = memoryview(b"")
        self._following = []
        self._pages.close()
        self._watch(wanted=False)
        if self._was_blocking:  # whoever else has this pipe, a shell perhaps, would stumble
            os.set_blocking(self._descriptor, True)

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message whose large part, which must not hold a newline, is not to be copied."""
        if not self._closed:
            self._pages.keep(large, lines.encode(tail))
        super().send_parts(head, large, tail)

    def _write(self, batch: list[Segment]) -> None:
        self._rest = memoryview(batch.pop(0))
        self._following = batch
        self._write_rest()

    def _write_rest(self) -> None:
        written, fits = 0, True
        try:
            while fits and written < TURN_BYTES and (self._rest or self._pages.held):
                count, fits = self._write_some()
                written += count
        except BlockingIOError:
            pass
        except OSError:
            self._break()
            return
        is_left = len(self._rest) > 0 or self._pages.held > 0
        self._watch(wanted=is_left)
        if written:
            if is_left:
                self._widen()
            self._written(written, whole=not is_left)

    def _write_some(self) -> tuple[int, bool]:
        """Write what comes next; return how many bytes were written, and whether more may be written now."""
        pages = self._pages
        if pages.held or (pages.part is not None and self._hand_over()):
            return self._pour()
        count = os.writev(self._descriptor, [self._rest, *self._following[:MOST_SEGMENTS]])
        return count, self._advance(count)

    def _advance(self, count: int) -> bool:
        """Take note of so many bytes that were written, and return whether another segment is to be written now."""
        while self._following and count >= len(self._rest):
            count -= len(self._rest)
            self._rest = memoryview(self._following.pop(0))
        self._rest = self._rest[count:]
        return count == 0

    def _hand_over(self) -> bool:
        """Let the pages have the next message, if its large part is theirs and little comes before it."""
        pages, following = self._pages, self._following
        is_next = bool(following) and following[0] is pages.part and len(self._rest) <= MOST_BEFORE
        if not is_next or not pages.load(self._rest):
            return False
        self._rest = memoryview(following[1])[len(pages.tail) :]
        del following[:2]
        return True

    def _pour(self) -> tuple[int, bool]:
        try:
            return self._pages.pour()
        except (BlockingIOError, BrokenPipeError):
            raise
        except OSError:  # a sandbox may have pipes that take no pages
            if self._rest:
                self._following.insert(0, bytes(self._rest))
            self._rest = memoryview(self._pages.spill())
            return 0, True

    def _widen(self) -> None:
        """Let a pipe that was full hold more, so that its two ends wait less for each other."""
        if not self._is_wide:
            self._is_wide = True
            widen(self._descriptor, WIDE_PIPE_BYTES)

    def _watch(self, *, wanted: bool) -> None:
        if wanted and not self._watching:
            self._loop.add_writer(self._descriptor, self._write_rest)
        elif self._watching and not wanted:
            self._loop.remove_writer(self._descriptor)
        self._watching = wanted


class _ThreadWriter(Writer):
    """Has a daemon thread write, which may block as long as it likes."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._batches: SimpleQueue[list[Segment] | None] = _queue()
        threading.Thread(target=self._run, name="dragoman-writer", daemon=True).start()

    def close(self) -> None:
        super().close()
        self._batches.put(None)

    def _write(self, batch: list[Segment]) -> None:
        self._batches.put(batch)

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while (batch := self._batches.get()) is not None:
                while batch:
                    segment = memoryview(batch.pop(0))
                    self._write_blocking(segment, is_last=not batch)

    def _write_blocking(self, rest: memoryview, *, is_last: bool) -> None:
        while rest and not self._closed:
            try:
                count = os.write(self._descriptor, rest[:CHUNK_BYTES])
            except BlockingIOError:
                select.select([], [self._descriptor], [])
                continue
            except OSError:
                self._loop.call_soon_threadsafe(self._break)
                return
            rest = rest[count:]
            self._loop.call_soon_threadsafe(partial(self._written, count, whole=is_last and not rest))


def _queue() -> SimpleQueue[Any]:
    from queue import SimpleQueue  # which pipes and sockets do not need

    return SimpleQueue()
