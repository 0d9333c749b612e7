"""The servers of a group, each with its client and its last errors.

Every server has a client. If the configuration of a server cannot be used, every use of its client raises the error of
the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

from dragoman.client.client import AsyncClient
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.entry import ServerEntry, read_entry
from dragoman.client.group.references import ConfigSource
from dragoman.client.options import CONNECT_SECONDS, check, reusable, seconds
from dragoman.client.properties import ClientProperties
from dragoman.errors import AuthError, ConfigError

ClientT = TypeVar("ClientT", bound=ClientProperties)
Servers = Mapping[str, Target | ServerEntry | ClientT] | Sequence[ClientT | ServerEntry]
"""The servers of a group: targets by name, or clients."""
BACKGROUND_SECONDS = 300.0
"""The time-out of an attempt to connect that continues in the background."""
ServerStatus = Literal["new", "connecting", "ready", "lost", "failed", "needs_auth", "disabled", "stopped"]


class GroupMember(Generic[ClientT]):
    """One server of a group."""

    def __init__(
        self, name: str, client: ClientT, *, patience: float | None = None, entry: ServerEntry | None = None
    ) -> None:
        entry = entry or ServerEntry(name=name)
        self.name = name
        self.client = client
        self.patience = patience
        """How many seconds the group waits for the server to connect; None waits as long as the client does."""
        self.required = entry.required
        self.disabled = entry.disabled
        self.prefix = entry.prefix
        self._entry = entry
        self.connecting: asyncio.Task[None] | None = None
        self.attempted_at = 0.0
        """The time of the event loop at which `connecting` began."""
        self.connect_error: Exception | None = None
        self.list_error: Exception | None = None

    @property
    def async_client(self) -> AsyncClient:
        """The server's asynchronous client in this process."""
        return self.client._current_client()

    @property
    def status(self) -> ServerStatus:
        """The state of the connection, or why there is none."""
        status = self.async_client.status
        if self.disabled and status in ("new", "stopped"):
            return "disabled"
        return "needs_auth" if status == "failed" and isinstance(self.connect_error, AuthError) else status

    @property
    def error(self) -> Exception | None:
        """The last error, unless the server works again."""
        return self.list_error if self.async_client.status == "ready" else self.connect_error

    def shows(self, tool: str) -> bool:
        """Tell whether the server's configuration shows a tool."""
        return self._entry.shows(tool)


class Members(Generic[ClientT]):
    """The servers of a group by their names.

    Raises:
        TypeError: a target is of an unsupported type, or is a client of the other kind.
        ValueError: two servers have the same name.
    """

    def __init__(
        self,
        kind: Callable[..., ClientT],
        servers: Servers[ClientT],
        required: Iterable[str],
        options: Mapping[str, Any],
    ) -> None:
        check(options)
        self._kind = kind
        self._options = reusable(options)
        self._members: dict[str, GroupMember[ClientT]] = {}
        for name, target in _named(servers):
            self.add(name, target, {})
        for name in required:
            self[name].required = True

    def __getitem__(self, name: str) -> GroupMember[ClientT]:
        try:
            return self._members[name]
        except KeyError:
            known = ", ".join(self._members) or "none"
            raise KeyError(f"There is no server {name!r}; there are: {known}") from None

    def __iter__(self) -> Iterator[GroupMember[ClientT]]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    @property
    def names(self) -> list[str]:
        """The names of the servers."""
        return list(self._members)

    def add(self, name: str, target: Any, options: Mapping[str, Any]) -> GroupMember[ClientT]:
        """Add a server."""
        if name in self._members:
            raise ValueError(f"There is a server {name!r} already; give this one another name, or remove() that one")
        check(options)
        member = self._members[name] = self._member(name, target, options)
        return member

    def remove(self, name: str) -> GroupMember[ClientT]:
        """Remove a server."""
        self[name]  # raises the KeyError that names the servers
        return self._members.pop(name)

    def _member(self, name: str, target: Any, options: Mapping[str, Any]) -> GroupMember[ClientT]:
        if isinstance(target, ClientProperties):
            kind = cast("type[ClientT]", self._kind)
            if not isinstance(target, kind):
                raise TypeError(f"{name!r} is a {type(target).__name__}; here each must be a {kind.__name__}")
            return GroupMember(name, target)
        if isinstance(target, Mapping):
            target = read_entry(name, target, ConfigSource())
        entry = target if isinstance(target, ServerEntry) else None
        merged = {
            "server_name": name,
            **(self._options if entry is None else merged_options(self._options, entry)),
            **options,
        }
        patience = seconds(merged.get("connect_timeout"), "DRAGOMAN_CONNECT_TIMEOUT", CONNECT_SECONDS)
        merged["connect_timeout"] = max(patience, BACKGROUND_SECONDS)
        client = self._kind(target, **merged) if entry is None else self._client_of(entry, merged)
        client._current_session().connections.max_wait = patience
        return GroupMember(name, client, patience=patience, entry=entry)

    def _client_of(self, entry: ServerEntry, options: dict[str, Any]) -> ClientT:
        error = entry.error
        if error is None:
            try:
                return self._kind(entry.target, **options)
            except (TypeError, ValueError) as cause:
                error = unusable(entry, cause)
        return self._kind(_MisconfiguredTransport(error))


def merged_options(options: Mapping[str, Any], entry: ServerEntry) -> dict[str, Any]:
    """Return the options of the group, overridden by those of one entry."""
    merged = {**options, **entry.options}
    target = entry.target
    if "extensions" in entry.options:
        given = options.get("extensions") or ()
        merged["extensions"] = [*([given] if isinstance(given, Mapping) else given), entry.options["extensions"]]
    if target.get("headers"):
        merged["headers"] = _merged_headers(options.get("headers"), target["headers"])
        if "auth" not in entry.options and any(name.lower() == "authorization" for name in target["headers"]):
            merged.pop("auth", None)
    if target.get("env"):
        merged["env"] = {**(options.get("env") or {}), **target["env"]}
    if target.get("cwd"):
        merged["cwd"] = target["cwd"]
    return merged


def _merged_headers(defaults: Any, headers: Mapping[str, str]) -> Any:
    """Return default headers, overridden by others; the last spelling of a name is sent."""
    if not callable(defaults):
        return {**(defaults or {}), **headers}
    credentials = Credentials(defaults)

    async def merged() -> dict[str, str]:
        return {**await credentials.own_headers(), **headers}

    return merged


class _MisconfiguredTransport:
    """The transport to a server whose configuration cannot be used; every use raises the error."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def open(self, *_: Any) -> None:
        raise self._error.with_traceback(None)

    send = open

    async def close(self) -> None:
        """Do nothing: nothing was opened."""


def unusable(entry: ServerEntry, cause: Exception) -> ConfigError:
    """Return the error of an entry that names no target of a client."""
    kind = entry.target.get("type")
    if kind in ("stdio", "http", "sse", None):
        return ConfigError(str(cause), entry.file, entry.name)
    # The cause would quote the URL, which may hold a secret.
    message = (
        f"there is no transport {kind!r}; there are stdio, http and sse, and those that register_transport was told"
    )
    return ConfigError(message, entry.file, entry.name, "type")


def _named(servers: Servers[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(servers, Mapping):
        yield from servers.items()
        return
    for number, server in enumerate(servers, 1):
        if isinstance(server, ServerEntry):
            yield server.name, server
        elif isinstance(server, ClientProperties):
            name = server._current_session().info.name
            yield (f"server{number}" if name == "dragoman" else name), server
        else:
            raise TypeError(f"{server!r} has no name; give clients, or a mapping of names to targets")
