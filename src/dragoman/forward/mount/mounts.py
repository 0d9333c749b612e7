"""`Mounts`: the servers that are mounted in a server, and what they add to it.

A parent derives its handlers, capabilities and methods from its own and from those of its mounts, at each registration
in any of them. A name that two of them have is refused at the mount, and at the registration that would make it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError, MethodAlreadyDefined, ToolNotUnique
from dragoman.forward.mount.merged_handlers import FirstServer, Handle, Introduction, MergedHandler, handler_kind
from dragoman.forward.mount.merged_listening import MergedListening
from dragoman.forward.mount.mount import TABLES, Mount, is_open, keys, mounts_above, mounts_of, without_mounts
from dragoman.forward.mount.renaming import Renaming
from dragoman.protocol.extensions import ExtensionRow, ProtocolTable, merge_objects, merge_settings
from dragoman.protocol.methods import METHOD_NAMES, METHODS, ROOTS_CHANGED, Method
from dragoman.server.define.definition import Definition
from dragoman.server.define.prompts import Prompt
from dragoman.server.define.resources import Resource
from dragoman.server.define.tools import TOOL_NAME, Tool

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

_KINDS: Mapping[str, type[MergedHandler]] = {
    "initialize": Introduction,
    "server/discover": Introduction,
    "subscriptions/listen": MergedListening,
}
MAX_NAME = 128
_NOTIFICATIONS = ("notifications/initialized", ROOTS_CHANGED)
"""The notifications of clients that every server gets."""
_NOUNS = {"tools": "tool", "prompts": "prompt", "resources": "resource", "templates": "resource template"}


class Mounts:
    """The mounts of one server, in the order in which they were made."""

    def __init__(self, server: Dispatcher) -> None:
        self._server = server
        self._mounts: tuple[Mount, ...] = ()

    def __iter__(self) -> Iterator[Mount]:
        return iter(self._mounts)

    def add(self, server: Dispatcher, renaming: Renaming) -> None:
        """Mount a server.

        Raises:
            DefinitionError: the server cannot be mounted so; the message says why.
        """
        if is_open(self._server, "tools/call") and not self._mounts:
            raise DefinitionError(
                f"{self._server.name!r} serves every name, as a proxy does: mount both servers in a third server"
            )
        mount = Mount(self._server, server, renaming)
        _require_no_cycle(self._server, server)
        self._require_known(mount)
        for table in TABLES:
            for inner in keys(server, table):
                _require_free(mount, table, inner)
        self._require_methods_free(server)
        before, self._mounts = self._mounts, (*self._mounts, mount)
        try:
            ProtocolTable.of(self._all_rows(), self.methods(self._server.offering.own_methods))
        except DefinitionError:
            self._mounts = before
            raise
        self._server.add_mounts(self)
        server.mounted_in.add(mount)
        for listener in mount.listeners:
            server.notifier.add(listener)

    def _require_known(self, mount: Mount) -> None:
        """Refuse what could not be told apart: the same server twice, or two servers whose names only they know."""
        for other in self._mounts:
            if other.server is mount.server and other.renaming.start == mount.renaming.start:
                raise DefinitionError(f"{mount.server.name!r} is mounted with this prefix already; give another prefix")
            both = (other, mount)
            if all(not one.renaming.start and is_open(one.server, "tools/call") for one in both):
                names = " and ".join(repr(one.server.name) for one in both)
                raise DefinitionError(f"Nothing tells the names of {names} apart: mount one of them with a prefix")

    def _require_methods_free(self, server: Dispatcher) -> None:
        """Refuse a method that another server has too, if nothing in a request says which server is meant."""
        if any(mount.server is server for mount in self._mounts):
            return
        for row in server.offer.table.methods:
            name = row.name
            is_ambiguous = name not in METHOD_NAMES and handler_kind(row) is FirstServer
            if is_ambiguous and name in server.handlers and name in self._server.handlers:
                raise MethodAlreadyDefined(
                    f"The method {name!r} is defined in {self._server.name!r} and in {server.name!r}, and no"
                    " request says which one it means: rename one of them"
                )

    # What the mounts add.

    def handlers(self, current: Mapping[str, Handle]) -> dict[str, Handle]:
        """Return the handlers of the server and its mounts; `current` may be merged already."""
        own = {name: without_mounts(handler) for name, handler in current.items()}
        theirs = [name for mount in self._mounts for name in mount.server.handlers]
        names = dict.fromkeys([*own, *theirs, *_NOTIFICATIONS])
        added = (method for row in self._all_rows() for method in row.methods)
        rows = {row.name: row for row in (*METHODS, *added)}
        return {name: self._merged(rows.get(name) or Method(name=name), own.get(name)) for name in names}

    def _merged(self, row: Method, own: Handle | None) -> Handle:
        kind = _KINDS.get(row.name) or handler_kind(row)
        if kind is FirstServer and own is not None and row.name not in _NOTIFICATIONS:
            return own
        handler: Any = kind(row, own, self._mounts)
        return handler  # type: ignore[no-any-return]

    def _all_rows(self) -> tuple[ExtensionRow, ...]:
        installed = self._server.installed
        return self.rows(() if installed is None else installed.rows)

    def rows(self, own: tuple[ExtensionRow, ...]) -> tuple[ExtensionRow, ...]:
        """Return the rows of the extensions of the server and its mounts, each once."""
        rows = [*own]
        for mount in self._mounts:
            rows += [row for row in mount.server.offer.table.extensions if row not in rows]
        return tuple(rows)

    def methods(self, own: tuple[Method, ...]) -> tuple[Method, ...]:
        """Return the methods of `server.method` of the server and its mounts, each once."""
        every = {method.name: method for mount in self._mounts for method in mount.server.offering.own_methods}
        return tuple((every | {method.name: method for method in own}).values())

    def capabilities(self, own: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return the capabilities of the server, with those of its mounts added."""
        entries = msgspec.to_builtins(own)
        for mount in self._mounts:
            theirs = msgspec.to_builtins(mount.server.capabilities)
            extensions = merge_settings(theirs.get("extensions"), entries.get("extensions"))
            entries = merge_objects(theirs, entries)
            if extensions:
                entries["extensions"] = extensions
        return msgspec.convert(entries, types.ServerCapabilities)

    def managers(self) -> list[AbstractAsyncContextManager[object]]:
        """Return the contexts in which the mounted servers serve."""
        return [mount.server.serving() for mount in self._mounts]

    def handles_notification(self, method: str) -> bool:
        """Tell whether a mounted server handles a notification of clients, and the parent has a handler for it."""
        is_wanted = any(mount.server.offering.for_notification(method) is not None for mount in self._mounts)
        return is_wanted and method in self._server.handlers

    def find(self, table: str, key: str) -> Any:
        """Return the definition of a mounted server by its name or URI in the parent; None if there is none."""
        return next((one for mount in self._mounts if (one := mount.find(table, key)) is not None), None)


def _require_no_cycle(parent: Dispatcher, server: Dispatcher) -> None:
    if server is parent:
        raise DefinitionError(f"The server {parent.name!r} cannot be mounted into itself")
    target = server.passes_to
    if target is parent:
        raise DefinitionError(f"A proxy of {parent.name!r} cannot be mounted into {parent.name!r} itself")
    if target is not None:
        _require_no_cycle(parent, target)
    for mount in mounts_of(server):
        if mount.server is parent:
            raise DefinitionError(f"{server.name!r} cannot be mounted into {parent.name!r}, which is mounted in it")
        _require_no_cycle(parent, mount.server)


def require_definable(server: Dispatcher, definition: Definition[..., Any]) -> None:
    """Refuse a definition whose name is taken in a mounted server, or in a server that this one is mounted in.

    Raises:
        DefinitionError: the name is taken, or is too long with a prefix; the message names both.
    """
    table, key = _place(definition)
    for mount in mounts_of(server):
        if mount.find(table, key) is not None:
            raise _clash(mount, table, key, server)
    for mount in mounts_above(server):
        _require_free(mount, table, key)


def _place(definition: Any) -> tuple[str, str]:
    if isinstance(definition, Tool | Prompt):
        return ("tools" if isinstance(definition, Tool) else "prompts"), definition.name
    return ("resources", definition.uri) if isinstance(definition, Resource) else ("templates", definition.uri_template)


def _require_free(mount: Mount, table: str, inner: str) -> None:
    """Refuse a definition of a mounted server whose name in the parent, or above it, is taken or not allowed."""
    parent, outer = mount.parent, mount.outer(table, inner)
    if parent is None or outer is None:
        return
    if table == "tools" and TOOL_NAME.fullmatch(outer) is None:
        problem = f"has {len(outer)} characters" if len(outer) > MAX_NAME else "is not allowed"
        raise DefinitionError(
            f"The tool {inner!r} of {mount.server.name!r} would be called {outer!r}, which {problem}: use another"
            f" prefix, or `rename` it; a name has 1 to {MAX_NAME} letters, digits, underscores, hyphens and dots"
        )
    if (other := mount.inner(table, outer)) != inner:
        raise DefinitionError(
            f"The {_NOUNS[table]}s {inner!r} and {other!r} of the mounted server {mount.server.name!r} would both be"
            f" {outer!r} here: change `rename`"
        )
    if outer in parent.registry.registered(table):
        raise _clash(mount, table, outer, parent, inner)
    for beside in mounts_of(parent):
        if beside is not mount and beside.find(table, outer) is not None:
            raise _clash(mount, table, outer, beside.server, inner)
    for above in mounts_above(parent):
        _require_free(above, table, outer)


def _clash(mount: Mount, table: str, outer: str, owner: Dispatcher, inner: str | None = None) -> DefinitionError:
    kind = ToolNotUnique if table == "tools" else DefinitionError
    known = mount.inner(table, outer) if inner is None else inner
    return kind(
        f"The {_NOUNS[table]} {known!r} of the mounted server {mount.server.name!r} is {outer!r} here, and"
        f" {owner.name!r} has {outer!r} too: mount with another prefix, or use `rename` or `exclude`"
    )
