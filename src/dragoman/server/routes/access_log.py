"""The access log: one record for each HTTP exchange, to the logger `dragoman.access`.

A record has no query string, no header, no arguments and no results, because they may hold secrets. It names a session
by a digest of its id, because the id is a credential. Bytes that are not an HTTP request give no record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

from dragoman.protocol import statuses
from dragoman.protocol.tokens import digest
from dragoman.runtime.terminal import printable_line
from dragoman.server.routes.log_lines import log_to_stderr
from dragoman.transports.http.exchange import Exchange, ExchangeRecord

MAX_TEXT = 200
_SESSION = b"mcp-session-id"
_logger = logging.getLogger("dragoman.access")


def access_log() -> Callable[[Exchange, ExchangeRecord, str], None]:
    """Return the function that logs an exchange; its lines go to stderr if nobody has set up logging."""
    if not _logger.hasHandlers():
        log_to_stderr(_logger)
    if not _logger.isEnabledFor(logging.INFO):
        _logger.setLevel(logging.INFO)
    return _log


def _log(exchange: Exchange, record: ExchangeRecord, path: str) -> None:
    fields = access_fields(exchange, record, path)
    words = [exchange.address or "-", *(str(fields[name]) for name in ("method", "path", "status"))]
    words += [f"{fields['ms']}ms", f"{fields['bytes']}B"]
    words += [f"{name}={fields[name]}" for name in _OPTIONAL if fields.get(name) is not None]
    _logger.info("%s", " ".join(words), extra={"fields": fields})


_OPTIONAL = ("mcp_method", "name", "request_id", "session", "principal")


def access_fields(exchange: Exchange, record: ExchangeRecord, path: str) -> dict[str, Any]:
    """Return what the log says of an exchange."""
    fields: dict[str, Any] = {
        "method": _short(exchange.method),
        "path": _short(path),
        "status": record.status or (statuses.CLIENT_CLOSED if exchange.gone else statuses.FAILED),
        "ms": round((perf_counter() - record.began) * 1000, 1),
        "bytes": 0 if exchange.method == "HEAD" else record.sent_bytes,
        "session": _session(exchange),
        "principal": None if exchange.principal is None else _short(exchange.principal),
    }
    for request in record.requests[:1]:
        fields["mcp_method"] = _short(request.method.name)
        fields["name"] = next(map(_short, filter(None, [getattr(request.params, "name", None)])), None)
        fields["request_id"] = None if request.id is None else _short(str(request.id))
    if len(record.requests) > 1:
        fields["messages"] = len(record.requests)
    return {name: value for name, value in fields.items() if value is not None}


def _session(exchange: Exchange) -> str | None:
    """Return a digest of the session of a request, or of the session that `initialize` began."""
    for name, value in (*exchange.headers, *exchange.extra_headers):
        if name == _SESSION:
            return digest(value.decode("latin-1")).hex()[:8]
    return None


def _short(text: str) -> str:
    return printable_line(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...")
