"""The servers of a group: each with its client, and with what is known of how it fares.

Every server has a client, also one whose configuration cannot be used: that client raises the error of its
configuration whenever it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast

from dragoman.client.client import AsyncClient
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.config import ServerEntry, read_entry
from dragoman.client.group.expansion import EntryPlace
from dragoman.client.options import CONNECT_SECONDS, check, reusable, seconds
from dragoman.client.properties import ClientProperties
from dragoman.errors import AuthError, ConfigError
from dragoman.schema.naming import matches

F = TypeVar("F", bound=ClientProperties)
Servers = Mapping[str, Target | ServerEntry | F] | Sequence[F | ServerEntry]
"""The servers of a group: what each is pointed at by its name, or clients."""
BACKGROUND_SECONDS = 300.0
"""How long a server of a group may take to connect while nobody waits for it."""
ServerStatus = Literal["new", "connecting", "ready", "lost", "failed", "needs_auth", "disabled", "stopped"]


class GroupMember(Generic[F]):
    """One server of a group."""

    def __init__(self, name: str, face: F, *, patience: float | None = None, entry: ServerEntry | None = None) -> None:
        entry = entry or ServerEntry(name=name)
        self.name = name
        self.face = face
        self.patience = patience
        """Seconds that others wait for it to connect; None for as long as its client takes."""
        self.required = entry.required
        self.disabled = entry.disabled
        self.prefix = entry.prefix
        self._include = entry.include
        self._exclude = entry.exclude
        self.connecting: asyncio.Task[None] | None = None
        self.connect_error: Exception | None = None
        self.list_error: Exception | None = None

    @property
    def client(self) -> AsyncClient:
        """Its client in this process."""
        return self.face._current_client()

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        status = self.client.status
        if self.disabled and status in ("new", "stopped"):
            return "disabled"
        return "needs_auth" if status == "failed" and isinstance(self.connect_error, AuthError) else status

    @property
    def error(self) -> Exception | None:
        """What went wrong, unless all is well again."""
        return self.list_error if self.client.status == "ready" else self.connect_error

    def shows(self, tool: str) -> bool:
        """Tell whether its configuration lets a tool be seen."""
        return (self._include is None or matches(self._include, tool)) and not matches(self._exclude, tool)


class Members(Generic[F]):
    """The servers of a group by their names.

    Raises:
        TypeError: something is nothing that a client can be pointed at, or a client of the other kind.
        ValueError: two have one name.
    """

    def __init__(
        self, kind: Callable[..., F], servers: Servers[F], required: Iterable[str], options: Mapping[str, Any]
    ) -> None:
        check(options)
        self._kind = kind
        self._options = reusable(options)
        self._members: dict[str, GroupMember[F]] = {}
        for name, target in _named(servers):
            self.add(name, target, {})
        for name in required:
            self[name].required = True

    def __getitem__(self, name: str) -> GroupMember[F]:
        try:
            return self._members[name]
        except KeyError:
            known = ", ".join(self._members) or "none"
            raise KeyError(f"There is no server {name!r}; there are: {known}") from None

    def __iter__(self) -> Iterator[GroupMember[F]]:
        return iter(list(self._members.values()))

    def __len__(self) -> int:
        return len(self._members)

    @property
    def names(self) -> list[str]:
        """The names of the servers."""
        return list(self._members)

    def add(self, name: str, target: Any, options: Mapping[str, Any]) -> GroupMember[F]:
        """Take a server in."""
        if name in self._members:
            raise ValueError(f"There is a server {name!r} already; give this one another name, or remove() that one")
        check(options)
        member = self._members[name] = self._made(name, target, options)
        return member

    def remove(self, name: str) -> GroupMember[F]:
        """Let a server go."""
        member = self[name]
        del self._members[name]
        return member

    def _made(self, name: str, target: Any, options: Mapping[str, Any]) -> GroupMember[F]:
        if isinstance(target, ClientProperties):
            return GroupMember(name, self._own(name, target))
        if isinstance(target, Mapping):
            target = read_entry(name, target, EntryPlace())
        entry = target if isinstance(target, ServerEntry) else None
        merged = {"server_name": name, **(self._options if entry is None else _over(self._options, entry)), **options}
        patience = seconds(merged.get("connect_timeout"), "DRAGOMAN_CONNECT_TIMEOUT", CONNECT_SECONDS)
        merged["connect_timeout"] = max(patience, BACKGROUND_SECONDS)
        face = self._kind(target, **merged) if entry is None else self._of_entry(entry, merged)
        face._current_session().connections.max_wait = patience
        return GroupMember(name, face, patience=patience, entry=entry)

    def _own(self, name: str, client: ClientProperties) -> F:
        wanted = cast("type[F]", self._kind)
        if not isinstance(client, wanted):
            raise TypeError(f"{name!r} is a {type(client).__name__}; here each must be a {wanted.__name__}")
        return client

    def _of_entry(self, entry: ServerEntry, options: dict[str, Any]) -> F:
        error = entry.error
        if error is None:
            try:
                return self._kind(entry.target, **options)
            except (TypeError, ValueError) as cause:
                error = _unusable(entry, cause)
        return self._kind(_Misconfigured(error))


def _over(options: Mapping[str, Any], entry: ServerEntry) -> dict[str, Any]:
    """Return the options of all servers with what an entry says of one over them."""
    merged = {**options, **entry.options}
    target = entry.target
    if "extensions" in entry.options:
        given = options.get("extensions") or ()
        merged["extensions"] = [*([given] if isinstance(given, Mapping) else given), entry.options["extensions"]]
    if target.get("headers"):
        merged["headers"] = _headers_over(options.get("headers"), target["headers"])
        if "auth" not in entry.options and any(name.lower() == "authorization" for name in target["headers"]):
            merged.pop("auth", None)
    if target.get("env"):
        merged["env"] = {**(options.get("env") or {}), **target["env"]}
    if target.get("cwd"):
        merged["cwd"] = target["cwd"]
    return merged


def _headers_over(below: Any, headers: Mapping[str, str]) -> Any:
    """Return headers over others; of two spellings of one name the last is sent."""
    if not callable(below):
        return {**(below or {}), **headers}
    credentials = Credentials(below)

    async def merged() -> dict[str, str]:
        return {**await credentials.own_headers(), **headers}

    return merged


class _Misconfigured:
    """The transport to a server whose configuration cannot be used."""

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def open(self, receive: Any, closed: Any) -> None:  # noqa: ARG002
        raise self._error.with_traceback(None)

    async def send(self, message: bytes) -> None:  # noqa: ARG002
        raise self._error.with_traceback(None)

    async def close(self) -> None:
        """Nothing was opened."""


def _unusable(entry: ServerEntry, cause: Exception) -> ConfigError:
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
            raise TypeError(f"{server!r} has no name; give clients, or a mapping of names to what they are pointed at")
