"""`Dispatcher`: the part of a server that serves its requests: the handlers, the middleware, extensions and mounts.

The dispatcher refers to the other parts, which handlers and the runner use. Identity, registry, offering and storage
are given to it; it makes the notifier and the lifecycle. Each `Call` names the dispatcher that serves it.
`dispatcher_of` returns it; the code below `dispatch/` sees only the `ServingPart` of a call. Carriers and routes hold a
dispatcher too, because the facade `Server` is above them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakSet

from dragoman import types
from dragoman.config import is_async
from dragoman.errors import DefinitionError, MethodAlreadyDefined
from dragoman.protocol import eras
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.methods import METHOD_NAMES, Method
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.protocol.versions import Version
from dragoman.runtime.callables import at_caller
from dragoman.server.define.definition import Definition, Function
from dragoman.server.define.sources import Overrides
from dragoman.server.dispatch.lifecycle import Lifecycle, LifespanFunction
from dragoman.server.identity import ServerIdentity
from dragoman.server.notifier import Notifier
from dragoman.server.offering import ExtensionOffer, MountedOffer, Offering
from dragoman.server.registry import Registry
from dragoman.server.request.call import Call
from dragoman.server.storage import Storage

if TYPE_CHECKING:
    import asyncio

    from dragoman.server.dispatch.audit import Audit, AuditTarget
    from dragoman.server.dispatch.middleware import Chain, Middleware
    from dragoman.server.request.asking import OnStep
    from dragoman.server.request.detached import DetachedCall, OnProgress

DefinitionKind = Literal["tool", "prompt", "resource", "template"]
KIND_TABLES: dict[DefinitionKind, tuple[str, ...]] = {
    "tool": ("tools",),
    "prompt": ("prompts",),
    "resource": ("resources", "templates"),
    "template": ("templates",),
}
_CHANGES = {"tools": TOOLS_CHANGED, "prompts": PROMPTS_CHANGED}
Handler = Callable[["Dispatcher", Call], Any]
"""Returns an unsealed result, the bytes of a page, or a coroutine; or sets the target of the call."""


class InstalledHooks(ExtensionOffer, Protocol):
    """The handlers and wrappers that the extensions of a server add to its requests."""

    handlers: Mapping[str, Handler]
    around_methods: frozenset[str]
    """The requests that an extension surrounds."""
    hides: bool
    """Whether the lists depend on the client."""
    reads: bool
    """Whether an extension reads resources that are not registered."""

    def managers(self, server: Any) -> Iterable[AbstractAsyncContextManager[object]]:
        """Return the context managers that a loop of the server enters before it serves."""

    def check(self) -> None:
        """Let each extension check the whole server."""

    def define(self, definition: Definition[..., Any]) -> None:
        """Pass the extension options of a tool or a resource to the extensions that own them."""

    def forget(self, definition: Any) -> None:
        """Tell each extension that a definition was removed."""

    def shows(self, call: Call, definition: Any) -> bool:
        """Tell whether a definition is in the list that a client gets."""

    def entry(self, method: str, definition: Any, version: Version) -> Any:
        """Return the entry of a definition in a list, with the fields that extensions add to it."""

    async def around(self, call: Call, serve: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a request within the extensions that surround it."""

    def reading(self, call: Call, uri: str) -> Coroutine[Any, Any, Any] | None:
        """Return the reading of a resource that an extension has; None if no extension has it."""

    async def honour(self, call: Call, honoured: types.SubscriptionFilter) -> types.SubscriptionFilter:
        """Return a subscription filter in which each extension has reduced its own fields."""


Patterns = str | Iterable[str] | None
"""A name or URI, or several, in which `*` stands for any text; None selects nothing."""


class MountedServer(Protocol):
    """One server that is mounted in another."""

    server: Dispatcher

    @property
    def parent(self) -> Dispatcher | None:
        """The server that this one is mounted in; None if nobody keeps it any more."""

    def inner(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the mounted server."""

    def outer(self, table: str, key: str) -> str | None:
        """Return the name or URI of a definition in the parent."""


class MountedServers(MountedOffer, Protocol):
    """The servers that are mounted in a server."""

    def __iter__(self) -> Iterator[Any]: ...

    def add(self, server: Dispatcher, renaming: Any) -> None:
        """Mount a server, with the names that it has here."""

    def handlers(self, current: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of the server and its mounts; `current` may be joined already."""

    def managers(self) -> list[AbstractAsyncContextManager[object]]:
        """Return the contexts in which the mounted servers serve."""

    def find(self, table: str, key: str) -> Any:
        """Return the definition of a mounted server by its name or URI in the parent."""


class Dispatcher:
    """Serves the requests of one server.

    Example:
        dispatcher = Dispatcher(identity, registry, offering, Storage(), handlers=HANDLERS)
        dispatcher.derive()
        call = open_call(message, session, channel, dispatcher, server_context, loop)
        await whole_answer(call)

    `owner` is the `Server` that authors know; lifespans and extensions receive it.
    """

    def __init__(
        self,
        identity: ServerIdentity,
        registry: Registry,
        offering: Offering,
        storage: Storage,
        *,
        handlers: Mapping[str, Handler],
        owner: Any = None,
        server_context: Any = None,
        limits: Limits = DEFAULT_LIMITS,
        cache_hints: tuple[int | None, types.CacheScope | None] = (None, None),
        audit: Audit | AuditTarget | None = None,
        debug: bool = False,
    ) -> None:
        self.identity = identity
        self.registry = registry
        self.offering = offering
        self.storage = storage
        self.owner = owner
        self.server_context = server_context
        self.limits = limits
        self.cache_hints = cache_hints
        self.audit = None if audit is None else _audit_to(audit)
        """Where the server writes one record for each request."""
        self.debug = debug
        """Whether clients receive the text and the place of an exception; for development only."""
        self.handlers: dict[str, Handler] = dict(handlers)
        """Maps each method of the protocol, of the extensions and of `server.method` to its handler."""
        self.middlewares: tuple[Middleware, ...] = ()
        """The middleware in the order of registration; the first is the outermost."""
        self.middleware_chain: Chain | None = None
        """One function that runs a request within all middleware and hooks; None if there are none."""
        self.around_methods: frozenset[str] = frozenset()
        """The methods of requests that extensions surround, or that depend on who may see a definition."""
        self.installed: InstalledHooks | None = None
        """The extensions of the server; None if it has none."""
        self.mounts: MountedServers | None = None
        """The servers that are mounted in this one; None if there are none."""
        self.mounted_in: WeakSet[MountedServer] = WeakSet()
        """The mounts of this server in others."""
        self.passes_to: Dispatcher | None = None
        """The server of this process that this one is a proxy of."""
        self.overrides = Overrides()
        self.notifier = Notifier(offering, self.report)
        self.lifecycle = Lifecycle(owner, registry, self.overrides, self.report, self._managers)
        self._is_checked = False

    # What requests need of the other parts.

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.identity.name

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares."""
        return self.offering.capabilities

    @property
    def offer(self) -> eras.Offer:
        """The versions and methods that the server serves."""
        return self.offering.offer

    @property
    def replacements(self) -> Mapping[Hashable, Callable[..., object]]:
        """The functions that replace dependencies and lifespans."""
        return self.overrides.functions

    def has_method(self, name: str) -> bool:
        """Tell whether the author registered a method of this name with `server.method`."""
        return self.offering.has_method(name)

    def lifespan_values(self, loop: asyncio.AbstractEventLoop | None) -> Mapping[LifespanFunction, object]:
        """Return the values of the lifespans in a loop, by their functions.

        Raises:
            DragomanError: the server has lifespans, and they are not entered in this loop.
        """
        return self.lifecycle.values(loop)

    def report(self, error: BaseException, call: Call | None = None, info: dict[str, Any] | None = None) -> None:
        """Report an error to the exception reporter, or to the log if there is none; this method raises nothing."""
        from dragoman.server.dispatch.reporting import report

        report(self.offering.settings.configuration.exception_reporter, error, call, info)

    def open_detached(self, detached: DetachedCall, on_progress: OnProgress | None, on_step: OnStep | None) -> Call:
        """Return the call that runs the tool of a detached call once."""
        from dragoman.server.dispatch.opening import open_detached

        return open_detached(detached, self, on_progress, on_step)

    # Registration.

    def is_defined(self, method: str) -> bool:
        """Tell whether this server has a method, or a server that this one is mounted in."""
        above = (mount.parent for mount in list(self.mounted_in))
        return method in self.handlers or any(one is not None and one.is_defined(method) for one in above)

    def method(self, name: str) -> Callable[[Function], Function]:
        """Return a decorator that registers a function as a method of the author.

        Raises:
            MethodAlreadyDefined: the protocol, an extension or this server already has a method of this name.
            DefinitionError: the name is not text, or begins with `rpc.`, which JSON-RPC reserves.
        """
        from dragoman.server.define.custom_method import CustomMethod

        CustomMethod.require_name(name)
        if name in METHOD_NAMES or self.is_defined(name):
            raise MethodAlreadyDefined(f"The method {name!r} is defined already and cannot be replaced")

        def register(function: Function) -> Function:
            self.registry.methods[name] = method = CustomMethod.define(function, name=name)
            self.handlers[name] = method.handle
            self.offering.own_methods = (*self.offering.own_methods, Method(name=name, result=types.Result))
            self.renew()
            return function

        return at_caller(register)

    def add_middleware(self, function: Middleware) -> None:
        """Register middleware.

        Raises:
            DefinitionError: the function is not async.
        """
        if not is_async(function):
            raise DefinitionError(
                f"Middleware must be async, and {function!r} is not: write `async def around(ctx, call_next)` and"
                " return what call_next() gives"
            )
        self.middlewares = (*self.middlewares, function)
        self._compose()

    def install(self, installed: InstalledHooks) -> None:
        """Replace the extensions of the server.

        Raises:
            DefinitionError: an extension has a method that the author registered, or the pinned version lacks it.
        """
        ProtocolTable.of(installed.rows, self.offering.own_methods)
        pinned = self.offering.settings.pinned
        if pinned is not None:
            installed.require_carried(pinned)
        self.installed = self.offering.extensions = installed
        self.handlers |= installed.handlers
        self.registry.entry_of, self.registry.forget = installed.entry, installed.forget

    def add_mounts(self, mounts: MountedServers) -> None:
        """Serve mounted servers too."""
        self.mounts = self.offering.mounts = mounts
        self.renew()

    def set_enabled(self, definition: object, kind: DefinitionKind | None, *, enabled: bool) -> None:
        """Serve a definition, or no longer serve it, and notify the clients.

        Raises:
            DefinitionError: the definition is not registered, or its name does not say which kind is meant.
        """
        places = self.registry.find(definition, *(self.registry.disabled if kind is None else KIND_TABLES[kind]))
        if len(places) > 1:
            kinds = " and ".join(f"a {name[:-1]}" for name, _ in places)
            raise DefinitionError(f"{definition!r} is {kinds}: choose one with kind={places[0][0][:-1]!r}")
        [(name, key)] = places
        if self.registry.set_enabled(name, key, enabled=enabled):
            self.notifier.notify_change(_CHANGES.get(name, RESOURCES_CHANGED))

    def require_servable(self, definition: Definition[..., Any]) -> None:
        """Refuse a definition that the server cannot serve.

        Raises:
            DefinitionError: the pinned version cannot carry it, or it has an option of an extension that is lacking.
        """
        self.offering.require_definition_carried(definition)
        if self.installed is not None:
            self.installed.define(definition)
        else:
            definition.require_options_known(())

    def check(self) -> None:
        """Check that the server can be served.

        Raises:
            DefinitionError: `DRAGOMAN_SECRET` is too short, an extension refuses a definition, or there is no lifespan.
            ConfigError: the audit file cannot be opened.
        """
        if "DRAGOMAN_SECRET" in os.environ:
            _ = self.storage.key_ring  # refuses a short secret before anything is served
        if self.audit is not None:
            self.audit.check()
        if not self._is_checked:
            if self.installed is not None:
                self.installed.check()
            if not self.lifecycle.lifespans:
                self.registry.require_lifespans({}, self.overrides)
            self.registry.warn_of_mistakes()
            self._is_checked = True
        for mount in self.mounts or ():
            mount.server.check()

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which the server serves in this loop."""
        return self.lifecycle.serving()

    def _managers(self) -> list[AbstractAsyncContextManager[object]]:
        managers = [] if self.installed is None else [*self.installed.managers(self.owner)]
        return managers if self.mounts is None else [*managers, *self.mounts.managers()]

    # Derived values.

    def renew(self) -> None:
        """Derive the lists and the capabilities again, here and where this server is mounted."""
        self.registry.renew()

    def take_change(self, is_fact: bool) -> None:  # noqa: FBT001
        """Derive what a change of the registry affects; `is_fact` says that one of its facts changed."""
        self._is_checked = False
        if is_fact or self.installed is not None or self.mounts is not None:  # extensions may declare other settings
            self.derive()
        else:
            self._renew_parents()

    def derive(self) -> None:
        """Derive the settings, the middleware chain, the capabilities and the offer."""
        around: frozenset[str] = frozenset() if self.installed is None else self.installed.around_methods
        if self.registry.facts.has_visibility:
            from dragoman.server.dispatch.visibility import VISIBILITY_METHODS

            around |= VISIBILITY_METHODS
        self.around_methods = around
        self.offering.derive()
        if self.mounts is not None:
            self.handlers = self.mounts.handlers(self.handlers)
        self._compose()
        self._renew_parents()

    def _compose(self) -> None:
        settings = self.offering.settings
        self.middleware_chain = None
        if self.middlewares or settings.is_observed:
            from dragoman.server.dispatch.middleware import composed

            self.middleware_chain = composed(self.middlewares, settings)

    def _renew_parents(self) -> None:
        for mount in list(self.mounted_in):
            if mount.parent is not None:
                mount.parent.renew()


def _audit_to(target: Audit | AuditTarget) -> Audit:
    from dragoman.server.dispatch.audit import Audit

    return target if isinstance(target, Audit) else Audit(target)


def dispatcher_of(call: Call) -> Dispatcher:
    """Return the dispatcher that serves a call."""
    assert isinstance(call.server, Dispatcher)
    return call.server
