"""What a client can be told when it is made; the same for the blocking and the asynchronous one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from dragoman import types
from dragoman.client.credentials import Headers
from dragoman.client.notifications import LogMessage, Notification
from dragoman.client.opening import Mode

if TYPE_CHECKING:
    from dragoman.transports.http import Network


class ClientOptions(TypedDict, total=False):
    """The options of a client."""

    headers: Headers | None
    """Sent with every HTTP request: fixed, or functions that give them anew."""
    auth: str | Callable[[], str | Awaitable[str]] | None
    """A bearer token, or a function that gives it."""
    timeout: float | None
    """Seconds that a request may go without a sign of life (60); or DRAGOMAN_TIMEOUT."""
    total_timeout: float | None
    """Seconds that a request may take in all; without end by default."""
    connect_timeout: float | None
    """Seconds that it may take to connect (10); or DRAGOMAN_CONNECT_TIMEOUT."""
    mode: Mode
    """"auto" asks the server; "handshake" and "stateless" know better."""
    protocol_version: str | None
    """Speak this version alone."""
    on_sampling: Any
    on_elicitation: Any
    roots: Iterable[Any]
    on_approval: Any
    approval_timeout: float | None
    on_log: Callable[[LogMessage], Any] | None
    log_level: types.LoggingLevel
    on_progress: Callable[..., Any] | None
    on_notification: Callable[[Notification], Any] | None
    on_list_changed: Callable[[str], Any] | None
    on_resource_updated: Callable[[str], Any] | None
    on_reconnect: Callable[[], Any] | None
    strict: bool
    """Raise where structured content does not fit its schema, instead of warning."""
    trusted: bool
    """Believe what the server says about its tools."""
    name: str | None
    """How the client introduces itself."""
    version: str | None
    transport: Any
    """A transport, or the name of one."""
    network: Network | None
    """Proxies, certificates, a session of your own."""
    env: Mapping[str, str] | None
    inherit_env: bool
    cwd: str | Path | None
    meta: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None
    """Sent as `_meta` with every request."""
    max_pages: int
    max_message_bytes: int


def check(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not.

    Raises:
        TypeError: there is no such option.
    """
    from difflib import get_close_matches

    known = ClientOptions.__annotations__
    for name in options:
        if name not in known:
            close = get_close_matches(name, known)
            remedy = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"A client has no option {name!r}{remedy}")
