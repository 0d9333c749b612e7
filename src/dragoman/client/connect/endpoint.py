"""What a client can be pointed at, and the way there.

A URL, a command line, a list of arguments, a script, a server of this process, a transport, or an entry of a
configuration file. A transport that was registered under a name works wherever one is named.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.client.connect.credentials import Credentials, Headers, auth_required
from dragoman.client.connect.handshake import Endpoint
from dragoman.client.connect.link import DuplexLink, Link, OneMethodLink, SendsRequests
from dragoman.errors import ConnectError
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.transports.contract import Transport
from dragoman.transports.memory import MemoryConnection


class Connects(Protocol):
    """A server of this process."""

    def connect(self, send: Callable[[bytes], None], /) -> MemoryConnection:
        """Serve one connection."""

    def handle_json(self, body: bytes, /) -> bytes | None:
        """Answer one message."""


Target = str | PathLike[str] | Sequence[str] | Mapping[str, Any] | Connects | Transport | SendsRequests
"""What a client is pointed at: a URL, a command line, its words, a script, an entry of a configuration file, a server
of this process, or a transport."""

_INTERPRETERS = {".py": sys.executable, ".js": "node", ".mjs": "node", ".cjs": "node"}
_registered: dict[str, Callable[..., Any]] = {}
_HTTP_NAMES = ("http", "streamable", "streamable_http", "streamable-http", "streamableHttp")
_NAMES = (*_HTTP_NAMES, "sse", "stdio")
_KIND_KEYS = ("transport", "type", "transport_type")


def register_transport(name: str, transport: Callable[..., Transport | SendsRequests]) -> None:
    """Let `Client(target, transport=name)` and configuration files use a transport of your own.

    Example:
        register_transport("carrier-pigeon", PigeonTransport)

    It is called with the target, and with the other keys of a configuration entry.

    Raises:
        ValueError: the name is taken by a transport of dragoman's own.
    """
    if name in _NAMES:
        raise ValueError(f"{name!r} is a transport of dragoman's own; choose another name")
    _registered[name] = transport


class EndpointOptions(Struct):
    """What ways need besides the target."""

    credentials: Credentials
    network: Any = None
    transport: Any = None
    env: Mapping[str, str] | None = None
    inherit_env: bool = True
    cwd: str | Path | None = None
    limits: Limits = DEFAULT_LIMITS


def way_to(target: Target, around: EndpointOptions) -> Endpoint:
    """Return the way to a target.

    Raises:
        TypeError: it is nothing that a client can be pointed at.
        ValueError: it names a transport that is not known.
    """
    chosen = around.transport
    if chosen is not None and not isinstance(chosen, str):
        return _way_over(chosen)
    if isinstance(target, Mapping):
        return _way_of_entry(target, around)
    if chosen is not None and chosen in _registered:
        made = _registered[chosen]
        return _way_over_made(lambda: made(target))
    if isinstance(target, str) and "://" in target.partition(" ")[0]:
        return _way_by_url(target, chosen, around)
    if isinstance(target, str) and chosen in (None, *_HTTP_NAMES, "sse") and _is_address(target):
        raise ValueError(f"{target!r} has no scheme; write http://{target} or https://{target}")
    _require(chosen, ("stdio",), repr(target))
    if isinstance(target, str | Path | list | tuple):
        return _way_to_process(_command(target), around)
    if hasattr(target, "connect") and hasattr(target, "handle_json"):
        return _way_to_server(target)
    return _way_over(target)


def _require(kind: str | None, possible: Sequence[str], target: str) -> None:
    if kind is not None and kind not in possible:
        known = ", ".join(sorted({*_NAMES, *_registered}))
        raise ValueError(f"There is no transport {kind!r} for {target}; there are {known}")


def _way_by_url(url: str, transport: str | None, around: EndpointOptions) -> Endpoint:
    _require(transport, (*_HTTP_NAMES, "sse"), url)

    def streamable() -> Link:
        from dragoman.client.connect.http import HttpLink

        return HttpLink(url, credentials=around.credentials, network=around.network, limits=around.limits)

    def legacy() -> Link:
        from dragoman.transports.web.legacy_sse import LegacySse

        credentials = around.credentials
        headers = partial(credentials.headers, "GET", url)
        return DuplexLink(LegacySse(url, headers, around.network, around.limits, refusal=auth_required))

    authorization: Any = around.credentials.authorization
    if getattr(authorization, "network", around) is None:
        authorization.network = around.network
    address = urlsplit(url)
    if address.scheme not in ("http", "https"):
        raise ValueError(f"There is no transport for {url}; give a URL that begins with http:// or https://")
    key = ("http", address.scheme, address.netloc, address.path)
    if transport == "sse":
        return Endpoint(key=("sse", *key), link=legacy, is_handshake=True, is_http=True)
    return Endpoint(key=key, link=streamable, fallback=legacy if transport is None else None, is_http=True)


_ADDRESS = re.compile(r"(localhost|\[[0-9a-fA-F:]+\]|[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?")


def _is_address(target: str) -> bool:
    """Tell whether a text is a URL that lacks its scheme, and no program."""
    found = _ADDRESS.fullmatch(target)
    return found is not None and (":" in target or "/" in target) and not Path(target).exists()


def _command(target: str | Path | Sequence[str]) -> str | list[str]:
    if not isinstance(target, str | Path):
        return [str(part) for part in target]
    path = Path(target)
    interpreter = _INTERPRETERS.get(path.suffix)
    if interpreter is not None and _is_file(path):
        return [interpreter, str(path)]
    return [str(target)] if isinstance(target, Path) else str(target)


def _require_script(command: str | list[str]) -> None:
    """Refuse a lone script that is not there.

    Raises:
        ConnectError: it is not there.
    """
    import shutil

    words = [command] if isinstance(command, str) else command
    path = Path(words[0])
    is_lone = len(words) == 1 and path.suffix in _INTERPRETERS and " " not in words[0]
    if is_lone and not _is_file(path) and shutil.which(words[0]) is None:
        raise ConnectError(
            f"There is no file {str(path)!r} in {str(Path.cwd())!r}; correct the path, or give it in full"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long command line is no name of a file
        return False


def _way_to_process(command: str | list[str], around: EndpointOptions) -> Endpoint:
    def link() -> Link:
        from dragoman.transports.process.process import ProcessTransport

        _require_script(command)
        return DuplexLink(
            ProcessTransport(
                command, env=around.env, inherit_env=around.inherit_env, cwd=around.cwd, limits=around.limits
            )
        )

    key = command if isinstance(command, str) else tuple(command)
    return Endpoint(key=("process", key, str(around.cwd)), link=link)


def _way_to_server(server: Any) -> Endpoint:
    def link() -> Link:
        from dragoman.transports.memory import MemoryTransport

        return DuplexLink(MemoryTransport(server.connect))

    return Endpoint(key=None, link=link)


def _way_over(transport: Any) -> Endpoint:
    """Return the way over a transport that is there already: of the full contract, or with one method."""
    return _way_over_made(lambda: transport, transport)


def _way_over_made(make: Callable[[], Any], sample: Any = None) -> Endpoint:
    made = make() if sample is None else sample
    full = all(hasattr(made, name) for name in ("open", "send", "close"))
    if not full and not hasattr(made, "send_request"):
        raise TypeError(
            f"A client cannot be pointed at {made!r}; give a URL, a command, a path, a Server, or a transport with"
            " open, send and close, or with send_request"
        )
    first = [made]

    def link() -> Link:
        transport = first.pop() if first else make()
        return DuplexLink(transport) if full else OneMethodLink(transport)

    return Endpoint(key=None, link=link, introduces=full)


def _way_of_entry(entry: Mapping[str, Any], around: EndpointOptions) -> Endpoint:
    """Return the way of an entry of a configuration file: `command` and `args`, or `url`.

    What the client itself was told comes before what the entry says.
    """
    kind = around.transport or next((entry[key] for key in _KIND_KEYS if entry.get(key)), None)
    if kind in _registered:
        options = {key: value for key, value in entry.items() if key not in _KIND_KEYS}
        return _way_over_made(lambda: _registered[kind](**options))
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if url:
        around.credentials = _over(entry.get("headers"), around.credentials)
        return _way_by_url(str(url), kind, around)
    _require(kind, ("stdio",) if entry.get("command") else _NAMES, "an entry without a URL")
    if not entry.get("command"):
        raise ValueError("A configuration entry needs `command` (and `args`), or `url`")
    if entry.get("env"):
        around.env = {**entry["env"], **(around.env or {})}
    around.inherit_env = around.inherit_env and bool(entry.get("inherit_env", True))
    around.cwd = around.cwd or entry.get("cwd")
    return _way_to_process([str(entry["command"]), *map(str, entry.get("args", ()))], around)


def _over(headers: Headers | None, credentials: Credentials) -> Credentials:
    """Return credentials with the headers of an entry below them."""
    if not headers:
        return credentials
    below = Credentials(headers)

    async def merged() -> dict[str, str]:
        return {**await below.own_headers(), **await credentials.own_headers()}

    return Credentials(merged, credentials.authorization)


__all__ = ["EndpointOptions", "Target", "register_transport", "way_to"]
