"""The HTTP transport of 2024-11-05 for clients: one event stream for all messages of the server, and POSTs.

The server's first event names the URL to post to. This URL must have the origin of the stream, so that a server cannot
make a client send its credentials elsewhere. The stream is the session: when the stream ends, the connection has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from dragoman.errors import AuthRequired, ConnectError, HttpError, SessionExpired, TooLarge, TransportError
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import Event, EventDecoder
from dragoman.protocol.urls import redacted
from dragoman.runtime.network import Network
from dragoman.runtime.tasks import cancel_and_wait, retrieve_exception
from dragoman.transports.contract import Receive
from dragoman.transports.web.http import FAILED, JSON, SSE, HttpClient, is_stream, joined

ENDPOINT_SECONDS = 10.0
QUOTED_BYTES = 200
_FORBIDDEN, _NOT_FOUND = frozenset({401, 403}), 404


Refusal = Callable[[str, int, Mapping[str, str], Mapping[str, str]], AuthRequired]
"""Makes the error for missing credentials from the URL, the status, and the headers received and sent."""


class LegacySse:
    """A transport to a server of 2024-11-05.

    Example:
        transport = LegacySse("http://localhost:8000/sse", headers)
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Awaitable[Mapping[str, str]]],
        network: Network | None = None,
        limits: Limits = CLIENT_LIMITS,
        *,
        refusal: Refusal | None = None,
    ) -> None:
        self._http = HttpClient(url, network, limits)
        self.url = self._http.url
        self._headers = headers
        self._refusal = refusal or _credentials_error
        self._limit = limits.message_bytes
        self._endpoint: asyncio.Future[URL] | None = None
        self._stream: aiohttp.ClientResponse | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closed: Callable[[Exception | None], None] | None = None

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the stream, and receive the URL to post to.

        Raises:
            ConnectError: there is no connection, or the server does not say where to post to.
            AuthRequired: the server wants credentials.
            HttpError: the response is no event stream.
        """
        try:
            await self._open(receive, closed)
        except BaseException:
            await self.close()
            raise

    async def _open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        loop = asyncio.get_running_loop()
        await self._http.open()
        self._endpoint, self._closed = loop.create_future(), closed
        try:
            async with asyncio.timeout(ENDPOINT_SECONDS):
                self._stream = await self._get()
                self._reading = loop.create_task(self._read(self._stream, receive))
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise ConnectError(f"{self.url} does not say where to post to; is it an SSE server?") from None

    async def _get(self) -> aiohttp.ClientResponse:
        sent = CIMultiDict(await self._headers())
        sent["Accept"] = SSE
        response = await self._http.send("GET", sent)
        if is_stream(response):
            return response
        self._http.release(response, at_once=True)
        self._check(response)
        raise HttpError(f"{self.url} is no SSE server (status {response.status})", response.status)

    def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status in _FORBIDDEN:
            raise self._refusal(self.url, response.status, response.headers, response.request_info.headers)

    async def _read(self, stream: aiohttp.ClientResponse, receive: Receive) -> None:
        error = TransportError(f"The server closed the stream of {self.url}")
        decoder = EventDecoder(self._limit)
        try:
            async for chunk in stream.content.iter_any():
                for event in decoder.receive(chunk):
                    room = self._receive_event(event, receive)
                    if room is not None:
                        await room
        except TransportError as problem:
            error = problem
        except (aiohttp.ClientError, OSError) as problem:
            error = TransportError(f"The stream of {self.url} broke: {str(problem) or type(problem).__name__}")
        finally:
            stream.close()
        assert self._endpoint is not None
        if self._endpoint.done():
            self._report_end(error)
        else:
            self._endpoint.set_exception(ConnectError(f"{error}; it did not say where to post to"))

    def _report_end(self, error: Exception) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed(error)

    def _receive_event(self, event: Event | Oversized, receive: Receive) -> Awaitable[None] | None:
        if isinstance(event, Oversized):
            raise TooLarge(f"An event of {self.url} has more than {self._limit} bytes; raise max_message_bytes")
        assert self._endpoint is not None
        if event.event == "endpoint" and not self._endpoint.done():
            self._endpoint.set_result(self._post_address(event.data))
        elif event.event == "message" and event.data:
            return receive(event.data.encode())
        return None

    def _post_address(self, text: str) -> URL:
        """Return the URL to post to, which the server sends as text or as JSON."""
        endpoint = joined(self._http.target, _address(text))
        if endpoint is None:
            raise TransportError(f"{self.url} names no address to post to: {text!r}")
        if (origin := endpoint.origin()) != self._http.target.origin():
            raise TransportError(f"{self.url} wants messages posted to another origin, {origin}, which is refused")
        return endpoint

    async def send(self, message: bytes) -> None:
        """Post a message.

        Raises:
            ConnectError: there is no connection.
            AuthRequired: the server wants credentials.
            SessionExpired: the server does not know the stream any more.
            HttpError: the server refused the message.
        """
        if self._endpoint is None:
            raise ConnectError(f"The connection to {self.url} is closed")
        endpoint = await asyncio.shield(self._endpoint)
        sent = CIMultiDict(await self._headers())
        sent["Content-Type"] = JSON
        response = await self._http.send("POST", sent, message, url=endpoint)
        try:
            status = response.status
            text = await response.content.read(QUOTED_BYTES) if status >= FAILED else b""
        except (aiohttp.ClientError, OSError):
            text = b""
        finally:
            self._http.release(response, at_once=True)
        if status >= FAILED:
            self._raise_refusal(response, text)

    def _raise_refusal(self, response: aiohttp.ClientResponse, text: bytes) -> None:
        self._check(response)
        if response.status == _NOT_FOUND:
            expired = SessionExpired(f"{self.url} does not know its stream any more")
            self._report_end(expired)
            raise expired
        shown = redacted(str(response.url))
        shown_text = text.decode("utf-8", "replace").strip()
        raise HttpError(f"{shown} answered with status {response.status}: {shown_text}", response.status, text)

    async def close(self) -> None:
        """Close the stream."""
        reading, self._reading = self._reading, None
        stream, self._stream = self._stream, None
        endpoint, self._endpoint = self._endpoint, None
        self._closed = None
        if endpoint is not None:
            if not endpoint.done():
                endpoint.set_exception(ConnectError(f"The connection to {self.url} was closed"))
            retrieve_exception(endpoint)
        try:
            if reading is not None:
                await cancel_and_wait(reading)
        finally:
            if stream is not None:
                stream.close()
            await self._http.close()


def _credentials_error(url: str, status: int, headers: Mapping[str, str], _sent: Mapping[str, str]) -> AuthRequired:
    return AuthRequired(f"{url} wants credentials (status {status})", status, headers.get("WWW-Authenticate"))


def _address(text: str) -> str:
    if not text.startswith(("{", '"')):
        return text
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    address = found.get("url") if isinstance(found, dict) else found
    return address if isinstance(address, str) else text
