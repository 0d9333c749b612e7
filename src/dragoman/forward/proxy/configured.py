"""`proxy`: the server that `Server.proxy` returns, in front of one target or of the servers of a configuration.

In front of several, it is a server whose mounts are proxies: the mounts give each server its prefix, join the lists and
leave out what is away, and each proxy keeps what it knows of its target. The proxies share one limit of connections.

Rejected: one proxy with several targets. Each request would have to be taken apart and its answers joined there too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.client.group.config import is_configuration, load
from dragoman.client.group.entry import ServerEntry
from dragoman.client.group.members import merged_options, unusable
from dragoman.errors import ConfigError, DefinitionError
from dragoman.forward.proxy.pool import ConnectionLimit
from dragoman.forward.proxy.proxy import MAX_CONNECTIONS, ProxyServer
from dragoman.schema.naming import safe_name
from dragoman.server.define.tools import TOOL_NAME
from dragoman.server.server import Server

_OF_ENTRIES = ("headers", "auth", "env", "cwd", "connect_timeout")
"""The options of a proxy that an entry may have too."""


def proxy(target: Any, **options: Any) -> Server:
    """Return a server in front of a target, or of all servers of a configuration.

    Raises:
        DefinitionError: the target or an option cannot be used; the message says why.
        ConfigError: the configuration, or an entry that is not disabled, cannot be used.
    """
    if not is_configuration(target):
        return ProxyServer(target, **options)
    file = None if isinstance(target, Mapping) else str(target)
    entries = [entry for entry in load(target) if not entry.disabled]
    if not entries:
        raise ConfigError("the configuration has no server that is enabled", file)
    return _in_front_of(entries, **options)


def mountable(target: Any) -> Server:
    """Return the server that is mounted for a target.

    Raises:
        DefinitionError: it is no target of a proxy.
    """
    if not isinstance(target, str | PathLike | list | tuple | Mapping):
        raise DefinitionError(f"{target!r} cannot be mounted: give a Server")
    return proxy(target)


def _in_front_of(
    entries: list[ServerEntry],
    *,
    name: str | None = None,
    forward_credentials: Any = False,
    max_connections: int = MAX_CONNECTIONS,
    max_connections_per_principal: int | None = None,
    secret: Any = None,
    store: Any = None,
    **options: Any,
) -> Server:
    limit = ConnectionLimit(max_connections, max_connections_per_principal, len(entries))
    server = Server(name or "proxy", secret=secret, store=store)
    receivers = {entry.name for entry in entries if _receives_credentials(entry)}
    if forward_credentials is not False and not receivers:
        raise DefinitionError("forward_credentials needs a server with a URL and without credentials of its own")
    for entry, prefix in _prefixes(entries):
        own = {key: value for key, value in merged_options(options, entry).items() if key in (*_OF_ENTRIES, "isolate")}
        mounted = ProxyServer(
            _target(entry),
            name=entry.name,
            forward_credentials=forward_credentials if entry.name in receivers else False,
            limit=limit,
            shows_tool=None if entry.include is None and not entry.exclude else entry.shows,
            secret=secret,
            store=store,
            **own,
        )
        server.mount(mounted, prefix=prefix)
    return server


def _target(entry: ServerEntry) -> dict[str, Any]:
    """Return the target of an entry.

    Raises:
        ConfigError: the entry cannot be used; the error names the file and the server.
    """
    if entry.error is not None:
        raise entry.error
    inherits = {key: value for key, value in entry.options.items() if key == "inherit_env"}
    target = {**entry.target, **(inherits if "command" in entry.target else {})}
    try:
        endpoint_of(target, EndpointOptions(Credentials()))
    except (TypeError, ValueError) as error:
        raise unusable(entry, error) from None
    return target


def _receives_credentials(entry: ServerEntry) -> bool:
    """Tell whether the header of a caller may be sent to a server: it has a URL, and no credentials in its entry."""
    headers = entry.target.get("headers") or {}
    has_own = "auth" in entry.options or any(name.lower() == "authorization" for name in headers)
    return "url" in entry.target and not has_own


def _prefixes(entries: list[ServerEntry]) -> Iterator[tuple[ServerEntry, str]]:
    """Yield each entry with the prefix of its names: the name of the server, as far as names of tools may have it.

    Raises:
        ConfigError: two servers would have the same prefix.
    """
    owners: dict[str, str] = {}
    for entry in entries:
        wanted = entry.prefix or entry.name
        prefix = wanted if TOOL_NAME.fullmatch(wanted) else safe_name(wanted)
        if prefix in owners:
            problem = f"its prefix {prefix!r} is that of the server {owners[prefix]!r} too; rename one of them"
            raise ConfigError(problem, entry.file, entry.name)
        owners[prefix] = entry.name
        yield entry, prefix
