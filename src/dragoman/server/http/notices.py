"""Messages over HTTP that nobody waits for: accepted, and served if they are for a method of the server's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.inbound import ACCEPTED
from dragoman.server.dispatch.runner import opened_notification, run_notification
from dragoman.server.http.in_flight import CallsInFlight
from dragoman.server.request.call import SILENCE, Call, Channel, Session
from dragoman.transports.http.exchange import Exchange

if TYPE_CHECKING:
    from dragoman.server.server import Server

MOST_AHEAD = 1000
"""While so many messages are served, a notification is accepted only after it was served."""
MakeCall = Callable[[eras.McpRequest, Session, Exchange, Channel], Call]


class HttpNotices:
    """Serves the notifications that come to one service."""

    def __init__(self, server: Server, serving: CallsInFlight, make_call: MakeCall) -> None:
        self._server = server
        self._serving = serving
        self._make_call = make_call

    async def serve(
        self, exchange: Exchange, message: jsonrpc.Message, data: Session, channel: Channel = SILENCE
    ) -> None:
        """Accept a message, and serve it after that, unless so many are served that the client has to wait."""
        is_ahead = len(self._serving) < MOST_AHEAD
        serving = self.begin(exchange, message, data, channel)
        if serving is None or is_ahead:
            await exchange.reply(ACCEPTED)
        if serving is not None:
            await self.run(serving)
            await exchange.reply(ACCEPTED)

    def begin(self, exchange: Exchange, message: jsonrpc.Message, data: Session, channel: Channel) -> Call | None:
        """Return what is to be run for a message, if anything."""
        if not isinstance(message, jsonrpc.Notification):
            return None
        request = opened_notification(self._server, message, data.caller)
        return None if request is None else self._make_call(request, data, exchange, channel)

    async def run(self, call: Call) -> None:
        """Serve a notification to its end."""
        call.task = asyncio.current_task(call.loop)
        self._serving.add(call)
        try:
            await run_notification(call)
        finally:
            self._serving.discard(call)
