"""`LogHandler`: a handler for Python's `logging` that sends log records to clients."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from dragoman import types
from dragoman.server.request.facts import RequestFacts


class _Target(Protocol):
    def log(self, level: types.LoggingLevel, data: Any, logger: str | None = None) -> Any: ...


class LogHandler(logging.Handler):
    """Sends log records to all clients of a `Server`, or to the client of a request if the target is a context.

    Example:
        logging.getLogger("weather").addHandler(LogHandler(server))
    """

    def __init__(self, target: _Target, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        # `log` of a context waits for the loop, and the loop may wait for the lock that logging holds during `emit`.
        self._send = target._send_log if isinstance(target, RequestFacts) else target.log

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        try:
            self._send(_level_of(record.levelno), self.format(record), record.name)
        except Exception:
            self.handleError(record)


def _level_of(number: int) -> types.LoggingLevel:
    steps: tuple[tuple[int, types.LoggingLevel], ...] = (
        (logging.CRITICAL, "critical"),
        (logging.ERROR, "error"),
        (logging.WARNING, "warning"),
        (logging.INFO, "info"),
    )
    return next((level for threshold, level in steps if number >= threshold), "debug")
