"""A server over Streamable HTTP, as a connection sees it: headers, sessions, statuses and the server's own stream.

Every message is a POST. In the handshake era the server names a session in its answer to `initialize`, which every
later message carries; when it does not know that session any more, the connection has ended. What belongs to no
request comes on a stream that the client holds open by GET, where the server has one. A stateless request is given up
by closing its exchange, which happens by itself when its sender is cancelled.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from dragoman.client.credentials import Credentials
from dragoman.client.link import Outgoing
from dragoman.errors import AuthRequired, HttpError, RpcError, SessionExpired, TransportError
from dragoman.protocol import headers, jsonrpc
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.sse import EventDecoder
from dragoman.protocol.versions import Version
from dragoman.transports.http import Answer, HttpClient, Network, pause

JSON, SSE = "application/json", "text/event-stream"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404
FAILED, SERVER_FAILED = 400, 500
LONGEST_PAUSE = 30.0
CLOSE_SECONDS = 2.0


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
        self.url = url
        self._http = HttpClient(url, network, limits)
        self._limits = limits
        self._credentials = credentials or Credentials()
        self._receive: Callable[[bytes], None] = _discard
        self._closed: Callable[[Exception | None], None] = _ignore
        self._listening: asyncio.Task[None] | None = None

    async def open(self, receive: Callable[[bytes], None], closed: Callable[[Exception | None], None]) -> None:
        """Make ready; nothing is sent."""
        self._receive, self._closed = receive, closed
        await self._http.open()

    async def send(self, message: Outgoing) -> None:
        """Post a message; a request is answered when this returns.

        Raises:
            RpcError: the server refused it with a JSON-RPC error that names no request.
            SessionExpired: the server does not know the session any more; it did not serve the message.
            AuthRequired: it wants credentials.
            HttpError: it answered with another status.
        """
        sent = await self._headers(message)
        answered = message.answered
        answer = await self._http.post(
            message.data,
            sent,
            self._receive,
            answered=_always if answered is None else answered.done,
            resume=self._resume if self.session_id is not None else None,
            heard=self._begin if message.method == "initialize" else None,
        )
        if answer.status >= FAILED:
            self._refused(message, answer)
        elif answered is not None and not answered.done():
            raise TransportError(f"{self.url} answered {message.method} with status {answer.status} and nothing else")

    async def _headers(self, message: Outgoing) -> dict[str, str]:
        version = self.version
        sent = {"Accept": f"{JSON}, {SSE}", "Content-Type": JSON, **await self._credentials.headers()}
        if version is not None:
            sent["MCP-Protocol-Version"] = version.name
            if version.stateless and message.id is not None and message.method is not None:
                sent |= headers.build(version.name, message.method, message.name)
        if self.session_id is not None:
            sent["Mcp-Session-Id"] = self.session_id
        return {**sent, **message.headers} if message.headers else sent

    def _begin(self, answer: Answer) -> None:
        self.session_id = answer.headers.get("Mcp-Session-Id") or None

    def _refused(self, message: Outgoing, answer: Answer) -> None:
        if answer.status == NOT_FOUND and self.session_id is not None:
            expired = SessionExpired("The server does not know the session any more")
            self._closed(expired)
            raise expired
        if answer.status in (UNAUTHORIZED, FORBIDDEN):
            challenge = answer.headers.get("WWW-Authenticate")
            raise AuthRequired(
                f"{self.url} wants credentials (status {answer.status}); give auth= or headers=",
                answer.status,
                challenge,
            )
        response = None if answer.status >= SERVER_FAILED else jsonrpc.decode(answer.body, self._limits)
        if isinstance(response, jsonrpc.ErrorResponse) and message.id is not None:
            # Whatever id it names, or none: it came back on the exchange of this request.
            self._receive(jsonrpc.encode_error(message.id, response.error))
            if message.answered is None or message.answered.done():
                return
        said = answer.body.decode("utf-8", "replace").strip()[:200]
        raise HttpError(f"{self.url} answered with status {answer.status}: {said}", answer.status, answer.body)

    async def _resume(self, last_event_id: str) -> Mapping[str, str]:
        return {**await self._stream_headers(), "Last-Event-ID": last_event_id}

    async def _stream_headers(self) -> dict[str, str]:
        sent = {"Accept": SSE, **await self._credentials.headers()}
        if self.version is not None:
            sent["MCP-Protocol-Version"] = self.version.name
        if self.session_id is not None:
            sent["Mcp-Session-Id"] = self.session_id
        return sent

    def settle(self) -> None:
        """Listen to what belongs to no request, if there is a session."""
        if self.version is not None and not self.version.stateless and self.session_id is not None:
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        decoder = EventDecoder(self._limits.message_bytes)
        failures = 0
        while True:
            opened = asyncio.Event()
            try:
                sent = await self._stream_headers()
                if decoder.last_event_id:
                    sent["Last-Event-ID"] = decoder.last_event_id
                answer = await self._http.listen(sent, self._receive, opened=opened.set, decoder=decoder)
            except TransportError:
                answer = None
            if opened.is_set():
                failures = 0
            elif answer is not None:
                if answer.status == NOT_FOUND:
                    self._closed(SessionExpired("The server does not know the session any more"))
                if answer.status < SERVER_FAILED and not decoder.last_event_id:
                    return  # the server has no such stream, or not for us
                decoder = EventDecoder(self._limits.message_bytes)
            failures += 1
            decoder.finish()
            # Spread out, so that the clients of a server that restarts do not come back all at once.
            await asyncio.sleep(min(pause(decoder) * 2 ** (failures - 1), LONGEST_PAUSE) * random.uniform(0.75, 1.25))  # noqa: S311

    async def close(self) -> None:
        """Stop listening, end the session, close the connections."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.wait([listening])
        session, self._receive, self._closed = self.session_id, _discard, _ignore
        if session is not None:
            with suppress(TransportError, RpcError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._http.delete(await self._stream_headers())
        self.session_id = None
        await self._http.close()


def _always() -> bool:
    return True


def _discard(message: bytes) -> None:
    """Take a message that came after the end."""


def _ignore(error: Exception | None) -> None:
    """Take an end that came after the end."""
