"""How the inspector sees the traffic of its own clients: a transport and an HTTP middleware that record and pass on.

The records are those of `dragoman tap`. A tap between the client and the server was rejected: over HTTP the client
would speak to another address, and a login is bound to the address of the server.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp

from dragoman.auth.fetcher import FetchedExchange
from dragoman.client.connect.endpoint import Endpoint
from dragoman.client.connect.link import DuplexLink
from dragoman.compose.masking import Masks
from dragoman.compose.session_file import TakesRecords, kind_of
from dragoman.compose.tap.http_records import HttpRecords
from dragoman.errors import ConnectError
from dragoman.inspector.traffic.rows import Row
from dragoman.runtime.network import Network
from dragoman.transports.contract import Receive, Transport
from dragoman.transports.web.http import new_session

sent_rows: ContextVar[list[Row] | None] = ContextVar("sent_rows", default=None)
"""The rows of the requests that were sent in this context; the traffic may have dropped their records."""


LINE_BYTES = 64 * 1024
"""A longer line of stderr is cut."""
MESSAGES, CHUNK_BYTES, TURNS = 200, 16 * 1024, 6
"""After so many messages of a process, or a chunk of so many bytes over HTTP, the page has some turns of the event loop
to itself: a server that sends without a pause would delay the answers to the page, each of which takes several turns.
"""


class RecordedTransport:
    """A transport to a process that records the messages both ways; see `dragoman.transports.contract`."""

    def __init__(
        self, endpoint: Endpoint, records: TakesRecords, on_stderr: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._endpoint = endpoint
        self._records = records
        self._on_stderr = on_stderr
        self._partial_line = b""
        self._on_end = on_end
        self._inner: Transport | None = None
        self._received = 0

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Start the process."""
        link = self._endpoint.link()
        if not isinstance(link, DuplexLink):
            raise ConnectError("This transport sends one request at a time, and the inspector cannot record it")
        self._inner = inner = link.transport
        inner.on_stderr = self._received_stderr  # type: ignore[attr-defined]

        def received(message: bytes) -> Awaitable[None] | None:
            self._records.write("server", kind_of(message), message)
            self._received += 1
            return receive(message) or (_turns_of_others() if self._received % MESSAGES == 0 else None)

        def ended(error: Exception | None) -> None:
            self._end_stderr()
            text = Masks().lines(str(error or "the server closed the connection"))
            self._records.write("tap", "note", head={"note": text, "failed": True})
            closed(error)
            self._on_end()

        await inner.open(received, ended)

    async def send(self, message: bytes) -> None:
        """Send a message."""
        if self._inner is None:
            raise ConnectError("The connection is not open")
        self._records.write("client", kind_of(message), message)
        await self._inner.send(message)

    async def close(self) -> None:
        """End the process."""
        if self._inner is not None:
            await self._inner.close()
            self._end_stderr()

    def _received_stderr(self, chunk: bytes) -> None:
        """Pass whole lines on, because a secret of which a chunk has one part cannot be found."""
        *ended, self._partial_line = (line[:LINE_BYTES] for line in (self._partial_line + chunk).split(b"\n"))
        if ended:
            self._on_stderr(b"".join(line + b"\n" for line in ended))

    def _end_stderr(self) -> None:
        if self._partial_line:
            self._received_stderr(b"\n")


def _turns_of_others() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    passed = loop.create_future()

    def take_turn(left: int) -> None:
        if left:
            loop.call_soon(take_turn, left - 1)
        elif not passed.done():
            passed.set_result(None)

    take_turn(TURNS)
    return passed


def recorded_network(records: TakesRecords, exchanges: Iterator[int]) -> Network:
    """Return the network of a client whose HTTP exchanges are recorded; `exchanges` numbers them."""

    async def record(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        exchange = HttpRecords(records, next(exchanges))
        sent = await _body(request)
        exchange.request(request.method, request.url.raw_path_qs, request.headers.items(), sent)
        try:
            response = await handler(request)
        except (aiohttp.ClientError, OSError) as error:
            exchange.note(f"there is no response: {type(error).__name__}", failed=True)
            raise
        exchange.response(response.status, response.headers.items(), response.content_type)
        response.content = _RecordedContent(response.content, exchange)  # type: ignore[assignment]
        return response

    return Network(session_factory=partial(new_session, record))


def record_fetched(records: TakesRecords, exchange: int, fetched: FetchedExchange) -> None:
    """Record an exchange with an authorization server."""
    written = HttpRecords(records, exchange)
    written.request(fetched.method, fetched.url, fetched.headers.items(), fetched.sent)
    if fetched.status is None:
        written.note("there is no response", failed=True)
        return
    headers = fetched.received_headers or {}
    written.response(fetched.status, headers.items(), headers.get("Content-Type", ""))
    written.receive(fetched.received)
    written.finish()


async def _body(request: aiohttp.ClientRequest) -> bytes:
    body = request.body
    if isinstance(body, bytes):
        return body
    value = getattr(body, "_value", None)
    return value.getvalue() if isinstance(value, io.BytesIO) else await body.as_bytes()


class _RecordedContent:
    """The content of a response; it records what is read."""

    def __init__(self, content: aiohttp.StreamReader, records: HttpRecords) -> None:
        self._content = content
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def readany(self) -> bytes:
        chunk = self._noted(await self._content.read(CHUNK_BYTES))
        if len(chunk) == CHUNK_BYTES:
            await _turns_of_others()
        return chunk

    async def read(self, n: int = -1) -> bytes:
        return self._noted(await self._content.read(n))

    async def iter_any(self) -> AsyncIterator[bytes]:
        while chunk := await self.readany():
            yield chunk

    def _noted(self, chunk: bytes) -> bytes:
        if chunk:
            self._records.receive(chunk)
        if self._content.at_eof():
            self._records.finish()
        return chunk
