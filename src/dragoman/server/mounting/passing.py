"""`pass_on`: runs a request of a parent's client in a mounted server, and returns the result for that client.

The request keeps its caller, session, channel, scopes and cancellation. The runner runs it, so the middleware, the
extensions, the visibility and the audit of the mounted server apply. The session and the channel translate the URIs
that the mounted server passes to them.

In the stateless era a question is a result, and its `requestState` is sealed by the server that asked. If the parent
has recorded something for the same request, such as a question of its middleware, the state of the parent carries that
of the mounted server.
"""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import InvalidParams, ResourceNotFound, RpcError
from dragoman.protocol.jsonrpc import encode
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.dispatch.opening import open_inner
from dragoman.server.dispatch.runner import run_detached, with_cache_hints
from dragoman.server.dispatch.tags import TaggedDispatcher
from dragoman.server.mounting.client_end import MountedChannel
from dragoman.server.mounting.mount import Mount
from dragoman.server.mounting.places import result_with_uris
from dragoman.server.request.asking import Asking
from dragoman.server.request.call import Call, Channel, Session
from dragoman.types.decoding import decoders

_STATE = "the request state of a mounted server"
"""The step in which the recording of a parent keeps the state of a mounted server."""
_ASKS = "input_required"
_NOT_FOUND = frozenset({"tool_not_found", "prompt_not_found", ResourceNotFound.label})
_UNKNOWN = (
    r"\b(?:unknown|no such) {kind}\W{{1,6}}{name}(?!\w)"
    r"|\b{kind}(?: is)? (?:not found|unknown)\W{{1,6}}{name}(?!\w)"
    r"|\b{kind}\W{{1,6}}{name}\W{{1,6}}(?:is |was )?(?:not found|unknown)\b"
)
"""How servers of several SDKs say that they have no such tool or prompt; other words may be of a tool that failed."""
MAX_REFUSAL = 2048
"""A result that says that there is no such tool has at most so many bytes."""


class _PassedResult(Struct, rename="camel"):
    is_error: Any = None


async def pass_on(outer: Call, mount: Mount, method: str, params: Raw, channel: Channel | None = None) -> Any:
    """Run a request in a mounted server, and return its unsealed result with the URIs that the parent's clients know.

    Raises:
        RpcError: the error that the client would receive.
    """
    call, result = await run_inner(outer, mount, method, params, channel)
    if call.request.method in dispatcher_of(call).offering.own_methods:
        return result
    return result_with_uris(with_cache_hints(mount.server, result), mount.outer_uri)


async def run_inner(
    outer: Call, mount: Mount, method: str, params: Raw, channel: Channel | None = None
) -> tuple[Call, Any]:
    """Run a request in a mounted server, and return its call and its unsealed result.

    Raises:
        RpcError: the error that the client would receive.
    """
    asks = outer.request.method.input_required and outer.asking is not None and outer.asking.is_recording
    asking = outer.asking if asks else None
    call = _call(outer, mount, method, params if asking is None else _with_own_state(asking, params), channel)
    # A `def` in a thread learns of the cancellation only from its own call.
    remove_callback = outer.on_cancel(lambda: call.mark_cancelled(outer.cancel_reason))
    try:
        result = await run_detached(call, seals=False)
    finally:
        remove_callback()
        outer.failure_label = call.failure_label
    if asking is not None:
        result = _carried(asking, result)
    return call, result


def is_not_found(error: RpcError, call: Call, subject: str) -> bool:
    """Tell whether an error says that a server does not have the subject of a request."""
    version, is_read = call.request.caller.version, call.request.method.name == "resources/read"
    is_unread = is_read and error.code == version.resource_not_found
    is_unknown = error.code == InvalidParams.CODE and _says_unknown(error.message, subject)
    return error.label in _NOT_FOUND or is_unread or is_unknown


def lacks_tool(result: Any, name: str) -> bool:
    """Tell whether a result that a proxy passed says by `isError` that there is no such tool, as some servers do."""
    if type(result) is not Raw or len(result) > MAX_REFUSAL or b'"isError"' not in bytes(result):
        return False
    try:
        is_failure = decoders[_PassedResult].decode(result).is_error is True
    except msgspec.DecodeError:
        return False
    return is_failure and _says_unknown(bytes(result).decode(), name)


def _says_unknown(text: str, name: str) -> bool:
    pattern = _UNKNOWN.format(kind="(?:tool|prompt)", name=re.escape(name))
    return name in text and re.search(pattern, text, re.IGNORECASE) is not None


def _call(outer: Call, mount: Mount, method: str, params: Raw, channel: Channel | None) -> Call:
    server = mount.server
    if isinstance(outer.server, TaggedDispatcher):
        server = outer.server.alike(server)
    row = (mount.offer(outer) or server.offer).find(method, outer.request.caller)
    call = open_inner(outer, row, params, server)
    session = mount.session(outer.session)
    call.session = cast("Session", session)
    call.channel = cast("Channel", MountedChannel(channel or outer.channel, session))
    if server.server_context is not None:
        call.server_context = server.server_context
    call.handler_task, call.values = outer.handler_task, outer.values
    call.is_notification, call.is_passed = outer.is_notification, True
    return call


def _with_own_state(asking: Asking, params: Raw) -> Raw:
    """Return the parameters with the state that the mounted server sealed, instead of that of the parent."""
    given = decoders[dict[str, Raw]].decode(params)
    state = asking.recorded_step(_STATE)
    answers = given.pop("inputResponses", None)
    given.pop("requestState", None)
    if state is not None:
        given["requestState"] = state
        if answers is not None:
            given["inputResponses"] = answers
    return Raw(encode(given))


def _carried(asking: Asking, result: Any) -> Any:
    """Return a result; if it has questions, a state of the parent carries the state of the mounted server."""
    if isinstance(result, Raw) and decoders[types.Result].decode(result).result_type == _ASKS:
        result = decoders[types.InputRequiredResult].decode(result)
    if not isinstance(result, types.InputRequiredResult):
        return result
    asking.record_step(_STATE, result.request_state)
    return msgspec.structs.replace(result, request_state=asking.input_required().request_state)
