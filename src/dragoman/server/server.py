"""`Server`: the class whose objects authors create, register functions with, and serve.

A `Server` keeps the state that its parts share and delegates the work. `registration` and `declaration` hold its base
classes, `serving` and `http` serve it, and `dispatch` runs its requests. A `Server` derives its settings, its
capabilities, its middleware chain and its offer of versions and methods from the registrations and the configuration.
It derives them again after each change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import msgspec

from dragoman import types
from dragoman.config import PROCESS, Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE, ProtocolTable, merge_settings
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS
from dragoman.protocol.methods import ROOTS_CHANGED
from dragoman.runtime.callables import explaining, raise_at_caller
from dragoman.runtime.lazy import look_up
from dragoman.server.audience import Notifying
from dragoman.server.declaration import (
    Declaration,
    GivenCapabilities,
    ServerIdentity,
    derived_capabilities,
    implementation,
    require_text,
)
from dragoman.server.define.definition import Definition, options_among
from dragoman.server.define.tools import Tool
from dragoman.server.dispatch.lifecycle import Lifecycle, LifespanFunction, WithLifecycle
from dragoman.server.dispatch.middleware import composed
from dragoman.server.registration import Registration
from dragoman.server.registry import Definitions, PageSize, Registry
from dragoman.server.request.call import Call
from dragoman.server.routes.registration import WithRoutes
from dragoman.server.settings import (
    OPTIONS_ELSEWHERE,
    ServerSettings,
    ServerType,
    checked_cache_hints,
    checked_configuration,
    checked_flag,
    checked_limits,
    checked_secret,
    checked_state_key,
    checked_store,
    missing_attribute,
    require_secret,
    sealed_store,
)
from dragoman.server.single_requests import SingleRequests

if TYPE_CHECKING:
    from os import PathLike

    from dragoman.protocol.tokens import KeyRing
    from dragoman.server.dispatch.audit import Audit, AuditTarget
    from dragoman.server.dispatch.tags import Tags
    from dragoman.server.duplex import DuplexConnection
    from dragoman.server.extensions.installed import Extensions
    from dragoman.server.request.context import CredentialExchange
    from dragoman.server.request.http_request import Auth
    from dragoman.server.request.state import StateKey
    from dragoman.server.serving import Http, HttpOptions
    from dragoman.stores import Store
    from dragoman.transports.contract import Sink
    from dragoman.transports.http.asgi import AsgiApp


@raise_at_caller("__init__ proxy check run run_async asgi instructions page_size configuration capabilities")
class Server(ServerIdentity, Registration, WithRoutes, SingleRequests, WithLifecycle, Notifying, metaclass=ServerType):
    """An MCP server that speaks every protocol version.

    Example:
        server = Server("sums")

        @server.tool
        def add(a: int, b: int) -> int:
            \"\"\"Adds two numbers.\"\"\"
            return a + b

        server.run()

    `name`, `title`, `version`, `description`, `website_url` and `icons` identify the server to clients; `instructions`
    tell the model how to use it. `tools`, `prompts`, `resources` and `resource_templates` are definitions, classes or
    functions to register. `server_context` is any object; handlers read it as `ctx.server_context`. `ttl_ms` and
    `cache_scope` are the cache hints of results that have none. `extensions` are objects of
    `dragoman.server.ServerExtension`, or a dict that maps the id of an extension to its settings; the server only
    declares the extensions of a dict. `lifespan` is a function that opens something before the server serves, and
    closes it afterwards (see `server.lifespan`). `secret` seals request states, session ids and what the store keeps.
    `store` is what the processes of the server share, by default a `dragoman.stores.Local`. `state_key` is a function
    of the `Context` that says whose `ctx.user_state` a request uses. `audit` is a path, a function or an `Audit` that
    gets one record for each request. `strict_arguments` refuses arguments that a tool does not have. `inline_refs`
    lists schemas without `$ref`. `max_message_bytes` limits a message on every transport. `debug` is for development:
    clients receive the text and the place of an exception, which may hold secrets.

    Raises:
        DefinitionError: an option has an invalid value, or a definition cannot be served; the message says why.
    """

    _notification_offer: eras.Offer | None = None
    """The offer that opens notifications of clients; None until the server handles a notification."""
    debug: bool
    """Whether clients receive the text and the place of an exception; for development only."""
    settings: ServerSettings
    """The configuration of this server, merged over the defaults of the process."""
    audit: Audit | None
    """Where the server writes one record for each request."""
    offer: eras.Offer
    """The versions and methods that the server serves."""
    _offer_inputs: tuple[Any, ...] = ()
    """The inputs of the current offer; `_derive` makes a new offer only if they changed."""
    around_methods: frozenset[str] = frozenset()
    """The methods of requests that extensions surround, or that depend on who may see a definition."""
    _is_checked = False

    @explaining("Server()", OPTIONS_ELSEWHERE)
    def __init__(
        self,
        name: str = "dragoman",
        *,
        title: str | None = None,
        version: str = "0",
        description: str | None = None,
        website_url: str | None = None,
        icons: Iterable[types.Icon | types.Json] = (),
        instructions: str | None = None,
        tools: Definitions = (),
        prompts: Definitions = (),
        resources: Definitions = (),
        resource_templates: Definitions = (),
        capabilities: GivenCapabilities = None,
        configuration: Configuration | None = None,
        server_context: object = None,
        page_size: PageSize = None,
        ttl_ms: int | None = None,
        cache_scope: types.CacheScope | None = None,
        extensions: Extensions | None = None,
        lifespan: LifespanFunction | None = None,
        secret: str | bytes | Iterable[str | bytes] | None = None,
        store: Store | None = None,
        state_key: StateKey | None = None,
        audit: Audit | AuditTarget | None = None,
        strict_arguments: bool = False,
        inline_refs: bool = False,
        max_message_bytes: int = DEFAULT_LIMITS.message_bytes,
        debug: bool = False,
    ) -> None:
        texts = {"title": title, "description": description, "website_url": website_url}
        ServerIdentity.__init__(self, implementation(name, version, icons, **texts))
        self.instructions = instructions
        self.server_context: Any = server_context
        self.debug = checked_flag("debug", debug)
        self._strict_arguments = checked_flag("strict_arguments", strict_arguments)
        self.limits = checked_limits(max_message_bytes)
        self._configuration = checked_configuration(configuration)
        self.settings = self._merged(self._configuration)
        Registration.__init__(self, Registry(self._require_servable, self._derive, inline_refs=inline_refs))
        Notifying.__init__(self)
        self._secret = checked_secret(secret)
        self._engine, self.state_key = checked_store(store), checked_state_key(state_key)
        self._set_audit(audit)
        self._declaration = Declaration(capabilities)
        if lifespan is not None:
            self.lifespan(lifespan)
        if extensions is not None:
            self._install(extensions)
        self.cache_hints = checked_cache_hints(ttl_ms, cache_scope)
        self._require_pinned_version(self.settings)
        self._deriving = Lock()
        if self.installed is not None:
            self.installed.bind(self)
        self.registry.page_size = page_size
        PROCESS.watchers.add(self._derive)
        self.registry.extend(tools=tools, prompts=prompts, resources=resources, resource_templates=resource_templates)

    def _set_audit(self, audit: Audit | AuditTarget | None) -> None:
        if audit is not None:
            from dragoman.server.dispatch.audit import Audit

            audit = audit if isinstance(audit, Audit) else Audit(audit)
        self.audit = audit

    def __repr__(self) -> str:
        registry = self.registry
        resources = len(registry.resources) + len(registry.templates)
        held = {"tool": len(registry.tools), "prompt": len(registry.prompts), "resource": resources}
        counts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in held.items() if count]
        return f"<Server {self.name!r} {self.version}: {', '.join(counts) or 'nothing'}>"

    if not TYPE_CHECKING:  # a type checker would accept every name
        __getattr__ = missing_attribute

    def _install(self, extensions: Extensions) -> None:
        from dragoman.server.extensions.installed import InstalledExtensions

        installed = InstalledExtensions(extensions, self.installed)
        ProtocolTable.of(installed.rows, self.own_methods)  # refuses a method that the author registered
        if self.settings.pinned is not None:
            installed.require_carried(self.settings.pinned)
        self.installed = installed
        self.handlers |= installed.handlers
        self.registry.entry_of, self.registry.forget = installed.entry, installed.forget
        if installed.serving:
            self._required_lifecycle()

    def _required_lifecycle(self) -> Lifecycle:
        if self.lifecycle is None:
            self.lifecycle = Lifecycle(self, self._managers)
        return self.lifecycle

    def _managers(self) -> list[AbstractAsyncContextManager[object]]:
        managers = [] if self.installed is None else self.installed.managers(self)
        return managers if self.mounts is None else [*managers, *self.mounts.managers()]

    @staticmethod
    def proxy(
        target: str | PathLike[str] | Sequence[str] | Mapping[str, Any] | Server,
        *,
        name: str | None = None,
        isolate: Literal["principal", "session"] | None = None,
        forward_credentials: bool | CredentialExchange = False,
        headers: Mapping[str, str] | None = None,
        auth: object = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        connect_timeout: float = 30.0,
        max_connections: int = 100,
        max_connections_per_principal: int | None = None,
        secret: str | bytes | Iterable[str | bytes] | None = None,
        store: Store | None = None,
    ) -> Server:
        """Return a server in front of another server, which passes everything that either side says.

        Example:
            Server.proxy(["python", "weather.py"]).run("http", port=8000)

        `target` is a URL, a command, an entry of a configuration file, or a Server. `name` replaces the target's name.
        A configuration file, or its content, has several servers: each has its name in the file as its prefix.
        Clients share connections to the target; `isolate` gives each principal or session its own. A principal opens at
        most `max_connections_per_principal` (a quarter of `max_connections`). `forward_credentials=True` sends the
        caller's `Authorization` header to the target; a function takes that header and the context, and returns the
        one to send. `headers`, `auth`, `env` and `cwd` are those of a client.

        Raises:
            DefinitionError: the target or an option cannot be used; the message says why.
            ConfigError: the configuration file or an entry cannot be used.
        """
        options = dict(locals())  # the parameters, which `ProxyServer` has too
        return cast("Server", look_up("dragoman.forward.proxy.configured", "proxy")(**options))

    def check(self) -> None:
        """Check that the server can be served, as `run`, `asgi` and the other ways to serve do.

        Raises:
            DefinitionError: `DRAGOMAN_SECRET` is too short, an extension refuses a definition, or there is no lifespan.
            ConfigError: the audit file cannot be opened.
        """
        if "DRAGOMAN_SECRET" in os.environ:
            _ = self.key_ring  # refuses a short secret before anything is served
        if self.audit is not None:
            self.audit.check()
        if not self._is_checked:
            if self.installed is not None:
                self.installed.check()
            if self.lifecycle is None or not self.lifecycle.lifespans:
                self.registry.require_lifespans({}, self.overrides)
            self.registry.warn_of_mistakes()
            self._is_checked = True
        for mount in self.mounts or ():
            mount.server.check()

    @property
    def instructions(self) -> str | None:
        """The text that tells the model how to use the server."""
        return self._instructions

    @instructions.setter
    def instructions(self, instructions: str | None) -> None:
        require_text("instructions", instructions)
        self._instructions = instructions

    @property
    def page_size(self) -> PageSize:
        """The number of entries on a page of a list: an integer, a mapping such as {"tools": 50}, or None for all."""
        return self.registry.page_size

    @page_size.setter
    def page_size(self, size: PageSize) -> None:
        self.registry.page_size = size

    @property
    def configuration(self) -> Configuration:
        """The configuration of this server; an option that it leaves out has the default of the process (`configure`).

        Raises:
            DefinitionError: on assignment, if the protocol version is unknown or cannot carry a registered definition.
        """
        return self._configuration

    @configuration.setter
    def configuration(self, configuration: Configuration) -> None:
        configuration = checked_configuration(configuration)
        settings = self._merged(configuration)
        self._require_pinned_version(settings)
        for definition in self.registry.definitions():
            settings.require_definition_carried(definition)
        self._configuration = configuration
        self._derive()

    def _merged(self, configuration: Configuration) -> ServerSettings:
        return ServerSettings.of(configuration, PROCESS.configuration, strict_arguments=self._strict_arguments)

    def _identity_changed(self) -> None:
        self._require_pinned_version(self.settings)
        self.registry.changed()

    def _require_servable(self, definition: Definition[..., Any]) -> None:
        if self.mounts is not None or self.mounted_in:
            look_up("dragoman.forward.mount.mounts", "require_definable")(self, definition)
        self.settings.require_definition_carried(definition)
        if isinstance(definition, Tool) and (options := definition.official_options):
            from dragoman.server.extensions.official import extensions_of

            for kind in extensions_of(options):
                self.extension(kind)
        if self.installed is not None:
            self.installed.define(definition)
        else:
            definition.require_options_known(())

    def _require_pinned_version(self, settings: ServerSettings) -> None:
        """Refuse a pinned version that cannot carry the identity, the capabilities or the extensions of the server."""
        settings.require_carried(f"The server {self.name!r}", self._info)
        settings.require_carried(f"What the server {self.name!r} declares", self._declaration.given)
        if settings.pinned is not None and self.installed is not None:
            self.installed.require_carried(settings.pinned)

    def _derive(self) -> None:
        """Derive the settings, the middleware chain, the capabilities and the offer, here and where this is mounted."""
        self._derive_own()
        for mount in list(self.mounted_in):
            if mount.parent is not None:
                mount.parent.renew()

    def _derive_own(self) -> None:
        # Any thread may register a definition.
        with self._deriving:
            self._is_checked = False
            around: frozenset[str] = frozenset() if self.installed is None else self.installed.around_methods
            if self.registry.has_visibility:
                from dragoman.server.dispatch.visibility import VISIBILITY_METHODS

                around |= VISIBILITY_METHODS
            self.around_methods = around
            self.settings = self._merged(self._configuration)
            self.middleware_chain = composed(self.middlewares, self.settings)
            completes = self.completer is not None or self.registry.completes
            derived = derived_capabilities(completes=completes, subscribes=self.subscriber is not None)
            configured = merge_settings(PROCESS.configuration.extensions, self._configuration.extensions)
            if self.installed is not None:
                derived = self.installed.declared(derived, configured)
            elif configured:
                derived = msgspec.structs.replace(derived, extensions=configured)
            rows = () if self.installed is None else self.installed.rows
            if self.mounts is not None:
                self._required_lifecycle()
                rows, self.own_methods = self.mounts.rows(rows), self.mounts.methods(self.own_methods)
                derived, self.handlers = self.mounts.capabilities(derived), self.mounts.handlers(self.handlers)
            inputs = (self._declaration, derived, self.settings.versions, self.own_methods, rows)
            if inputs == self._offer_inputs:
                return
            self._capabilities = self._declaration.over(derived)
            table = ProtocolTable.of(rows, self.own_methods) if rows or self.own_methods else CORE
            self.offer = eras.Offer.of(self._capabilities, self.settings.versions, table)
            self._notification_offer = None
            self._offer_inputs = inputs

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares.

        Example:
            server.capabilities = {"resources": {"subscribe": True}, "prompts": False}

        By default the capabilities follow from the registered functions. Assign a dict to add capabilities; the value
        False hides one. Assign a `ServerCapabilities` to replace all of them.

        Raises:
            DefinitionError: on assignment, if a capability does not exist or the pinned version lacks it.
        """
        return self._capabilities

    @capabilities.setter
    def capabilities(self, given: GivenCapabilities) -> None:
        before, self._declaration = self._declaration, Declaration(given)
        try:
            self._require_pinned_version(self.settings)
        except DefinitionError:
            self._declaration = before
            raise
        self._derive()

    def warn_of_unserved(self) -> None:
        """Log one warning if definitions are registered whose capability the server does not declare."""
        self._declaration.warn_of_undeclared(self.registry, self.name)

    @cached_property
    def key_ring(self) -> KeyRing:
        """The keys that seal request states and session ids."""
        from dragoman.runtime.keys import key_ring

        return key_ring(self._secret)

    @cached_property
    def store(self) -> Store:
        """What the processes of this server share; the engine that the author gave sees no plain text.

        Raises:
            ConfigError: the store reaches other machines, and the server has no secret.
        """
        self.require_shared_secret()
        with self._deriving:
            return sealed_store(self._engine, self.key_ring)

    def require_shared_secret(self) -> None:
        """Refuse a store that reaches other machines if the keys of the server are those of one machine.

        Raises:
            ConfigError: the server has no secret.
        """
        require_secret(self._engine, self._secret)

    def has_method(self, name: str) -> bool:
        """Tell whether the author registered a method of this name with `server.method`."""
        return any(method.name == name for method in self.own_methods)

    def offer_for_notification(self, method: str) -> eras.Offer | None:
        """Return the offer that opens a notification of a client; None if the server does not handle the notification.

        A client may send a method of `server.method` as a notification. Extensions and the hooks of
        `on_roots_changed` handle notifications too.
        """
        if self.has_method(method):
            return self.offer
        is_handled = bool(self.roots_hooks) and method == ROOTS_CHANGED
        if not is_handled and self.installed is not None:
            is_handled = method in self.installed.notifications
        if not is_handled and self.mounts is not None:
            is_handled = self.mounts.handles_notification(method)
        if not is_handled:
            return None
        if self._notification_offer is None:
            versions, table = self.settings.versions, self.offer.table
            self._notification_offer = eras.Offer.of(self._capabilities, versions, table, notifications=True)
        return self._notification_offer

    def report(self, error: BaseException, call: Call | None, info: dict[str, Any] | None = None) -> None:
        """Report an error to the exception reporter, or to the log if there is none; this method raises nothing."""
        from dragoman.server.dispatch.reporting import report

        report(self.settings.configuration.exception_reporter, error, call, info)

    def connect(self, send: Callable[[bytes], None] | Sink) -> DuplexConnection:
        """Return the server's side of one duplex connection.

        Example:
            connection = server.connect(sent.append)
            connection.receive(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\\n')

        The caller passes received bytes to `receive`. The server writes messages with `send`, a function or a `Sink`.
        A server with a lifespan, or with extensions that have a `serving` hook, must be within `server.serving()`
        meanwhile.
        """
        from dragoman.server.duplex import DuplexConnection
        from dragoman.transports.contract import FunctionSink

        self.check()
        return DuplexConnection(self, FunctionSink(send) if callable(send) else send)

    @overload
    def run(
        self, transport: Literal["stdio"] = "stdio", *, include_tags: Tags = None, exclude_tags: Tags = None
    ) -> None: ...
    @overload
    def run(self, transport: Http, **options: Unpack[HttpOptions]) -> None: ...
    def run(self, transport: str = "stdio", **options: Unpack[HttpOptions]) -> None:
        """Serve stdio or HTTP until the client or a signal ends the server.

        Example:
            server.run("http", port=8000, workers=4)

        HTTP takes `host`, `port`, `workers` and the options of `asgi`; stdio takes `include_tags` and `exclude_tags`.
        HTTP says on stderr where it serves. "streamable-http" is another name of "http".

        Raises:
            DefinitionError: there is no such transport, an option has an invalid value, or `check` fails.
            TypeError: the transport has no such option.
            DragomanError: an event loop runs in this thread; await `run_async` there.
            ConfigError: the store of the server reaches other machines, and the server has no `secret`.
        """
        from dragoman.server.serving import run

        self.check()
        run(self, transport, options)

    @overload
    async def run_async(self, transport: Literal["stdio"] = "stdio", *, handle_signals: bool = False) -> None: ...
    @overload
    async def run_async(
        self, transport: Http, *, handle_signals: bool = False, **options: Unpack[HttpOptions]
    ) -> None: ...
    async def run_async(
        self, transport: str = "stdio", *, handle_signals: bool = False, **options: Unpack[HttpOptions]
    ) -> None:
        """Serve stdio or HTTP in the running event loop, until the client ends or the task is cancelled.

        Example:
            async with asyncio.TaskGroup() as group:
                group.create_task(server.run_async("http", port=8000))

        The options are those of `run`, without `workers`. A cancelled task ends the server gracefully. Signals are left
        to the program, unless `handle_signals` is given: then SIGINT and SIGTERM end the server, and the call returns.

        Raises:
            DefinitionError: there is no such transport, an option has an invalid value, or `check` fails.
            TypeError: the transport has no such option.
            OSError: the address cannot be listened on.
            ConfigError: the store of the server reaches other machines, and the server has no `secret`.
        """
        from dragoman.server.serving import run_async

        self.check()
        await run_async(self, transport, options, handle_signals=handle_signals)

    def asgi(
        self,
        path: str = "/mcp",
        *,
        stateless: bool = False,
        json_response: bool = False,
        session_idle_timeout: float | None = 1800,
        max_sessions: int | None = 10_000,
        max_event_bytes: int = 64 * 1024 * 1024,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        max_subscriptions: int | None = 10_000,
        auth: Auth | None = None,
        include_tags: Tags = None,
        exclude_tags: Tags = None,
        health: bool = False,
        access_log: bool = False,
    ) -> AsgiApp:
        """Return an ASGI application that serves Streamable HTTP; serve it alone or mount it.

        Example:
            app = Starlette(routes=[*routes, Mount("/", server.asgi())])

        `stateless` keeps no sessions for clients before 2026-07-28, so handlers cannot ask these clients anything.
        `json_response` answers the requests of these clients with JSON only, never with an event stream.
        `session_idle_timeout` is the number of seconds after which an idle session expires. `max_event_bytes` bounds
        the events that the server keeps for clients that resume their streams. `allowed_hosts` are the values of
        `Host` to serve beside loopback names, and `allowed_origins` the origins of web pages that may send requests.
        `auth` verifies the sender of a request (see `Auth`). `health` serves `/healthz` and `/readyz`. `access_log`
        logs one line for each HTTP request to the logger `dragoman.access`. The application serves only definitions
        that have at least one of the `include_tags`, and none of the `exclude_tags`.

        Raises:
            DefinitionError: an option has an invalid value, or a tool requires scopes and there is no `auth`.
            ConfigError: the store of the server reaches other machines, and the server has no `secret`.
        """
        from dragoman.server.serving import HttpOptions, asgi_app

        self.check()
        return asgi_app(self, options_among(locals(), HttpOptions))
