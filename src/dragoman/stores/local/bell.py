"""`Bell`: a process that waits for changes of tasks is rung by the processes that change them.

Each process that listens has a FIFO in a private folder, and reads it in a thread. A process that changed something
writes a byte to each FIFO. The byte only says that the database changed, so a full FIFO loses nothing. Nobody reads the
FIFO of a dead process: the next process that rings it removes it. A FIFO that is not open yet looks the same, so it
gets its final name only after it is open.

A Unix datagram is as fast, but its address must be short, and its queue may be bounded to ten messages.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from dragoman.runtime.user_files import private_folder


class Bell:
    """The FIFO of this process, and the way to those of the others."""

    def __init__(self, folder: Path, heard: Callable[[], None]) -> None:
        self._folder = folder
        self._heard = heard
        self._path: Path | None = None
        self._descriptor = self._listening = -1

    @property
    def is_open(self) -> bool:
        """Whether other processes can ring."""
        return self._path is not None

    def open(self) -> None:
        """Let other processes ring; without FIFOs nothing happens.

        Raises:
            OSError: the FIFO cannot be made.
        """
        if self.is_open or not hasattr(os, "mkfifo"):
            return
        path = private_folder(self._folder) / os.urandom(8).hex()
        unnamed = path.with_name("." + path.name)
        os.mkfifo(unnamed, 0o600)
        try:
            # With a writer of its own a FIFO has no end of file when the others have closed it.
            self._descriptor = os.open(unnamed, os.O_RDWR | os.O_CLOEXEC)
            unnamed.rename(path)
        except OSError:
            _unlink(unnamed)
            raise
        self._path = path
        # The thread closes its own descriptor, perhaps before `close` has written to wake it.
        self._listening = os.dup(self._descriptor)
        Thread(target=self._listen, args=(path, self._listening), name="dragoman-bell", daemon=True).start()

    def _listen(self, path: Path, descriptor: int) -> None:
        while os.read(descriptor, 4096) and self._path == path:
            self._heard()
        os.close(descriptor)

    def ring(self) -> None:
        """Ring the other processes; those that cannot be rung look for changes by themselves after a while."""
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and (self._path is None or entry.name != self._path.name):
                    _ring(Path(entry.path))

    def close(self) -> None:
        """Let nobody ring any more; the thread ends."""
        path, self._path = self._path, None
        if path is not None:
            _unlink(path)
            os.write(self._descriptor, b"\0")
            os.close(self._descriptor)

    def forget(self) -> None:
        """Forget the FIFO after a fork: it belongs to the parent."""
        if self._path is not None:
            os.close(self._descriptor)
            os.close(self._listening)
        self._path = None


def _ring(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nobody reads it
            _unlink(path)
        return
    with suppress(OSError):  # it is full, and will be read
        os.write(descriptor, b"\1")
    os.close(descriptor)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
