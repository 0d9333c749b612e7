"""Lines that a person types at the terminal, read as the event loop finds them.

The terminal stays in its own line mode, so that whoever waits for a line can be interrupted or cancelled.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any

from dragoman.runtime.offload import offload

LONGEST_LINE = 65_536


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def discard_input() -> None:
    """Drop what was typed and not read yet: it is no answer to a question that was not asked."""
    if not is_terminal(sys.stdin):
        return
    try:
        import termios
    except ImportError:
        _discard_keys()
        return
    with suppress(termios.error, OSError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _discard_keys() -> None:
    import msvcrt

    while msvcrt.kbhit():  # type: ignore[attr-defined]
        msvcrt.getwch()  # type: ignore[attr-defined]


async def read_line() -> str:
    """Return the next line with its line end, "" at the end of the input; nobody else may wait for one meanwhile."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    descriptor = sys.stdin.fileno()
    try:
        loop.add_reader(descriptor, ready.set)
    except NotImplementedError:
        return await offload(sys.stdin.readline)
    try:
        await ready.wait()
        return os.read(descriptor, LONGEST_LINE).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)
