"""`open_call` and `open_notification`: make the `Call` of a message that the server received, for all transports.

A request that cannot be opened has a call too. The `rejection` of the call is the error, and `runner.run` sends the
error after the middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.errors import MethodNotFound, RpcError
from dragoman.protocol import eras, jsonrpc
from dragoman.server.dispatch.runner import rpc_error
from dragoman.server.request.call import Call, Channel, Session

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from dragoman.server.server import Server

NO_ID = ""
"""Stands for the missing id of a notification."""
Origin: TypeAlias = "tuple[Session, Channel, Server, Any, AbstractEventLoop]"
"""The session and the channel of a message, its server, the server context and the loop."""


def open_call(
    message: jsonrpc.Request,
    session: Session,
    channel: Channel,
    server: Server,
    server_context: Any,
    loop: AbstractEventLoop,
) -> Call:
    """Return the call of a request; the call has a `rejection` if the request cannot be opened."""
    try:
        request = eras.open(message, server.offer, session.caller)
    except BaseException as error:
        return refused_call(error, message, session, channel, server, server_context, loop)
    return Call(request, session, channel, server, server_context, loop)


def refused_call(error: BaseException, message: jsonrpc.Request, *origin: *Origin) -> Call:
    """Return the call of a request that is refused with an error."""
    session, _, server, _, _ = origin
    if isinstance(error, MethodNotFound):
        server.warn_of_unserved()
    request = eras.refused_request(message, server.offer, session.caller)
    return Call(request, *origin, rejection=rpc_error(server, error))


def open_notification(message: jsonrpc.Notification, *origin: *Origin) -> Call | None:
    """Return the call of a notification, whose request has no id; None if the server does not handle it.

    The handler is a method of `server.method`, or a handler of an extension. An error of the notification is reported,
    because a notification has no response.
    """
    session, _, server, _, _ = origin
    offer = server.offer_for_notification(message.method)
    if offer is None:
        return None
    # A notification need not name its version.
    caller = session.caller or offer.default_caller or eras.Caller(offer.versions[0])
    try:
        request = eras.open(jsonrpc.Request(NO_ID, message.method, message.params), offer, caller)
        return Call(request, *origin, is_notification=True)
    except RpcError as error:
        server.report(error, None, {"notification": message.method})
        return None
