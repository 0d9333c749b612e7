"""The implementation of `server.run()`, `server.asgi()` and `server.handle()` with its variants for single messages.

This module checks the names of transports and the options of HTTP. It imports a transport when the transport is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dragoman.config import SCRIPT_RUN
from dragoman.errors import DefinitionError, DragomanError, UnknownOption
from dragoman.protocol import jsonrpc
from dragoman.runtime.callables import did_you_mean
from dragoman.server.dispatch.dispatcher import Dispatcher
from dragoman.server.dispatch.opening import open_call, open_notification
from dragoman.server.dispatch.runner import refusal, run_notification, whole_answer
from dragoman.server.dispatch.tags import with_tags
from dragoman.server.duplex import DuplexConnection
from dragoman.server.options import RULES, HttpOptions, complete_options
from dragoman.server.request.call import NO_CHANNEL, Session
from dragoman.server.settings import RUN_OPTIONS_ELSEWHERE

if TYPE_CHECKING:
    from dragoman.server.http.head import Guard
    from dragoman.server.request.http_request import SingleAuth
    from dragoman.server.routes.table import RouteTable
    from dragoman.transports.contract import Sink
    from dragoman.transports.http.asgi import AsgiApp
    from dragoman.transports.http.exchange import ServedPath

Http = Literal["http", "streamable-http", "streamable_http"]


_TRANSPORTS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http"}
STOP_SECONDS = 2.0
"""The seconds that cancelled requests have to clean up before the server ends."""


class FileLoading:
    """What `server.run()` does while the command loads the file that calls it."""

    serve: Callable[[Any, HttpOptions], None] | None = None
    """Serves the `Server` with the options of `run()` and the command line; None while no file is loaded."""


LOADING = FileLoading()


def run(server: Dispatcher, routes: RouteTable, transport: str, options: HttpOptions) -> None:
    """Serve stdio or HTTP until the client or a signal ends the server.

    Raises:
        DefinitionError: there is no such transport, or an option has an invalid value.
        UnknownOption: the transport has no such option.
        DragomanError: an event loop runs in this thread, or HTTP is to be served by another than the main thread.
        ConfigError: the store reaches other machines, and the server has no secret.
    """
    name = _served_transport(transport, options)
    _refuse_running_loop()
    if LOADING.serve is not None:
        LOADING.serve(server.owner, options)
        raise SystemExit
    server.storage.require_shared_secret()
    if name == "stdio":
        from dragoman.transports.stdio.serving import run_stdio

        run_stdio(SoleService(server, options))
        return
    _refuse_other_thread()
    listening, app = _http_app(server, routes, options)
    from dragoman.server.http.run import run_http

    run_http(app, **listening, announce=_announce(server, options))


async def run_async(
    server: Dispatcher, routes: RouteTable, transport: str, options: HttpOptions, *, handle_signals: bool
) -> None:
    """Serve stdio or HTTP in the running loop until the client ends or the task is cancelled; raises as `run` does."""
    from dragoman.runtime.program import until_signal

    name = _served_transport(transport, options)
    if LOADING.serve is not None:
        raise DragomanError(
            'The file awaits server.run_async() while the command loads it; put that under `if __name__ == "__main__":`'
        )
    if options.get("workers", 1) != 1:
        raise DefinitionError("run_async() serves in one process; use run() for several workers")
    server.storage.require_shared_secret()
    if name == "stdio":
        from dragoman.transports.stdio.serving import serve_stdio

        serving = serve_stdio(SoleService(server, options))
    else:
        listening, app = _http_app(server, routes, options)
        from dragoman.server.http.run import serve_http

        del listening["workers"]
        serving = serve_http(app, **listening, announce=_announce(server, options))
    await (until_signal(serving) if handle_signals else serving)


def _http_app(server: Dispatcher, routes: RouteTable, options: HttpOptions) -> tuple[dict[str, Any], AsgiApp]:
    """Return the options of listening, and the application."""
    listening = {name: complete_options(options)[name] for name in ("host", "port", "workers")}
    app = asgi_app(server, routes, options)
    _ = server.storage.key_ring  # made before the workers are forked, because all of them need the same keys
    return listening, app


def _announce(server: Dispatcher, options: HttpOptions) -> Callable[[Any], None]:
    from dragoman.server.routes.announcement import announce

    return partial(announce, server, options)


class SoleService:
    """A server that is all that an event loop serves: the end of serving closes its store, too.

    The requests that were cancelled with their connection clean up first, because they may need the lifespan.
    `options` may have `include_tags` and `exclude_tags`. Over HTTP and in memory a loop may serve several clients and
    servers. The processes over HTTP close the store when they leave the bus.
    """

    def __init__(self, server: Dispatcher, options: Mapping[str, Any]) -> None:
        self._storage = server.storage
        self._served = with_tags(server, options.get("include_tags"), options.get("exclude_tags"))
        self._connections: list[DuplexConnection] = []

    def connect(self, sink: Sink) -> DuplexConnection:
        """Return a connection that sends to `sink`."""
        connection = DuplexConnection(self._served, sink)
        self._connections.append(connection)
        return connection

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve, and close the store afterwards, if the server used it."""
        try:
            async with self._served.serving():
                try:
                    yield
                finally:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(STOP_SECONDS):
                            for connection in self._connections:
                                await connection.drain()
        finally:
            await self._storage.close()


def _served_transport(transport: Any, options: Mapping[str, Any]) -> str:
    name = _transport_name(transport)
    _refuse_unknown(name, options)
    SCRIPT_RUN.has_served = True
    return "stdio" if SCRIPT_RUN.uses_stdio else name


def _transport_name(given: Any) -> str:
    name = _TRANSPORTS.get(given.lower().replace("_", "-")) if isinstance(given, str) else None
    if name is None:
        old = " The transport HTTP+SSE of 2024-11-05 is not served." if given == "sse" else ""
        raise DefinitionError(
            f'There is no transport {given!r}; there are "stdio" and "http", which is also called'
            f' "streamable-http".{old}'
        )
    return name


def _refuse_unknown(transport: str, options: Mapping[str, Any]) -> None:
    known = RULES
    for option in options:
        if option not in known:
            remedy = RUN_OPTIONS_ELSEWHERE.get(option)
            hint = f": {remedy}" if remedy else did_you_mean(option, known) or f"; there are {', '.join(known)}"
            raise UnknownOption(f"server.run() has no option {option!r}{hint}")
        if transport == "stdio" and option not in ("include_tags", "exclude_tags"):
            raise UnknownOption(
                f'The option {option!r} is for HTTP, but server.run() serves stdio: write run("http", {option}=...),'
                " or leave it out"
            )


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise DragomanError(
        "server.run() starts an event loop, but one runs in this thread already, as in an `async def` or a notebook:"
        " write `await server.run_async(...)` with the same arguments there, or call run() from plain code"
    )


def _refuse_other_thread() -> None:
    from threading import current_thread, main_thread

    if current_thread() is not main_thread():
        raise DragomanError(
            'server.run("http") handles signals, which only the main thread can: write'
            ' `asyncio.run(server.run_async("http", ...))` in this thread, or call run() in the main thread'
        )


def asgi_app(server: Dispatcher, routes: RouteTable, given: Mapping[str, Any]) -> AsgiApp:
    """Return the ASGI application of a server.

    Raises:
        DefinitionError: an option has an invalid value.
        ConfigError: the store reaches other machines, and the server has no secret.
    """
    options = complete_options(given)
    server = with_tags(server, options["include_tags"], options["exclude_tags"])
    server.storage.require_shared_secret()
    from dragoman.server.http.head import Guard
    from dragoman.server.http.service import HttpService
    from dragoman.server.http.sessions import SessionRegistry
    from dragoman.server.http.workers import Workers
    from dragoman.server.request.http_request import documents_of, single_auth
    from dragoman.transports.http.asgi import AsgiApp

    path, auth = options["path"], single_auth(options["auth"])
    workers = Workers(server, path=path, joins=True)
    sessions = SessionRegistry(
        server,
        workers=workers,
        path=path,
        idle_timeout=options["session_idle_timeout"],
        max_sessions=options["max_sessions"],
        max_event_bytes=options["max_event_bytes"],
    )
    guard = Guard(allowed_hosts=options["allowed_hosts"], allowed_origins=options["allowed_origins"])
    service = HttpService(
        server,
        guard=guard,
        workers=workers,
        sessions=None if options["stateless"] else sessions,
        json_response=options["json_response"],
        auth=auth,
        path=path,
        max_subscriptions=options["max_subscriptions"],
    )
    app = AsgiApp(service, path=path, documents=documents_of(auth, path))
    _serve_beside(server, routes, app.served, service.start, guard, auth, options)
    return app


def _serve_beside(
    server: Dispatcher,
    routes: RouteTable,
    served: ServedPath,
    start: Callable[[], Awaitable[None]],
    guard: Guard,
    auth: SingleAuth | None,
    options: Mapping[str, Any],
) -> None:
    """Add the routes, the health and the access log to an application."""
    from dragoman.server.routes.service import RouteService

    path = options["path"]
    routes.check(path, has_auth=auth is not None)
    health = None
    if options["health"]:
        from dragoman.server.routes.health import Health

        health = Health(server, start=start, is_draining=lambda: served.is_draining)
    served.listens_while_draining = health is not None
    served.beside = RouteService(server, routes, guard=guard, auth=auth, path=path, start=start, health=health)
    if options["access_log"]:
        from dragoman.server.routes.access_log import access_log

        served.log = access_log()


async def answer_message(server: Dispatcher, body: bytes, server_context: Any) -> bytes | None:
    """Return the response to one message without a connection and session; None if the message has no response."""
    await server.lifecycle.begin_until_the_loop_ends()
    message = jsonrpc.decode(body, server.limits)
    context = server.server_context if server_context is None else server_context
    origin = Session(), NO_CHANNEL, server, context, asyncio.get_running_loop()
    if isinstance(message, jsonrpc.Request):
        call = open_call(message, *origin)
        call.task = asyncio.current_task()
        try:
            return await whole_answer(call)
        finally:
            await call.clean_up()
    if isinstance(message, jsonrpc.Notification) and (noted := open_notification(message, *origin)) is not None:
        noted.task = asyncio.current_task()
        await run_notification(noted)
        await noted.clean_up()
    if isinstance(message, jsonrpc.Invalid) and message.answer:
        return refusal(server, message.error, message.id)
    return None
