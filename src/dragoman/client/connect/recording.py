"""What a client records with OpenTelemetry: the requests that it sends, and those of the server that it answers.

One operation covers all rounds of a request, its repetitions and the polling of its task, so the spans of the server
for one call have one parent. The id of the operation is that of the last request that was sent for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.json import decode

from dragoman import types
from dragoman.client.connect.link import Link
from dragoman.client.options import RequestOptions
from dragoman.protocol import jsonrpc
from dragoman.protocol.versions import Version
from dragoman.telemetry import active_recorder, session_digest

if TYPE_CHECKING:
    from dragoman.client.connect.connection import ServerConnection
    from dragoman.telemetry.recorder import Attributes, Recorder

R = TypeVar("R")


class _WithMeta(Struct):
    meta: dict[str, Any] | UnsetType = field(default=UNSET, name="_meta")


async def recorded(
    send: Callable[[], Coroutine[Any, Any, R]],
    connection: Callable[[], ServerConnection | None],
    method: str,
    params: Mapping[str, Any],
    options: RequestOptions,
) -> R:
    """Send a request, and record it; `connection` returns the connection that was used."""
    recorder = active_recorder()
    if recorder is None:
        return await send()
    subject = params.get("name") or params.get("uri")
    ids = options.note_ids()
    with recorder.sent(method, subject if isinstance(subject, str) else None, {}) as operation:
        try:
            result = await send()
        finally:
            used = connection()
            if used is not None:
                operation.add(link_attributes(used.link, used.version))
            if ids:
                operation.add({"jsonrpc.request.id": str(ids[-1])})
        if isinstance(result, types.CallToolResult) and result.is_error:
            operation.fail("tool_error")
        return result


async def recorded_answer(
    recorder: Recorder,
    link: Link,
    version: Version,
    request: jsonrpc.Request,
    handle: Callable[[], Awaitable[Any]],
) -> Any:
    """Await the handler of a request of the server, and record it."""
    attributes = {"jsonrpc.request.id": str(request.id), **link_attributes(link, version)}
    with recorder.received(request.method, None, attributes, _meta(request.params), has_own_context=False):
        return await handle()


def record_session(link: Link, version: Version, seconds: float, error: Exception | None) -> None:
    """Record the end of a session; the stateless era has no sessions, nor has a server over HTTP that gave no id."""
    recorder = active_recorder()
    if recorder is None or version.stateless or (link.is_http and link.session_id is None):
        return
    attributes = link_attributes(link, version)
    attributes.pop("mcp.session.id", None)
    if error is not None:
        attributes["error.type"] = type(error).__name__
    recorder.record_session("client", seconds, attributes)


def _meta(params: bytes | Raw) -> object:
    try:
        return decode(params, type=_WithMeta).meta
    except ValueError:  # the handler refuses such params
        return None


def link_attributes(link: Link, version: Version) -> Attributes:
    """Return the attributes of a connection."""
    from dragoman.telemetry.recorder import HTTP, PIPE

    attributes: Attributes = {"mcp.protocol.version": version.name}
    if link.carrier is not None:
        attributes |= PIPE if link.carrier == "stdio" else HTTP
    if link.address is not None:
        parts = urlsplit(link.address)
        attributes["server.address"] = parts.hostname or ""
        attributes["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    if link.session_id is not None:
        attributes["mcp.session.id"] = session_digest(link.session_id)
    return attributes
