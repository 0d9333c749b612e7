"""Log lines on stderr: plain text for people, or JSON for programs that collect logs.

A record may have fields for the JSON form, in its attribute `fields`: `logger.info(text, extra={"fields": {...}})`.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal

import msgspec

LogFormat = Literal["text", "json"]


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with the traceback of its exception as a text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode(errors="replace")


def log_to_stderr(logger: logging.Logger, form: LogFormat = "text") -> None:
    """Write the records of a logger to stderr, and only there."""
    handler = logging.StreamHandler(sys.stderr)
    text = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(text))
    logger.handlers = [handler]
    logger.propagate = False
