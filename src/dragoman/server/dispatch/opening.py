"""The opening of calls: every `Call` is made here, of a message, of another call, or of a detached call.

A request that cannot be opened has a call too. The `rejection` of the call is the error, and `runner.run` sends the
error after the middleware.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, get_running_loop
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from dragoman.errors import MethodNotFound, RpcError, UnsupportedVersion
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import find_version, version_names
from dragoman.server.dispatch.dispatcher import Dispatcher, dispatcher_of
from dragoman.server.dispatch.runner import rpc_error
from dragoman.server.request.asking import Asking, OnStep
from dragoman.server.request.call import Call, Channel, NoChannel, Session
from dragoman.server.request.detached import DetachedCall, OnProgress

NO_ID = ""
"""Stands for the missing id of a notification."""
Origin: TypeAlias = tuple[Session, Channel, Dispatcher, Any, AbstractEventLoop]
"""The session and the channel of a message, its server, the server context and the loop."""
_PROGRESS = "notifications/progress"


def open_call(message: jsonrpc.Request, *origin: *Origin) -> Call:
    """Return the call of a request; the call has a `rejection` if the request cannot be opened."""
    session, _, server, _, _ = origin
    try:
        request = eras.open(message, server.offering.offer, session.caller)
    except BaseException as error:
        return refused_call(error, message, *origin)
    return opened_call(request, *origin)


def opened_call(request: eras.McpRequest, *origin: *Origin) -> Call:
    """Return the call of a request that is opened already, as a POST of the stateless era is."""
    session, channel, server, context, loop = origin
    return Call(request, session, server, channel, context, loop)


def refused_call(error: BaseException, message: jsonrpc.Request, *origin: *Origin) -> Call:
    """Return the call of a request that is refused with an error."""
    session, _, server, _, _ = origin
    if isinstance(error, MethodNotFound):
        server.offering.warn_of_undeclared()
    call = opened_call(eras.refused_request(message, server.offer, session.caller), *origin)
    call.rejection = rpc_error(server, error)
    return call


def open_notification(message: jsonrpc.Notification, *origin: *Origin) -> Call | None:
    """Return the call of a notification, whose request has no id; None if the server does not handle it.

    The handler is a method of `server.method`, or a handler of an extension. An error of the notification is reported,
    because a notification has no response.
    """
    session, _, server, _, _ = origin
    offer = server.offering.for_notification(message.method)
    if offer is None:
        return None
    # A notification need not name its version.
    caller = session.caller or offer.default_caller or eras.Caller(offer.versions[0])
    try:
        request = eras.open(jsonrpc.Request(NO_ID, message.method, message.params), offer, caller)
    except RpcError as error:
        server.report(error, None, {"notification": message.method})
        return None
    call = opened_call(request, *origin)
    call.is_notification = True
    return call


def open_inner(outer: Call, row: Method, params: Raw, server: Dispatcher | None = None) -> Call:
    """Return the call of a further request of the same caller, which is served within a call, by default as that is."""
    request = msgspec.structs.replace(outer.request, method=row, params=row.decode_params(params), raw_params=params)
    server = dispatcher_of(outer) if server is None else server
    call = Call(request, outer.session, server, outer.channel, outer.server_context, outer.loop)
    call.scopes, call.claims = outer.scopes, outer.claims
    call.headers, call.remote, call.task = outer.headers, outer.remote, outer.task
    return call


def open_detached(
    detached: DetachedCall, server: Dispatcher, on_progress: OnProgress | None = None, on_step: OnStep | None = None
) -> Call:
    """Return the call that runs the tool of a detached call once.

    Raises:
        RpcError: the server does not serve the call any more, because its versions or capabilities changed.
    """
    version = find_version(detached.version)
    if version is None:
        raise UnsupportedVersion(detached.version, version_names(server.offer.versions))
    caller = eras.Caller(version, detached.capabilities, detached.info)
    request = eras.open(jsonrpc.Request(detached.id, "tools/call", detached.params), server.offer, caller)
    if on_progress is not None:  # a handler sends progress only for a request with a token
        request = msgspec.structs.replace(request, progress_token=0)
    session, channel = Session(request.caller, principal=detached.principal), _DetachedChannel(server, on_progress)
    call = Call(request, session, server, channel, server.server_context, get_running_loop())
    call.scopes, call.claims, call.trace = detached.scopes, detached.claims, detached.trace
    call.asking = Asking(call, detached.recording, on_step)
    return call


class _DetachedChannel(NoChannel):
    """The channel of a detached call: it passes progress to a function, and drops log messages."""

    def __init__(self, server: Dispatcher, on_progress: OnProgress | None) -> None:
        self._server = server
        self._on_progress = on_progress

    def notify(self, method: str, params: Any) -> None:
        """Pass progress to the function of the extension."""
        if method == _PROGRESS and self._on_progress is not None:
            self._on_progress(params.progress, params.total, params.message)

    def notify_updated(self, uri: str) -> bool:
        """Notify all subscribers of a resource, because the call has no connection of its own."""
        return self._server.notifier.notify_resource_updated(uri)
