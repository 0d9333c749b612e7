"""The link over Streamable HTTP: headers, sessions, statuses and the standalone stream.

Every message is a POST. In the handshake era the server names a session in its answer to `initialize`, and every later
message carries the session id. When the server no longer knows the session, the connection has ended. Messages that
belong to no request come on the standalone stream, which the client opens with GET if the server has one. The client
cancels a stateless request by closing its response; cancelling the task that sends the request closes it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from multidict import CIMultiDict

from dragoman.client.connect.credentials import Credentials, auth_required
from dragoman.client.connect.link import Link, Outgoing
from dragoman.errors import (
    DragomanError,
    HttpError,
    MethodNotFound,
    ResumptionRefused,
    RpcError,
    SessionExpired,
    TransportError,
)
from dragoman.protocol import headers, jsonrpc
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.sse import EventDecoder
from dragoman.runtime.backoff import backoff
from dragoman.runtime.network import Network
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.transports.contract import Receive
from dragoman.transports.web.http import FAILED, JSON, SERVER_FAILED, SSE, HttpClient, HttpResponse, retry_pause

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED = 400, 401, 403, 404, 405
MAX_PAUSE = 30.0
CLOSE_SECONDS = 2.0
REOPENED_SECONDS = 30.0
"""A stream that ends again and again counts as reopened at most once in so many seconds."""
ACKNOWLEDGE_SECONDS = 30.0
"""Seconds within which the server must accept an answer or a notification. The waiting POST holds a connection."""
MAX_CHALLENGES = 3
MAX_QUOTED = 200
SESSION, VERSION = "Mcp-Session-Id", "MCP-Protocol-Version"
_TRANSIENT = frozenset({408, 425, 429})
_TITLE = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
_logger = logging.getLogger("dragoman.client")


class HttpLink(Link):
    """A link over Streamable HTTP."""

    is_http = True
    carrier = "http"

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials | None = None,
        network: Network | None = None,
        limits: Limits = CLIENT_LIMITS,
    ) -> None:
        self.session_id: str | None = None
        self._http = HttpClient(url, network, limits)
        self._full_url = url
        """The URL as it was given, with the secrets that it may hold."""
        self.url = self.address = self._http.url
        self._limits = limits
        self._credentials = credentials or Credentials()
        self._receive: Receive = _ignore
        self._closed: Callable[[Exception | None], None] = _ignore
        self._standalone_stream: asyncio.Task[None] | None = None
        self._has_expired = False
        self._reopening: asyncio.TimerHandle | None = None
        self._reopened_at = -math.inf

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the HTTP client; nothing is sent."""
        self._receive, self._closed = receive, closed
        await self._http.open()

    async def send(self, message: Outgoing) -> None:
        """Post a message; a request is answered when this returns.

        Raises:
            SessionExpired: the server no longer knows the session; it did not serve the message.
            AuthRequired: the server requires credentials.
            HttpError: the server answered with another failure status, or its response has no answer to the request.
            TransportError: the connection broke.
        """
        if message.method is None and self._has_no_receiver(message.data):
            return
        is_initialize = message.method == "initialize"
        if is_initialize:
            self.session_id = None
        answered = message.answered
        is_resumable = self.version is None or not self.version.cancels_by_closing
        for challenges in range(MAX_CHALLENGES + 1):
            sent = await self._common_headers("POST")
            self._add_headers(message, sent)
            try:
                posting = self._http.post(
                    message.data,
                    sent,
                    self._receive if answered is None else partial(self._receive_for, message, answered),
                    answered=_always if answered is None else answered,
                    resume=self._stream_headers if is_resumable else None,
                    on_head=self._note_session if is_initialize else None,
                )
                response = await (posting if message.id is not None else _acknowledged(posting))
            except ResumptionRefused as refused:
                if refused.status == NOT_FOUND and SESSION in sent:
                    self._expire()
                raise
            if response.status not in (UNAUTHORIZED, FORBIDDEN) or challenges == MAX_CHALLENGES:
                break
            if not await self._answers_challenge(message, response):
                break
        if response.status >= FAILED:
            self._raise_for_status(message, response, sent)
        elif answered is not None and not answered():
            raise self._unanswered(message, response)

    async def _answers_challenge(self, message: Outgoing, response: HttpResponse) -> bool:
        """Pass a challenge to the authorization, and tell whether to send the message again."""
        authorization = self._credentials.authorization
        if authorization is None:
            return False
        with message.paused_clocks():  # a person may have to log in first
            return await authorization.challenged(response.status, response.headers, "POST", self._full_url)

    def _has_no_receiver(self, answer: bytes) -> bool:
        """Tell whether an answer must not be posted: an error without an id, or any answer in the stateless era."""
        # MUST (2026-07-28): the body of a POST is a request or a notification.
        if self.version is not None and self.version.asks_in_results:
            return True
        decoded = jsonrpc.decode(answer, self._limits)
        return isinstance(decoded, jsonrpc.ErrorResponse) and decoded.id is None

    def _receive_for(self, message: Outgoing, answered: Callable[[], bool], data: bytes) -> Awaitable[None] | None:
        """Receive a message in the response to a request. An error without an id is the answer to that request."""
        room = self._receive(data)
        if not answered() and b'"error"' in data:
            decoded = jsonrpc.decode(data, self._limits)
            if isinstance(decoded, jsonrpc.ErrorResponse) and decoded.id is None:
                self._receive_error(message, decoded.error)
        return room

    def _receive_error(self, message: Outgoing, error: RpcError) -> None:
        assert message.id is not None
        self._receive(jsonrpc.encode_error(message.id, error))

    # Headers.

    def _add_headers(self, message: Outgoing, sent: CIMultiDict[str]) -> None:
        """Add the headers of this message alone."""
        version = self.version
        if version is not None and version.mirrors_headers and message.method is not None:
            sent.update(headers.build(version.name, message.method, message.name))
        if message.headers:
            for name, value in message.headers.items():
                sent[name] = value

    async def _common_headers(self, method: str) -> CIMultiDict[str]:
        """Return the headers that every request carries."""
        version, session = self.version, self.session_id
        sent = CIMultiDict({"Accept": f"{JSON}, {SSE}"})
        sent.update(await self._credentials.headers(method, self._full_url))
        sent["Content-Type"] = JSON
        if version is not None:
            sent[VERSION] = version.name
        if session is not None:
            sent[SESSION] = session
        return sent

    async def _stream_headers(self, last_event_id: str = "", method: str = "GET") -> CIMultiDict[str]:
        sent = await self._common_headers(method)
        del sent["Content-Type"]
        sent["Accept"] = SSE
        if last_event_id:
            sent["Last-Event-ID"] = last_event_id
        return sent

    # Responses.

    def _note_session(self, response: HttpResponse) -> None:
        if response.status < FAILED:
            id = response.headers.get(SESSION) or None
            # MUST (2025-03-26): "only contain visible ASCII characters (ranging from 0x21 to 0x7E)".
            if id is not None and not all("!" <= character <= "~" for character in id):
                raise TransportError(f"{self.url} sent a session id that cannot be the value of a header")
            self.session_id = id

    def _raise_for_status(self, message: Outgoing, response: HttpResponse, sent: Mapping[str, str]) -> None:
        status = response.status
        decoded = None if status >= SERVER_FAILED else jsonrpc.decode(response.body, self._limits)
        refusal = decoded if isinstance(decoded, jsonrpc.ErrorResponse) else None
        if SESSION in sent and _is_about_session(message, status, refusal):
            raise self._expire()
        if status == UNAUTHORIZED or (status == FORBIDDEN and "WWW-Authenticate" in response.headers):
            raise auth_required(self.url, status, response.headers, sent)
        if refusal is not None and message.id is not None:
            # The error may have any id: the response belongs to this request.
            self._receive_error(message, refusal.error)
            if message.answered is None or message.answered():
                return
        text = _quoted(response)
        cause = f"{self.url} answered with status {status}{f': {text}' if text else ''}"
        if refusal is None and status in (NOT_FOUND, METHOD_NOT_ALLOWED):
            cause += "; is the path right?" + ("" if self.url.endswith("/mcp") else " It is often /mcp")
        raise HttpError(cause, status, response.body)

    def _unanswered(self, message: Outgoing, response: HttpResponse) -> TransportError:
        what = "nothing else"
        if response.body:
            decoded = jsonrpc.decode(response.body, self._limits)
            what = "no answer to it"
            if isinstance(decoded, jsonrpc.Invalid):
                what = f"no JSON-RPC message: {decoded.error}"
        return HttpError(
            f"{self.url} answered {message.method} with status {response.status} and {what}",
            response.status,
            response.body,
        )

    def _expire(self) -> SessionExpired:
        """End the connection, if it has not ended, and return the error that the session has expired."""
        expired = SessionExpired(f"{self.url} does not know the session any more")
        if not self._has_expired:
            self._has_expired = True
            self._closed(expired)
        return expired

    # The standalone stream.

    def open_standalone_stream(self) -> None:
        """Read the standalone stream in a task, if there is a session."""
        if self.version is not None and not self.version.listens and self.session_id is not None:
            self._standalone_stream = asyncio.get_running_loop().create_task(self._read_standalone_stream())

    async def _read_standalone_stream(self) -> None:
        try:
            await self._reopen_standalone_stream()
        except DragomanError as error:
            _logger.info("The stream of %s is not listened to any more: %s", self.url, error)
        except Exception:
            _logger.exception("The stream of %s is not listened to any more", self.url)

    async def _reopen_standalone_stream(self) -> None:
        decoder = EventDecoder(self._limits.message_bytes)
        failures, was_opened = 0, False
        while not self._has_expired:
            opened = asyncio.Event()
            response: HttpResponse | None = None
            sent = await self._stream_headers(decoder.last_event_id)
            try:
                note_opened = partial(self._note_opened, opened, is_again=was_opened)
                response = await self._http.listen(sent, self._receive, opened=note_opened, decoder=decoder)
            except TransportError as error:
                if isinstance(error, HttpError):
                    raise
            was_opened |= opened.is_set()
            failures = 1 if opened.is_set() else failures + 1
            if response is not None and not opened.is_set():
                # A server without a standalone stream answers 404 or 405. If the stream was open before, 404 means
                # that the server has lost the session.
                if response.status == NOT_FOUND and was_opened:
                    self._expire()
                    return
                if response.status < SERVER_FAILED and response.status not in _TRANSIENT:
                    if not decoder.last_event_id:
                        return  # the server has no such stream, or not for this client
                    decoder = EventDecoder(self._limits.message_bytes)
            decoder.finish()
            await asyncio.sleep(backoff(failures - 1, retry_pause(decoder), MAX_PAUSE))

    def _note_opened(self, opened: asyncio.Event, *, is_again: bool) -> None:
        opened.set()
        if is_again and self._reopening is None:
            loop = asyncio.get_running_loop()
            self._reopening = loop.call_at(max(loop.time(), self._reopened_at + REOPENED_SECONDS), self._reopened)

    def _reopened(self) -> None:
        self._reopening, self._reopened_at = None, asyncio.get_running_loop().time()
        if self.on_reopened is not None:
            self.on_reopened()

    # The end.

    async def close(self) -> None:
        """Close the standalone stream, end the session, and close the HTTP client."""
        stream, self._standalone_stream = self._standalone_stream, None
        session, has_expired, self._has_expired = self.session_id, self._has_expired, True
        self._receive = self._closed = _ignore
        if self._reopening is not None:
            self._reopening.cancel()
        try:
            if stream is not None:
                await cancel_and_wait(stream)
            if session is not None and not has_expired:
                await self._end_session()
        finally:
            self.session_id = None
            await self._http.close()
            if self._credentials.authorization is not None:
                await self._credentials.authorization.close()

    async def _end_session(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._http.delete(await self._stream_headers(method="DELETE"))
        except Exception as error:
            _logger.info("The session of %s could not be ended: %s", self.url, error)


def _quoted(response: HttpResponse) -> str:
    """Return the beginning of the body, or the title if the body is a web page."""
    text = response.body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = _TITLE.search(text)
        text = "a web page" if title is None else f"a web page, {' '.join(title.group(1).split())!r}"
    return text[:MAX_QUOTED]


def _is_about_session(message: Outgoing, status: int, refusal: jsonrpc.ErrorResponse | None) -> bool:
    """Tell whether a server refuses the session, and not the request."""
    if status == NOT_FOUND:
        # Some servers answer an unknown method with 404, as later versions do.
        return refusal is None or refusal.id != message.id or not isinstance(refusal.error, MethodNotFound)
    # Many servers answer with 400 instead of 404, and without an id.
    return (
        status == BAD_REQUEST
        and refusal is not None
        and refusal.id is None
        and "session" in refusal.error.message.lower()
    )


async def _acknowledged(posting: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
    """Return the response to a notification or an answer, unless it takes too long."""
    try:
        async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
            return await posting
    except TimeoutError:
        raise TransportError(f"The server did not accept a message within {ACKNOWLEDGE_SECONDS:g} seconds") from None


def _always() -> bool:
    return True


def _ignore(_: object) -> None:
    """Ignore a message or an error that arrives after the link was closed."""
