"""The claim on stdin and stdout.

Theory of operation: the wire moves to descriptors of its own. Descriptor 0 then leads to nothing and descriptor 1 to
stderr, so that a `print`, a child process or a C library that writes to stdout reaches the log, and whoever reads
stdin sees its end; neither touches the wire. The new descriptors are not inherited: a child process that lives on
does not keep the connection open.

This module loads no loop, so that a program can claim before it imports anything that may print.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


class Streams:
    """The two descriptors that a connection is served on.

    Example:
        streams = claim()
        import noisy_module                  # what it prints goes to stderr
        run_stdio(service, streams=streams)
    """

    __slots__ = ("input", "output")

    def __init__(self, input: int, output: int) -> None:
        self.input = input
        self.output = output

    def release(self) -> None:
        """Give descriptors 0 and 1 back, if these streams are the claimed ones; else do nothing."""
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
    """Take stdin and stdout for the wire; the second and later calls return what the first one took."""
    global _claimed
    if _claimed is None:
        nothing = _open_nothing()
        _claimed = Streams(os.dup(0), os.dup(1))
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)
        # After the switch: text that was printed before the claim and still waits must not reach the wire either.
        _flush_stdout()
        _flush_each_line()
    return _claimed


def _open_nothing() -> int:
    """Open /dev/null, also in the place of each standard descriptor that is closed.

    A descriptor takes the lowest free number; were 2 free, the wire itself would become stderr.
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
