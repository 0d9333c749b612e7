"""`serve_mounted`: serves an exchange with an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from dragoman.protocol import statuses
from dragoman.server.routes.table import AsgiApplication
from dragoman.transports.http.exchange import Exchange, Header

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})


async def serve_mounted(app: AsgiApplication, exchange: Exchange, prefix: str, body: bytes) -> None:
    """Let an application answer an exchange; an application that does not answer gives the status 500.

    Raises:
        Exception: whatever the application raises.
    """
    connection = _Connection(exchange, body)
    scope = {**exchange.scope, "root_path": exchange.scope.get("root_path", "").rstrip("/") + prefix}
    try:
        await app(scope, connection.receive, connection.send)
    finally:
        exchange.on_gone = None
    await exchange.reply(statuses.FAILED)


class _Connection:
    """The two callables of ASGI, on an exchange."""

    def __init__(self, exchange: Exchange, body: bytes) -> None:
        self._exchange = exchange
        self._body: bytes | None = body
        self._status = statuses.OK
        self._head: Sequence[Header] | None = None
        self._gone = asyncio.Event()
        exchange.on_gone = self._gone.set

    async def receive(self) -> dict[str, Any]:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        if not self._exchange.ended:
            await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            lines = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
            self._head = [(name, value) for name, value in lines if name not in _FRAMING]
        elif message["type"] == "http.response.body":
            data, last = message.get("body", b""), not message.get("more_body")
            head, self._head = self._head, None
            if head is not None and last:
                await self._exchange.reply(self._status, data, head)
            elif self._exchange.method == "HEAD":
                await self._exchange.send_part(b"", status=self._status, head=head, last=True)
            else:
                await self._exchange.send_part(data, status=self._status, head=head, last=last)
