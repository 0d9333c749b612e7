"""What the command's exit codes mean, and errors in one line."""

from __future__ import annotations

from dragoman.errors import (
    CapabilityNotAvailable,
    ConfigError,
    DragomanError,
    InputNeeded,
    ModelError,
    NotFound,
    PaginationLimit,
    RpcError,
    ServerCrashed,
    Timeout,
    ToolError,
    TransportError,
    ValidationError,
)

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
REFUSED = 4
TIMED_OUT = 5
INTERRUPTED = 130

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (KeyboardInterrupt, INTERRUPTED),
    (Timeout, TIMED_OUT),
    (ToolError, FAILED),
    (TransportError, UNREACHABLE),
    (ConfigError, USAGE),
    (RpcError, REFUSED),
    (NotFound, REFUSED),
    (CapabilityNotAvailable, REFUSED),
    (InputNeeded, REFUSED),
    (ValidationError, REFUSED),
    (PaginationLimit, REFUSED),
)


def exit_code(error: BaseException) -> int:
    """Return the exit code that an error means."""
    if isinstance(error, ModelError):
        return UNREACHABLE if error.status is None else REFUSED
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def in_one_line(error: BaseException) -> str:
    """Return cause and remedy of an error without a line end."""
    if isinstance(error, ServerCrashed):
        return _of_crash(error)
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, Timeout):
        return text.replace("raise connect_timeout", "give it more with --timeout")
    if isinstance(error, RpcError):
        return f"the server refused ({error.code}): {text}"
    return text if isinstance(error, DragomanError) else f"{type(error).__name__}: {text}; --verbose shows where"


def _of_crash(error: ServerCrashed) -> str:
    cause = " ".join(str(error).partition("The last of its stderr:")[0].split())
    lines = [line.strip() for line in error.stderr_tail.splitlines() if line.strip()]
    return f"{cause} It wrote: {lines[-1]} (--verbose shows all of it)" if lines else cause


def as_json(error: BaseException, code: int) -> dict[str, object]:
    """Return an error for machines."""
    found: dict[str, object] = {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "exitCode": code,
    }
    if isinstance(error, RpcError):
        found["code"] = error.code
        if isinstance(error.data, dict | list | str | int | float):
            found["data"] = error.data
    return {"error": found}
