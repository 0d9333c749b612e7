"""A server over Streamable HTTP, as a connection sees it: headers, sessions, statuses and the server's own stream.

Every message is a POST. In the handshake era the server names a session in its answer to `initialize`, which every
later message carries; when it does not know that session any more, the connection has ended. What belongs to no
request comes on a stream that the client holds open by GET, where the server has one. A stateless request is given up
by closing its exchange, which happens by itself when its sender is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache, partial
from typing import Any

from multidict import CIMultiDict

from dragoman.client.connect.credentials import Credentials, auth_required
from dragoman.client.connect.link import Outgoing
from dragoman.errors import HttpError, MethodNotFound, ResumptionRefused, RpcError, SessionExpired, TransportError
from dragoman.protocol import headers, jsonrpc
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.sse import EventDecoder
from dragoman.protocol.versions import Version
from dragoman.runtime.backoff import backoff
from dragoman.runtime.network import Network
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.transports.contract import Receive
from dragoman.transports.web.http import (
    FAILED,
    JSON,
    SERVER_FAILED,
    SSE,
    HttpClient,
    HttpResponse,
    retry_pause,
)

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED = 400, 401, 403, 404, 405
LONGEST_PAUSE = 30.0
CLOSE_SECONDS = 2.0
ACKNOWLEDGE_SECONDS = 30.0
"""How long the server may take to accept an answer or a notification, which holds a connection."""
MOST_CHALLENGES = 3
SESSION, VERSION = "Mcp-Session-Id", "MCP-Protocol-Version"
_MAY_PASS = frozenset({408, 425, 429})
QUOTED = 200
_TITLE = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
_logger = logging.getLogger("dragoman.client")
_mirrored = lru_cache(maxsize=1024)(headers.build)


class HttpLink:
    """A link over Streamable HTTP."""

    is_http = True

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials | None = None,
        network: Network | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.version: Version | None = None
        self.session_id: str | None = None
        self._http = HttpClient(url, network, limits)
        self._address = url
        """As it was given, with what may be secret in it."""
        self.url = self._http.url
        self._limits = limits
        self._credentials = credentials or Credentials()
        self._receive: Receive = _discard
        self._closed: Callable[[Exception | None], None] = _ignore
        self._listening: asyncio.Task[None] | None = None
        self._has_expired = False
        self._kept: tuple[Version | None, str | None, CIMultiDict[str]] | None = None

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Make ready; nothing is sent."""
        self._receive, self._closed = receive, closed
        await self._http.open()

    async def send(self, message: Outgoing) -> None:
        """Post a message; a request is answered when this returns.

        Raises:
            SessionExpired: the server does not know the session any more; it did not serve the message.
            AuthRequired: it wants credentials.
            HttpError: it answered with another status, or with what is no answer.
            TransportError: the connection broke.
        """
        if message.method is None and self._is_pointless(message.data):
            return
        introduces = message.method == "initialize"
        if introduces:
            self.session_id = None
        answered = message.answered
        for challenges in range(MOST_CHALLENGES + 1):
            sent = await self._headers(message)
            try:
                posting = self._http.post(
                    message.data,
                    sent,
                    self._receive if answered is None else partial(self._receive_for, message, answered),
                    answered=_always if answered is None else answered,
                    resume=None if self.version is not None and self.version.stateless else self._resume,
                    heard=self._begin if introduces else None,
                )
                answer = await (posting if message.id is not None else _acknowledged(posting))
            except ResumptionRefused as refused:
                if refused.status == NOT_FOUND and SESSION in sent:
                    self._expire()
                raise
            if answer.status not in (UNAUTHORIZED, FORBIDDEN) or challenges == MOST_CHALLENGES:
                break
            if not await self._is_authorized_now(message, answer):
                break
        if answer.status >= FAILED:
            self._refused(message, answer, sent)
        elif answered is not None and not answered():
            raise self._unanswered(message, answer)

    async def _is_authorized_now(self, message: Outgoing, answer: HttpResponse) -> bool:
        """Let whoever authorizes the requests get what the server asks for, and tell whether to send again."""
        authorization = self._credentials.authorization
        if authorization is None:
            return False
        with message.standstill():  # a person may have to log in first
            return await authorization.challenged(answer.status, answer.headers, "POST", self._address)

    def _is_pointless(self, answer: bytes) -> bool:
        """Tell whether an answer of ours is for nobody: an error that names no request, or in the stateless era."""
        # MUST (2026-07-28): the body of a POST is a request or a notification.
        if self.version is not None and self.version.stateless:
            return True
        said = jsonrpc.decode(answer, self._limits)
        return isinstance(said, jsonrpc.ErrorResponse) and said.id is None

    def _receive_for(self, message: Outgoing, answered: Callable[[], bool], data: bytes) -> Awaitable[None] | None:
        """Receive on the exchange of a request, where an error that names no request is the answer."""
        room = self._receive(data)
        if not answered() and b'"error"' in data:
            said = jsonrpc.decode(data, self._limits)
            if isinstance(said, jsonrpc.ErrorResponse) and said.id is None:
                self._answer(message, said.error)
        return room

    def _answer(self, message: Outgoing, error: RpcError) -> None:
        assert message.id is not None
        self._receive(jsonrpc.encode_error(message.id, error))

    # Headers.

    async def _headers(self, message: Outgoing) -> CIMultiDict[str]:
        sent = self._kept_headers() or await self._common_headers("POST")
        version = self.version
        if version is not None and version.stateless and message.method is not None:
            sent.update(_mirrored(version.name, message.method, message.name))
        if message.headers:
            for name, value in message.headers.items():
                sent[name] = value
        return sent

    def _kept_headers(self) -> CIMultiDict[str] | None:
        """Return what every request carries, as a copy, if it is still as it was."""
        kept = self._kept
        if kept is None or kept[0] is not self.version or kept[1] is not self.session_id:
            return None
        return kept[2].copy()

    async def _common_headers(self, method: str) -> CIMultiDict[str]:
        """Return what every request carries."""
        version, session = self.version, self.session_id
        sent = CIMultiDict({"Accept": f"{JSON}, {SSE}"})
        sent.update(await self._credentials.headers(method, self._address))
        sent["Content-Type"] = JSON
        if version is not None:
            sent[VERSION] = version.name
        if session is not None:
            sent[SESSION] = session
        if self._credentials.are_fixed:
            self._kept = version, session, sent.copy()
        return sent

    async def _stream_headers(self, last_event_id: str = "", method: str = "GET") -> CIMultiDict[str]:
        sent = self._kept_headers() or await self._common_headers(method)
        del sent["Content-Type"]
        sent["Accept"] = SSE
        if last_event_id:
            sent["Last-Event-ID"] = last_event_id
        return sent

    async def _resume(self, last_event_id: str) -> Mapping[str, str]:
        return await self._stream_headers(last_event_id)

    # What comes back.

    def _begin(self, answer: HttpResponse) -> None:
        if answer.status < FAILED:
            id = answer.headers.get(SESSION) or None
            # MUST (2025-03-26): "only contain visible ASCII characters (ranging from 0x21 to 0x7E)".
            if id is not None and not all("!" <= character <= "~" for character in id):
                raise TransportError(f"{self.url} gave a session id that no header can carry")
            self.session_id = id

    def _refused(self, message: Outgoing, answer: HttpResponse, sent: Mapping[str, str]) -> None:
        status = answer.status
        said = None if status >= SERVER_FAILED else jsonrpc.decode(answer.body, self._limits)
        refusal = said if isinstance(said, jsonrpc.ErrorResponse) else None
        if SESSION in sent and _is_about_session(message, status, refusal):
            raise self._expire()
        if status == UNAUTHORIZED or (status == FORBIDDEN and "WWW-Authenticate" in answer.headers):
            raise auth_required(self.url, status, answer.headers, sent)
        if refusal is not None and message.id is not None:
            # Whatever id it names, or none: it came back on the exchange of this request.
            self._answer(message, refusal.error)
            if message.answered is None or message.answered():
                return
        text = _quoted(answer)
        cause = f"{self.url} answered with status {status}{f': {text}' if text else ''}"
        if refusal is None and status in (NOT_FOUND, METHOD_NOT_ALLOWED):
            cause += "; is the path right?" + ("" if self.url.endswith("/mcp") else " It is often /mcp")
        raise HttpError(cause, status, answer.body)

    def _unanswered(self, message: Outgoing, answer: HttpResponse) -> TransportError:
        said = jsonrpc.decode(answer.body, self._limits)
        what = "nothing else"
        if answer.body:
            what = f"no JSON-RPC message: {said.error}" if isinstance(said, jsonrpc.Invalid) else "no answer to it"
        return HttpError(
            f"{self.url} answered {message.method} with status {answer.status} and {what}", answer.status, answer.body
        )

    def _expire(self) -> SessionExpired:
        """Let the connection be over, once."""
        expired = SessionExpired(f"{self.url} does not know the session any more")
        if not self._has_expired:
            self._has_expired = True
            self._closed(expired)
        return expired

    # The server's own stream.

    def settle(self) -> None:
        """Listen to what belongs to no request, if there is a session."""
        if self.version is not None and not self.version.stateless and self.session_id is not None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        try:
            await self._keep_listening()
        except TransportError as error:
            _logger.info("The stream of %s is not listened to any more: %s", self.url, error)
        except Exception:
            _logger.exception("The stream of %s is not listened to any more", self.url)

    async def _keep_listening(self) -> None:
        decoder = EventDecoder(self._limits.message_bytes)
        failures, had_one = 0, False
        while not self._has_expired:
            opened = asyncio.Event()
            answer = await self._listen_once(opened, decoder)
            had_one |= opened.is_set()
            failures = 1 if opened.is_set() else failures + 1
            if answer is not None and not opened.is_set():
                # Servers without such a stream answer 404 as well as 405; those that had it have lost the session.
                if answer.status == NOT_FOUND and had_one:
                    self._expire()
                    return
                if answer.status < SERVER_FAILED and answer.status not in _MAY_PASS:
                    if not decoder.last_event_id:
                        return  # the server has no such stream, or not for us
                    decoder = EventDecoder(self._limits.message_bytes)
            decoder.finish()
            await asyncio.sleep(backoff(failures - 1, retry_pause(decoder), LONGEST_PAUSE))

    async def _listen_once(self, opened: asyncio.Event, decoder: EventDecoder) -> HttpResponse | None:
        sent = await self._stream_headers(decoder.last_event_id)
        try:
            return await self._http.listen(sent, self._receive, opened=opened.set, decoder=decoder)
        except HttpError:
            raise
        except TransportError:
            return None

    # The end.

    async def close(self) -> None:
        """Stop listening, end the session, close the connections."""
        listening, self._listening = self._listening, None
        session, has_expired, self._has_expired = self.session_id, self._has_expired, True
        self._receive, self._closed = _discard, _ignore
        try:
            if listening is not None:
                await cancel_and_wait(listening)
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


def _quoted(answer: HttpResponse) -> str:
    """Return the beginning of what a refusal says; of a page, its title."""
    text = answer.body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = _TITLE.search(text)
        text = "a web page" if title is None else f"a web page, {' '.join(title.group(1).split())!r}"
    return text[:QUOTED]


def _is_about_session(message: Outgoing, status: int, refusal: jsonrpc.ErrorResponse | None) -> bool:
    """Tell whether a server refuses the session, before it looks at the request."""
    if status == NOT_FOUND:
        # Some say by 404 that there is no such method, as later versions do.
        return refusal is None or refusal.id != message.id or not isinstance(refusal.error, MethodNotFound)
    # Many say 400 instead of 404, and name no request then.
    return (
        status == BAD_REQUEST
        and refusal is not None
        and refusal.id is None
        and "session" in refusal.error.message.lower()
    )


async def _acknowledged(posting: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
    """Return the response to what is not answered, unless the server keeps it back."""
    try:
        async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
            return await posting
    except TimeoutError:
        raise TransportError(f"The server did not accept a message within {ACKNOWLEDGE_SECONDS:g} seconds") from None


def _always() -> bool:
    return True


def _discard(message: bytes) -> None:
    """Take a message that came after the end."""


def _ignore(error: Exception | None) -> None:
    """Take an end that came after the end."""
