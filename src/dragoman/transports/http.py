"""HTTP for a client, with no meaning of its own: posts go out, and messages come back as bodies or as event streams.

An event stream that breaks before its answer came is taken up again by GET with the last event id that was seen, when
its events have ids: after the pause that the server asked for, and only a few times in a row without any progress.
Redirects are followed only where the request may go as it is: to the same origin, by 307 or 308. Cookies are not kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from msgspec import Struct
from yarl import URL

from dragoman.errors import ConnectError, HttpError, TransportError
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import EventDecoder

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 4.0
"""Less than the five seconds after which uvicorn and others close an idle connection."""
LONGEST_HEADER = 65_536
MOST_REDIRECTS = 5
RETRY_SECONDS, SHORTEST_RETRY, LONGEST_RETRY = 1.0, 0.1, 300.0
MOST_RESUMPTIONS = 2
QUOTED_BYTES = 4096

Headers = Mapping[str, str]
Receive = Callable[[bytes], None]
Resume = Callable[[str], Awaitable[Headers]]
"""Gives the headers of a GET that takes up a stream after an event id."""

OK, FAILED = 200, 400
_NO_ANSWER = frozenset({202, 204})


class Network(Struct, kw_only=True):
    """How to reach servers: what a client may want to say about its connections.

    Example:
        Client(url, network=Network(proxy="http://proxy:3128", ssl=ssl.create_default_context(cafile="ca.pem")))
    """

    proxy: str | None = None
    ssl: ssl.SSLContext | None = None
    """Certificates to trust, and the client's own."""
    trust_env: bool = True
    """Take proxies and credentials from the environment and ~/.netrc."""
    connect_timeout: float = CONNECT_SECONDS
    session: aiohttp.ClientSession | None = None
    """A session of your own, which then is yours to close."""


def session_for(network: Network) -> aiohttp.ClientSession:
    """Return the session that was given, or a new one."""
    return network.session or aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, ssl=True if network.ssl is None else network.ssl
        ),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=network.connect_timeout),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=network.trust_env,
        max_field_size=LONGEST_HEADER,
        max_line_size=LONGEST_HEADER,
    )


class Answer(Struct, frozen=True):
    """The head of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    """What a response said that is no message: at most its first 4 KiB."""


class HttpClient:
    """Connections to one URL.

    Example:
        http = HttpClient("https://example.com/mcp")
        await http.open()
        await http.post(message, headers, receive, answered=lambda: received == 1)
        await http.close()
    """

    def __init__(self, url: str, network: Network | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.url = url
        self._network = network or Network()
        self._limit = limits.message_bytes
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make ready; nothing is sent."""
        self._session = session_for(self._network)

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None and self._network.session is None:
            await session.close()

    async def post(
        self,
        body: bytes,
        headers: Headers,
        receive: Receive,
        *,
        answered: Callable[[], bool],
        resume: Resume | None = None,
        heard: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Post a message, and give each message that comes back to `receive`, until it is `answered`.

        `heard` is told the head of the response before any of it is received.

        Raises:
            ConnectError: there was no connection, and nothing was sent.
            HttpError: the server answered with something that is no message.
            TransportError: the connection broke, or the stream ended, before the answer came.
        """
        response = await self._send("POST", headers, body)
        try:
            answer = Answer(response.status, response.headers)
            if heard is not None:
                heard(answer)
            if response.status >= FAILED:
                answer = Answer(response.status, response.headers, await response.content.read(QUOTED_BYTES))
            elif response.status not in _NO_ANSWER:
                await self._read(response, receive, answered, resume)
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"The connection to {self.url} broke: {_text(error)}") from error
        finally:
            _let_go(response)
        return answer

    async def _read(
        self,
        response: aiohttp.ClientResponse,
        receive: Receive,
        answered: Callable[[], bool],
        resume: Resume | None,
    ) -> None:
        kind = response.content_type
        if kind == "text/event-stream":
            await self._read_stream(response, receive, answered, resume)
        elif kind == "application/json":
            body = await self._read_body(response)
            if body:
                receive(body)
        else:
            raise HttpError(
                f"{self.url} answered with {kind}, which is no MCP message; is the address right?",
                response.status,
                await response.content.read(QUOTED_BYTES),
            )

    async def listen(
        self, headers: Headers, receive: Receive, *, opened: Callable[[], None], decoder: EventDecoder
    ) -> Answer:
        """Get an event stream and receive from it until it ends; `opened` is called if it is one.

        Raises:
            ConnectError: there was no connection.
            TransportError: the connection broke.
        """
        response = await self._send("GET", headers, None)
        body = b""
        try:
            if _is_stream(response):
                opened()
                await self._receive_events(response, receive, _never, decoder)
            else:
                body = await response.content.read(QUOTED_BYTES)
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"The connection to {self.url} broke: {_text(error)}") from error
        finally:
            _let_go(response)
        return Answer(response.status, response.headers, body)

    async def delete(self, headers: Headers) -> int:
        """Send a DELETE, and return the status.

        Raises:
            TransportError: there was no connection, or it broke.
        """
        response = await self._send("DELETE", headers, None)
        response.release()
        return response.status

    async def _send(self, method: str, headers: Headers, body: bytes | None) -> aiohttp.ClientResponse:
        url = self.url
        for _ in range(MOST_REDIRECTS):
            response = await self._send_once(method, url, headers, body)
            if response.status not in (301, 302, 303, 307, 308):
                return response
            location = response.headers.get("Location", "")
            target = response.url.join(URL(location)) if location else None
            response.release()
            if target is None or response.status not in (307, 308) or target.origin() != response.url.origin():
                raise HttpError(
                    f"{self.url} redirects to {location or 'nowhere'}, which is not followed; use that address instead",
                    response.status,
                )
            url = str(target)
        raise HttpError(f"{self.url} redirects in circles", response.status)

    async def _send_once(self, method: str, url: str, headers: Headers, body: bytes | None) -> aiohttp.ClientResponse:
        if self._session is None:
            raise ConnectError(f"The connection to {self.url} is closed")
        try:
            return await self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False, proxy=self._network.proxy
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise ConnectError(f"There is no connection to {url}: {_text(error)}; is the server running?") from error
        except aiohttp.ClientConnectionResetError as error:
            # Raised while the request is being written: the server closed a connection that was kept alive.
            raise TransportError(f"The connection to {url} broke: {_text(error)}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{url} did not answer: {_text(error)}") from error

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        length = response.content_length
        if length is not None and length <= self._limit:
            return await response.read()
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > self._limit:
                raise TransportError(f"{self.url} answered with more than {self._limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def _read_stream(
        self,
        response: aiohttp.ClientResponse,
        receive: Receive,
        answered: Callable[[], bool],
        resume: Resume | None,
    ) -> None:
        decoder = EventDecoder(self._limit)
        try:
            await self._receive_events(response, receive, answered, decoder)
        except (aiohttp.ClientError, OSError):
            if resume is None or not decoder.last_event_id:
                raise
        if not answered():
            await self._resume_stream(receive, answered, resume, decoder)

    async def _resume_stream(
        self, receive: Receive, answered: Callable[[], bool], resume: Resume | None, decoder: EventDecoder
    ) -> None:
        failures = 0
        while not answered():
            seen = decoder.last_event_id
            if resume is None or not seen:
                raise TransportError(f"The stream of {self.url} ended without an answer")
            if failures > MOST_RESUMPTIONS:
                raise TransportError(f"The stream of {self.url} broke, and could not be taken up again")
            await asyncio.sleep(pause(decoder))
            decoder.finish()
            failures += 1
            try:
                await self._resume_once(await resume(seen), receive, answered, decoder)
            except (aiohttp.ClientError, OSError, TransportError):
                continue
            if decoder.last_event_id != seen:
                failures = 0

    async def _resume_once(
        self, headers: Headers, receive: Receive, answered: Callable[[], bool], decoder: EventDecoder
    ) -> None:
        response = await self._send("GET", headers, None)
        try:
            if response.status != 200 or response.content_type != "text/event-stream":
                raise HttpError(f"{self.url} does not take the stream up again", response.status)
            await self._receive_events(response, receive, answered, decoder)
        finally:
            _let_go(response)

    async def _receive_events(
        self,
        response: aiohttp.ClientResponse,
        receive: Receive,
        answered: Callable[[], bool],
        decoder: EventDecoder,
    ) -> None:
        async for chunk in response.content.iter_any():
            for event in decoder.receive(chunk):
                if isinstance(event, Oversized):
                    raise TransportError(f"An event of {self.url} has more than {self._limit} bytes")
                if event.data and event.event == "message":
                    receive(event.data.encode())
            if answered():
                return


def pause(decoder: EventDecoder) -> float:
    """Return how many seconds to wait before a stream is taken up again.

    Raises:
        TransportError: the server wants a longer pause than anybody waits.
    """
    asked = RETRY_SECONDS if decoder.retry is None else decoder.retry / 1000
    if asked > LONGEST_RETRY:
        raise TransportError(f"The server asks to come back in {asked:g} seconds, which is too long to wait")
    return max(asked, SHORTEST_RETRY)


def _is_stream(response: aiohttp.ClientResponse) -> bool:
    return response.status == OK and response.content_type == "text/event-stream"


def _never() -> bool:
    return False


def _let_go(response: aiohttp.ClientResponse) -> None:
    """Keep the connection if the response was read to its end, else close it."""
    if response.content.at_eof():
        response.release()
    else:
        response.close()


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
