"""The identity and the capabilities that a server declares to its clients.

A server sends both in the results of `initialize` and `server/discover`. The capabilities follow from the registered
functions. An author may add capabilities, hide some, or replace all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.extensions import merge_settings
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.callables import raise_at_caller
from dragoman.server.wire_objects import wire_object, wire_objects

if TYPE_CHECKING:
    from dragoman.server.registry import Registry

Icons = Iterable[types.Icon | types.Json]
GivenCapabilities = types.ServerCapabilities | Mapping[str, Any] | None
_CHANGE_NOTIFICATIONS = ("listChanged", "subscribe")
_EXAMPLES = {
    "name": "weather",
    "version": "1.0",
    "title": "Weather",
    "description": "Weather for every city.",
    "website_url": "https://example.com",
    "instructions": "Ask for one city at a time.",
}


def implementation(name: str, version: str, icons: Icons, **texts: str | None) -> types.Implementation:
    """Return the identity of a server.

    Raises:
        DefinitionError: a value is not text, or the name or version is empty; the message names the remedy.
    """
    for option, value in {"name": name, "version": version, **texts}.items():
        require_text(option, value, optional=option in texts)
    return types.Implementation(name, version, icons=wire_objects(icons, types.Icon, "A server's icon"), **texts)


def require_text(option: str, value: Any, *, optional: bool = True) -> None:
    """Check that the value of a server's option is text; an optional value may be None or empty.

    Raises:
        DefinitionError: the value is not text, or a required value is None or empty.
    """
    if (optional and value is None) or (isinstance(value, str) and (optional or value)):
        return
    expected = "text" if optional else "text that is not empty"
    raise DefinitionError(f"The {option} of a server must be {expected}, such as {_EXAMPLES[option]!r}, not {value!r}")


@raise_at_caller("name version title description website_url icons")
class ServerIdentity:
    """The properties of a `Server` that identify it; clients receive an assigned value from the assignment on."""

    def __init__(self, info: types.Implementation) -> None:
        self._info = info
        self.info_bytes = Raw(encode(info))

    def _identity_changed(self) -> None:
        """Check the changed identity, and discard the lists that carry the earlier one; `Server` overrides this."""

    def _describe(self, **changes: Any) -> None:
        before, fields = self._info, ("name", "version", "title", "description", "website_url", "icons")
        current = {name: getattr(before, name) for name in fields}
        current["icons"] = before.icons or ()
        self._info = implementation(**{**current, **changes})
        try:
            self._identity_changed()
        except DefinitionError:
            self._info = before
            raise
        self.info_bytes = Raw(encode(self._info))

    @property
    def info(self) -> types.Implementation:
        """The identity of the server, as clients receive it."""
        return self._info

    @property
    def name(self) -> str:
        """The server's name."""
        return self._info.name

    @name.setter
    def name(self, name: str) -> None:
        self._describe(name=name)

    @property
    def version(self) -> str:
        """The server's own version."""
        return self._info.version

    @version.setter
    def version(self, version: str) -> None:
        self._describe(version=version)

    @property
    def title(self) -> str | None:
        """The name of the server to show to people."""
        return self._info.title

    @title.setter
    def title(self, title: str | None) -> None:
        self._describe(title=title)

    @property
    def description(self) -> str | None:
        """The description of the server."""
        return self._info.description

    @description.setter
    def description(self, description: str | None) -> None:
        self._describe(description=description)

    @property
    def website_url(self) -> str | None:
        """The URL of the server's web site."""
        return self._info.website_url

    @website_url.setter
    def website_url(self, url: str | None) -> None:
        self._describe(website_url=url)

    @property
    def icons(self) -> list[types.Icon]:
        """The server's icons."""
        return list(self._info.icons or ())

    @icons.setter
    def icons(self, icons: Icons) -> None:
        self._describe(icons=icons)


class Declaration:
    """The value that an author gave as `capabilities=`.

    A dict adds to the derived capabilities and overrides their entries: True declares a capability, False hides it. A
    `ServerCapabilities` replaces all derived capabilities.

    Raises:
        DefinitionError: there is no such capability, or its value has the wrong type.
    """

    def __init__(self, given: GivenCapabilities) -> None:
        self._warned = False
        self._replaces = isinstance(given, types.ServerCapabilities)
        if given is not None and not self._replaces and not isinstance(given, Mapping):
            raise DefinitionError(
                f"capabilities must be a dict or a ServerCapabilities, not {type(given).__name__}: write"
                ' capabilities={"resources": {"subscribe": True}}'
            )
        entries = dict(given) if isinstance(given, Mapping) else {}
        added = {name: {} if entry is True else entry for name, entry in entries.items() if entry is not False}
        hidden: types.Json = {name: {} for name, entry in entries.items() if entry is False}
        self.given = wire_object(given if self._replaces else added, types.ServerCapabilities, "capabilities")
        self._added = msgspec.to_builtins(self.given)
        self._hidden = msgspec.to_builtins(wire_object(hidden, types.ServerCapabilities, "capabilities")).keys()

    def over(self, derived: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return the capabilities to declare: the derived ones, merged with those that the author gave."""
        extensions = merge_settings(derived.extensions, self.given.extensions) or None
        if self._replaces:
            return msgspec.structs.replace(self.given, extensions=extensions) if derived.extensions else self.given
        entries = msgspec.to_builtins(derived)
        for name, entry in self._added.items():
            entries[name] = {**entries.get(name, {}), **entry}
        if extensions is not None:
            entries["extensions"] = extensions
        shown = {name: entry for name, entry in entries.items() if name not in self._hidden}
        return msgspec.convert(shown, types.ServerCapabilities)

    def warn_of_undeclared(self, registry: Registry, server: str) -> None:
        """Log one warning if definitions are registered whose capability the server does not declare."""
        undeclared = self._undeclared(registry)
        if undeclared and not self._warned:
            import logging

            self._warned = True
            logging.getLogger("dragoman.server").warning(
                "The server %r has %s that no client can use, because its capabilities leave them out; give"
                " `capabilities` as a dict to add to what is declared",
                server,
                " and ".join(undeclared),
            )

    def _undeclared(self, registry: Registry) -> list[str]:
        """Return the lists that have entries but that the author's `ServerCapabilities` does not declare.

        A list that the author hid with False is left out.
        """
        registered: dict[str, Any] = {
            "tools": registry.tools,
            "prompts": registry.prompts,
            "resources": registry.resources or registry.templates,
        }
        return [name for name, some in registered.items() if some and self._replaces and not getattr(self.given, name)]


def derived_capabilities(*, completes: bool, subscribes: bool) -> types.ServerCapabilities:
    """Return the capabilities that follow from the registered functions."""
    return types.ServerCapabilities(
        tools=types.ListChangedCapability(list_changed=True),
        prompts=types.ListChangedCapability(list_changed=True),
        resources=types.ResourcesCapability(list_changed=True, subscribe=subscribes or None),
        logging={},
        completions={} if completes else None,
    )


def without_changes(capabilities: types.ServerCapabilities) -> types.ServerCapabilities:
    """Return the capabilities without `listChanged` and `subscribe`, for a client that cannot receive changes."""
    entries = msgspec.to_builtins(capabilities)
    for name in ("tools", "prompts", "resources"):
        if name in entries:
            entries[name] = {key: value for key, value in entries[name].items() if key not in _CHANGE_NOTIFICATIONS}
    return msgspec.convert(entries, types.ServerCapabilities)
