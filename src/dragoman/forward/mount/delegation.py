"""`delegate`: runs a request of a parent's client in a mounted server, and returns the result for that client.

The request keeps its caller, session, channel, scopes and cancellation. The runner runs it, so the middleware, the
extensions, the visibility and the audit of the mounted server apply. The session and the channel translate the URIs
that the mounted server passes to them.

In the stateless era a question is a result, and its `requestState` is sealed by the server that asked. If the parent
has recorded something for the same request, such as a question of its middleware, the state of the parent carries that
of the mounted server.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.forward.messages import raw_object, result_with_uris
from dragoman.forward.mount.mount import Mount
from dragoman.forward.mount.mounted_client import MountedChannel
from dragoman.protocol.jsonrpc import encode
from dragoman.server.dispatch.opening import open_inner
from dragoman.server.dispatch.runner import run_detached, with_cache_hints
from dragoman.server.dispatch.tags import TaggedDispatcher
from dragoman.server.request.asking import Asking
from dragoman.server.request.call import Call, Channel, Session
from dragoman.types.decoding import decoders

_STATE = "the request state of a mounted server"
"""The step in which the recording of a parent keeps the state of a mounted server."""


async def delegate(outer: Call, mount: Mount, params: Raw, method: str | None = None) -> Any:
    """Run a request in a mounted server, and return its unsealed result with the URIs that the parent's clients know.

    Raises:
        RpcError: the error that the client would receive.
    """
    call, result = await run_mounted(outer, mount, params, method)
    return result_with_uris(
        with_cache_hints(mount.server, result), mount.uri_paths(call.request.method.name), mount.outer_uri
    )


async def run_mounted(
    outer: Call, mount: Mount, params: Raw, method: str | None = None, channel: Channel | None = None
) -> tuple[Call, Any]:
    """Run a request in a mounted server, and return its call and its unsealed result.

    `method` is another method than that of the request.

    Raises:
        RpcError: the error that the client would receive.
    """
    asks = outer.request.method.input_required and outer.asking is not None and outer.asking.is_recording
    asking = outer.asking if asks else None
    call = _call(outer, mount, params if asking is None else _with_own_state(asking, params), method, channel)
    # A `def` in a thread learns of the cancellation only from its own call.
    remove_callback = outer.on_cancel(lambda: call.mark_cancelled(outer.cancel_reason))
    try:
        result = await run_detached(call, seals=False)
    finally:
        remove_callback()
        outer.failure_label = call.failure_label
    return call, result if asking is None else _carried(asking, result)


def _call(outer: Call, mount: Mount, params: Raw, method: str | None, channel: Channel | None) -> Call:
    server = mount.server
    if isinstance(outer.server, TaggedDispatcher):
        server = outer.server.alike(server)
    row = (mount.offer(outer) or server.offer).find(method or outer.request.method.name, outer.request.caller)
    call = open_inner(outer, row, params, server)
    session = mount.session(outer.session)
    call.session = cast("Session", session)
    call.channel = cast("Channel", MountedChannel(channel or outer.channel, session, outer.session))
    if server.server_context is not None:
        call.server_context = server.server_context
    call.handler_task, call.values = outer.handler_task, outer.values
    call.is_notification, call.is_passed = outer.is_notification, True
    return call


def _with_own_state(asking: Asking, params: Raw) -> Raw:
    """Return the parameters with the state that the mounted server sealed, instead of that of the parent."""
    members: dict[str, Any] = raw_object(params)
    state = asking.recorded_step(_STATE)
    members.pop("requestState", None)
    if state is None:
        members.pop("inputResponses", None)
    else:
        members["requestState"] = state
    return Raw(encode(members))


def _carried(asking: Asking, result: Any) -> Any:
    """Return a result; if it has questions, a state of the parent carries the state of the mounted server."""
    if isinstance(result, Raw) and decoders[types.Result].decode(result).result_type == "input_required":
        result = decoders[types.InputRequiredResult].decode(result)
    if not isinstance(result, types.InputRequiredResult):
        return result
    asking.record_step(_STATE, result.request_state)
    return msgspec.structs.replace(result, request_state=asking.input_required().request_state)
