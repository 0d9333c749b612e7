"""Writers: they write messages as lines to a file descriptor, from the running loop.

A writer joins the messages of one turn of the loop, and writes them in one system call.

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

from dragoman.protocol import lines
from dragoman.transports.stdio.readers import CHUNK_BYTES, is_watchable

HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = HIGH_WATER_BYTES // 4
STALLED_BYTES = 64 * 1024 * 1024
STALLED_SECONDS = 5.0
"""The writer gives up if the other side reads nothing for this time while more than STALLED_BYTES are unwritten."""
WIDE_PIPE_BYTES = 1024 * 1024
MAX_TURN_BYTES = 1024 * 1024
"""The most bytes written in one turn of the loop, so that other callbacks run even if the other side reads fast."""

NEWLINE_BYTES = 1

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
        return _LoopWriter(descriptor, flow)
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
        self._unjoined: list[bytes] = []
        """Messages that become lines, and are joined, before they are written."""
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
        self._unjoined.clear()
        self._unwritten = 0
        self._is_congested = False
        self._progress.set()

    def _write_batch(self) -> None:
        self._is_scheduled = False
        if self._unjoined and not self._is_writing:
            batch = b"".join(map(lines.encode, self._unjoined))
            self._unjoined.clear()
            self._is_writing = True
            self._write(batch)

    @abstractmethod
    def _write(self, batch: bytes) -> None:
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


class _LoopWriter(Writer):
    """Writes as much as fits, and continues when the loop reports that there is room."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._batch = memoryview(b"")
        """The bytes of the current batch that are not written yet."""
        self._is_watching = False
        self._is_wide = False
        self._was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)

    def close(self) -> None:
        if self._is_closed:  # the descriptor may be closed by now
            return
        super().close()
        self._batch = memoryview(b"")
        self._watch(is_wanted=False)
        if self._was_blocking:  # a non-blocking pipe breaks other programs that share it, such as a shell
            os.set_blocking(self._descriptor, True)

    def _write(self, batch: bytes) -> None:
        self._batch = memoryview(batch)
        self._write_some()

    def _write_some(self) -> None:
        """Write as much as fits now, up to MAX_TURN_BYTES."""
        try:
            count = os.write(self._descriptor, self._batch[:MAX_TURN_BYTES])
        except BlockingIOError:
            count = 0
        except OSError:
            self._fail()
            return
        self._batch = self._batch[count:]
        is_left = len(self._batch) > 0
        self._watch(is_wanted=is_left)
        if count:
            if is_left:
                self._widen()
            self._on_written(count, is_complete=not is_left)

    def _widen(self) -> None:
        """Enlarge a pipe that was full, so that its two ends wait less for each other."""
        if not self._is_wide:
            self._is_wide = True
            with suppress(ImportError, OSError):  # only Linux can, only for pipes, and only up to a limit
                from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

                if fcntl(self._descriptor, F_GETPIPE_SZ) < WIDE_PIPE_BYTES:
                    fcntl(self._descriptor, F_SETPIPE_SZ, WIDE_PIPE_BYTES)

    def _watch(self, *, is_wanted: bool) -> None:
        if is_wanted and not self._is_watching:
            self._loop.add_writer(self._descriptor, self._write_some)
        elif self._is_watching and not is_wanted:
            self._loop.remove_writer(self._descriptor)
        self._is_watching = is_wanted


class _ThreadWriter(Writer):
    """Writes in a daemon thread, where a write may block."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        from queue import SimpleQueue  # writers to pipes and sockets do not need it

        self._batches: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._run, name="dragoman-writer", daemon=True).start()

    def close(self) -> None:
        super().close()
        self._batches.put(None)

    def _write(self, batch: bytes) -> None:
        self._batches.put(batch)

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while (batch := self._batches.get()) is not None:
                self._write_blocking(memoryview(batch))

    def _write_blocking(self, unwritten: memoryview) -> None:
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
            self._loop.call_soon_threadsafe(partial(self._on_written, count, is_complete=not unwritten))
