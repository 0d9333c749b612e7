"""The implementation of `server.run()`, `server.asgi()` and `server.handle()` with its variants for single messages.

This module checks the names of transports and the options of HTTP. It imports a transport when the transport is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dragoman.config import SCRIPT_RUN
from dragoman.errors import DefinitionError, DragomanError, UnknownOption
from dragoman.protocol import jsonrpc
from dragoman.runtime.callables import did_you_mean
from dragoman.server.dispatch.opening import open_call, open_notification
from dragoman.server.dispatch.runner import refusal, run_notification, whole_answer
from dragoman.server.dispatch.tags import Tags, with_tags
from dragoman.server.request.call import NO_CHANNEL, Session
from dragoman.server.settings import RUN_OPTIONS_ELSEWHERE

if TYPE_CHECKING:
    from dragoman.server.duplex import DuplexConnection
    from dragoman.server.http.head import Guard
    from dragoman.server.request.http_request import Auth, SingleAuth
    from dragoman.server.server import Server
    from dragoman.transports.contract import Sink
    from dragoman.transports.http.asgi import AsgiApp
    from dragoman.transports.http.exchange import ServedPath

Http = Literal["http", "streamable-http", "streamable_http"]


class HttpOptions(TypedDict, total=False):
    """The options of `server.run("http")`: the address to listen on, and the options of `server.asgi()`."""

    host: str
    """The address to listen on ("127.0.0.1")."""
    port: int
    """The port to listen on (8000); 0 lets the operating system choose one."""
    workers: int
    """The number of processes (1)."""
    path: str
    """The path of the endpoint ("/mcp")."""
    stateless: bool
    """Keep no sessions for clients before 2026-07-28; handlers then cannot ask these clients anything."""
    json_response: bool
    """Answer the requests of clients before 2026-07-28 with JSON only, never with an event stream."""
    session_idle_timeout: float | None
    """The seconds after which an idle session expires (1800); None: no such limit."""
    max_sessions: int | None
    """The greatest number of sessions (10,000); None: no limit."""
    max_event_bytes: int
    """The number of bytes of events that the server keeps for clients that resume their streams (64 MiB)."""
    allowed_hosts: str | Iterable[str] | None
    """The values of `Host` to serve beside loopback names."""
    allowed_origins: str | Iterable[str] | None
    """The origins of web pages that may send requests."""
    max_subscriptions: int | None
    """The greatest number of subscriptions (10,000); None: no limit."""
    auth: Auth | None
    """Verifies the sender of a request."""
    include_tags: Tags
    """Serve only definitions that have at least one of these tags; also for stdio."""
    exclude_tags: Tags
    """Serve no definition that has one of these tags; also for stdio."""
    health: bool
    """Serve `/healthz` and `/readyz`, for probes (False)."""
    access_log: bool
    """Log one line for each HTTP request to the logger `dragoman.access` (False)."""


_TRANSPORTS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http"}
_LISTEN_DEFAULTS: Mapping[str, Any] = {"host": "127.0.0.1", "port": 8000, "workers": 1}
_MINIMUMS = {"workers": 1, "port": 0, "max_sessions": 1, "max_event_bytes": 0, "max_subscriptions": 0}
_UNLIMITED = ("max_sessions", "max_subscriptions")
"""The options that may be None, which means no limit."""
_MAX_PORT = 65_535
STOP_SECONDS = 2.0
"""The seconds that cancelled requests have to clean up before the server ends."""


class FileLoading:
    """What `server.run()` does while the command loads the file that calls it."""

    serve: Callable[[Server, HttpOptions], None] | None = None
    """Serves the server with the options of `run()` and the command line; None while no file is loaded."""


LOADING = FileLoading()


def run(server: Server, transport: str, options: HttpOptions) -> None:
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
        LOADING.serve(server, options)
        raise SystemExit
    server.require_shared_secret()
    if name == "stdio":
        from dragoman.transports.stdio.serving import run_stdio

        run_stdio(SoleService(server, options))
        return
    _refuse_other_thread()
    listening, app = _http_app(server, options)
    from dragoman.server.http.run import run_http

    run_http(app, **listening, announce=_announce(server, options))


async def run_async(server: Server, transport: str, options: HttpOptions, *, handle_signals: bool) -> None:
    """Serve stdio or HTTP in the running loop until the client ends or the task is cancelled; raises as `run` does."""
    from dragoman.runtime.program import until_signal

    name = _served_transport(transport, options)
    if LOADING.serve is not None:
        raise DragomanError(
            'The file awaits server.run_async() while the command loads it; put that under `if __name__ == "__main__":`'
        )
    if options.get("workers", 1) != 1:
        raise DefinitionError("run_async() serves in one process; use run() for several workers")
    server.require_shared_secret()
    if name == "stdio":
        from dragoman.transports.stdio.serving import serve_stdio

        serving = serve_stdio(SoleService(server, options))
    else:
        listening, app = _http_app(server, options)
        from dragoman.server.http.run import serve_http

        del listening["workers"]
        serving = serve_http(app, **listening, announce=_announce(server, options))
    await (until_signal(serving) if handle_signals else serving)


def _http_app(server: Server, options: HttpOptions) -> tuple[dict[str, Any], AsgiApp]:
    """Return the options of listening, and the application."""
    given: dict[str, Any] = dict(options)
    listening = {option: given.pop(option, default) for option, default in _LISTEN_DEFAULTS.items()}
    check_options(listening)
    app = server.asgi(**given)
    _ = server.key_ring  # made before the workers are forked, because all of them need the same keys
    return listening, app


def _announce(server: Server, options: HttpOptions) -> Callable[[Any], None]:
    from dragoman.server.routes.announcement import announce

    return partial(announce, server, options)


class SoleService:
    """A server that is all that an event loop serves: the end of serving closes its store, too.

    The requests that were cancelled with their connection clean up first, because they may need the lifespan.
    `options` may have `include_tags` and `exclude_tags`. Over HTTP and in memory a loop may serve several clients and
    servers. The processes over HTTP close the store when they leave the bus.
    """

    def __init__(self, server: Server, options: Mapping[str, Any]) -> None:
        self._server = server
        self._served = with_tags(server, options.get("include_tags"), options.get("exclude_tags"))
        self._connections: list[DuplexConnection] = []

    def connect(self, sink: Sink) -> DuplexConnection:
        """Return a connection that sends to `sink`."""
        connection = self._served.connect(sink)
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
            if "store" in vars(self._server):  # a store that was never used needs no keys
                await self._server.store.close()


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
    known = HttpOptions.__annotations__
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


def check_options(options: Mapping[str, Any]) -> None:
    """Check the values of HTTP options.

    Raises:
        DefinitionError: an option has an invalid value.
    """
    for name, value in options.items():
        expected = _expected(name, value)
        if expected is not None:
            raise DefinitionError(f"{name} must be {expected}, not {value!r}")


def _expected(name: str, value: Any) -> str | None:
    """Return the description of the values that an option takes, or None if this value is one of them."""
    match name:
        case "stateless" | "json_response" | "health" | "access_log" if not isinstance(value, bool):
            return "True or False"
        case "path" if not isinstance(value, str):
            return "a string"
        case "host" if not isinstance(value, str) or not value.strip():
            return 'an address or a name of this machine, such as "127.0.0.1", or "0.0.0.0" for every network'
        case "session_idle_timeout" if value is not None and not _is_duration(value):
            return "a number of seconds above 0, or None for no limit"
        case "auth" if value is not None and not _is_auth(value):
            return "a function of the request, a Bearer(...), or a list of Bearer(...)"
        case "port" if type(value) is int and value > _MAX_PORT:
            return f"at most {_MAX_PORT}"
        case _ if name in _MINIMUMS and not (value is None and name in _UNLIMITED):
            return _expected_number(name, value)
    return None


def _expected_number(name: str, value: Any) -> str | None:
    if type(value) is int and value >= _MINIMUMS[name]:
        return None
    kind = "" if type(value) is int else "an integer of "
    return f"{kind}at least {_MINIMUMS[name]}{', or None for no limit' if name in _UNLIMITED else ''}"


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and isfinite(value)


def _is_auth(value: Any) -> bool:
    from dragoman.auth.server.bearer import Bearer

    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(bearer, Bearer) for bearer in value)
    return isinstance(value, Bearer) or (callable(value) and not isinstance(value, type))


def asgi_app(server: Server, options: HttpOptions) -> AsgiApp:
    """Return the ASGI application of a server; `options` has every option of `server.asgi()`.

    Raises:
        DefinitionError: an option has an invalid value.
        ConfigError: the store reaches other machines, and the server has no secret.
    """
    check_options(options)
    server = with_tags(server, options["include_tags"], options["exclude_tags"])
    server.require_shared_secret()
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
    _serve_beside(server, app.served, service.start, guard, auth, options)
    return app


def _serve_beside(
    server: Server,
    served: ServedPath,
    start: Callable[[], Awaitable[None]],
    guard: Guard,
    auth: SingleAuth | None,
    options: HttpOptions,
) -> None:
    """Add the routes, the health and the access log to an application."""
    from dragoman.server.routes.service import RouteService

    path = options["path"]
    if server.route_table is not None:
        server.route_table.check(path, has_auth=auth is not None)
    health = None
    if options["health"]:
        from dragoman.server.routes.health import Health

        health = Health(server, start=start, is_draining=lambda: served.is_draining)
    served.listens_while_draining = health is not None
    served.beside = RouteService(server, guard=guard, auth=auth, path=path, start=start, health=health)
    if options["access_log"]:
        from dragoman.server.routes.access_log import access_log

        served.log = access_log()


async def answer_message(server: Server, body: bytes, server_context: Any) -> bytes | None:
    """Return the response to one message without a connection and session; None if the message has no response."""
    if server.lifecycle is not None:
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
