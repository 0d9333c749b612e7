"""What a server records with OpenTelemetry beside the requests that it serves: its questions, and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.json import decode

from dragoman.protocol.jsonrpc import encode
from dragoman.server.request.call import Call, Session
from dragoman.telemetry import active_recorder, session_digest, trace_context

if TYPE_CHECKING:
    from dragoman.telemetry.recorder import Attributes, Recorder


def call_attributes(call: Call) -> Attributes:
    """Return the attributes of the client of a call, and of its connection."""
    attributes: Attributes = {"mcp.protocol.version": call.request.caller.version.name}
    if call.session.id is not None:
        attributes["mcp.session.id"] = session_digest(call.session.id)
    return attributes | _network("http" if call.headers else call.channel.carrier)


def _network(carrier: str | None) -> Attributes:
    from dragoman.telemetry.recorder import HTTP, PIPE

    return {"stdio": PIPE, "http": HTTP}.get(carrier or "", {})


async def recorded_question(recorder: Recorder, call: Call, method: str, params: Any, timeout: float) -> Raw:
    """Send a request to the client with the trace context in its `_meta`, and record it."""
    with recorder.sent(method, None, call_attributes(call)):
        fields = decode(encode(params))
        traced = {**fields, "_meta": {**trace_context(), **fields.get("_meta", {})}}
        return await call.channel.request(method, traced, timeout)


def record_session(session: Session, carrier: str | None, seconds: float) -> None:
    """Record the end of a session that a client began."""
    recorder = None if session.caller is None else active_recorder()
    if recorder is not None and session.caller is not None:
        version: Attributes = {"mcp.protocol.version": session.caller.version.name}
        recorder.record_session("server", seconds, version | _network(carrier))
