"""What the command writes and reads: results to stdout, everything else to stderr, answers from the terminal.

What a server says is shown without control characters, which could write anything anywhere on a terminal; a result that
goes into a file or a pipe stays as it is. Lines are read as the event loop finds them, in the terminal's own line mode,
so that whoever waits for one can be interrupted.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.cli.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_LINE = 65_536
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Return a text without what would move the cursor, or turn the direction of writing."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


class Terminal:
    """The streams of the command."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @cached_property
    def output(self) -> Console:
        """The terminal as results see it."""
        return self._console(stderr=False)

    @cached_property
    def aside(self) -> Console:
        """The terminal as everything else sees it."""
        return self._console(stderr=True)

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        is_plain = self.settings.no_color or bool(os.environ.get("NO_COLOR"))
        return Console(stderr=stderr, highlight=False, markup=False, color_system=None if is_plain else "auto")

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        return is_terminal(sys.stdin)

    def write(self, text: str, style: str | None = None) -> None:
        """Write a line of the result."""
        if not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
            return
        self._print(self.output, text, style)

    def write_json(self, value: Any) -> None:
        """Write a value of JSON as the result."""
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        if not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
            return
        from rich.json import JSON

        self.output.print(JSON(clean(text)), soft_wrap=True)

    def tell(self, text: str, style: str | None = None) -> None:
        """Write a line beside the result."""
        if is_terminal(sys.stderr):
            self._print(self.aside, text, style)
        else:
            sys.stderr.write(clean(text) + "\n")
            sys.stderr.flush()

    def _print(self, console: Console, text: str, style: str | None) -> None:
        from rich.text import Text

        console.print(Text(clean(text), style=style or ""), soft_wrap=True)

    async def ask(self, question: str) -> str | None:
        """Return the line that is typed after a question, None at the end of the input."""
        sys.stderr.write(clean(question))
        sys.stderr.flush()
        line = await _line()
        if not line:
            sys.stderr.write("\n")
            return None
        return line.rstrip("\r\n")


async def _line() -> str:
    """Return the next line of the terminal, without taking one when nobody waits for it any more."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    descriptor = sys.stdin.fileno()
    try:
        loop.add_reader(descriptor, ready.set)
    except NotImplementedError:
        from dragoman.runtime.offload import offload

        return await offload(sys.stdin.readline)
    try:
        await ready.wait()
        return os.read(descriptor, LONGEST_LINE).decode("utf-8", "replace")
    finally:
        loop.remove_reader(descriptor)
