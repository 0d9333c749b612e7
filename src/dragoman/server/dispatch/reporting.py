"""`report`: passes an error that is not sent to a client to the author's `exception_reporter`, or to the log."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from dragoman.config import Reporter
from dragoman.server.request.call import Call
from dragoman.server.request.facts import readable

_logger = logging.getLogger("dragoman.server")


def report(reporter: Reporter | None, error: BaseException, call: Call | None, info: dict[str, Any] | None) -> None:
    """Report an error of a call, or of the place that `info` names; this function raises nothing."""
    with suppress(Exception):
        place = _place(call, info)
        if reporter is None:
            _logger.error("Unexpected error in %s", place, exc_info=error)
            return
        try:
            reporter(error, info or {"request": None if call is None else _request(call)})
        except BaseException:
            _logger.exception("The exception reporter failed on an error in %s", place)


def _place(call: Call | None, info: dict[str, Any] | None) -> str:
    if call is None:
        return "a request" if info is None else ", ".join(str(value) for value in info.values())
    params = call.request.params
    subject = getattr(params, "name", None) or getattr(params, "uri", None)
    of_subject = f" of {subject!r}" if isinstance(subject, str) else ""
    return f"{call.request.method.name}{of_subject} (request {call.request.id!r})"


def _request(call: Call) -> dict[str, Any]:
    request = call.request
    return {"id": request.id, "method": request.method.name, "params": readable(request.raw_params)}
