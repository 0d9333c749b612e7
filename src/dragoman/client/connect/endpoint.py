"""The endpoint of a client: which server its target names, and how links to that server are made.

A target is a URL, a command line, a list of arguments, a script, a server of this process, a transport, or an entry of
a configuration file. `register_transport` gives a name to a transport; options and configuration files may use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.client.connect.credentials import Credentials, Headers, auth_required
from dragoman.client.connect.link import DuplexLink, Link, OneMethodLink, SendsRequests
from dragoman.errors import ConfigError, ConnectError
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.urls import HTTP_SCHEMES
from dragoman.transports.contract import Transport
from dragoman.transports.memory import MemoryConnection


class Connects(Protocol):
    """A server of this process."""

    def connect(self, send: Callable[[bytes], None], /) -> MemoryConnection:
        """Serve one connection."""

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Return the context in which the server serves."""

    def handle_json(self, body: bytes, /) -> bytes | None:
        """Answer one message."""


Target = str | PathLike[str] | Sequence[str] | Mapping[str, Any] | Connects | Transport | SendsRequests
"""The target of a client: a URL, a command line, a list of arguments, a script, an entry of a configuration file, a
server of this process, or a transport."""

_registered: dict[str, Callable[..., Any]] = {}
_HTTP_NAMES = ("http", "streamable", "streamable_http", "streamable-http", "streamableHttp")
_NAMES = (*_HTTP_NAMES, "sse", "stdio")
_TRANSPORT_KEYS = ("transport", "type", "transport_type")
COMMAND_AND_URL = "the entry has a command and a URL; remove one of them"
_ADDRESS = re.compile(r"(localhost|\[[0-9a-fA-F:]+\]|[\w-]+(\.[\w-]+)+)(:\d+)?(/\S*)?")


def register_transport(name: str, transport: Callable[..., Transport | SendsRequests]) -> None:
    """Let `Client(target, transport=name)` and configuration files use a transport of your own.

    Example:
        register_transport("carrier-pigeon", PigeonTransport)

    The client calls `transport` with the target, or with the other keys of a configuration entry as keyword arguments.

    Raises:
        ValueError: the name is taken by a transport of dragoman's own.
    """
    if name in _NAMES:
        raise ValueError(f"{name!r} is a transport of dragoman's own; choose another name")
    _registered[name] = transport


class Endpoint(Struct, kw_only=True):
    """How to reach a server."""

    key: Hashable | None
    """Identifies the server where the client remembers servers; None if the server is not remembered."""
    link: Callable[[], Link]
    fallback: Callable[[], Link] | None = None
    """Makes the link to try if the first one finds no server."""
    endpoint_at: Callable[[str], Endpoint] | None = None
    """Returns the endpoint of a URL at which the process of the server turns out to serve HTTP."""
    negotiates: bool = True
    """Whether the client negotiates the version before its first request."""
    is_handshake: bool = False
    """Whether the server is known to require a handshake."""
    is_http: bool = False


class EndpointOptions(Struct):
    """The options of a client that concern its endpoint."""

    credentials: Credentials
    network: Any = None
    transport: Any = None
    env: Mapping[str, str] | None = None
    inherit_env: bool = True
    cwd: str | Path | None = None
    limits: Limits = CLIENT_LIMITS


def endpoint_of(target: Target, options: EndpointOptions) -> Endpoint:
    """Return the endpoint of a target.

    Raises:
        TypeError: the target has an unsupported type.
        ValueError: the target or the options name an unknown transport.
    """
    transport = options.transport
    if transport is not None and not isinstance(transport, str):
        return _transport_endpoint(lambda: transport, options)
    if isinstance(target, Mapping):
        return _entry_endpoint(target, options)
    if transport is not None and transport in _registered:
        return _transport_endpoint(partial(_registered[transport], target), options)
    if isinstance(target, str) and "://" in target.partition(" ")[0]:
        return _url_endpoint(target, transport, options)
    if isinstance(target, str) and transport in (None, *_HTTP_NAMES, "sse") and _is_address(target):
        raise ValueError(f"{target!r} has no scheme; write http://{target} or https://{target}")
    _require(transport, ("stdio",), repr(target))
    if isinstance(target, str | Path | list | tuple):
        return _process_endpoint(_command(target), options)
    if hasattr(target, "connect") and hasattr(target, "handle_json"):
        return _server_endpoint(target)
    return _transport_endpoint(lambda: target, options)


def _require(transport: str | None, possible: Sequence[str], target: str) -> None:
    if transport is not None and transport not in possible:
        known = ", ".join(sorted({*_NAMES, *_registered}))
        raise ValueError(f"There is no transport {transport!r} for {target}; there are {known}")


def _url_endpoint(url: str, transport: str | None, options: EndpointOptions) -> Endpoint:
    _require(transport, (*_HTTP_NAMES, "sse"), url)

    def streamable() -> Link:
        from dragoman.client.connect.http import HttpLink

        return HttpLink(url, credentials=options.credentials, network=options.network, limits=options.limits)

    def legacy() -> Link:
        from dragoman.transports.web.legacy_sse import LegacySse

        headers = partial(options.credentials.headers, "GET", url)
        return DuplexLink(LegacySse(url, headers, options.network, options.limits, refusal=auth_required), "http")

    authorization: Any = options.credentials.authorization
    if getattr(authorization, "network", options) is None:
        authorization.network = options.network
    address = urlsplit(url)
    if address.scheme not in HTTP_SCHEMES:
        raise ValueError(f"There is no transport for {url}; give a URL that begins with http:// or https://")
    key = ("http", address.scheme, address.netloc, address.path)
    if transport == "sse":
        return Endpoint(key=("sse", *key), link=legacy, is_handshake=True, is_http=True)
    return Endpoint(key=key, link=streamable, fallback=legacy if transport is None else None, is_http=True)


def _is_address(target: str) -> bool:
    """Tell whether a text is a URL without its scheme, and not the path of a program."""
    found = _ADDRESS.fullmatch(target)
    return found is not None and (":" in target or "/" in target) and not Path(target).exists()


def _command(target: str | Path | Sequence[str]) -> str | list[str]:
    if not isinstance(target, str | Path):
        return [_word(part) for part in target]
    from dragoman.client.connect.script import script_command

    command = script_command(target)
    if command is not None:
        return command
    return [str(target)] if isinstance(target, Path) else str(target)


def _word(part: Any) -> str:
    if not isinstance(part, str | PathLike | int | float):
        raise TypeError(f"The words of a command must be texts, not {part!r}")
    return str(part)


def _require_script(command: str | list[str]) -> None:
    """Check that a command that is only the path of a script names a file.

    Raises:
        ConnectError: the file does not exist.
    """
    import shutil

    from dragoman.client.connect.script import SCRIPTS

    words = [command] if isinstance(command, str) else command
    file, _, name = words[0].rpartition(":")
    path = Path(file if name.isidentifier() else words[0])
    is_script = len(words) == 1 and path.suffix in SCRIPTS and " " not in words[0]
    if is_script and not path.is_file() and shutil.which(words[0]) is None:
        raise ConnectError(
            f"There is no file {str(path)!r} in {str(Path.cwd())!r}; correct the path, or give an absolute path"
        )


def _process_endpoint(command: str | list[str], options: EndpointOptions) -> Endpoint:
    if not command or not command[0].strip():
        raise ValueError("The target is empty; give a URL, a command, the path of a script, or a Server")

    def link() -> Link:
        from dragoman.transports.process.process import ProcessTransport
        from dragoman.transports.web.endpoint_search import find_endpoint

        _require_script(command)
        return DuplexLink(
            ProcessTransport(
                command,
                env=options.env,
                inherit_env=options.inherit_env,
                cwd=options.cwd,
                limits=options.limits,
                find_endpoint=find_endpoint,
            ),
            "stdio",
        )

    key = command if isinstance(command, str) else tuple(command)
    return Endpoint(key=("process", key, str(options.cwd)), link=link, endpoint_at=_endpoint_at(options))


def _endpoint_at(options: EndpointOptions) -> Callable[[str], Endpoint]:
    return lambda url: _url_endpoint(url, None, options)


def _server_endpoint(server: Any) -> Endpoint:
    def link() -> Link:
        from dragoman.transports.memory import MemoryTransport

        return DuplexLink(MemoryTransport(server.connect, server.serving))

    return Endpoint(key=None, link=link)


def _transport_endpoint(make: Callable[[], Any], options: EndpointOptions) -> Endpoint:
    """Return the endpoint of a transport with the full contract, or with the one method `send_request`."""
    first = [make()]
    is_duplex = all(hasattr(first[0], name) for name in ("open", "send", "close"))
    if not is_duplex and not hasattr(first[0], "send_request"):
        raise TypeError(
            f"A client cannot connect to {first[0]!r}; give a URL, a command, a path, a Server, or a transport with"
            " open, send and close, or with send_request"
        )

    def link() -> Link:
        transport = first.pop() if first else make()
        return DuplexLink(transport) if is_duplex else OneMethodLink(transport)

    return Endpoint(key=None, link=link, endpoint_at=_endpoint_at(options), negotiates=is_duplex)


def _entry_endpoint(entry: Mapping[str, Any], options: EndpointOptions) -> Endpoint:
    """Return the endpoint of an entry of a configuration file: `command` and `args`, or `url`.

    The options of the client take precedence over those of the entry.
    """
    transport = options.transport or next((entry[key] for key in _TRANSPORT_KEYS if entry.get(key)), None)
    if transport in _registered:
        others = {key: value for key, value in entry.items() if key not in _TRANSPORT_KEYS}
        return _transport_endpoint(partial(_registered[transport], **others), options)
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if url and entry.get("command"):
        raise ConfigError(COMMAND_AND_URL)
    if url:
        if entry.get("headers"):
            options.credentials = _with_entry_headers(entry["headers"], options.credentials)
        return _url_endpoint(str(url), transport, options)
    _require(transport, ("stdio",) if entry.get("command") else _NAMES, "an entry without a URL")
    if not entry.get("command"):
        raise ValueError("A configuration entry needs `command` (and `args`), or `url`")
    if entry.get("env"):
        options.env = {**entry["env"], **(options.env or {})}
    options.inherit_env = options.inherit_env and bool(entry.get("inherit_env", True))
    options.cwd = options.cwd or entry.get("cwd")
    return _process_endpoint([str(entry["command"]), *map(str, entry.get("args", ()))], options)


def _with_entry_headers(headers: Headers, credentials: Credentials) -> Credentials:
    of_entry = Credentials(headers)

    async def merged() -> dict[str, str]:
        return {**await of_entry.own_headers(), **await credentials.own_headers()}

    return Credentials(merged, credentials.authorization)
