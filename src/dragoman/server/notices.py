"""Notifications for methods of the server's own: they run as requests do, and nothing is answered."""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING

from dragoman.errors import RpcError
from dragoman.protocol import eras, jsonrpc
from dragoman.server.call import Call

if TYPE_CHECKING:
    from dragoman.server.server import Server

NO_ID = ""
"""Stands for the id of a notification, which has none."""


def opened(server: Server, message: jsonrpc.Notification, caller: eras.Caller | None) -> eras.Request | None:
    """Return what a notification asks of a method of the server's own; None if it asks nothing that can be served.

    A notification that cannot be opened is reported, because nobody is answered.
    """
    if not server.has_method(message.method):
        return None
    offer = server.offer
    # Only requests must say which version they are of.
    caller = caller or offer.unintroduced or eras.Caller(offer.versions[0])
    try:
        return eras.open(jsonrpc.Request(NO_ID, message.method, message.params), offer, caller)
    except RpcError as error:
        server.report(error, None, {"notification": message.method})
        return None


async def serve_notification(server: Server, call: Call) -> None:
    """Run the method; what it returns is dropped, and what it raises is reported."""
    try:
        outcome = server.serve(call)
        if isinstance(outcome, CoroutineType):
            await outcome
    except BaseException as error:
        if not call.is_given_up_by(error):
            server.report(error, None, {"notification": call.request.method.name})
    finally:
        call.ended = True
