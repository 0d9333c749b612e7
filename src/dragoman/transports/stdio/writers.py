"""Writers: they write messages as lines to a file descriptor, from the running loop.

A writer collects the messages of one turn of the loop and writes them in one system call. It joins small messages. A
large message that comes in parts stays a separate segment and is not copied. If the same large part is sent again, such
as a list that has not changed, the kernel does not copy it either (`pages.py`); such a message needs its own system
call.

When more than HIGH_WATER_BYTES are unwritten, the writer pauses the source of the messages (its `Flow`) until less than
LOW_WATER_BYTES are left. Messages that are sent meanwhile are kept. If the other side reads nothing for STALLED_SECONDS
while more than STALLED_BYTES are unwritten, the writer gives up.

The loop watches pipes and sockets. For other descriptors a daemon thread writes, as in `readers.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import Protocol

from msgspec import Raw

from dragoman.protocol import lines
from dragoman.transports.stdio.pages import MAX_BEFORE_BYTES, SplicedPages, widen
from dragoman.transports.stdio.readers import CHUNK_BYTES, is_watchable

HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = HIGH_WATER_BYTES // 4
STALLED_BYTES = 64 * 1024 * 1024
STALLED_SECONDS = 5.0
"""The writer gives up if the other side reads nothing for this time while more than STALLED_BYTES are unwritten."""
WIDE_PIPE_BYTES = 1024 * 1024
MAX_TURN_BYTES = 1024 * 1024
"""The most bytes written in one turn of the loop, so that other callbacks run even if the other side reads fast."""
MAX_SEGMENTS = 16
"""The most segments in one `writev`; the system would accept a thousand."""

NEWLINE_BYTES = 1

Segment = bytes | Raw

_STDERR = 2
_logger = logging.getLogger(__name__)


class Flow(Protocol):
    """The source of the messages, which a writer pauses and resumes."""

    def pause(self) -> None:
        """Stop sending: too many bytes are unwritten."""

    def resume(self) -> None:
        """Send again: most bytes are written."""

    def break_off(self) -> None:
        """Nothing can be written any more; called once."""


def open_writer(descriptor: int, flow: Flow) -> Writer:
    """Return a writer of lines to a descriptor, for the running loop."""
    # O_NONBLOCK is a flag of the open file. If stderr shares it, stderr becomes non-blocking, and prints fail.
    if is_watchable(descriptor) and not _is_stderr(descriptor):
        return LoopWriter(descriptor, flow)
    return _ThreadWriter(descriptor, flow)


def _is_stderr(descriptor: int) -> bool:
    try:
        return os.path.sameopenfile(descriptor, _STDERR)
    except OSError:
        return False


class Writer(ABC):
    """Sends lines: the messages of one turn of the loop are one batch, and one batch is written at a time."""

    is_stdio = True
    """Tells the connection that its client is at the other end of a pipe."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._flow = flow
        self._segments: list[Segment] = []
        self._unjoined: list[bytes] = []
        """Small messages after the segments; they become lines, and are joined, before they are written."""
        self._unwritten = 0
        self._progress_at = 0.0
        self._is_congested = False
        self._is_scheduled = False
        self._is_held = False
        self._is_writing = False
        self._is_closed = False
        self._progress = asyncio.Event()

    def send(self, message: bytes, /) -> None:
        """Send one encoded message; never blocks, and must be called in the loop's thread."""
        if self._is_closed:
            return
        if self._unwritten > STALLED_BYTES and self._loop.time() - self._progress_at > STALLED_SECONDS:
            _logger.warning("The other side has stopped reading: gave up with %d bytes unwritten", self._unwritten)
            self._fail()
            return
        self._unjoined.append(message)
        self._unwritten += len(message) + NEWLINE_BYTES
        if self._unwritten > HIGH_WATER_BYTES and not self._is_congested:
            self._is_congested = True
            self._flow.pause()
        if not (self._is_scheduled or self._is_writing or self._is_held):
            self._is_scheduled = True
            self._progress_at = self._loop.time()
            self._loop.call_soon(self._write_batch)

    send_at_once = send

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message without a copy of its large part, which must not contain a newline."""
        if not self._is_closed:
            if not self._unwritten:
                self._progress_at = self._loop.time()
            self._segments += (lines.encode_all(self._unjoined) + head, large)
            self._unjoined.clear()
            self._unwritten += len(head) + len(large)
            self.send(tail)

    def hold(self) -> None:
        """Collect messages without scheduling a write; the caller must call `write_now` in the same turn."""
        self._is_held = True
        if not self._unwritten:
            self._progress_at = self._loop.time()

    def write_now(self) -> None:
        """Write the messages of this turn of the loop without waiting for its end."""
        self._is_held = False
        self._write_batch()

    @property
    def has_room(self) -> bool:
        """Whether few bytes are unwritten, or the writer is closed."""
        return not self._is_congested

    async def wait_for_room(self) -> None:
        """Return when few bytes are unwritten, or when the writer is closed."""
        while self._is_congested:
            self._progress.clear()
            await self._progress.wait()

    async def flush(self, patience: float) -> None:
        """Return when everything is written, or when nothing was written for `patience` seconds."""
        while self._unwritten:
            self._progress.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._progress.wait()
            except TimeoutError:
                return

    def close(self) -> None:
        """Drop unwritten messages and write nothing any more; the descriptor stays open."""
        self._is_closed = True
        self._segments.clear()
        self._unjoined.clear()
        self._unwritten = 0
        self._is_congested = False
        self._progress.set()

    def _write_batch(self) -> None:
        self._is_scheduled = False
        if self._unjoined and not self._is_writing:
            batch, self._segments = self._segments, []
            batch.append(lines.encode_all(self._unjoined))
            self._unjoined.clear()
            self._is_writing = True
            self._write(batch)

    @abstractmethod
    def _write(self, batch: list[Segment]) -> None:
        """Start to write a batch; call `_on_written` for each part of it, or `_fail` once."""

    def _on_written(self, count: int, *, is_complete: bool) -> None:
        if self._is_closed:
            return
        self._unwritten -= count
        self._progress_at = self._loop.time()
        self._progress.set()
        if self._is_congested and self._unwritten < LOW_WATER_BYTES:
            self._is_congested = False
            self._flow.resume()
        if is_complete:
            self._is_writing = False
            self._write_batch()

    def _fail(self) -> None:
        if not self._is_closed:
            self.close()
            self._flow.break_off()


class LoopWriter(Writer):
    """Writes as much as fits, and continues when the loop reports that there is room."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._segment = memoryview(b"")
        self._next_segments: list[Segment] = []
        """The segments of the batch after `_segment`. A part of `_segment` may be written already."""
        self._pages = SplicedPages(descriptor)
        self._is_watching = False
        self._is_wide = False
        self._was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)

    def close(self) -> None:
        super().close()
        self._segment = memoryview(b"")
        self._next_segments = []
        self._pages.close()
        self._watch(is_wanted=False)
        if self._was_blocking:  # a non-blocking pipe breaks other programs that share it, such as a shell
            os.set_blocking(self._descriptor, True)

    def send_parts(self, head: bytes, large: Raw, tail: bytes) -> None:
        """Send one encoded message without a copy of its large part, which must not contain a newline."""
        if not self._is_closed:
            self._pages.note_sent(large, lines.encode(tail))
        super().send_parts(head, large, tail)

    def _write(self, batch: list[Segment]) -> None:
        self._segment = memoryview(batch.pop(0))
        self._next_segments = batch
        self._write_segments()

    def _write_segments(self) -> None:
        written, fits = 0, True
        try:
            while fits and written < MAX_TURN_BYTES and (self._segment or self._pages.unmoved):
                count, fits = self._write_some()
                written += count
        except BlockingIOError:
            pass
        except OSError:
            self._fail()
            return
        is_left = len(self._segment) > 0 or self._pages.unmoved > 0
        self._watch(is_wanted=is_left)
        if written:
            if is_left:
                self._widen()
            self._on_written(written, is_complete=not is_left)

    def _write_some(self) -> tuple[int, bool]:
        """Write once; return how many bytes were written, and whether more may fit now."""
        pages = self._pages
        if pages.unmoved or (pages.part is not None and self._load_pages()):
            return self._write_pages()
        count = os.writev(self._descriptor, [self._segment, *self._next_segments[:MAX_SEGMENTS]])
        return count, self._advance(count)

    def _advance(self, count: int) -> bool:
        """Skip `count` written bytes, and return whether they end at the end of a segment."""
        while self._next_segments and count >= len(self._segment):
            count -= len(self._segment)
            self._segment = memoryview(self._next_segments.pop(0))
        self._segment = self._segment[count:]
        return count == 0

    def _load_pages(self) -> bool:
        """Load the next message into the pages, if they hold its large part and few bytes precede that part."""
        pages, following = self._pages, self._next_segments
        is_next = bool(following) and following[0] is pages.part and len(self._segment) <= MAX_BEFORE_BYTES
        if not is_next or not pages.load(self._segment):
            return False
        self._segment = memoryview(following[1])[len(pages.tail) :]
        del following[:2]
        return True

    def _write_pages(self) -> tuple[int, bool]:
        try:
            return self._pages.move()
        except (BlockingIOError, BrokenPipeError):
            raise
        except OSError:  # the pipe does not support `splice`, as in some sandboxes
            if self._segment:
                self._next_segments.insert(0, bytes(self._segment))
            self._segment = memoryview(self._pages.take_back())
            return 0, True

    def _widen(self) -> None:
        """Enlarge a pipe that was full, so that its two ends wait less for each other."""
        if not self._is_wide:
            self._is_wide = True
            widen(self._descriptor, WIDE_PIPE_BYTES)

    def _watch(self, *, is_wanted: bool) -> None:
        if is_wanted and not self._is_watching:
            self._loop.add_writer(self._descriptor, self._write_segments)
        elif self._is_watching and not is_wanted:
            self._loop.remove_writer(self._descriptor)
        self._is_watching = is_wanted

    def send_at_once(self, message: bytes, /) -> None:
        """Send one encoded message as `send` does, but write it now if nothing else is unwritten."""
        if self._unwritten or self._is_closed:
            Writer.send(self, message)
            return
        line = lines.encode(message)
        try:
            count = os.write(self._descriptor, line)
        except BlockingIOError:
            count = 0
        except OSError:
            self._fail()
            return
        if count < len(line):
            self._keep(memoryview(line)[count:])

    def _keep(self, unwritten: memoryview) -> None:
        self._segment = unwritten
        self._unwritten = len(unwritten)
        self._progress_at = self._loop.time()
        self._is_writing = True
        self._widen()
        self._watch(is_wanted=True)
        if self._unwritten > HIGH_WATER_BYTES:
            self._is_congested = True
            self._flow.pause()


class DirectWriter(LoopWriter):
    """Writes in `send` itself while nothing is unwritten, so that a request does not wait for a turn of the loop."""

    send = LoopWriter.send_at_once

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._was_blocking = False  # a repeated `close` finds the descriptor closed; no other program has it


class _ThreadWriter(Writer):
    """Writes in a daemon thread, where a write may block."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        from queue import SimpleQueue  # writers to pipes and sockets do not need it

        self._batches: SimpleQueue[list[Segment] | None] = SimpleQueue()
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

    def _write_blocking(self, unwritten: memoryview, *, is_last: bool) -> None:
        while unwritten and not self._is_closed:
            try:
                count = os.write(self._descriptor, unwritten[:CHUNK_BYTES])
            except BlockingIOError:
                select.select([], [self._descriptor], [])
                continue
            except OSError:
                self._loop.call_soon_threadsafe(self._fail)
                return
            unwritten = unwritten[count:]
            self._loop.call_soon_threadsafe(partial(self._on_written, count, is_complete=is_last and not unwritten))
