"""The HTTP connections of a client: a POST carries a message, and its response is JSON or an event stream.

If an event stream breaks before the response arrives and its events have ids, the client resumes it by GET with the
last event id. The client waits for the pause that the server asks for, and gives up after two resumptions in a row
without a new event id. It follows a redirect only to the same origin and only by 307 or 308, so that the request stays
unchanged. It keeps no cookies.

The client stops reading a stream as soon as the response has arrived. Most servers end the stream then, so the client
keeps the connection open for LINGER_SECONDS in the background. If the stream ends in time, the next request can use the
connection.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from aiohttp.payload import TOO_LARGE_BYTES_BODY
from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from dragoman.errors import ConnectError, HttpError, ResumptionRefused, TooLarge, TransportError
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.lines import Oversized
from dragoman.protocol.sse import EventDecoder
from dragoman.protocol.urls import HTTP_SCHEMES, redacted
from dragoman.runtime.network import Network, basic_authorization, netrc_authorization, pinned, proxy_for, read_body
from dragoman.runtime.offload import offload
from dragoman.transports.contract import Receive

READ_BYTES = 65_536
"""How many bytes are read from a socket at once."""
KEEP_ALIVE_SECONDS = 4.0
"""How long an idle connection is kept: less than the five seconds after which uvicorn and others close it."""
LINGER_SECONDS = 0.1
"""How long a connection waits for the end of a stream after the response."""
MAX_LINGERING = 100
"""How many streams may wait for their end; a further stream is closed at once."""
LISTEN_SECONDS = 300.0
"""How long a standalone stream may be silent before the client opens it again, because the server may be gone."""
REFUSAL_SECONDS = 5.0
"""How long to wait for the body of an error response."""
MAX_HEADER_BYTES = 65_536
MAX_REDIRECTS = 5
RETRY_SECONDS, MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 0.1, 300.0
MAX_FRUITLESS_RESUMPTIONS = 2
QUOTED_BYTES = 4096

JSON, SSE = "application/json", "text/event-stream"
OK, FAILED, SERVER_FAILED = 200, 400, 500
_NO_ANSWER = frozenset({202, 204})
_REDIRECTS, _FOLLOWED = frozenset({301, 302, 303, 307, 308}), frozenset({307, 308})

Headers = Mapping[str, str]
Answered = Callable[[], bool]
Resume = Callable[[str], Awaitable[Headers]]
"""Returns the headers of a GET that resumes a stream after an event id."""

_BROKEN = (aiohttp.ClientError, OSError)


class _Socket(socket.socket):
    """A socket that reads at most READ_BYTES at once.

    asyncio reads up to 256 KiB at once. For a buffer of that size the allocator maps memory at every read, and unmaps
    it afterwards, which takes a sixth of the time of a short call.
    """

    __slots__ = ()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        return super().recv(min(size, READ_BYTES), flags)


def new_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for an address, which is not connected."""
    family, kind, protocol, *_ = address
    return _Socket(family, kind, protocol)


def new_session(*middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
    """Return a session for the requests of a client; `middlewares` see each request and its response."""
    return aiohttp.ClientSession(
        middlewares=middlewares,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=new_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_field_size=MAX_HEADER_BYTES,
        max_line_size=MAX_HEADER_BYTES,
    )


class HttpResponse(Struct, frozen=True):
    """A response without its messages."""

    status: int
    response: aiohttp.ClientResponse
    body: bytes = b""
    """The body of an error response; if the body is not JSON, at most its first 4 KiB."""

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The headers."""
        return self.response.headers


class HttpClient:
    """Connections to one URL.

    Example:
        http = HttpClient("https://example.com/mcp")
        await http.open()
        await http.post(message, headers, receive, answered=lambda: received == 1)
        await http.close()
    """

    def __init__(self, url: str, network: Network | None = None, limits: Limits = CLIENT_LIMITS) -> None:
        self.url = redacted(url)
        """The URL without secrets, for logs and errors."""
        self._given = url
        self._network = network or Network()
        self._limit = limits.message_bytes
        self._session: aiohttp.ClientSession | None = None
        self._target = URL()
        self._authorization: str | None = None
        self._proxy: URL | None = None
        self._ssl = True if self._network.ssl is None else self._network.ssl
        self._is_own_session = self._network.session is None and self._network.session_factory is None
        self._open: set[aiohttp.ClientResponse] = set()
        self._lingering: set[aiohttp.ClientResponse] = set()

    @property
    def target(self) -> URL:
        """The URL that requests are sent to; set by `open`."""
        return self._target

    async def open(self) -> None:
        """Prepare a session; nothing is sent.

        Raises:
            ConnectError: the URL, or the URL of the proxy, is invalid.
        """
        try:
            given = URL(self._given)
            if given.user is not None:
                self._authorization = basic_authorization(given.user, given.password or "")
            self._target = given.with_user(None).with_fragment(None)
        except ValueError as error:
            raise ConnectError(f"{self.url} is not a valid URL: {error}") from None
        await offload(self._read_environment)
        network = self._network
        self._session = network.session or (network.session_factory or new_session)()

    def _read_environment(self) -> None:
        if self._network.trust_env and self._authorization is None and self._target.host is not None:
            self._authorization = netrc_authorization(self._target.host)
        proxy = proxy_for(str(self._target), self._network)
        self._proxy = None if proxy is None else _proxy(proxy)

    async def close(self) -> None:
        """Close the connections."""
        for response in list(self._open):
            close_response(response)
        self._open.clear()
        self._lingering.clear()
        session, self._session = self._session, None
        if session is not None and self._network.session is None:
            await session.close()

    async def post(
        self,
        body: bytes,
        headers: Headers,
        receive: Receive,
        *,
        answered: Answered,
        resume: Resume | None = None,
        on_head: Callable[[HttpResponse], None] | None = None,
    ) -> HttpResponse:
        """Post a message, and pass each message of the response to `receive` until `answered()` is true.

        `on_head` is called with the status and the headers before the body is read. `resume` gives the headers of a GET
        that resumes a broken stream; without it the stream is not resumed.

        Raises:
            ConnectError: there was no connection, and nothing was sent.
            HttpError: the response is neither JSON nor an event stream, or a redirect is refused.
            TransportError: the connection broke, or the stream ended, before the response arrived.
        """
        response = await self.send("POST", headers, body)
        status = response.status
        ended = False
        try:
            answer = HttpResponse(status, response)
            if on_head is not None:
                on_head(answer)
            if status >= FAILED:
                answer = HttpResponse(status, response, await self._read_refusal(response))
            elif status not in _NO_ANSWER and not answered():
                said = await self._read(response, receive, answered, resume)
                if not answered():
                    answer = HttpResponse(status, response, said)
            ended = True
        except _BROKEN as error:
            raise self._broken_error(error) from error
        finally:
            self.release(response, at_once=not ended)
        return answer

    async def _read(
        self, response: aiohttp.ClientResponse, receive: Receive, answered: Answered, resume: Resume | None
    ) -> bytes:
        kind = response.content_type
        if kind == JSON:
            body = await read_body(response, self._limit)
            if body is None:
                raise TooLarge(f"{self.url} answered with more than {self._limit} bytes; raise max_message_bytes")
            if body:
                receive(body)
            return body
        if kind == SSE:
            await self._read_stream(response, receive, answered, resume)
            return b""
        said = await self._read_refusal(response)
        if not said:
            return b""
        raise HttpError(
            f"{self.url} answered with {kind}, which is no MCP message; is the address right?", response.status, said
        )

    async def listen(
        self, headers: Headers, receive: Receive, *, opened: Callable[[], None], decoder: EventDecoder
    ) -> HttpResponse:
        """Open an event stream by GET and receive its messages until it ends.

        `opened` is called if the response is an event stream; otherwise the response is returned.

        Raises:
            ConnectError: there was no connection.
            TransportError: the connection broke.
        """
        # A server ends a stream mostly when it shuts down. If a later request used the connection, the server could
        # close it at that moment, and nobody could tell whether the request was served.
        headers = CIMultiDict(headers, Connection="close")
        response = await self.send("GET", headers, idle=LISTEN_SECONDS, is_last=True)
        try:
            if not is_stream(response):
                return HttpResponse(response.status, response, await self._read_refusal(response))
            opened()
            await self._receive_events(response, receive, _never_answered, decoder)
            return HttpResponse(response.status, response)
        except _BROKEN as error:
            raise self._broken_error(error) from error
        finally:
            self.release(response, at_once=True)

    async def delete(self, headers: Headers) -> int:
        """Send a DELETE, and return the status.

        Raises:
            TransportError: there was no connection, or the connection broke.
        """
        response = await self.send("DELETE", headers)
        self.release(response, at_once=True)
        return response.status

    async def send(
        self,
        method: str,
        headers: Headers,
        body: bytes | None = None,
        *,
        url: URL | None = None,
        idle: float | None = None,
        is_last: bool = False,
    ) -> aiohttp.ClientResponse:
        """Send a request, follow redirects to the same origin, and return the response; the caller calls `release`.

        `idle` is how many seconds the response may be silent. No request follows the last one on its connection.

        Raises:
            ConnectError: there was no connection, and nothing was sent.
            HttpError: the server redirects to another origin, by another status than 307 and 308, or too often.
            InsecureUrl: the author's session would send the request elsewhere; nothing was sent.
            TransportError: the connection broke.
        """
        target = self._target if url is None else url
        if self._authorization is not None and "Authorization" not in CIMultiDict(headers):
            headers = CIMultiDict(headers, Authorization=self._authorization)
        for _ in range(MAX_REDIRECTS + 1):
            session = self._session
            if session is None or session.closed:
                raise ConnectError(f"The connection to {self.url} is closed")
            try:
                response = await self._request(session, method, target, headers, body, idle)
                if is_last and response.connection is not None and response.connection.protocol is not None:
                    response.connection.protocol.force_close()
            except _BROKEN as error:
                # The text of a ClientResponseError contains the whole address with its secrets, and a traceback would
                # show it.
                raise self._unanswered_error(error) from (
                    None if isinstance(error, aiohttp.ClientResponseError) else error
                )
            self._open.add(response)
            status = response.status
            if status not in _REDIRECTS:
                return response
            location = response.headers.get("Location", "")
            self.release(response, at_once=True)
            found = joined(target, location) if location else None
            if found is None or status not in _FOLLOWED or found.origin() != target.origin():
                shown = redacted(location if found is None else str(found)) or "nowhere"
                raise HttpError(f"{self.url} redirects to {shown}, which is not followed; use that address", status)
            target = found
        raise HttpError(f"{self.url} redirects in circles, at last to {redacted(str(target))}", status)

    async def _request(
        self,
        session: aiohttp.ClientSession,
        method: str,
        target: URL,
        headers: Headers,
        body: bytes | None,
        idle: float | None,
    ) -> aiohttp.ClientResponse:
        """Send a request by aiohttp."""
        return await session.request(
            method,
            target,
            # aiohttp warns about a body of bytes that is larger than this.
            data=body if body is None or len(body) <= TOO_LARGE_BYTES_BODY else io.BytesIO(body),
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._network.connect_timeout, sock_read=idle),
            ssl=self._ssl,
            raise_for_status=False,
            middlewares=None if self._is_own_session else pinned(session, target),
        )

    def _unanswered_error(self, error: Exception) -> TransportError:
        match error:
            case (
                aiohttp.ClientConnectorError()
                | aiohttp.ConnectionTimeoutError()
                | aiohttp.InvalidURL()
                | aiohttp.ClientHttpProxyError()
            ):
                return ConnectError(f"There is no connection to {self.url}: {_text(error)}; {_remedy(error)}")
            case aiohttp.ClientConnectionResetError():
                # Raised before anything is written to a connection that was kept alive and is closing.
                return ConnectError(f"There is no connection to {self.url}: {_text(error)}; it may be tried again")
            case aiohttp.ServerDisconnectedError():
                hint = "" if self._target.scheme == "https" else "; if it wants TLS, write https:// instead of http://"
                return TransportError(f"{self.url} closed the connection without an answer{hint}")
        return self._broken_error(error)

    def _broken_error(self, error: BaseException) -> TransportError:
        return TransportError(f"The connection to {self.url} broke: {_text(error)}")

    async def _read_refusal(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the body of an error response, as much of it as arrives in time."""
        limit = self._limit if response.content_type == JSON else QUOTED_BYTES
        said = bytearray()
        try:
            async with asyncio.timeout(REFUSAL_SECONDS):
                while len(said) < limit:
                    piece = await response.content.read(limit - len(said))
                    if not piece:
                        break
                    said += piece
        except _BROKEN:
            pass
        return bytes(said)

    async def _read_stream(
        self, response: aiohttp.ClientResponse, receive: Receive, answered: Answered, resume: Resume | None
    ) -> None:
        decoder = EventDecoder(self._limit)
        try:
            await self._receive_events(response, receive, answered, decoder)
        except _BROKEN:
            if resume is None or not decoder.last_event_id:
                raise
        if not answered():
            await self._resume_stream(receive, answered, resume, decoder)

    async def _resume_stream(
        self, receive: Receive, answered: Answered, resume: Resume | None, decoder: EventDecoder
    ) -> None:
        if resume is None or not decoder.last_event_id:
            raise TransportError(f"The stream of {self.url} ended without an answer")
        fruitless = 0
        while not answered():
            if fruitless >= MAX_FRUITLESS_RESUMPTIONS:
                raise TransportError(f"The stream of {self.url} broke, and could not be taken up again")
            seen = decoder.last_event_id
            await asyncio.sleep(retry_pause(decoder))
            decoder.finish()
            try:
                await self._resume_once(await resume(seen), receive, answered, decoder)
            except (ResumptionRefused, HttpError, TooLarge):
                raise
            except (*_BROKEN, TransportError):
                pass
            fruitless = 0 if decoder.last_event_id != seen else fruitless + 1

    async def _resume_once(self, headers: Headers, receive: Receive, answered: Answered, decoder: EventDecoder) -> None:
        response = await self.send("GET", headers)
        ended = False
        try:
            if is_stream(response):
                await self._receive_events(response, receive, answered, decoder)
            elif response.status < SERVER_FAILED:
                raise ResumptionRefused(
                    f"The stream of {self.url} broke, and the server does not take it up again"
                    f" (status {response.status})",
                    response.status,
                )
            ended = True
        finally:
            self.release(response, at_once=not ended)

    async def _receive_events(
        self, response: aiohttp.ClientResponse, receive: Receive, answered: Answered, decoder: EventDecoder
    ) -> None:
        async for chunk in response.content.iter_any():
            for event in decoder.receive(chunk):
                if isinstance(event, Oversized):
                    raise TooLarge(f"An event of {self.url} has more than {self._limit} bytes; raise max_message_bytes")
                if event.data and event.event == "message":
                    room = receive(event.data.encode())
                    if room is not None:
                        await asyncio.wait([asyncio.ensure_future(room)])  # it is not cancelled: others wait for it too
            if answered():
                return
            await asyncio.sleep(0)  # aiohttp has more at once if the body is packed: time-outs get their turn

    def release(self, response: aiohttp.ClientResponse, *, at_once: bool) -> None:
        """Close the connection of a response, unless the response has ended or ends within LINGER_SECONDS."""
        content = response.content
        if content.is_eof():
            self._open.discard(response)  # aiohttp took the connection back at the end
        elif at_once or self._session is None or len(self._lingering) >= MAX_LINGERING:
            self._close_lingering(response)
        else:
            self._lingering.add(response)
            closing = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._close_lingering, response)
            content.on_eof(closing.cancel)
            content.on_eof(lambda: self._forget(response))

    def _close_lingering(self, response: aiohttp.ClientResponse) -> None:
        self._forget(response)
        close_response(response)

    def _forget(self, response: aiohttp.ClientResponse) -> None:
        self._open.discard(response)
        self._lingering.discard(response)


def retry_pause(decoder: EventDecoder) -> float:
    """Return how many seconds to wait before a stream is resumed.

    Raises:
        TransportError: the server asks for a pause that is too long.
    """
    asked = RETRY_SECONDS if decoder.retry is None else decoder.retry / 1000
    if asked > MAX_RETRY_SECONDS:
        raise TransportError(f"The server asks the client to wait {asked:g} seconds, which is too long")
    return max(asked, MIN_RETRY_SECONDS)


def close_response(response: aiohttp.ClientResponse) -> None:
    """Close a response, and give its readers a new error.

    aiohttp raises one error object that the whole process shares. It would collect the tracebacks of all readers.
    """
    if response.content.exception() is None:
        response.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
    response.close()


def is_stream(response: aiohttp.ClientResponse) -> bool:
    """Tell whether a response is an event stream."""
    return response.status == OK and response.content_type == SSE


def _proxy(given: str) -> URL:
    try:
        proxy = URL(given)
    except ValueError as error:
        raise ConnectError(f"The proxy {redacted(given)} is not a valid URL: {error}") from None
    if proxy.scheme not in HTTP_SCHEMES:
        raise ConnectError(f"The proxy {redacted(given)} is not an HTTP proxy; give a URL that begins with http://")
    return proxy


def joined(url: URL, text: str) -> URL | None:
    """Return the address that a response of `url` names, None if it names no address with a host."""
    try:
        found = url.join(URL(text))
    except ValueError:
        return None
    return found if found.host else None


def _never_answered() -> bool:
    return False


def _text(error: BaseException) -> str:
    # The text of a ClientResponseError contains the whole address with its secrets.
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{error.message} (status {error.status})"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"The response is malformed: {' '.join(error.message.split())}"
    return str(error) or type(error).__name__


def _remedy(error: BaseException) -> str:
    match error:
        case aiohttp.ClientConnectorSSLError() if "CERTIFICATE" not in str(error):
            return "does the server speak TLS at this port? If not, write http:// instead of https://"
        case aiohttp.ClientSSLError():
            return "if the certificate is your own, give network=Network(ssl=...) with what is to be trusted"
        case aiohttp.ClientConnectorDNSError() | aiohttp.InvalidURL():
            return "is the address right?"
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return "is the proxy right? It comes from network=Network(proxy=...), or from HTTP_PROXY and HTTPS_PROXY"
    return "is the server running?"
