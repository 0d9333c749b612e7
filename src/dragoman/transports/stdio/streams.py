"""Reserves stdin and stdout for the connection (`claim`).

A claim moves the two streams of the connection to new descriptors. Descriptor 0 then reads from /dev/null and
descriptor 1 writes to stderr. So a `print`, a child process or a C library that writes to stdout reaches the log, and
code that reads stdin sees its end; neither touches the connection. Child processes do not inherit the new descriptors,
so a child that outlives the server does not keep the connection open.

This module does not import asyncio, so that a program can claim before it imports modules that may print.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


class Streams:
    """The two descriptors that a connection is served on.

    Example:
        streams = claim()
        import noisy_module                  # its prints go to stderr
        run_stdio(service, streams=streams)
    """

    __slots__ = ("input", "output")

    def __init__(self, input: int, output: int) -> None:
        self.input = input
        self.output = output

    def release(self) -> None:
        """Restore descriptors 0 and 1, if these streams are the claimed ones; else do nothing."""
        global _claimed
        if _claimed is not self:
            return
        _claimed = None
        _flush_stdout()
        os.dup2(self.input, 0)
        os.dup2(self.output, 1)
        os.close(self.input)
        os.close(self.output)


_claimed: Streams | None = None


def claim() -> Streams:
    """Claim stdin and stdout; later calls return the streams of the first one."""
    global _claimed
    if _claimed is None:
        null = _open_null()
        _claimed = Streams(os.dup(0), os.dup(1))
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        # Flush after the switch, so that text that was buffered before the claim does not reach the connection.
        _flush_stdout()
        _flush_each_line()
    return _claimed


def _open_null() -> int:
    """Return a descriptor of /dev/null, after opening /dev/null in the place of each closed standard descriptor.

    A new descriptor takes the lowest free number. If 2 were free, `os.dup` would make the connection stderr.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # noqa: FBT003
    return descriptor


def _flush_stdout() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(AttributeError, OSError, ValueError):  # absent, replaced, broken or closed
            stream.flush()  # type: ignore[union-attr]


def _flush_each_line() -> None:
    with suppress(AttributeError, OSError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
