"""One request on an HTTP/1.1 connection, and its response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dragoman.errors import TooLarge
from dragoman.transports.http.exchange import UNTIMED_BYTES, Exchange, Gone, Header, TooSlow
from dragoman.transports.http.http1_head import Http1Request, decoded_path, path_and_query

if TYPE_CHECKING:
    from dragoman.transports.http.http1 import Http1Connection

HIGH_WATER_BYTES = 65_536
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Exchange(Exchange):
    """An exchange on an HTTP/1.1 connection."""

    lasts = True
    is_whole = False
    """Whether the whole body arrived."""
    size = 0
    """How many bytes of the body arrived."""

    _arrived: asyncio.Future[None] | None = None

    def __init__(self, connection: Http1Connection, request: Http1Request) -> None:
        pace, version = connection.served.pace, request.http_version
        super().__init__(connection.loop, pace, request.method, request.headers, connection.bound_to, version)
        self.path = decoded_path(request.target)
        self.keeps_alive = request.keeps_alive
        self._connection = connection
        self._target = request.target
        self._body = bytearray()

    @cached_property
    def scope(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The request as an ASGI scope."""
        path, query = path_and_query(self._target)
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self.http_version,
            "method": self.method,
            "scheme": self._connection.scheme,
            "path": self.path,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "server": self._connection.address("sockname"),
            "client": self._connection.address("peername"),
            "state": {},
        }

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Whether the server shuts down."""
        return self._connection.is_ending

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """Receive a part of the body."""
        self.is_whole = is_last
        self.size += len(data)
        self._body += data
        if self._arrived is not None:
            self._wake()
        elif self.size > HIGH_WATER_BYTES:
            self._connection.pause_reading()

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, None
        if arrived is not None and not arrived.done():
            arrived.set_result(None)

    async def read(self, limit: int) -> bytes:
        """Return the body.

        Raises:
            TooLarge: the body has more than `limit` bytes.
            TooSlow: the body did not arrive in time.
            Gone: the client closed the connection.
        """
        if not self.is_whole:
            if not self.size and self.http_version == "1.1" and self._expects_continue():
                self._connection.write(_CONTINUE)
            await self._wait_for_body(limit)
        body = bytes(self._body)
        self._body.clear()
        if self.gone:
            raise Gone
        if self.size > limit:
            raise TooLarge
        if self.size > HIGH_WATER_BYTES:
            self._connection.resume_reading()
        return body

    async def _wait_for_body(self, limit: int) -> None:
        try:
            async with asyncio.timeout(self._pace.read):
                while not self.is_whole and self.size <= limit and not self.gone:
                    self._connection.resume_reading()
                    self._arrived = self.loop.create_future()
                    await self._arrived
        except TimeoutError:
            raise TooSlow(self._pace.read) from None

    def _expects_continue(self) -> bool:
        return any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers)

    async def _send_whole(self, status: int, body: bytes, headers: Sequence[Header]) -> None:
        self._connection.respond(self, status, headers, body)
        if len(body) > UNTIMED_BYTES:
            await self._connection.drained()

    async def _send_part(self, head: Sequence[Header] | None, data: bytes, *, last: bool, status: int) -> None:
        await self._connection.drained()
        if not self.gone:
            self._connection.stream(self, head, data, last=last, status=status)

    def lose(self) -> None:
        """Record that the client is gone, and abort the connection."""
        self.give_up()
        self._connection.abort()

    def give_up(self) -> None:
        """Record that the client is gone, and leave the connection as it is."""
        super().lose()
        self._wake()

    def _watch_disconnect(self) -> None:
        """Do nothing, because the connection itself reports its loss."""
