"""HTTP/1.1 connections of a client to one origin, without aiohttp's requests.

aiohttp opens a connection: it resolves the name, tries the addresses, and speaks TLS. Then a `PooledConnection` takes
the place of aiohttp's protocol. httptools parses, with the leniencies that aiohttp has. A request is one write, without
a task or a timer, and its response is a `PooledResponse`. A request that is begun by `begin` needs no future either, as
long as its response has the usual form (`BegunRequest`). The states of a connection:

    idle      the pool has it, for at most KEEP_ALIVE_SECONDS
    busy      a request was written; `_response` receives the answer
    closed    nothing more is sent or received

A connection is idle again as soon as its response has arrived whole, even if nobody has read it. It is closed instead
if one of both sides wants it, if the request was not sent whole, or if bytes follow the response. Bytes that nobody
asked for close an idle connection. If a connection breaks before the head of the response arrives, GET and DELETE are
sent once more. Other requests are not: the server may have served them.

Everything that the parser collects has a bound: the bytes of a head and of the trailers of a chunked body, and the
number of their fields. A response bounds what waits for its reader.

Rejected: aiohttp's requests. They make a dozen objects, a task and a parser for every call, which is half of the cost
of a call. Also rejected: opening connections with `loop.create_connection`. It would need another table of errors for
what aiohttp's errors say.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import httptools
from aiohttp.http import SERVER_SOFTWARE
from multidict import CIMultiDict, CIMultiDictProxy, istr
from yarl import URL

from dragoman.transports.web.response import ENCODINGS, READ_BYTES, KnownResponse, PooledResponse

MAX_HEAD_BYTES = 262_144
"""How many bytes of a head, or of trailers, are received."""
MAX_FIELDS = 128
"""How many fields a head may have, and how many trailers a body."""
MAX_ENCODED = 64
"""How many heads of requests a pool remembers."""
MAX_IDLE = 256
"""How many idle connections are kept."""
_REPEATED = frozenset({"GET", "DELETE"})
_INTERIM, _SWITCHING, _FINAL = 100, 101, 200
_HOST, _ACCEPT, _ACCEPT_ENCODING, _USER_AGENT = map(istr, ("Host", "Accept", "Accept-Encoding", "User-Agent"))
_CONTENT_TYPE, _CONTENT_LENGTH, _TRANSFER_ENCODING = map(istr, ("Content-Type", "Content-Length", "Transfer-Encoding"))
_CONTROLS = bytes(set(range(32)) - {ord("\t")} | {127})
_JSON = "application/json"
_NO_HEADERS: Mapping[str, str] = {}
_PARSER_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)

Ssl = bool | ssl.SSLContext


class ConnectionPool:
    """The connections to the origin of a URL.

    Example:
        pool = ConnectionPool(session.connector, URL("https://example.com/mcp"), ssl=True, connect_timeout=10)
        response = await pool.request("POST", url, headers, body)
        body = await response.readany()
        pool.close()
        await session.close()
    """

    def __init__(
        self, connector: aiohttp.BaseConnector, url: URL, *, ssl: Ssl, connect_timeout: float, keep_alive: float
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_BYTES))
        """What the connections read into. A loop reads and delivers in one step, so that they can share it."""
        self._connector = connector
        self._url = url
        self._ssl = ssl
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self._keep_alive = keep_alive
        self._idle: list[PooledConnection] = []
        """The idle connections, in the order in which they became idle."""
        self._connections: set[PooledConnection] = set()
        self._expiry: asyncio.TimerHandle | None = None
        self._heads: dict[tuple[Any, ...], bytes] = {}
        self.known_head: KnownResponse | None = None
        """The head of the last short response to a request that was begun."""
        self._begun_url, self._begun_headers, self._begun_head = url, _NO_HEADERS, b""
        """What the head was made of that was begun last, and the head."""
        self._is_closed = False

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        idle: float | None = None,
        is_last: bool = False,
    ) -> PooledResponse:
        """Send a request to a URL of the origin, and return its response when the head has arrived.

        `idle` is how many seconds the response may be silent. The connection of the last request is closed afterwards.

        Raises:
            ValueError: a header has a control character.
            aiohttp.ClientConnectorError: there is no connection.
            aiohttp.ConnectionTimeoutError: there is no connection in time.
            aiohttp.ClientError: the connection broke, or the response is malformed.
        """
        data = _encoded(self._head(method, url, headers), method, body)
        repeats = method in _REPEATED
        while True:
            connection = self._idle_connection() or await self._open()
            response = PooledResponse(connection, method, url, headers)
            try:
                await connection.send(data, response, idle, is_last=is_last)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not repeats:
                    raise
                repeats = False
            except BaseException:
                response.close()
                raise
            else:
                return response

    def begin(
        self, url: URL, headers: Mapping[str, str], body: bytes, arrived: Callable[[BegunRequest], None], limit: int
    ) -> BegunRequest | None:
        """Write a POST, whose headers must not change, to an idle connection; return None if there is none.

        `arrived` is called once: when the body has arrived whole, if it is JSON and no longer than the limit, or else
        with the head, or when there is no response.
        """
        connection = self._idle_connection()
        if connection is None:
            return None
        if headers is not self._begun_headers or url is not self._begun_url:
            self._begun_head = self._head("POST", url, headers)
            self._begun_url, self._begun_headers = url, headers
        begun = BegunRequest(connection, url, headers, body, arrived, limit)
        head = self._begun_head
        connection.begin(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body), begun)
        return begun

    def _head(self, method: str, url: URL, headers: Mapping[str, str]) -> bytes:
        """Return the head of a request. Most requests have that of an earlier one, but for the length of the body."""
        key = (method, url, *headers.items())
        head = self._heads.get(key)
        if head is None:
            head = _encode_head(method, url, headers)
            if len(self._heads) >= MAX_ENCODED:
                self._heads.clear()
            self._heads[key] = head
        return head

    def _idle_connection(self) -> PooledConnection | None:
        """Return the connection that became idle last: the server is least likely to close it now."""
        earliest = self.loop.time() - self._keep_alive
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since >= earliest and not connection.is_closing():
                return connection
            connection.close()
        return None

    async def _open(self) -> PooledConnection:
        if self._is_closed:
            raise aiohttp.ClientConnectionResetError("The client is closed")
        request = aiohttp.ClientRequest("GET", self._url, loop=self.loop, ssl=self._ssl)
        try:
            opened = await self._connector.connect(request, traces=[], timeout=self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {self._url.origin()}") from error
        transport = opened.transport
        if transport is None or transport.is_closing() or self._is_closed:
            opened.close()
            raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
        connection = PooledConnection(self, opened, transport)
        self._connections.add(connection)
        return connection

    def keep(self, connection: PooledConnection) -> None:
        """Keep an idle connection for the next request."""
        if self._is_closed or len(self._idle) >= MAX_IDLE:
            connection.close()
            return
        connection.idle_since = self.loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = self.loop.call_later(self._keep_alive, self._close_expired)

    def forget(self, connection: PooledConnection) -> None:
        """Forget a connection that is closed."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _close_expired(self) -> None:
        self._expiry = None
        now = self.loop.time()
        while self._idle and self._idle[0].idle_since + self._keep_alive <= now:
            self._idle.pop(0).close()
        if self._idle:
            self._expiry = self.loop.call_at(self._idle[0].idle_since + self._keep_alive, self._close_expired)

    def close(self) -> None:
        """End all responses by an error. The connector closes the connections: it also waits for their end."""
        self._is_closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._idle.clear()
        self._heads.clear()
        for connection in list(self._connections):
            connection.fail(aiohttp.ClientConnectionError("Connection closed"))


def encode_request(method: str, url: URL, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Return a request with the headers that aiohttp adds.

    Raises:
        ValueError: a header has a control character.
    """
    return _encoded(_encode_head(method, url, headers), method, body)


def _encoded(head: bytes, method: str, body: bytes | None) -> bytes:
    if body is not None:
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    return head + (b"\r\n" if method == "GET" else b"Content-Length: 0\r\n\r\n")


def _encode_head(method: str, url: URL, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request without its last lines."""
    given = CIMultiDict(headers)
    given.popall(_CONTENT_LENGTH, None)
    given.popall(_TRANSFER_ENCODING, None)
    lines = [f"{method} {url.raw_path_qs} HTTP/1.1"]
    if _HOST not in given:
        lines.append(f"Host: {url.host_port_subcomponent}")
    lines += [f"{name}: {value}" for name, value in given.items()]
    if _ACCEPT not in given:
        lines.append("Accept: */*")
    if _ACCEPT_ENCODING not in given:
        lines.append(f"Accept-Encoding: {ENCODINGS}")
    if _USER_AGENT not in given:
        lines.append(f"User-Agent: {SERVER_SOFTWARE}")
    if method == "POST" and _CONTENT_TYPE not in given:
        lines.append("Content-Type: application/octet-stream")
    head = "".join([f"{line}\r\n" for line in lines]).encode()
    if len(head.translate(None, _CONTROLS)) != len(head) - len(b"\r\n") * len(lines):
        raise ValueError("Forbidden control character detected in headers. Potential header injection attack.")
    return head


class BegunRequest:
    """A POST that was written without a task, and takes the place of the future that waits for its head.

    A response of the usual form needs no reader: `arrived` is called when it is whole, and takes `response.whole`. For
    any other response, and if there is none, a reader goes on with `result`.
    """

    __slots__ = ("_arrived", "_error", "_limit", "body", "headers", "is_usual", "response")

    def __init__(
        self,
        connection: PooledConnection,
        url: URL,
        headers: Mapping[str, str],
        body: bytes,
        arrived: Callable[[BegunRequest], None],
        limit: int,
    ) -> None:
        self.response = PooledResponse(connection, "POST", url, headers)
        self.headers = headers
        self.body = body
        self._arrived: Callable[[BegunRequest], None] | None = arrived
        self._limit = limit
        self._error: BaseException | None = None
        self.is_usual = False
        """Whether the head has the usual form, and was parsed for this response."""

    def result(self) -> PooledResponse:
        """Return the response, whose head has arrived.

        Raises:
            aiohttp.ClientError: the connection broke before the head arrived.
        """
        if self._error is not None:
            raise self._error
        return self.response

    def drop(self) -> None:
        """Close the connection, unless the response is complete; nobody waits for it."""
        self._arrived = None
        self.response.close()

    # Called by the connection, as those of a future.

    def done(self) -> bool:
        """Tell whether nobody waits for the response."""
        return self._arrived is None

    def set_result(self, _: None) -> None:
        """Take the head."""
        self.is_usual = self.response.is_short(_JSON, self._limit)
        if self.is_usual:
            self.response.on_end = self.deliver
        else:
            self.deliver()

    def set_exception(self, error: BaseException) -> None:
        """Take the reason why there is no head."""
        self._error = error
        self.deliver()

    def deliver(self) -> None:
        """Tell that the response is whole, or needs a reader."""
        self.response.on_end = None
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            arrived(self)


class PooledConnection(asyncio.BufferedProtocol):
    """A connection, which serves one request at a time."""

    idle_since = 0.0

    def __init__(
        self, pool: ConnectionPool, opened: aiohttp.connector.Connection, transport: asyncio.Transport
    ) -> None:
        self._pool = pool
        self._opened = opened
        self._opened_protocol = opened.protocol
        self._transport = transport
        self._parser = _new_parser(self)
        self._response: PooledResponse | None = None
        self._head: asyncio.Future[None] | BegunRequest | None = None
        """Waits for the head of the response."""
        self._fields: list[tuple[bytes, bytes]] = []
        self._unfruitful_bytes = 0
        """How many bytes were received since the last head or piece of a body."""
        self._is_message_complete = False
        self._is_last = False
        self._is_paused = False
        self._idle_seconds: float | None = None
        self._received_at = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        transport.set_protocol(self)

    # Called by the pool and by the response.

    def is_closing(self) -> bool:
        """Tell whether no request can be sent."""
        return self._transport.is_closing()

    def send(self, data: bytes, response: PooledResponse, idle: float | None, *, is_last: bool) -> asyncio.Future[None]:
        """Write a request. The future is done when the head of the response has arrived."""
        self._response, self._is_last = response, is_last
        self._is_message_complete, self._unfruitful_bytes = False, 0
        self._head = head = self._pool.loop.create_future()
        self._transport.write(data)
        if idle is not None:
            self._idle_seconds = idle
            self._watch_silence()
        return head

    def begin(self, data: bytes, begun: BegunRequest) -> None:
        """Write a request that no future waits for."""
        self._response, self._head = begun.response, begun
        self._is_last = self._is_message_complete = False
        self._unfruitful_bytes = 0
        self._transport.write(data)

    def resume_reading(self) -> None:
        """Read on, if the connection had stopped reading."""
        if self._is_paused:
            self._is_paused = False
            self._received_at = self._pool.loop.time()
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the connection."""
        self._pool.forget(self)
        self._opened.close()

    def abort(self, error: Exception) -> None:
        """Close the connection at once, and end the response by an error."""
        self.fail(error)
        self._transport.abort()
        self.close()

    def fail(self, error: Exception) -> None:
        """End the response by an error."""
        response, self._response = self._response, None
        self._forget_silence()
        if response is not None:
            response.fail(error)
            head, self._head = self._head, None
            if head is not None and not head.done():
                head.set_exception(error)

    # Called by the transport.

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the memory to read into."""
        return self._pool.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what was read."""
        if self._response is None:
            self.close()  # nobody asked for these bytes
            return
        if self._idle_seconds is not None:
            self._received_at = self._pool.loop.time()
        begun, data = self._head, b""
        if type(begun) is BegunRequest and not self._unfruitful_bytes:
            data = self._pool.buffer[:nbytes].tobytes()
            if self._receive_known(begun, data):
                return
        self._unfruitful_bytes += nbytes
        try:
            self._parser.feed_data(self._pool.buffer[:nbytes])
        except _PARSER_ERRORS as problem:
            self._break_off(problem)
            return
        if self._is_message_complete:
            is_last = self._is_last
            self._end_response(is_reusable=not is_last)
            if type(begun) is BegunRequest and begun.is_usual and data and not is_last:
                self._pool.known_head = begun.response.known_head(data)
        elif self._unfruitful_bytes > MAX_HEAD_BYTES:
            self.abort(aiohttp.ClientPayloadError(f"A head or its trailers have more than {MAX_HEAD_BYTES} bytes"))

    def _receive_known(self, begun: BegunRequest, data: bytes) -> bool:
        """Receive a whole response with the head of the one before, and tell whether it is one."""
        known = self._pool.known_head
        if known is None or not known.begins(data):
            return False
        self._head, self._is_message_complete = None, True
        begun.response.receive_known(known, data)
        begun.response.on_end = begun.deliver
        self._end_response(is_reusable=True)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response: by an error, unless the end of the connection is the end of the body."""
        response = self._response
        if response is not None:
            if self._head is not None:
                self.fail(aiohttp.ServerDisconnectedError() if exc is None else _os_error(exc))
            elif exc is None and _ends_with_connection(response.headers):
                self._end_response(is_reusable=False)
            else:
                cause = "" if exc is None else f": {exc}"
                self.fail(aiohttp.ClientPayloadError(f"Response payload is not completed{cause}"))
        self._pool.forget(self)
        self._parser = None  # breaks a reference cycle
        if self._opened_protocol is not None:
            self._opened_protocol.connection_lost(exc)  # the connector waits for this
        self._opened.close()

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Begin a head."""
        if self._is_message_complete:
            raise ValueError("Bytes follow the response")
        self._fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of a head or a trailer."""
        self._fields.append((name, value))
        if len(self._fields) > MAX_FIELDS:
            raise ValueError("Too many headers received")
        if b"\0" in value:
            raise ValueError("A header has a zero byte")

    def on_headers_complete(self) -> None:
        """Take the head, unless it is an interim one."""
        self._unfruitful_bytes = 0
        status = self._parser.get_status_code()
        if _INTERIM <= status < _FINAL:
            if status == _SWITCHING:
                raise ValueError("The server switches protocols, which was not asked for")
            return
        response, head = self._response, self._head
        assert response is not None
        fields, self._fields = self._fields, []
        response.receive_head(status, fields)
        if not self._parser.should_keep_alive():
            self._is_last = True
        self._head = None
        if head is not None and not head.done():
            head.set_result(None)

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._unfruitful_bytes = 0
        if self._response is not None and self._response.receive_body(data) and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Take the end of the response, unless it is an interim one."""
        self._is_message_complete = self._head is None

    def _end_response(self, *, is_reusable: bool) -> None:
        response, self._response = self._response, None
        if self._idle_timer is not None:
            self._forget_silence()
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # the server answered without having read the request
        elif is_reusable and not self._transport.is_closing():
            if self._is_paused:
                self.resume_reading()
            self._pool.keep(self)
        else:
            self.close()
        if response is not None:
            response.complete()

    def _break_off(self, problem: Exception) -> None:
        """Close the connection, because what was received is malformed."""
        if self._is_message_complete:
            self._end_response(is_reusable=False)
            return
        cause = problem.__context__ if isinstance(problem, httptools.HttpParserCallbackError) else None
        self.abort(aiohttp.ClientPayloadError(f"The response is malformed: {cause or problem}"))

    # Silence.

    def _watch_silence(self) -> None:
        self._received_at = self._pool.loop.time()
        self._idle_timer = self._pool.loop.call_later(self._idle_seconds or 0, self._note_silence)

    def _note_silence(self) -> None:
        """End the response if it was silent for too long, and nothing kept it from being read."""
        assert self._idle_seconds is not None
        loop = self._pool.loop
        if self._is_paused:
            self._received_at = loop.time()
        until = self._received_at + self._idle_seconds
        if loop.time() >= until:
            self.abort(aiohttp.SocketTimeoutError("Timeout on reading data from socket"))
        else:
            self._idle_timer = loop.call_at(until, self._note_silence)

    def _forget_silence(self) -> None:
        self._idle_seconds = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


def _new_parser(connection: PooledConnection) -> Any:
    parser = httptools.HttpResponseParser(connection)
    parser.set_dangerous_leniencies(
        lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
    )
    return parser


def _ends_with_connection(headers: CIMultiDictProxy[str]) -> bool:
    """Tell whether the end of a body is the end of its connection, because the head does not say where it ends."""
    codings = headers.getall(_TRANSFER_ENCODING, None)
    if codings is None:
        return _CONTENT_LENGTH not in headers
    return codings[-1].rpartition(",")[2].strip().lower() != "chunked"


def _os_error(error: Exception) -> aiohttp.ClientError:
    if isinstance(error, OSError):
        return aiohttp.ClientOSError(*error.args)
    return aiohttp.ClientConnectionError(str(error))
