"""`HttpTap`: stands between a host and a server over HTTP, passes every body unchanged, and records the messages.

The tap listens on this machine and passes each request to the origin of the target, with the same path, so that the
metadata for logins are found too. It streams responses: what the server sends is written at once, and recorded then. If
one side ends its connection early, the tap ends the other.

The tap checks `Host` and `Origin` as servers do (`Guard`), because the target sees neither the host name that a page
used (DNS rebinding) nor that the request came from another machine.

With an `authorization`, the tap logs in by itself: requests without credentials get those of the tap. Such a tap
listens on a loopback address only. A host can log in through a tap only at servers that do not compare the address of
the token with their own.

Two headers change: `Host` names the target, and `Accept-Encoding` is left out, so that bodies are readable. Headers
that belong to one connection are not passed on, as HTTP requires.

Rejected: a CONNECT proxy. It would need a certificate that the host trusts.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from dragoman.auth.client.contract import Authorization
from dragoman.compose.session_file import SessionWriter
from dragoman.compose.tap.faults import GARBAGE, Faults
from dragoman.compose.tap.http_records import MAX_BODY_BYTES, STREAM, HttpRecords
from dragoman.errors import AuthError, DefinitionError
from dragoman.protocol.urls import is_loopback
from dragoman.server.http.head import Guard

MAX_HEADER_BYTES = 64 * 1024
CONNECT_SECONDS = 30.0
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CHANGED = frozenset({"host", "accept-encoding", "content-length"})


class HttpTap:
    """A tap in front of a URL.

    Example:
        async with HttpTap("https://api.example.com/mcp", writer) as tap:
            print(tap.url)    # http://127.0.0.1:49152/mcp

    Raises:
        DefinitionError: a tap with an `authorization` would listen to other machines, which would use the login.
    """

    def __init__(
        self,
        target: str,
        writer: SessionWriter,
        faults: Faults | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        authorization: Authorization | None = None,
    ) -> None:
        if authorization is not None and not is_loopback(host):
            raise DefinitionError(
                f"A tap that logs in listens on this machine only, because whoever reaches it uses the login: use"
                f" 127.0.0.1 instead of {host}"
            )
        parts = urlsplit(target)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path or "/"
        self._writer = writer
        self._faults = faults or Faults()
        self._host, self._port = host, port
        self._target, self._authorization = target, authorization
        self._guard = Guard()
        self._exchanges = count(1)
        self._requests = count(1)
        self._messages = count(1)
        self.url = ""
        """Where the host finds the tap."""

    async def __aenter__(self) -> HttpTap:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
        self._client = aiohttp.ClientSession(
            timeout=timeout,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=0),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=1,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{self._path}"
        self._writer.write("tap", "note", head={"note": "begun", "url": self.url})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._client.close()
        if self._authorization is not None:
            await self._authorization.close()
        self._writer.write("tap", "note", head={"note": "ended"})

    def _refuse(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a request for another host or of a page of another origin; None if it is passed on."""
        lines = [(name.lower(), value) for name, value in request.raw_headers]
        bound_to = None if request.transport is None else request.transport.get_extra_info("sockname")[0]
        version = f"{request.version.major}.{request.version.minor}"
        rejection = self._guard.refuse(lines, bound_to, version)
        if rejection is None:
            return None
        self._writer.write("tap", "note", head={"note": f"refused a request: {rejection.error.message}"})
        return web.Response(status=rejection.status, text=rejection.error.message)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refuse(request)
        if refusal is not None:
            return refusal
        records = HttpRecords(self._writer, next(self._exchanges))
        body = await request.read()
        records.request(request.method, request.raw_path, request.headers.items(), body)
        await asyncio.sleep(self._faults.delay)
        status = self._faults.status
        if status is not None and self._faults.meet(next(self._requests)):
            records.note(f"status {status} instead of a response")
            return web.Response(status=status)
        try:
            return await self._exchange(request, body, records)
        except AuthError as error:
            records.note(f"the login failed: {error}")
            return web.Response(status=401, text=f"The login failed: {error}")
        except (aiohttp.ClientError, TimeoutError) as error:
            cause = error.os_error.strerror if isinstance(error, aiohttp.ClientConnectorError) else None
            note = f"{self._origin} cannot be reached: {cause or str(error) or type(error).__name__}"
            records.note(note)
            return web.Response(status=502, text=note)

    def _send(self, request: web.Request, body: bytes, added: Mapping[str, str]) -> Any:
        return self._client.request(
            request.method,
            URL(self._origin + request.raw_path, encoded=True),
            data=io.BytesIO(body) if body else None,  # aiohttp warns of large bytes
            headers=[*_passed_on(request.headers.items()), *added.items()],
            skip_auto_headers=("User-Agent", "Content-Type", "Accept-Encoding"),
            allow_redirects=False,
        )

    async def _authorized(self, request: web.Request, body: bytes) -> Any:
        """Return the request to send: as it came, or with the credentials of the tap, after a login if one is needed.

        Raises:
            AuthError: the login failed.
        """
        authorization, url = self._authorization, self._target
        if authorization is None or "Authorization" in request.headers or request.path != self._path:
            return self._send(request, body, {})
        sending = self._send(request, body, await authorization.headers(request.method, url))
        received = await sending
        if received.status in (401, 403) and await authorization.challenged(
            received.status, received.headers, request.method, url
        ):
            received.release()
            return self._send(request, body, await authorization.headers(request.method, url))
        return received

    async def _exchange(self, request: web.Request, body: bytes, records: HttpRecords) -> web.StreamResponse:
        sent = await self._authorized(request, body)
        async with sent as received:
            headers = list(received.headers.items())
            records.response(received.status, headers, received.content_type)
            response = web.StreamResponse(status=received.status, reason=received.reason)
            for name, value in _passed_on(headers):
                response.headers.add(name, value)
            if received.content_length is not None and not self._faults.change_messages:
                response.content_length = received.content_length
            await response.prepare(request)
            is_whole = await self._copy(received, response, records)
            if is_whole:
                await response.write_eof()
            elif request.transport is not None:
                request.transport.abort()
            return response

    async def _copy(self, received: aiohttp.ClientResponse, response: web.StreamResponse, records: HttpRecords) -> bool:
        """Copy the body of a response; return whether it is whole."""
        is_stream = received.content_type == STREAM
        body = _Messages(self._faults, is_stream=is_stream) if self._faults.change_messages else None
        try:
            async for chunk in received.content.iter_any():
                records.receive(chunk)
                if body is None:
                    await response.write(chunk)
                elif not await self._write_all(body.receive(chunk), response, body):
                    return False
            return body is None or await self._write_all(body.finish(), response, body)
        except (aiohttp.ClientError, OSError) as error:
            records.note(f"the response ended early: {type(error).__name__}")
            return False
        finally:
            records.finish()

    async def _write_all(self, messages: Iterable[bytes], response: web.StreamResponse, body: _Messages) -> bool:
        """Write messages with their faults; return False if the connection must end."""
        for message in messages:
            data, is_cut = body.faults.apply(message, next(self._messages), body.garbage)
            await asyncio.sleep(self._faults.delay)
            await response.write(data)
            if is_cut:
                self._writer.write("tap", "note", head={"note": "cut in a message of the server"})
                return False
        return True


class _Messages:
    """Cuts the body of a response into messages: the events of a stream, or the whole body."""

    def __init__(self, faults: Faults, *, is_stream: bool) -> None:
        # A body that is no stream holds one message, which cannot stand there twice.
        self.faults = faults if is_stream else faults._replace(duplicate=False)
        self._is_stream = is_stream
        self._rest = b""
        self.garbage = b"data: " + GARBAGE + b"\n\n" if is_stream else GARBAGE

    def receive(self, chunk: bytes) -> list[bytes]:
        """Return the messages that this chunk completes."""
        data = self._rest + chunk
        ends = [found.end() for found in _EVENT_END.finditer(data)] if self._is_stream else []
        self._rest = data[ends[-1] :] if ends else data
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def finish(self) -> list[bytes]:
        """Return what is left at the end of the body."""
        return [self._rest] if self._rest else []


def _passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = list(headers)
    named = {name.strip().lower() for key, value in pairs if key.lower() == "connection" for name in value.split(",")}
    left_out = _OF_ONE_CONNECTION | _CHANGED | named
    return [(name, value) for name, value in pairs if name.lower() not in left_out]
