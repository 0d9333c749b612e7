"""`Offering`: what a server offers its clients: settings, capabilities, and the versions and methods that it serves.

All of it follows from the definitions, the configuration, the extensions and the mounted servers. The offering is
derived again when one of these changes, and a registration that changes none of them derives nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Lock
from typing import Any, Protocol

import msgspec

from dragoman import types
from dragoman.config import PROCESS, Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE, ExtensionRow, ProtocolTable, merge_settings
from dragoman.protocol.methods import ROOTS_CHANGED, Method
from dragoman.protocol.versions import Version
from dragoman.server.define.definition import Definition
from dragoman.server.identity import ServerIdentity
from dragoman.server.registry import Registry
from dragoman.server.settings import ServerSettings, checked_configuration
from dragoman.server.wire_objects import wire_object

GivenCapabilities = types.ServerCapabilities | Mapping[str, Any] | None
_CHANGE_NOTIFICATIONS = ("listChanged", "subscribe")


class ExtensionOffer(Protocol):
    """The rows and capabilities that the extensions of a server add to its offering."""

    rows: tuple[ExtensionRow, ...]

    @property
    def notifications(self) -> Collection[str]:
        """The methods of the client notifications that extensions handle."""

    def declared(
        self, derived: types.ServerCapabilities, configured: Mapping[str, types.Json]
    ) -> types.ServerCapabilities:
        """Return the derived capabilities with those of the extensions added."""

    def require_carried(self, pinned: Version) -> None:
        """Refuse extensions that do not exist in the pinned version."""


class MountedOffer(Protocol):
    """The rows and capabilities that mounted servers add to the offering of a server."""

    def rows(self, own: tuple[ExtensionRow, ...]) -> tuple[ExtensionRow, ...]:
        """Return the rows of the extensions of the server and its mounts, each once."""

    def methods(self, own: tuple[Method, ...]) -> tuple[Method, ...]:
        """Return the methods of `server.method` of the server and its mounts, each once."""

    def capabilities(self, own: types.ServerCapabilities) -> types.ServerCapabilities:
        """Return the capabilities of the server, with those of its mounts added."""

    def handles_notification(self, method: str) -> bool:
        """Tell whether a mounted server handles a notification of clients."""


class Offering:
    """The versions, methods and capabilities that one server offers.

    Example:
        offering = Offering(ServerIdentity(implementation("weather", "1.0", ())), Registry())
        offering.derive()
        offering.offer.versions

    Raises:
        DefinitionError: the pinned version does not exist, or cannot carry the identity or the capabilities.
    """

    settings: ServerSettings
    """The configuration of this server, merged over the defaults of the process."""
    capabilities: types.ServerCapabilities
    """The capabilities that the server declares."""
    offer: eras.Offer
    """The versions and methods that the server serves."""

    def __init__(
        self,
        identity: ServerIdentity,
        registry: Registry,
        configuration: Configuration | None = None,
        capabilities: GivenCapabilities = None,
        *,
        strict_arguments: bool = False,
    ) -> None:
        self.identity = identity
        self._registry = registry
        self._strict_arguments = strict_arguments
        self.extensions: ExtensionOffer | None = None
        """The extensions of the server; None if it has none."""
        self.mounts: MountedOffer | None = None
        """The servers that are mounted in this one; None if there are none."""
        self.own_methods: tuple[Method, ...] = ()
        """The rows of the methods that `server.method` registered; they need no capability."""
        self.configuration = checked_configuration(configuration)
        self.settings = self._merged(self.configuration)
        self._declaration = Declaration(capabilities)
        self._inputs: tuple[Any, ...] = ()
        """The inputs of the current offer; `derive` makes a new offer only if they changed."""
        self._notification_offer: eras.Offer | None = None
        """The offer that opens notifications of clients; None until the server handles a notification."""
        self._lock = Lock()
        self.require_carried()

    def _merged(self, configuration: Configuration) -> ServerSettings:
        return ServerSettings.of(configuration, PROCESS.configuration, strict_arguments=self._strict_arguments)

    def configure(self, configuration: Configuration) -> None:
        """Replace the configuration.

        Raises:
            DefinitionError: the pinned version does not exist, or cannot carry what is registered.
        """
        configuration = checked_configuration(configuration)
        settings = self._merged(configuration)
        self.require_carried(settings)
        for definition in self._registry.definitions():
            self.require_definition_carried(definition, settings)
        self.configuration = configuration

    def declare(self, given: GivenCapabilities) -> None:
        """Replace what the author changes in the derived capabilities.

        Raises:
            DefinitionError: a capability does not exist, or the pinned version lacks it.
        """
        before, self._declaration = self._declaration, Declaration(given)
        try:
            self.require_carried()
        except DefinitionError:
            self._declaration = before
            raise

    def require_carried(self, settings: ServerSettings | None = None) -> None:
        """Refuse a pinned version that cannot carry the identity, the capabilities or the extensions of the server.

        Raises:
            DefinitionError: the version lacks a field or an extension, which the message names.
        """
        settings = settings or self.settings
        settings.require_carried(f"The server {self.identity.name!r}", self.identity.info)
        settings.require_carried(f"What the server {self.identity.name!r} declares", self._declaration.given)
        if settings.pinned is not None and self.extensions is not None:
            self.extensions.require_carried(settings.pinned)

    def require_definition_carried(
        self, definition: Definition[..., Any], settings: ServerSettings | None = None
    ) -> None:
        """Refuse a tool, prompt, resource or template with a field that the pinned version lacks.

        Raises:
            DefinitionError: the version lacks a field, which the message names.
        """
        given: Any = definition.without_derived_parts()
        kind = type(given).__name__
        kind = "resource template" if kind == "ResourceTemplate" else kind.lower()
        (settings or self.settings).require_carried(f"The {kind} {given.name!r}", given)

    def derive(self) -> None:
        """Derive the settings, the capabilities and the offer."""
        with self._lock:  # any thread may register a definition
            self.settings = self._merged(self.configuration)
            derived, rows = self._derived_capabilities(), () if self.extensions is None else self.extensions.rows
            if self.mounts is not None:
                rows, self.own_methods = self.mounts.rows(rows), self.mounts.methods(self.own_methods)
                derived = self.mounts.capabilities(derived)
            inputs = (self._declaration, derived, self.settings.versions, self.own_methods, rows)
            if inputs == self._inputs:
                return
            self.capabilities = self._declaration.over(derived)
            table = ProtocolTable.of(rows, self.own_methods) if rows or self.own_methods else CORE
            self.offer = self._made_offer(table)
            self._notification_offer = None
            self._inputs = inputs

    def _made_offer(self, table: ProtocolTable, *, notifications: bool = False) -> eras.Offer:
        return eras.Offer.of(self.capabilities, self.settings.versions, table, notifications=notifications)

    def _derived_capabilities(self) -> types.ServerCapabilities:
        facts = self._registry.facts
        derived = derived_capabilities(completes=facts.completes, subscribes=facts.subscribes)
        configured = merge_settings(PROCESS.configuration.extensions, self.configuration.extensions)
        if self.extensions is not None:
            return self.extensions.declared(derived, configured)
        return msgspec.structs.replace(derived, extensions=configured) if configured else derived

    def warn_of_undeclared(self) -> None:
        """Log one warning if definitions are registered whose capability the server does not declare."""
        self._declaration.warn_of_undeclared(self._registry, self.identity.name)

    def has_method(self, name: str) -> bool:
        """Tell whether the author registered a method of this name with `server.method`."""
        return any(method.name == name for method in self.own_methods)

    def for_notification(self, method: str) -> eras.Offer | None:
        """Return the offer that opens a notification of a client; None if the server does not handle the notification.

        A client may send a method of `server.method` as a notification. Extensions and the hooks of
        `on_roots_changed` handle notifications too.
        """
        if self.has_method(method):
            return self.offer
        is_handled = (
            (bool(self._registry.roots_hooks) and method == ROOTS_CHANGED)
            or (self.extensions is not None and method in self.extensions.notifications)
            or (self.mounts is not None and self.mounts.handles_notification(method))
        )
        if not is_handled:
            return None
        if self._notification_offer is None:
            self._notification_offer = self._made_offer(self.offer.table, notifications=True)
        return self._notification_offer


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
