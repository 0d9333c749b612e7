"""Terminal: writes results to stdout, and reports and questions to stderr; reads answers from the terminal.

All text is made printable, because most of it comes from servers. One dialog is open at a time. Reports during a dialog
are deferred until the dialog ends, so that nothing is written between a question and its answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from textwrap import fill
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.cli.settings import CommandSettings
from dragoman.errors import Cancelled
from dragoman.runtime.portal import INTERRUPTS, WITHDRAWN
from dragoman.runtime.tasks import is_being_cancelled
from dragoman.runtime.terminal import discard_input, is_terminal, printable, printable_json, read_line

if TYPE_CHECKING:
    from rich.console import Console

MAX_DEFERRED = 1_000
TURN_SECONDS = 0.05
MAX_SHOWN = 100_000
YES = frozenset({"y", "yes"})


class Terminal:
    """The streams of the command."""

    def __init__(self, settings: CommandSettings) -> None:
        self.settings = settings
        self._dialog_lock = asyncio.Lock()
        self.keyboard_lock = threading.Lock()
        """Held while a line is read, so that a line for the prompt of a chat does not answer a question."""
        self._deferred: deque[tuple[str, str | None]] = deque(maxlen=MAX_DEFERRED)
        self.is_asking = False
        """Whether a dialog is open."""
        self.hidden_lines = 0
        """How many lines of the server's stderr were not shown."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @cached_property
    def output_console(self) -> Console:
        """The console of stdout."""
        return self._console(stderr=False)

    @cached_property
    def error_console(self) -> Console:
        """The console of stderr."""
        return self._console(stderr=True)

    def _console(self, *, stderr: bool) -> Console:
        from rich.console import Console

        is_plain = self.settings.no_color or bool(os.environ.get("NO_COLOR"))
        return Console(stderr=stderr, highlight=False, markup=False, color_system=None if is_plain else "auto")

    @property
    def can_ask(self) -> bool:
        """Whether stdin is a terminal, so that questions can be answered."""
        return is_terminal(sys.stdin)

    def write(self, text: str, style: str | None = None) -> None:
        """Write a line of the result."""
        if is_terminal(sys.stdout):
            self._print(self.output_console, text, style)
        else:
            sys.stdout.write(printable(text) + "\n")

    def write_wrapped(self, text: str, *, indent: int) -> None:
        """Write a line of the result, on a terminal wrapped at words; further lines have a mark."""
        space = " " * indent
        width = self.output_console.width if is_terminal(sys.stdout) else sys.maxsize
        options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        self.write(fill(text, width, initial_indent=space, subsequent_indent=f"{space}  | ", **options))

    def write_piece(self, text: str) -> None:
        """Write a part of the result at once, without a line end."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def write_content(self, text: str) -> None:
        """Write content of a server; with --raw it is written unescaped to a file or a pipe."""
        if self.settings.raw and not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
        else:
            self.write(text)

    def write_json(self, value: Any) -> None:
        """Write the result as JSON."""
        text = printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        if not is_terminal(sys.stdout):
            sys.stdout.write(text + "\n")
            return
        from rich.highlighter import JSONHighlighter
        from rich.text import Text

        self.output_console.print(JSONHighlighter()(Text(text)), soft_wrap=True)

    def report(self, text: str, style: str | None = None) -> None:
        """Write a line to stderr; while a dialog is open, defer it to the dialog's end."""
        if self.is_asking:
            self._deferred.append((text, style))
        else:
            self.write_error(text, style)

    def write_error(self, text: str, style: str | None) -> None:
        """Write a line to stderr now."""
        if is_terminal(sys.stderr):
            self._print(self.error_console, text, style)
        else:
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()

    def _print(self, console: Console, text: str, style: str | None) -> None:
        from rich.text import Text

        console.print(Text(printable(text), style=style or ""), soft_wrap=True)

    @asynccontextmanager
    async def dialog(self) -> AsyncIterator[TerminalDialog]:
        """Wait until no other dialog is open, and open a dialog for the block.

        Raises:
            Cancelled: the person interrupted the program, before the block or when the block asks.
        """
        dialog = TerminalDialog(self)
        INTERRUPTS.callbacks.add(dialog.withdraw)
        try:
            async with self._dialog_lock:
                # Another thread may read the prompt of a chat; it releases the lock when a line is typed.
                while not self.keyboard_lock.acquire(blocking=False):  # noqa: ASYNC110
                    await asyncio.sleep(TURN_SECONDS)
                self.is_asking = True
                try:
                    dialog.require_open()
                    yield dialog
                finally:
                    self.is_asking = False
                    self.keyboard_lock.release()
                    while self._deferred:
                        self.write_error(*self._deferred.popleft())
        finally:
            INTERRUPTS.callbacks.discard(dialog.withdraw)


class TerminalDialog:
    """Questions to the person at the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[str] | None = None
        self._is_withdrawn = False

    def withdraw(self) -> None:
        """Ask nothing any more, and end the wait for a line; may be called from any thread."""
        self._is_withdrawn = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop_reading)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def require_open(self) -> None:
        """Check that the dialog was not withdrawn.

        Raises:
            Cancelled: the dialog was withdrawn.
        """
        if self._is_withdrawn:
            raise Cancelled(WITHDRAWN)

    async def _read_line(self) -> str:
        self.require_open()
        self._reading = asyncio.create_task(read_line())
        try:
            return await self._reading
        except asyncio.CancelledError:
            if not is_being_cancelled():
                self.require_open()
            raise

    def write(self, text: str, style: str | None = None) -> None:
        """Write a line that belongs to the question."""
        self._terminal.write_error(text, style)

    async def ask(self, question: str) -> str | None:
        """Ask a question, and return the line that the person types; None at the end of the input.

        Raises:
            Cancelled: the person interrupted the program.
        """
        discard_input()
        sys.stderr.write(printable(question))
        sys.stderr.flush()
        line = await self._read_line()
        if not line:
            sys.stderr.write("\n")
            return None
        return line.rstrip("\r\n")

    async def confirm(self, question: str) -> bool:
        """Ask a question, and tell whether the answer is yes; every other answer counts as no."""
        answer = await self.ask(f"{question} [y/N] ")
        return answer is not None and answer.strip().lower() in YES

    async def show_pages(self, text: str) -> bool:
        """Show a text page by page; return False if the text is too long, or the person stops before its end."""
        if len(text) > MAX_SHOWN:
            self.write(f"The text has {len(text):,} characters. This is too long to show, so nothing is done.")
            return False
        pages = _pages(printable(text).expandtabs().split("\n"), *_screen_size())
        for number, page in enumerate(pages, 1):
            self.write("\n".join(page))
            if number < len(pages):
                more = await self.ask(f"-- page {number} of {len(pages)}; Enter shows the next, n stops -- ")
                if more is None or more.strip():
                    return False
        return True


def _screen_size() -> tuple[int, int]:
    """Return the columns and rows of the screen that leave room for a question."""
    try:
        width, height = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        width, height = 0, 0
    return max(width or 80, 20), max((height or 24) - 2, 5)


def _pages(lines: list[str], width: int, height: int) -> list[list[str]]:
    """Split lines into pages that fit on the screen; a line that is longer than a page is split too."""
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
