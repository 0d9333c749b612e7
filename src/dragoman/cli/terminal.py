"""What the command writes and reads: results to stdout, everything else to stderr, answers from the terminal.

All text is shown with `printable`, because most of it is a server's. Only one question is asked at a time. What is told
while a question waits is shown after the answer, so that nothing gets between a question and its answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.cli.settings import CommandSettings
from dragoman.runtime.terminal import discard_input, is_terminal, printable, printable_json, read_line

if TYPE_CHECKING:
    from rich.console import Console

MOST_HELD = 1_000
TURN_SECONDS = 0.05
LONGEST_SHOWN = 100_000
YES = frozenset({"y", "yes"})


class Terminal:
    """The streams of the command."""

    def __init__(self, settings: CommandSettings) -> None:
        self.settings = settings
        self._turns = asyncio.Lock()
        self.keyboard = threading.Lock()
        """Held by whoever reads what is typed: keys that are meant for a prompt are no answer to a question."""
        self._held: deque[tuple[str, str | None]] = deque(maxlen=MOST_HELD)
        self.is_asking = False
        """Whether a question waits for its answer."""
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
        if is_terminal(sys.stdout):
            self._print(self.output, text, style)
        else:
            sys.stdout.write(printable(text) + "\n")

    def write_piece(self, text: str) -> None:
        """Write a piece of the result at once, without a line end."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def write_content(self, text: str) -> None:
        """Write what a server gave as the result; with --raw a file or a pipe gets it as it is."""
        if self.settings.raw and not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
        else:
            self.write(text)

    def write_json(self, value: Any) -> None:
        """Write a value of JSON as the result."""
        text = printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        if not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
            return
        from rich.highlighter import JSONHighlighter
        from rich.text import Text

        self.output.print(JSONHighlighter()(Text(text)), soft_wrap=True)

    def tell(self, text: str, style: str | None = None) -> None:
        """Write a line beside the result, after the answer if a question waits for one."""
        if self.is_asking:
            self._held.append((text, style))
        else:
            self._tell(text, style)

    def _tell(self, text: str, style: str | None) -> None:
        if is_terminal(sys.stderr):
            self._print(self.aside, text, style)
        else:
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()

    def _print(self, console: Console, text: str, style: str | None) -> None:
        from rich.text import Text

        console.print(Text(printable(text), style=style or ""), soft_wrap=True)

    @asynccontextmanager
    async def questions(self) -> AsyncIterator[TerminalQuestions]:
        """Ask when nobody else does, for as long as the block lasts."""
        async with self._turns:
            # A prompt waits in another thread, and ends when its line is typed.
            while not self.keyboard.acquire(blocking=False):  # noqa: ASYNC110
                await asyncio.sleep(TURN_SECONDS)
            self.is_asking = True
            try:
                yield TerminalQuestions(self)
            finally:
                self.is_asking = False
                self.keyboard.release()
                while self._held:
                    self._tell(*self._held.popleft())


class TerminalQuestions:
    """Asks a person at the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def say(self, text: str, style: str | None = None) -> None:
        """Write a line that belongs to the question."""
        self._terminal._tell(text, style)

    async def ask(self, question: str) -> str | None:
        """Return the line that is typed after a question, None at the end of the input."""
        discard_input()
        sys.stderr.write(printable(question))
        sys.stderr.flush()
        line = await read_line()
        if not line:
            sys.stderr.write("\n")
            return None
        return line.rstrip("\r\n")

    async def agrees(self, question: str) -> bool:
        """Ask for a yes; everything else is a no."""
        answer = await self.ask(f"{question} [y/N] ")
        return answer is not None and answer.strip().lower() in YES

    async def shows(self, text: str) -> bool:
        """Show a text to its end, page by page; return False if it is too long, or was not read to its end."""
        if len(text) > LONGEST_SHOWN:
            self.say(f"This has {len(text):,} characters, which is too much to be read; nothing is done.")
            return False
        pages = _pages(printable(text).expandtabs().split("\n"), *_screen())
        for number, page in enumerate(pages, 1):
            self.say("\n".join(page))
            if number < len(pages):
                more = await self.ask(f"-- page {number} of {len(pages)}; Enter shows the next, n stops -- ")
                if more is None or more.strip():
                    return False
        return True


def _screen() -> tuple[int, int]:
    """Return how many columns and rows of a text are seen at once, with the question below it."""
    try:
        width, height = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        width, height = 0, 0
    return max(width or 80, 20), max((height or 24) - 2, 5)


def _pages(lines: list[str], width: int, height: int) -> list[list[str]]:
    """Return lines in pages that fit on the screen; a line that is longer than a page is split."""
    from rich.cells import chop_cells

    pages: list[list[str]] = [[]]
    used = 0
    for line in lines:
        for piece in chop_cells(line, width * height) or [""]:
            rows = len(chop_cells(piece, width)) or 1
            if used + rows > height:
                pages.append([])
                used = 0
            pages[-1].append(piece)
            used += rows
    return pages
