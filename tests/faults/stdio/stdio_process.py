"""A process that serves on descriptors of our choice, with a deadline on every wait."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

SCRIPT = Path(__file__).with_name("stdio_service.py")
DEADLINE = 60.0
# Without a buffer, what is printed before the claim is on the wire before anybody can help it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


class Process:
    """The service as a child process, fed and read through descriptors, killed at the end if it still runs."""

    def __init__(
        self,
        *,
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        how: str = "plain",
        grace: float = 5.0,
        command: list[str] | None = None,
        **options,
    ) -> None:
        command = command or [sys.executable, str(SCRIPT), how, str(grace)]
        self.child = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=ENVIRONMENT, **options)
        self.unread = b""

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.child.kill()
        self.child.wait(DEADLINE)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()

    def write(self, data: bytes) -> None:
        assert self.child.stdin is not None
        write_all(self.child.stdin.fileno(), data)

    def end_input(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()

    def line(self) -> bytes:
        """Return the next line of stdout."""
        assert self.child.stdout is not None
        while b"\n" not in self.unread:
            chunk = read_some(self.child.stdout.fileno())
            assert chunk, f"stdout ended after {self.unread[:100]!r}: {self.errors() if self.child.stderr else ''}"
            self.unread += chunk
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def ask(self, command: bytes) -> bytes:
        self.write(command + b"\n")
        return self.line()

    def rest(self) -> bytes:
        """Return what is left of stdout, up to its end."""
        assert self.child.stdout is not None
        return self.unread + read_to_end(self.child.stdout.fileno())

    def errors(self) -> str:
        """Return all of stderr, up to its end."""
        assert self.child.stderr is not None
        return read_to_end(self.child.stderr.fileno()).decode()

    def signal(self, number: signal.Signals) -> None:
        self.child.send_signal(number)

    def exit_code(self, within: float = DEADLINE) -> int:
        return self.child.wait(within)


def read_some(descriptor: int, within: float = DEADLINE) -> bytes:
    """Return the next bytes, or nothing at the end."""
    readable, _, _ = select.select([descriptor], [], [], within)
    if not readable:
        raise TimeoutError(f"nothing to read from descriptor {descriptor} within {within} seconds")
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # a pseudo-terminal whose other side is closed
        return b""


def read_to_end(descriptor: int) -> bytes:
    ends = time.monotonic() + DEADLINE
    read = bytearray()
    while chunk := read_some(descriptor, ends - time.monotonic()):
        read += chunk
    return bytes(read)


def write_all(descriptor: int, data: bytes) -> None:
    ends = time.monotonic() + DEADLINE
    rest = memoryview(data)
    while rest:
        _, writable, _ = select.select([], [descriptor], [], ends - time.monotonic())
        if not writable:
            raise TimeoutError(f"cannot write to descriptor {descriptor} within {DEADLINE} seconds")
        rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]
