"""What serves a server: the names of the carriers, the options of each, and the values that make sense for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dragoman.errors import DefinitionError, DragomanError
from dragoman.runtime.callables import did_you_mean

if TYPE_CHECKING:
    from dragoman.server.request.http_request import Auth
    from dragoman.server.server import Server
    from dragoman.stores import Store
    from dragoman.transports.http.asgi import AsgiApp

Http = Literal["http", "streamable-http", "streamable_http"]


class HttpOptions(TypedDict, total=False):
    """The options of `server.run("http")`: where it listens, and those of `server.asgi()`."""

    host: str
    """The address that it listens on ("127.0.0.1")."""
    port: int
    """The port that it listens on (8000); 0 lets the system choose."""
    workers: int
    """How many processes serve (1)."""
    path: str
    """The path that is served ("/mcp")."""
    stateless: bool
    """Keep no sessions for clients before 2026-07-28, which then cannot be asked."""
    json_response: bool
    """Answer requests of sessions by JSON alone."""
    session_idle_timeout: float | None
    """Seconds after which a session that is not used ends (1800); None: no such limit."""
    max_sessions: int | None
    """How many sessions there may be (10,000); None: no limit."""
    max_event_bytes: int
    """How many bytes of events are kept for clients that resume their streams (64 MiB)."""
    allowed_hosts: str | Iterable[str] | None
    """The values of `Host` that are served beside loopback addresses."""
    allowed_origins: str | Iterable[str] | None
    """The pages that may call."""
    max_subscriptions: int | None
    """How many subscriptions there may be (10,000); None: no limit."""
    auth: Auth | None
    """Tells who sends a request."""
    store: Store | None
    """How processes reach each other."""


_NAMES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http"}
_LISTENING: Mapping[str, Any] = {"host": "127.0.0.1", "port": 8000, "workers": 1}
_FLAGS = ("stateless", "json_response")
_LEAST = {"workers": 1, "port": 0, "max_sessions": 1, "max_event_bytes": 0, "max_subscriptions": 0}
_OPTIONAL = ("session_idle_timeout", "max_sessions", "max_subscriptions")
_HIGHEST_PORT = 65_535


def run(server: Server, transport: str, options: HttpOptions) -> None:
    """Serve until the client or a signal ends it.

    Raises:
        DefinitionError: there is no such carrier, or the value of an option makes no sense.
        TypeError: the carrier has no such option.
        DragomanError: an event loop runs in this thread.
    """
    name = _carrier(transport)
    given: dict[str, Any] = dict(options)
    _refuse_unknown(name, given)
    _refuse_running_loop(name)
    if name == "stdio":
        from dragoman.transports.stdio.serving import run_stdio

        run_stdio(server)
        return
    listening = {option: given.pop(option, default) for option, default in _LISTENING.items()}
    check_options(listening)
    app = server.asgi(**given)
    from dragoman.server.http.run import run_http

    _ = server.key_ring  # made before workers are forked, so that all have the same
    run_http(app, **listening)


def _carrier(transport: Any) -> str:
    name = _NAMES.get(transport.lower().replace("_", "-")) if isinstance(transport, str) else None
    if name is None:
        old = " The transport HTTP+SSE of 2024-11-05 is not served." if transport == "sse" else ""
        raise DefinitionError(
            f'There is no transport {transport!r}; there are "stdio" and "http", which is also called'
            f' "streamable-http".{old}'
        )
    return name


def _refuse_unknown(carrier: str, options: Mapping[str, Any]) -> None:
    known = HttpOptions.__annotations__
    for option in options:
        if option not in known:
            remedy = did_you_mean(option, known) or f"; there are {', '.join(known)}"
            raise TypeError(f"server.run() has no option {option!r}{remedy}")
        if carrier == "stdio":
            raise TypeError(
                f'The option {option!r} is one of HTTP, and server.run() serves stdio: write run("http", {option}=...),'
                " or leave it out"
            )


def _refuse_running_loop(carrier: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    inside = {
        "stdio": "`await serve_stdio(server)` of dragoman.transports.stdio.serving",
        "http": "serve `server.asgi()`, such as by `await uvicorn.Server(uvicorn.Config(server.asgi())).serve()`",
    }
    raise DragomanError(
        "server.run() starts an event loop, but one runs in this thread already, as in an `async def` or a notebook:"
        f" call it from plain code instead; or, inside the loop, {inside[carrier]}"
    )


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse values of options that make no sense.

    Raises:
        DefinitionError: one does not.
    """
    for name, value in options.items():
        if value is None and name in _OPTIONAL:
            continue
        if name in _FLAGS and not isinstance(value, bool):
            raise DefinitionError(f"{name} must be True or False, not {value!r}")
        if name in {"host", "path"} and not isinstance(value, str):
            raise DefinitionError(f"{name} must be a string, not {value!r}")
        if name in _LEAST:
            _check_number(name, value)
        if name == "session_idle_timeout" and not _is_duration(value):
            raise DefinitionError(f"{name} must be seconds, more than 0, or None for no such limit, not {value!r}")
        if name == "auth" and value is not None and not _is_auth(value):
            raise DefinitionError(f"auth must be a function of the request, or a Bearer(...), not {value!r}")


def _check_number(name: str, value: Any) -> None:
    least = _LEAST[name]
    if type(value) is not int or value < least:
        kind = "" if type(value) is int else "an integer of "
        none = ", or None for no limit" if name in _OPTIONAL else ""
        raise DefinitionError(f"{name} must be {kind}at least {least}{none}, not {value!r}")
    if name == "port" and value > _HIGHEST_PORT:
        raise DefinitionError(f"port must be at most {_HIGHEST_PORT}, not {value!r}")


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and isfinite(value)


def _is_auth(value: Any) -> bool:
    from dragoman.auth.server.bearer import Bearer

    return isinstance(value, Bearer) or callable(value)


def asgi_app(server: Server, options: HttpOptions) -> AsgiApp:
    """Return the ASGI application of a server; every option of `server.asgi()` is given.

    Raises:
        DefinitionError: the value of an option makes no sense.
    """
    check_options(options)
    from dragoman.server.http.guard import Guard
    from dragoman.server.http.service import HttpService
    from dragoman.server.http.sessions import Sessions
    from dragoman.server.http.workers import Workers
    from dragoman.server.request.http_request import documents_of
    from dragoman.stores import Local
    from dragoman.transports.http.asgi import AsgiApp

    path, auth = options["path"], options["auth"]
    workers = Workers(server, options["store"] or Local(), path=path)
    sessions = Sessions(
        server,
        workers=workers,
        path=path,
        idle_timeout=options["session_idle_timeout"],
        most=options["max_sessions"],
        most_event_bytes=options["max_event_bytes"],
    )
    service = HttpService(
        server,
        guard=Guard(allowed_hosts=options["allowed_hosts"], allowed_origins=options["allowed_origins"]),
        workers=workers,
        sessions=None if options["stateless"] else sessions,
        json_response=options["json_response"],
        auth=auth,
        path=path,
        max_subscriptions=options["max_subscriptions"],
    )
    return AsgiApp(service, path=path, documents=documents_of(auth, path))
