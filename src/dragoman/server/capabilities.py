"""What a server declares: what follows from what is registered, and what the author adds to it or says in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.extensions import merge_settings
from dragoman.server.define.results import wire_object

if TYPE_CHECKING:
    from dragoman.server.registry import Registry

_CHANGES = ("listChanged", "subscribe")
Given = types.ServerCapabilities | Mapping[str, Any] | None


class Declaration:
    """What an author gave as `capabilities=`.

    A dict adds to what is derived and overrides its entries: True declares one, False hides it. An object replaces all
    that is derived.

    Raises:
        DefinitionError: there is no such capability, or it does not fit.
    """

    def __init__(self, given: Given) -> None:
        self.replaces = isinstance(given, types.ServerCapabilities)
        entries = dict(given) if isinstance(given, Mapping) else {}
        if given is not None and not self.replaces and not isinstance(given, Mapping):
            raise DefinitionError(
                f"capabilities must be a dict or a ServerCapabilities, not {type(given).__name__}: write"
                ' capabilities={"resources": {"subscribe": True}}'
            )
        added = {name: {} if entry is True else entry for name, entry in entries.items() if entry is not False}
        hidden: types.Json = {name: {} for name, entry in entries.items() if entry is False}
        self.given: types.ServerCapabilities = wire_object(
            given if self.replaces else added, types.ServerCapabilities, "capabilities"
        )
        self._added = msgspec.to_builtins(self.given)
        self._hidden = msgspec.to_builtins(wire_object(hidden, types.ServerCapabilities, "capabilities")).keys()

    def over(self, derived: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return what is declared of a server that serves what was derived."""
        extensions = merge_settings(derived.extensions, self.given.extensions) or None
        if self.replaces:
            return msgspec.structs.replace(self.given, extensions=extensions) if derived.extensions else self.given
        entries = msgspec.to_builtins(derived)
        for name, entry in self._added.items():
            entries[name] = {**entries.get(name, {}), **entry}
        if extensions is not None:
            entries["extensions"] = extensions
        shown = {name: entry for name, entry in entries.items() if name not in self._hidden}
        return msgspec.convert(shown, types.ServerCapabilities)

    def unserved(self, registry: Registry) -> list[str]:
        """Return what is registered and yet not declared, although the author did not hide it by name."""
        registered = {
            "tools": bool(registry.tools),
            "prompts": bool(registry.prompts),
            "resources": bool(registry.resources or registry.templates),
        }
        return [name for name, some in registered.items() if some and self.replaces and not getattr(self.given, name)]


def without_changes(capabilities: types.ServerCapabilities) -> types.ServerCapabilities:
    """Return what is declared to a client that can be told of no change."""
    entries = msgspec.to_builtins(capabilities)
    for name in ("tools", "prompts", "resources"):
        if name in entries:
            entries[name] = {key: value for key, value in entries[name].items() if key not in _CHANGES}
    return msgspec.convert(entries, types.ServerCapabilities)


def served_capabilities(*, completes: bool, subscribes: bool) -> types.ServerCapabilities:
    """Return what follows from what is registered."""
    return types.ServerCapabilities(
        tools=types.ListChangedCapability(list_changed=True),
        prompts=types.ListChangedCapability(list_changed=True),
        resources=types.ResourcesCapability(list_changed=True, subscribe=subscribes or None),
        logging={},
        completions={} if completes else None,
    )
