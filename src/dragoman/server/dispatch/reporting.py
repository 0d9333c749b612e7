"""`report`: passes an error that is not sent to a client to the author's `exception_reporter`, or to the log.

`described` says for development what a client does not learn otherwise: the text and the place of an exception.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any

from dragoman.config import Reporter
from dragoman.server.request.call import Call
from dragoman.server.request.facts import readable

_logger = logging.getLogger("dragoman.server")
_PACKAGE = str(Path(__file__).parents[2])


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


def described(error: BaseException) -> str:
    """Return the text of an exception, and the place in the author's code where it was raised, for development."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<"))] or frames
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text} ({own[-1].filename}, line {own[-1].lineno}, in {own[-1].name})" if own else text


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
