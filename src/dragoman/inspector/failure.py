"""Errors as the page shows them: kind, message, remedy, and the code and data of a refusal."""

from __future__ import annotations

import json
from typing import Any

from dragoman import errors
from dragoman.compose.masking import Masks

_MASKS = Masks()
BAD_REQUEST, NOT_FOUND, CONFLICT, SERVER_FAILED = 400, 404, 409, 502
_STATUSES: dict[int, tuple[type[BaseException], ...]] = {
    NOT_FOUND: (errors.NotFound,),
    CONFLICT: (errors.Cancelled, errors.CapabilityNotAvailable),
    SERVER_FAILED: (errors.RpcError, errors.ToolError, errors.TransportError, errors.InputNeeded),
}


def status_of(error: BaseException) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, errors.InspectorError):
        return error.status
    return next((status for status, kinds in _STATUSES.items() if isinstance(error, kinds)), BAD_REQUEST)


def failure_of(error: BaseException, masks: Masks = _MASKS) -> dict[str, Any]:
    """Return an error as JSON for the page; the masks are those of its server."""
    is_refusal = isinstance(error, errors.RpcError)
    data = getattr(error, "data", None) if is_refusal else None
    status = getattr(error, "status", None)
    return {
        "kind": "RpcError" if is_refusal else type(error).__name__,
        "message": masks.url(_message(error)),
        "remedy": _remedy(error),
        "code": getattr(error, "code", None) if is_refusal else None,
        "data": _masked(data, masks) if isinstance(data, dict | list | str | int | float) else None,
        "status": status if isinstance(status, int) else None,
    }


def _masked(data: object, masks: Masks) -> Any:
    return json.loads(masks.message(json.dumps(data, default=str).encode()))


def _message(error: BaseException) -> str:
    if isinstance(error, errors.ServerCrashed):
        lines = [line.strip() for line in error.stderr_tail.splitlines() if line.strip()]
        return f"{error.summary} It wrote: {_MASKS.lines(lines[-1])}" if lines else error.summary
    return error.summary if isinstance(error, errors.Timeout) else str(error) or type(error).__name__


def _remedy(error: BaseException) -> str | None:
    match error:
        case errors.AuthRequired():
            return "log in, or add the server again with a token or a header"
        case errors.ServerCrashed():
            return "look at its stderr, and examine the server"
        case errors.Timeout():
            return "see whether the server starts at all, and examine it"
        case errors.TransportError():
            return "examine the server: each step to it is tried, and the first that fails has the reason"
    return None
