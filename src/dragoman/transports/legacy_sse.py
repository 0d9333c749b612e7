"""HTTP with server-sent events as 2024-11-05 had it, for clients: one stream that everything comes on, and posts.

The server's first event names the address to post to. It must be of the same origin as the stream: a server cannot
make a client send its credentials elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from yarl import URL

from dragoman.errors import AuthRequired, ConnectError, HttpError, TransportError
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import Event, EventDecoder
from dragoman.transports.http import Network, session_for

FAILED = 400
ENDPOINT_SECONDS = 10.0


class LegacySse:
    """A transport to a server of 2024-11-05.

    Example:
        transport = LegacySse("http://localhost:8000/sse")
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Awaitable[Mapping[str, str]]],
        network: Network | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.url = url
        self._headers = headers
        self._network = network or Network()
        self._limit = limits.message_bytes
        self._session: aiohttp.ClientSession | None = None
        self._endpoint: asyncio.Future[URL] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self, receive: Callable[[bytes], None], closed: Callable[[Exception | None], None]) -> None:
        """Open the stream, and learn where to post.

        Raises:
            ConnectError: there is no connection, or no such server.
        """
        self._session = session_for(self._network)
        self._endpoint = asyncio.get_running_loop().create_future()
        response = await self._get(self._session)
        self._reading = asyncio.get_running_loop().create_task(self._read(response, receive, closed))
        try:
            async with asyncio.timeout(ENDPOINT_SECONDS):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            raise ConnectError(f"{self.url} does not say where to post to; is it an SSE server?") from None

    async def _get(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        try:
            response = await session.get(
                self.url,
                headers={"Accept": "text/event-stream", **await self._headers()},
                allow_redirects=False,
                proxy=self._network.proxy,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectError(f"There is no connection to {self.url}: {error}; is the server running?") from error
        if response.status != 200 or response.content_type != "text/event-stream":
            status, challenge = response.status, response.headers.get("WWW-Authenticate")
            response.close()
            if status in (401, 403):
                raise AuthRequired(f"{self.url} wants credentials (status {status})", status, challenge)
            raise HttpError(f"{self.url} is no SSE server (status {status})", status)
        return response

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        receive: Callable[[bytes], None],
        closed: Callable[[Exception | None], None],
    ) -> None:
        error: TransportError = TransportError(f"The server closed the stream of {self.url}")
        decoder = EventDecoder(self._limit)
        try:
            async for chunk in response.content.iter_any():
                for event in decoder.receive(chunk):
                    self._take(event, receive)
        except TransportError as problem:
            error = problem
        except (aiohttp.ClientError, OSError) as problem:
            error = TransportError(f"The stream of {self.url} broke: {problem}")
        finally:
            response.close()
        assert self._endpoint is not None
        if self._endpoint.done():
            closed(error)
        else:
            self._endpoint.set_exception(ConnectError(str(error)))

    def _take(self, event: Event | Oversized, receive: Callable[[bytes], None]) -> None:
        if isinstance(event, Oversized):
            raise TransportError(f"An event of {self.url} has more than {self._limit} bytes")
        assert self._endpoint is not None
        if event.event == "endpoint" and not self._endpoint.done():
            stream = URL(self.url)
            endpoint = stream.join(URL(event.data))
            if endpoint.origin() != stream.origin():
                raise TransportError(f"{self.url} wants messages posted to another origin, {endpoint.origin()}")
            self._endpoint.set_result(endpoint)
        elif event.event == "message" and event.data:
            receive(event.data.encode())

    async def send(self, message: bytes) -> None:
        """Post a message.

        Raises:
            ConnectError: there is no connection.
            HttpError: the server did not take it.
        """
        if self._session is None or self._endpoint is None:
            raise ConnectError(f"The connection to {self.url} is closed")
        endpoint = await asyncio.shield(self._endpoint)
        headers = {"Content-Type": "application/json", **await self._headers()}
        try:
            async with self._session.post(
                endpoint, data=message, headers=headers, allow_redirects=False, proxy=self._network.proxy
            ) as response:
                status, said = response.status, await response.content.read(200)
        except aiohttp.ClientConnectorError as error:
            raise ConnectError(f"There is no connection to {endpoint}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{endpoint} did not take the message: {error}") from error
        if status >= FAILED:
            raise HttpError(
                f"{endpoint} answered with status {status}: {said.decode('utf-8', 'replace')}", status, said
            )

    async def close(self) -> None:
        """Close the stream."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
        session, self._session = self._session, None
        if self._endpoint is not None and self._endpoint.done() and not self._endpoint.cancelled():
            self._endpoint.exception()
        if session is not None and self._network.session is None:
            await session.close()
