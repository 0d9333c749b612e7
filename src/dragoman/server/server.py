"""The `Server`: the object that authors make, register functions with, and serve.

It keeps the state that its parts share, and delegates the work: `registration` and `declaration` are base classes,
`serving` and `http` serve it, `dispatch` runs its requests. What follows from its registrations and its configuration
(the offer of versions and methods, the capabilities, the middleware chain) is derived again after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import msgspec

from dragoman import types
from dragoman.config import PROCESS, Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol import eras
from dragoman.protocol.extensions import CORE, ProtocolTable, merge_settings
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, encode
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.runtime.callables import invoke
from dragoman.server.audience import Audience, NotificationListener, server_notifications
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
from dragoman.server.dispatch.middleware import composed
from dragoman.server.registration import Registration
from dragoman.server.registry import Definitions, PageSize, Registry
from dragoman.server.request.call import ELICITATION_COMPLETE, Call, wants_log
from dragoman.server.settings import ServerSettings, checked_cache_hints, checked_configuration, checked_limits

if TYPE_CHECKING:
    from dragoman.protocol.tokens import KeyRing
    from dragoman.server.duplex import DuplexConnection
    from dragoman.server.extensions.installed import Extensions, InstalledExtensions
    from dragoman.server.http.views import Headers, HttpReply
    from dragoman.server.request.http_request import Auth
    from dragoman.server.serving import Http, HttpOptions
    from dragoman.stores import Store
    from dragoman.transports.contract import Sink
    from dragoman.transports.http.asgi import AsgiApp
    from dragoman.transports.http.wsgi import Environ, WsgiApp


class Server(ServerIdentity, Registration):
    """An MCP server of every protocol version.

    Example:
        server = Server("sums")

        @server.tool
        def add(a: int, b: int) -> int:
            \"\"\"Adds two numbers.\"\"\"
            return a + b

        server.run()

    `extensions` are objects of `dragoman.server.ServerExtension`, or a dict that maps the ids of extensions to their
    settings, which are only declared. `max_message_bytes` is the size of the largest message that is read, on every
    carrier.

    Raises:
        DefinitionError: what is registered cannot be served; the message says why.
    """

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
        secret: str | bytes | Iterable[str | bytes] | None = None,
        strict_arguments: bool = False,
        max_message_bytes: int = DEFAULT_LIMITS.message_bytes,
    ) -> None:
        texts = {"title": title, "description": description, "website_url": website_url}
        ServerIdentity.__init__(self, implementation(name, version, icons, **texts))
        self.instructions = instructions
        self.server_context: Any = server_context
        self._strict_arguments = strict_arguments
        self.limits = checked_limits(max_message_bytes)
        self._configuration = checked_configuration(configuration)
        self.settings = self._merged(self._configuration)
        """The configuration of this server over that of the process."""
        Registration.__init__(self, Registry(self._require_servable, self._derive))
        self.audience = Audience()
        self._background: set[Any] = set()
        self._secret = secret
        self._key_ring: KeyRing | None = None
        self._declaration = Declaration(capabilities)
        self.installed: InstalledExtensions | None = None if extensions is None else self._install(extensions)
        """The extensions that were given to the server."""
        self._warned = False
        self.cache_hints = checked_cache_hints(ttl_ms, cache_scope)
        self._require_pinned_version(self.settings)
        self._deriving = Lock()
        self._offer_inputs: tuple[Any, ...] = ()
        """The values that the offer was made of."""
        self.offer: eras.Offer
        """The versions and methods that are served."""
        self._notification_offer: eras.Offer | None = None
        """The same for notifications of clients, if an extension handles some."""
        if self.installed is not None:
            self.installed.bind(self)
        self.registry.page_size = page_size
        PROCESS.watchers.add(self._derive)
        self.registry.extend(tools=tools, prompts=prompts, resources=resources, resource_templates=resource_templates)

    def __repr__(self) -> str:
        registry = self.registry
        resources = len(registry.resources) + len(registry.templates)
        held = {"tool": len(registry.tools), "prompt": len(registry.prompts), "resource": resources}
        counts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in held.items() if count]
        return f"<Server {self.name!r} {self.version}: {', '.join(counts) or 'nothing'}>"

    def _install(self, extensions: Extensions) -> InstalledExtensions:
        from dragoman.server.extensions.installed import InstalledExtensions

        installed = InstalledExtensions(extensions)
        self.handlers |= installed.handlers
        self.registry.entry_of = installed.entry
        return installed

    @property
    def instructions(self) -> str | None:
        """How the server is used, for the model."""
        return self._instructions

    @instructions.setter
    def instructions(self, instructions: str | None) -> None:
        require_text("instructions", instructions)
        self._instructions = instructions

    @property
    def page_size(self) -> PageSize:
        """How many entries a page of a list has: an integer, a mapping such as {"tools": 50}, or None for all."""
        return self.registry.page_size

    @page_size.setter
    def page_size(self, size: PageSize) -> None:
        self.registry.page_size = size

    @property
    def configuration(self) -> Configuration:
        """The configuration of this server; `configure` sets the defaults of the process for what it leaves out.

        Raises:
            DefinitionError: by setting it, for a protocol version that is unknown or lacks what is registered.
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
        self.settings.require_definition_carried(definition)
        if self.installed is not None:
            self.installed.define_tool(definition)
        elif isinstance(definition, Tool):
            definition.require_options_known(())

    def _require_pinned_version(self, settings: ServerSettings) -> None:
        """Refuse a pinned version that lacks something that the server declares."""
        settings.require_carried(f"The server {self.name!r}", self._info)
        settings.require_carried(f"What the server {self.name!r} declares", self._declaration.given)
        if settings.pinned is not None and self.installed is not None:
            self.installed.require_carried(settings.pinned)

    def _derive(self) -> None:
        """Derive the settings, the capabilities, the middleware chain and the offer again; any thread may register."""
        with self._deriving:
            self.settings = self._merged(self._configuration)
            self.middleware_chain = composed(self.middlewares, self.settings)
            completes = self.completer is not None or self.registry.completes
            derived = derived_capabilities(completes=completes, subscribes=self.subscriber is not None)
            configured = merge_settings(PROCESS.configuration.extensions, self._configuration.extensions)
            if self.installed is not None:
                derived = self.installed.declared(derived, configured)
            elif configured:
                derived = msgspec.structs.replace(derived, extensions=configured)
            inputs = (self._declaration, derived, self.settings.versions, self.own_methods)
            if inputs == self._offer_inputs:
                return
            self._capabilities = self._declaration.over(derived)
            rows = () if self.installed is None else self.installed.rows
            table = ProtocolTable.of(rows, self.own_methods) if rows or self.own_methods else CORE
            self.offer = eras.Offer.of(self._capabilities, self.settings.versions, table)
            if self.installed is not None and self.installed.notifications:
                offer = eras.Offer.of(self._capabilities, self.settings.versions, table, notifications=True)
                self._notification_offer = offer
            self._offer_inputs = inputs

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities that the server declares.

        Example:
            server.capabilities = {"resources": {"subscribe": True}, "prompts": False}

        They follow from what is registered. A dict adds to them, and False hides an entry. A `ServerCapabilities`
        replaces all of them.

        Raises:
            DefinitionError: by setting it, for a capability that does not exist or that a pinned version lacks.
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
        self._warned = False
        self._derive()

    def warn_of_unserved(self) -> None:
        """Warn the author, once, of what is registered and not declared."""
        undeclared = self._declaration.undeclared(self.registry)
        if undeclared and not self._warned:
            import logging

            self._warned = True
            logging.getLogger("dragoman.server").warning(
                "The server %r has %s that no client can use, because its capabilities leave them out; give"
                " `capabilities` as a dict to add to what is declared",
                self.name,
                " and ".join(undeclared),
            )

    @property
    def key_ring(self) -> KeyRing:
        """The keys that seal request states and session ids."""
        if self._key_ring is None:
            from dragoman.runtime.keys import key_ring

            self._key_ring = key_ring(self._secret)
        return self._key_ring

    def has_method(self, name: str) -> bool:
        """Tell whether the server has a method of its own by that name."""
        return any(method.name == name for method in self.own_methods)

    def offer_for_notification(self, method: str) -> eras.Offer | None:
        """Return the offer in which a notification is looked up; None if nothing handles it.

        Methods of the server's own may be sent as notifications, and extensions may handle notifications.
        """
        if self.has_method(method):
            return self.offer
        is_handled = self.installed is not None and method in self.installed.notifications
        return self._notification_offer if is_handled else None

    def notified(self, method: str) -> None:
        """Receive a notification of a client."""
        if method == "notifications/roots/list_changed":
            for hook in self._roots_hooks:
                self._run_in_background(hook, method)

    def _run_in_background(self, function: Callable[[], Any], notification: str) -> None:
        import asyncio

        async def run() -> None:
            try:
                await invoke(function)
            except Exception as error:
                self.report(error, None, {"notification": notification})

        task = asyncio.get_running_loop().create_task(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> None:
        """Send a log message to every client whose log level includes it, from any thread.

        Raises:
            ValueError: there is no such level.
            ValidationError: the data cannot be JSON.
        """
        wants_log(self, level, None)
        encode(data)
        self._tell_each("notifications/message", lambda member: member.log(level, data, logger))

    def notify_tools_list_changed(self) -> None:
        """Notify every client, from any thread, that the tools changed."""
        self._tell(TOOLS_CHANGED)

    def notify_prompts_list_changed(self) -> None:
        """Notify every client, from any thread, that the prompts changed."""
        self._tell(PROMPTS_CHANGED)

    def notify_resources_list_changed(self) -> None:
        """Notify every client, from any thread, that the resources changed."""
        self._tell(RESOURCES_CHANGED)

    def notify_resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to a resource, from any thread, that it was updated."""
        self._tell(RESOURCE_UPDATED, uri)

    def notify(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Send an extension's notification to the clients that asked for it, from any thread.

        Example:
            server.notify("notifications/prices", "apple", {"item": "apple", "price": 3})

        The clients that subscribed to the subject, or to all subjects, are notified by all processes of the server.
        Without a subject, clients of the handshake era that declared the extension are notified too.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        if not server_notifications(self, method):
            raise DefinitionError(f"No extension of the server {self.name!r} has the notification {method!r}")
        given = {} if params is None else params
        encode(given)
        self._tell_each(method, lambda member: member.notify_change(method, subject, given))

    def notify_elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client whose user was sent to a page, from any thread, that the visit is complete (2025-11-25).

        Example:
            @app.get("/signed-in")
            def signed_in(state: str):
                server.notify_elicitation_complete(state)

        Only the client that received this id, by `ctx.elicit_url` or `UrlElicitationRequired`, is notified, once.
        """
        self._tell_each(ELICITATION_COMPLETE, lambda member: member.complete_elicitation(elicitation_id))

    def _tell(self, method: str, uri: str | None = None) -> None:
        self._tell_each(method, lambda member: member.notify_change(method, uri))

    def _tell_each(self, notification: str, tell: Callable[[NotificationListener], None]) -> None:
        for member in self.audience.members():
            try:
                tell(member)
            except Exception as error:
                self.report(error, None, {"notification": notification})

    def report(self, error: BaseException, call: Call | None, info: dict[str, Any] | None = None) -> None:
        """Report an error that no client is told of, to the exception reporter or the log; this never fails."""
        from dragoman.server.dispatch.reporting import report

        report(self.settings.configuration.exception_reporter, error, call, info)

    def connect(self, send: Callable[[bytes], None] | Sink) -> DuplexConnection:
        """Serve one duplex connection: messages come in by `receive` and go out by `send`, a function or a sink."""
        from dragoman.server.duplex import DuplexConnection
        from dragoman.transports.contract import FunctionSink

        return DuplexConnection(self, FunctionSink(send) if callable(send) else send)

    @overload
    def run(self, transport: Literal["stdio"] = "stdio") -> None: ...
    @overload
    def run(self, transport: Http, **options: Unpack[HttpOptions]) -> None: ...
    def run(self, transport: str = "stdio", **options: Unpack[HttpOptions]) -> None:
        """Serve until the client or a signal ends it: stdin and stdout, or HTTP.

        Example:
            server.run("http", port=8000, workers=4)

        HTTP takes `host`, `port`, `workers` and the options of `asgi`; stdio takes none.

        Raises:
            DefinitionError: there is no such transport, or the value of an option makes no sense.
            TypeError: the transport has no such option.
            DragomanError: called where an event loop runs.
        """
        from dragoman.server.serving import run

        run(self, transport, options)

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
        store: Store | None = None,
    ) -> AsgiApp:
        """Return an ASGI application that serves Streamable HTTP, to be served alone or mounted anywhere.

        Example:
            app = Starlette(routes=[*routes, Mount("/", server.asgi())])

        `stateless` keeps no sessions for clients before 2026-07-28, which then cannot be asked; `json_response` answers
        their requests by JSON alone. `max_event_bytes` bounds the events that are kept for clients that resume their
        streams. `auth` verifies the sender of a request (see `Auth`). The processes that serve the same server on one
        machine find each other, unless another `store` is given.

        Raises:
            DefinitionError: the value of an option makes no sense.
        """
        from dragoman.server.serving import HttpOptions, asgi_app

        return asgi_app(self, options_among(locals(), HttpOptions))

    def wsgi(
        self,
        path: str = "/mcp",
        *,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        server_context: Callable[[Environ], object] | object = None,
    ) -> WsgiApp:
        """Return a WSGI application, to be served alone or mounted, that answers each request alone by JSON.

        Example:
            app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": server.wsgi()})

        Streams, sessions and questions to clients before 2026-07-28 need `asgi`. A `server_context` that can be called
        gets the WSGI environ and returns the context of that request.
        """
        from dragoman.server.http.views import wsgi_app

        return wsgi_app(self, path, allowed_hosts, allowed_origins, server_context)

    async def handle_http_async(
        self, method: str, headers: Headers, body: bytes | str, server_context: object = None
    ) -> HttpReply:
        """Answer one HTTP request, for an asynchronous view; as `handle_http`."""
        from dragoman.server.http.views import answer_view

        return await answer_view(self, method, headers, body, server_context)

    def handle_http(self, method: str, headers: Headers, body: bytes | str, server_context: object = None) -> HttpReply:
        """Answer one HTTP request, blocking, for a view of a web framework; each request stands alone, without streams.

        Example:
            reply = server.handle_http(request.method, request.headers, request.get_data(), server_context=user)
            return Response(reply.body, reply.status, reply.headers)

        The hosts that are served are the framework's to know (`ALLOWED_HOSTS` of Django, `TRUSTED_HOSTS` of Flask); a
        page of another origin than the host is refused unless `DRAGOMAN_ALLOWED_ORIGINS` names it.

        Raises:
            DragomanError: called where an event loop runs; await `handle_http_async` there.
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_http_async(method, headers, body, server_context))

    async def handle_json_async(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Answer one JSON-RPC message; None for what is not answered."""
        from dragoman.server.serving import answer_message

        # A lone surrogate becomes bytes that are not UTF-8, which is answered as such.
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        return await answer_message(self, data, server_context)

    def handle_json(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Answer one JSON-RPC message, blocking; None for what is not answered.

        Example:
            server.handle_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_json_async(body, server_context))

    async def handle_async(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Answer one parsed JSON-RPC message; None for what is not answered."""
        return _parsed(await self.handle_json_async(encode(message), server_context))

    def handle(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Answer one parsed JSON-RPC message, blocking; None for what is not answered."""
        return _parsed(self.handle_json(encode(message), server_context))


def _parsed(data: bytes | None) -> types.Json | None:
    return None if data is None else msgspec.json.decode(data)
