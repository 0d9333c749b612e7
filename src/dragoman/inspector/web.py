"""`InspectorSite`: the HTTP service of the inspector: the page, its verbs, and the socket of events.

The service listens on this machine alone. A page of another site cannot use it: every verb needs the token, which only
the printed URL has, in its fragment, which browsers do not send. Further, `Host` must name this machine and this port,
so that a name that is bound to 127.0.0.1 later (DNS rebinding) does not count, and `Origin`, if there is one, must be
the page's own.
"""

from __future__ import annotations

import asyncio
import hmac
import mimetypes
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

import dragoman
from dragoman.errors import DragomanError, InspectorError
from dragoman.inspector.events import encode
from dragoman.inspector.failure import NOT_FOUND, failure_of, status_of
from dragoman.inspector.inspector import Inspector
from dragoman.inspector.verbs.contract import Attachment, FailedVerb, PageVerbs
from dragoman.inspector.verbs.explore import ExploreVerbs
from dragoman.inspector.verbs.export import ExportVerbs
from dragoman.inspector.verbs.login import LoginVerbs
from dragoman.inspector.verbs.questions import QuestionVerbs
from dragoman.inspector.verbs.servers import ServerVerbs
from dragoman.inspector.verbs.traffic import TrafficVerbs, upload

HOST = "127.0.0.1"
MAX_BODY_BYTES = 300 * 1024 * 1024
TOKEN_SECONDS = 5.0
UNAUTHORIZED, FORBIDDEN, BROKEN = 401, 403, 500
WRONG_TOKEN = 4401
STATIC = Path(__file__).parent / "static"
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " media-src data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_VERBS: dict[str, type[PageVerbs]] = {
    "servers": ServerVerbs,
    "explore": ExploreVerbs,
    "traffic": TrafficVerbs,
    "questions": QuestionVerbs,
    "login": LoginVerbs,
    "export": ExportVerbs,
}
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class InspectorSite:
    """Serves an inspector.

    Example:
        async with InspectorSite(Inspector()) as site:
            print(site.url)    # http://127.0.0.1:49152/#token=...
    """

    def __init__(self, inspector: Inspector, *, port: int = 0, static: Path = STATIC) -> None:
        self._inspector = inspector
        self._asked_port = port
        self._static = static.resolve()
        self.token = secrets.token_urlsafe(32)
        self.origin = ""
        self._sockets: set[web.WebSocketResponse] = set()
        self._verbs = {
            f"{noun}/{name}": verb for noun, kind in _VERBS.items() for name, verb in kind(inspector).all().items()
        }

    @property
    def url(self) -> str:
        """The URL of the page, with the token."""
        return f"{self.origin}/#token={self.token}"

    async def __aenter__(self) -> InspectorSite:
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        application.router.add_get("/api/events", self._events)
        application.router.add_post("/api/{noun}/{verb}", self._serve)
        application.router.add_get("/{path:.*}", self._page)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._asked_port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.origin = f"http://{HOST}:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for socket in list(self._sockets):
            await socket.close(code=WSCloseCode.GOING_AWAY)
        await self._inspector.close()
        await self._runner.cleanup()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse requests of other sites, make responses of errors, and add the headers that protect the page."""
        try:
            self._require_own(request)
            response = await handler(request)
        except DragomanError as error:
            response = _failed(error)
        except web.HTTPException as error:
            response = _failed(InspectorError(str(error.reason), error.status))
        except Exception as error:  # a defect of a verb must reach the person who sees the page
            if request.method != "POST":
                raise
            response = _failed(InspectorError(f"The inspector failed: {type(error).__name__}: {error}", BROKEN))
        if not response.prepared:
            response.headers.update(SECURITY_HEADERS)
        return response

    def _require_own(self, request: web.Request) -> None:
        port = self.origin.rpartition(":")[2]
        if request.host not in {f"{HOST}:{port}", f"localhost:{port}"}:
            raise InspectorError("The Host of the request is not this machine", FORBIDDEN)
        if request.headers.get("Origin", self.origin) not in {self.origin, f"http://localhost:{port}"}:
            raise InspectorError("The request is from another site", FORBIDDEN)

    def _is_token(self, given: object) -> bool:
        return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def _require_token(self, request: web.Request) -> None:
        if not self._is_token(request.headers.get("X-Dragoman-Token")):
            raise InspectorError("The token is missing or wrong; open the URL that was printed", UNAUTHORIZED)

    # The page.

    async def _page(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["path"] or "index.html"
        path = self._static if "\0" in name else (self._static / name).resolve()
        # os.path.isfile is False for a name that is too long, where Path.is_file raises an error.
        if not path.is_relative_to(self._static) or not os.path.isfile(path):  # noqa: PTH113, ASYNC240
            raise InspectorError(f"There is no page {request.path}", NOT_FOUND)
        kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        charset = "utf-8" if kind.startswith("text/") else None
        return web.Response(body=path.read_bytes(), content_type=kind, charset=charset)

    # The verbs.

    async def _serve(self, request: web.Request) -> web.Response:
        self._require_token(request)
        name = f"{request.match_info['noun']}/{request.match_info['verb']}"
        if name == "traffic/upload":
            file = unquote(request.headers.get("X-Dragoman-Name", ""))
            return _json(await upload(self._inspector, file, await request.read()))
        verb = self._verbs.get(name)
        if verb is None:
            raise InspectorError(f"There is no verb {name}", NOT_FOUND)
        served = await verb(await request.read())
        if isinstance(served, FailedVerb):
            return _failed(served.error, served.more)
        if isinstance(served, Attachment):
            saved = f"attachment; filename*=UTF-8''{quote(served.name)}"
            return web.Response(body=served.data, content_type=served.type, headers={"Content-Disposition": saved})
        return _json(served)

    # The events.

    async def _events(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=30, max_msg_size=4096)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            if not await self._has_token(socket):
                await socket.close(code=WRONG_TOKEN, message=b"The token is missing or wrong")
                return socket
            await self._push_events(socket)
        finally:
            self._sockets.discard(socket)
        return socket

    async def _has_token(self, socket: web.WebSocketResponse) -> bool:
        try:
            first = await asyncio.wait_for(socket.receive(), TOKEN_SECONDS)
            given = msgspec.json.decode(first.data) if first.type is WSMsgType.TEXT else None
        except (TimeoutError, msgspec.DecodeError, RecursionError):
            return False
        return isinstance(given, dict) and self._is_token(given.get("token"))

    async def _push_events(self, socket: web.WebSocketResponse) -> None:
        """Push events until the page closes the socket."""
        with self._inspector.events.subscribed() as queue:

            async def pushing() -> None:
                await socket.send_str(encode({"event": "hello", "version": dragoman.__version__}).decode())
                while True:
                    await socket.send_str((await queue.get()).decode())

            task = asyncio.get_running_loop().create_task(pushing())
            try:
                async for _ in socket:  # the page sends nothing more; the loop ends with the socket
                    pass
            finally:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=encode(value), status=status, content_type="application/json")


def _failed(error: BaseException, more: dict[str, Any] | None = None) -> web.Response:
    return _json({"error": {**failure_of(error), **(more or {})}}, status_of(error))
