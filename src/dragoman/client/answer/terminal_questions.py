"""Asks the person at the terminal: one question at a time, and a question can be withdrawn.

A plain handler asks by `input`, in a thread. Several threads that read one terminal get each other's answers, and a
thread that waits in `input` cannot be ended: after an interrupt it would take a line that is meant for something else.
So the plain handlers of all clients and chats of this process take turns while stdin is a terminal. While one runs,
`sys.stdin` is its `TerminalQuestion`, and `input` then reads lines by `readline`, which `withdraw` ends.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from dragoman.client.answer.callbacks import Handler, HandlerCaller, HandlerSlots
from dragoman.config import is_async
from dragoman.errors import Cancelled
from dragoman.runtime.portal import INTERRUPTS, WITHDRAWN
from dragoman.runtime.terminal import is_terminal

_turns = HandlerSlots(1)
_is_asking: ContextVar[bool] = ContextVar("_is_asking", default=False)
"""Whether the context is that of a handler that has the turn: what it calls does not wait for the turn."""


async def ask_person(call: HandlerCaller, function: Handler, *args: Any) -> Any:
    """Call a handler that may ask a person; if it asks at the terminal, wait for its turn.

    `call` calls handlers that do not take turns: async ones, and all handlers if stdin is not a terminal.

    Raises:
        Exception: the function raised it.
        Cancelled: the question was withdrawn, because the person interrupted the program.
    """
    if is_async(function) or _is_asking.get() or not _can_withdraw():
        return await call(function, *args)
    question = TerminalQuestion()
    INTERRUPTS.callbacks.add(question.withdraw)
    token = _is_asking.set(True)
    try:
        async with _turns.acquire() as turn:
            return await turn.call(question.ask, function, *args)
    finally:
        _is_asking.reset(token)
        INTERRUPTS.callbacks.discard(question.withdraw)
        question.withdraw()


def _can_withdraw() -> bool:
    # `select` does not take a terminal on Windows.
    return os.name == "posix" and is_terminal(sys.stdin)


class TerminalQuestion:
    """Stands in for `sys.stdin` while a handler runs; the handler's thread reads no line after `withdraw`.

    Other threads read the terminal as before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_withdrawn = False
        self._stream: Any = None
        self._thread: int | None = None
        self._descriptors: list[int] = []
        """A duplicate of the terminal, and the two ends of the pipe that `withdraw` writes to; empty before and after
        the handler runs."""

    def ask(self, function: Handler, *args: Any) -> Any:
        """Call a plain handler.

        Raises:
            Exception: the function raised it.
            Cancelled: the question was withdrawn.
        """
        self._stream, self._thread = sys.stdin, threading.get_ident()
        with self._lock:
            if self._is_withdrawn:
                raise Cancelled(WITHDRAWN)
            self._descriptors = [os.dup(self._stream.fileno()), *os.pipe()]
        sys.stdin = self
        try:
            return function(*args)
        finally:
            sys.stdin = self._stream
            with self._lock:
                descriptors, self._descriptors = self._descriptors, []
            for descriptor in descriptors:
                os.close(descriptor)

    def withdraw(self) -> None:
        """End the wait for a line, now and later; may be called from any thread."""
        with self._lock:
            if not self._is_withdrawn and self._descriptors:
                os.write(self._descriptors[2], b"\n")
            self._is_withdrawn = True

    def readline(self, size: int = -1, /) -> str:
        """Return the next line of the terminal.

        Raises:
            Cancelled: the question was withdrawn.
        """
        if threading.get_ident() == self._thread:
            terminal, withdrawal, _ = self._descriptors
            if withdrawal in select.select([terminal, withdrawal], [], [])[0]:
                raise Cancelled(WITHDRAWN)
        line: str = self._stream.readline(size)
        return line

    def fileno(self) -> int:
        """Return a duplicate of the terminal's descriptor; `input` calls `readline` if this is not 0."""
        return self._descriptors[0] if self._descriptors else int(self._stream.fileno())

    def __iter__(self) -> Iterator[str]:
        return iter(self.readline, "")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
