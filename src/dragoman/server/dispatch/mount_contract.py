"""The contract of the servers that are mounted in a server: what `forward/mount` adds to a `Server`, and tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from dragoman import types
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method

if TYPE_CHECKING:
    from dragoman.server.server import Server

Patterns = str | Iterable[str] | None
"""A name or URI, or several, in which `*` stands for any text; None selects nothing."""


class MountedServer(Protocol):
    """One server that is mounted in another."""

    server: Server

    @property
    def parent(self) -> Server | None:
        """The server that this one is mounted in; None if nobody keeps it any more."""
        ...

    def outer(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the parent; None if it is left out."""

    def inner(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the mounted server; None if it cannot be one of that server's."""


class MountedServers(Protocol):
    """The servers that are mounted in a server, and what they add to it."""

    def __iter__(self) -> Iterator[MountedServer]: ...

    def add(self, server: Server, renaming: Any) -> None:
        """Mount a server, with the names that it has here."""

    def handlers(self, current: Mapping[str, Any]) -> dict[str, Any]:
        """Return the handlers of the server and its mounts."""
        ...

    def rows(self, own: tuple[ExtensionRow, ...]) -> tuple[ExtensionRow, ...]:
        """Return the rows of the extensions of the server and its mounts, each once."""
        ...

    def methods(self, own: tuple[Method, ...]) -> tuple[Method, ...]:
        """Return the methods of `server.method` of the server and its mounts, each once."""
        ...

    def capabilities(self, own: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return the capabilities of the server, with those of its mounts added."""
        ...

    def managers(self) -> list[AbstractAsyncContextManager[object]]:
        """Return the contexts in which the mounted servers serve."""
        ...

    def handles_notification(self, method: str) -> bool:
        """Tell whether a mounted server handles a notification of clients, and the parent has a handler for it."""
        ...

    def find(self, table: str, key: str) -> Any:
        """Return the definition of a mounted server by its name or URI in the parent; None if there is none."""
