"""`HttpService`: serves the HTTP exchanges of one server (Streamable HTTP).

`HttpService.serve` reads the headers (`head`), authenticates the client, and routes the exchange by its HTTP method:
`post` serves a POST, a GET reads a stream of a session, and a DELETE ends a session. `HttpService.close` ends the
service gracefully.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.auth.server.identity import Denial
from dragoman.errors import DefinitionError, UnsupportedVersion
from dragoman.protocol import statuses
from dragoman.protocol.versions import find_version, version_names
from dragoman.server.dispatch.tags import TaggedDispatcher
from dragoman.server.http.head import Guard, HeadReader, RequestHead
from dragoman.server.http.post import NO_STREAMS_REMEDY, PostService
from dragoman.server.http.refusal import HttpRefusal, challenge
from dragoman.server.http.session import LiveSession
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.http.workers import Workers
from dragoman.server.request.http_request import SingleAuth, verify
from dragoman.transports.http.exchange import Exchange, Gone

if TYPE_CHECKING:
    import asyncio

    from dragoman.server.dispatch.dispatcher import Dispatcher

CLOSE_SECONDS = 5.0
_logger = logging.getLogger("dragoman.server")
_NO_PAGE = "This address serves MCP to programs, and no pages; to try it in a browser, run: dragoman inspect URL"


def _refuse_scopes(server: Dispatcher) -> None:
    name = next(_scoped_tools(server), None)
    if name is not None:
        raise DefinitionError(
            f"The tool {name!r} requires scopes, but nothing verifies its callers: pass auth= to server.asgi() or"
            ' server.run("http"), or remove scopes= from the tool; wsgi(), handle_http(), asgi(factory) verify nobody'
        )


def _scoped_tools(server: Dispatcher) -> Iterator[str]:
    """Yield the names of the tools that require scopes: those of the server, its mounts and its in-process target."""
    yield from (name for name, tool in list(server.registry.tools.items()) if tool.scopes)
    for mount in server.mounts or ():
        inner = server.alike(mount.server) if isinstance(server, TaggedDispatcher) else mount.server
        yield from (outer for name in _scoped_tools(inner) if (outer := mount.outer("tools", name)) is not None)
    target = server.passes_to
    if target is not None:
        yield from _scoped_tools(target)


class HttpService:
    """Serves the exchanges of one server.

    With `can_stream=False`, for views of frameworks, the service answers every request with one JSON body.

    Raises:
        DefinitionError: a tool requires scopes, and there is no `auth` that could verify them.
    """

    def __init__(
        self,
        server: Dispatcher,
        *,
        guard: Guard | None = None,
        workers: Workers | None = None,
        sessions: SessionRegistry | None = None,
        json_response: bool = False,
        auth: SingleAuth | None = None,
        path: str = "/mcp",
        max_subscriptions: int | None = None,
        can_stream: bool = True,
    ) -> None:
        if auth is None:
            _refuse_scopes(server)
        self._server = server
        self._heads = HeadReader(guard or Guard())
        self._workers = workers or (Workers(server) if sessions is None else sessions.workers)
        self._sessions = sessions
        self._auth = auth
        self._path = path
        self._can_stream = can_stream
        self._ready_in: asyncio.AbstractEventLoop | None = None
        """The loop in which the service has joined the other processes, and begun to serve."""
        self._posts = PostService(
            server,
            sessions=sessions,
            auth=auth,
            path=path,
            json_response=json_response,
            max_subscriptions=max_subscriptions,
            can_stream=can_stream,
        )

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""
        head = self._heads.read(exchange)
        if head.cors:
            exchange.extra_headers = head.cors
        try:
            if head.refused is not None:
                raise HttpRefusal.of(head.refused)  # noqa: TRY301
            if head.cors and exchange.method == "OPTIONS":
                await exchange.reply(statuses.NO_CONTENT)
                return
            if self._ready_in is not exchange.loop:
                await self._get_ready(exchange.loop)
            if self._auth is not None:
                await self._authenticate(exchange, self._auth)
            if exchange.method == "POST":
                await self._posts.serve(exchange, head)
            else:
                await self._serve_without_body(exchange, head)
        except HttpRefusal as refused:
            await self._posts.refuse(exchange, refused, head.acceptable)
        except Gone:
            raise
        except Exception as error:
            failed = HttpRefusal(statuses.FAILED, error, place="a service of HTTP")
            await self._posts.refuse(exchange, failed, head.acceptable)

    async def start(self) -> None:
        """Begin to serve; the first request does it if nobody else did, as for a mounted application."""
        if self._can_stream:
            await self._server.lifecycle.begin(self)

    async def _get_ready(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._workers.needs_to_join(loop):
            await self._workers.join()
            if self._server.lifecycle.begins_late(loop):
                _logger.warning(
                    "The lifespan of the server %r begins with its first request, because the host application sent no"
                    " lifespan events; SIGTERM may kill the process before the lifespan ends. Call `await app.start()`"
                    " and `await app.close()` in the lifespan of the host, where app is server.asgi()",
                    self._server.name,
                )
        await self.start()
        self._ready_in = loop

    async def _authenticate(self, exchange: Exchange, auth: SingleAuth) -> None:
        """Verify the sender with the author's `auth`, before the body is read, and record the identity.

        Raises:
            HttpRefusal: `auth` denies the client, or raises an exception.
        """
        try:
            found = await verify(auth, exchange.scope, self._path)
        except Exception as error:
            raise HttpRefusal(statuses.FAILED, error, place="auth") from None
        if isinstance(found, Denial):
            raise HttpRefusal(found.status, found.reason, headers=(challenge(found),))
        exchange.principal, exchange.identity = found.principal, found

    async def _serve_without_body(self, exchange: Exchange, head: RequestHead) -> None:
        match exchange.method, self._sessions:
            case "GET", SessionRegistry() as sessions:
                await self._serve_stream(exchange, await self._session_of(exchange, sessions, head), head)
            case "DELETE", SessionRegistry() as sessions:
                await self._session_of(exchange, sessions, head)
                await sessions.end(head.headers.session_id, exchange.principal, exchange.address)
                await exchange.reply(statuses.OK)
            case _:
                remedy = "" if self._can_stream else f": there are no streams and no sessions; {NO_STREAMS_REMEDY}"
                allowed = ((b"allow", b"POST" if self._sessions is None else b"GET, POST, DELETE"),)
                reason = f"{exchange.method} is not served here{remedy}"
                raise HttpRefusal(statuses.METHOD_NOT_SERVED, reason, headers=allowed)

    async def _session_of(self, exchange: Exchange, sessions: SessionRegistry, head: RequestHead) -> LiveSession:
        """Return the session of a GET or a DELETE.

        Raises:
            HttpRefusal: a header is repeated, the version is unsupported, or the client has no such session.
        """
        headers, versions = head.headers, self._server.offer.versions
        if headers.repeated is not None:
            raise HttpRefusal.repeated(headers.repeated)
        if headers.protocol_version is not None and find_version(headers.protocol_version) not in versions:
            error = UnsupportedVersion(headers.protocol_version, version_names(versions))
            raise HttpRefusal(statuses.MALFORMED, error)
        if headers.session_id is None and "text/html" in (headers.accept or ""):
            raise HttpRefusal(statuses.MALFORMED, _NO_PAGE)
        session = await sessions.find(headers.session_id, exchange.principal, exchange.address)
        session.require_origin(head.origin)
        return session

    async def _serve_stream(self, exchange: Exchange, session: LiveSession, head: RequestHead) -> None:
        """Serve a GET: the standalone stream, or the stream that the client resumes with `Last-Event-ID`."""
        if not head.acceptable.sse:
            raise HttpRefusal(statuses.NOT_ACCEPTABLE, "The Accept header must admit text/event-stream")
        await session.serve_stream(exchange, head.headers.last_event_id)

    async def close(self, seconds: float | None = None) -> None:
        """End the service gracefully: subscriptions and standalone streams at once, requests within `seconds`."""
        for subscription in list(self._posts.subscriptions):
            subscription.end()
        if self._sessions is not None:
            self._sessions.detach_standalone()
        await self._posts.in_flight.finish(CLOSE_SECONDS if seconds is None else seconds)
        if self._sessions is not None:
            await self._sessions.close()
        await self._server.lifecycle.end(self)
        await self._workers.close()
