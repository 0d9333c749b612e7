"""`report`: passes an error that is not sent to a client to the author's `exception_reporter`, or to the log.

`described` says for development what a client does not learn otherwise: the text and the place of an exception.
`watched` warns in development of a handler that blocks the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from time import monotonic
from traceback import extract_tb
from typing import Any

from dragoman.config import Reporter
from dragoman.server.request.call import Call
from dragoman.server.request.facts import readable

_logger = logging.getLogger("dragoman.server")
BEAT_SECONDS = 0.1
BLOCKED_SECONDS = 1.0
"""A handler that keeps the loop from its other work for so long is warned of."""
_PACKAGE = str(Path(__file__).parents[2])


def report(reporter: Reporter | None, error: BaseException, call: Call | None, info: dict[str, Any] | None) -> None:
    """Report an error of a call, or of the place that `info` names; this function raises nothing."""
    with suppress(Exception):
        place = _place(call, info)
        if reporter is None:
            _logger.error("Unexpected error in %s%s", place, _hint(error, call), exc_info=error)
            return
        try:
            reporter(error, info or {"request": None if call is None else _request(call)})
        except BaseException:
            _logger.exception("The exception reporter failed on an error in %s", place)


def _hint(error: BaseException, call: Call | None) -> str:
    """Return the remedy if a tool seems to describe a failure for its caller, who does not see the text."""
    is_for_caller = isinstance(error, ValueError) or type(error).__name__ == "HTTPException"
    if call is None or call.request.method.name != "tools/call" or not is_for_caller:
        return ""
    return "; the model does not see this text: raise ToolError(...) if it should"


def described(error: BaseException) -> str:
    """Return the text of an exception, and the place in the author's code where it was raised, for development."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<"))] or frames
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text} ({own[-1].filename}, line {own[-1].lineno}, in {own[-1].name})" if own else text


async def watched(call: Call, handler: Coroutine[Any, Any, Any]) -> Any:
    """Await a handler, and warn if the event loop stood still meanwhile: a timer of the loop was late."""
    loop = asyncio.get_running_loop()
    last, longest = monotonic(), 0.0
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal last, longest, timer
        now = monotonic()
        last, longest = now, max(longest, now - last)
        timer = loop.call_later(BEAT_SECONDS, beat)

    timer = loop.call_later(BEAT_SECONDS, beat)
    try:
        return await handler
    finally:
        timer.cancel()
        longest = max(longest, monotonic() - last)
        if longest > BLOCKED_SECONDS:
            _logger.warning(
                "The event loop stood still for %.1f seconds during %s, and no other request was served: write `def`"
                " instead of `async def`, or await what takes long",
                longest,
                _place(call, None),
            )


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
