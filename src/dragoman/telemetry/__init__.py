"""OpenTelemetry on both sides: spans, durations and trace context, if the application uses OpenTelemetry.

This package loads nothing by itself. It records if the application has loaded the API of OpenTelemetry and installed a
provider of spans or of metrics. Code that serves or sends requests asks `API in modules` first, so that an application
without OpenTelemetry pays for one look-up.

Rejected: an option that turns the recording on. An application that installs a provider has said that it wants
telemetry, and the providers may be installed after the server or the client was made.
"""

from __future__ import annotations

from sys import modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.telemetry.recorder import Recorder

API = "opentelemetry.trace"
"""The module that every application with OpenTelemetry has loaded."""
_RECORDER = "dragoman.telemetry.recorder"


def active_recorder() -> Recorder | None:
    """Return the recorder; None if the application has no provider of OpenTelemetry."""
    if API not in modules:
        return None
    loaded: Any = modules.get(_RECORDER)  # much quicker than an import statement
    if loaded is None:
        from dragoman.telemetry import recorder as loaded
    found: Recorder | None = loaded.current_recorder()
    return found


def trace_context() -> dict[str, str]:
    """Return the entries of `_meta` that carry the current trace context; empty if OpenTelemetry is not loaded."""
    carrier: dict[str, str] = {}
    if API in modules:
        from opentelemetry.propagate import inject

        inject(carrier)
    return carrier


def note_request_id(id: str | int) -> None:
    """Add the id of a request to the current span, which is that of the operation that sends it."""
    if API in modules and active_recorder() is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attribute("jsonrpc.request.id", str(id))


def current_trace_id() -> str | None:
    """Return the id of the current trace in hexadecimal digits; None if there is none."""
    if API not in modules:
        return None
    from opentelemetry.trace import format_trace_id, get_current_span

    span = get_current_span().get_span_context()
    return format_trace_id(span.trace_id) if span.is_valid else None


def session_digest(id: str) -> str:
    """Return the name of a session for telemetry and audits; nobody can use the session with it."""
    from hashlib import sha256

    return sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
