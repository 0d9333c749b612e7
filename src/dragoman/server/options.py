"""The options of HTTP: `AsgiOptions` of `server.asgi()`, and `HttpOptions` of `server.run("http")`.

Each option is declared once, as a field of a TypedDict, and has one rule: its default and its check. Signatures,
`help`, the check of names and the reference read the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from dragoman.errors import DefinitionError

if TYPE_CHECKING:
    from dragoman.server.request.http_request import Auth

Tags = str | Iterable[str] | None
"""A tag or several; None: no selection."""
MAX_PORT = 65_535


class AsgiOptions(TypedDict, total=False):
    """The options of `server.asgi()`, besides the path."""

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


class HttpOptions(AsgiOptions, total=False):
    """The options of `server.run("http")`: the address to listen on, and the options of `server.asgi()`."""

    host: str
    """The address to listen on ("127.0.0.1")."""
    port: int
    """The port to listen on (8000); 0 lets the operating system choose one."""
    workers: int
    """The number of processes (1)."""
    path: str
    """The path of the endpoint ("/mcp")."""


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "a string"


def _host(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return None
    return 'an address or a name of this machine, such as "127.0.0.1", or "0.0.0.0" for every network'


def _port(value: Any) -> str | None:
    return f"at most {MAX_PORT}" if type(value) is int and value > MAX_PORT else _at_least(0)(value)


def _duration(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_valid = value is None or (is_number and value > 0 and isfinite(value))
    return None if is_valid else "a number of seconds above 0, or None for no limit"


def _auth(value: Any) -> str | None:
    from dragoman.auth.server.bearer import Bearer

    several = value if isinstance(value, list | tuple) else [value]
    is_bearer = bool(several) and all(isinstance(bearer, Bearer) for bearer in several)
    if value is None or is_bearer or (callable(value) and not isinstance(value, type)):
        return None
    return "a function of the request, a Bearer(...), or a list of Bearer(...)"


def _at_least(minimum: int, *, or_none: bool = False) -> Callable[[Any], str | None]:
    def expected(value: Any) -> str | None:
        if (or_none and value is None) or (type(value) is int and value >= minimum):
            return None
        kind = "" if type(value) is int else "an integer of "
        return f"{kind}at least {minimum}{', or None for no limit' if or_none else ''}"

    return expected


class Rule(NamedTuple):
    """The default of an option, and the function that returns what it expects instead of a value; None if it fits."""

    default: Any = None
    expected: Callable[[Any], str | None] = lambda _value: None


RULES: dict[str, Rule] = {
    "host": Rule("127.0.0.1", _host),
    "port": Rule(8000, _port),
    "workers": Rule(1, _at_least(1)),
    "path": Rule("/mcp", _text),
    "stateless": Rule(default=False, expected=_flag),
    "json_response": Rule(default=False, expected=_flag),
    "session_idle_timeout": Rule(1800, _duration),
    "max_sessions": Rule(10_000, _at_least(1, or_none=True)),
    "max_event_bytes": Rule(64 * 1024 * 1024, _at_least(0)),
    "allowed_hosts": Rule(),
    "allowed_origins": Rule(),
    "max_subscriptions": Rule(10_000, _at_least(0, or_none=True)),
    "auth": Rule(None, _auth),
    "include_tags": Rule(),
    "exclude_tags": Rule(),
    "health": Rule(default=False, expected=_flag),
    "access_log": Rule(default=False, expected=_flag),
}


def complete_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `run("http")`, with the defaults of those that are missing.

    Raises:
        DefinitionError: an option has an invalid value.
    """
    complete = {name: rule.default for name, rule in RULES.items()} | dict(options)
    for name, value in complete.items():
        if (expected := RULES[name].expected(value)) is not None:
            raise DefinitionError(f"{name} must be {expected}, not {value!r}")
    return complete
