"""`Server`: the class whose objects authors create, register functions with, and serve.

A `Server` is a facade: it makes its parts and delegates to them. `Registration` has the methods that register.
ARCHITECTURE.md shows the parts, what each owns, and who may call it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import msgspec

from dragoman import types
from dragoman.config import PROCESS, Configuration
from dragoman.errors import DefinitionError
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, encode
from dragoman.protocol.subscriptions import PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.runtime.callables import explaining, raise_at_caller, refuse_unknown
from dragoman.runtime.lazy import look_up
from dragoman.server.define.definition import Definition, lists_options
from dragoman.server.define.tools import Tool
from dragoman.server.dispatch.dispatcher import Dispatcher, Patterns
from dragoman.server.dispatch.handlers import HANDLERS
from dragoman.server.identity import Icons, ServerIdentity, implementation
from dragoman.server.offering import GivenCapabilities, Offering
from dragoman.server.options import RULES, AsgiOptions, HttpOptions, Tags
from dragoman.server.registration import Registration
from dragoman.server.registry import Definitions, PageSize, Registry
from dragoman.server.settings import (
    MOUNT_OPTIONS_ELSEWHERE,
    OPTIONS_ELSEWHERE,
    IdentityField,
    PartField,
    ServerType,
    checked_cache_hints,
    checked_flag,
    checked_limits,
    missing_attribute,
)
from dragoman.server.storage import Storage

if TYPE_CHECKING:
    from os import PathLike

    from dragoman.server.dispatch.audit import Audit, AuditTarget
    from dragoman.server.dispatch.lifecycle import LifespanFunction
    from dragoman.server.duplex import DuplexConnection
    from dragoman.server.extensions.installed import Extensions
    from dragoman.server.http.views import Headers, HttpReply, ViewService
    from dragoman.server.request.context import CredentialExchange
    from dragoman.server.request.state import StateKey
    from dragoman.server.serving import Http
    from dragoman.stores import Store
    from dragoman.transports.contract import Sink
    from dragoman.transports.http.asgi import AsgiApp
    from dragoman.transports.http.wsgi import Environ, WsgiApp


@raise_at_caller("__init__ proxy check run run_async asgi wsgi configuration icons mount")
class Server(Registration, metaclass=ServerType):
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

    name = IdentityField[str]("The server's name.")
    version = IdentityField[str]("The server's own version.")
    title = IdentityField[str | None]("The name of the server to show to people.")
    description = IdentityField[str | None]("The description of the server.")
    website_url = IdentityField[str | None]("The URL of the server's web site.")
    instructions = PartField[str | None]("identity", "The text that tells the model how to use the server.")
    server_context = PartField[Any]("dispatcher", "Any object; handlers read it as `ctx.server_context`.")
    debug = PartField[bool]("dispatcher", "Whether clients receive the text and the place of an exception.")
    audit = PartField["Audit | None"]("dispatcher", "Where the server writes one record for each request.")

    _offering_type = Offering
    _views: ViewService | None = None

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
        self.identity = ServerIdentity(implementation(name, version, icons, **texts), instructions)
        is_strict = checked_flag("strict_arguments", strict_arguments)
        registry = Registry(self._require_servable, inline_refs=inline_refs)
        self.offering = self._offering_type(
            self.identity, registry, configuration, capabilities, strict_arguments=is_strict
        )
        self.storage = Storage(store, secret, state_key)
        dispatcher = Dispatcher(
            self.identity,
            registry,
            self.offering,
            self.storage,
            handlers=HANDLERS,
            owner=self,
            server_context=server_context,
            limits=checked_limits(max_message_bytes),
            cache_hints=checked_cache_hints(ttl_ms, cache_scope),
            audit=audit,
            debug=checked_flag("debug", debug),
        )
        registry.notify = dispatcher.take_change
        super().__init__(registry, dispatcher)
        self.notifier, self.lifecycle = dispatcher.notifier, dispatcher.lifecycle
        self.identity.on_change = self._identity_changed
        self._extend(lifespan, extensions)
        self.registry.page_size = page_size
        PROCESS.watchers.add(dispatcher.derive)
        self.registry.extend(tools=tools, prompts=prompts, resources=resources, resource_templates=resource_templates)

    def __repr__(self) -> str:
        registry = self.registry
        resources = len(registry.resources) + len(registry.templates)
        held = {"tool": len(registry.tools), "prompt": len(registry.prompts), "resource": resources}
        counts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in held.items() if count]
        return f"<Server {self.name!r} {self.version}: {', '.join(counts) or 'nothing'}>"

    if not TYPE_CHECKING:  # a type checker would accept every name
        __getattr__ = missing_attribute

    def _extend(self, lifespan: LifespanFunction | None, extensions: Extensions | None) -> None:
        if lifespan is not None:
            self.lifespan(lifespan)
        if extensions is not None:
            from dragoman.server.extensions.installed import install

            install(self.dispatcher, extensions).bind(self)

    def _require_servable(self, definition: Definition[..., Any]) -> None:
        if self.dispatcher.mounts is not None or self.dispatcher.mounted_in:
            look_up("dragoman.forward.mount.mounts", "require_definable")(self.dispatcher, definition)
        if isinstance(definition, Tool) and (options := definition.official_options):
            from dragoman.server.extensions.official import extensions_of

            for kind in extensions_of(options):
                self.extension(kind)
        self.dispatcher.require_servable(definition)

    def _identity_changed(self) -> None:
        self.offering.require_carried()
        self.registry.renew()

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
        self.dispatcher.check()

    @property
    def icons(self) -> list[types.Icon]:
        """The server's icons."""
        return list(self.identity.info.icons or ())

    @icons.setter
    def icons(self, icons: Icons) -> None:
        self.identity.describe(icons=icons)

    @property
    def info(self) -> types.Implementation:
        """The identity of the server, as clients receive it."""
        return self.identity.info

    @property
    def configuration(self) -> Configuration:
        """The configuration of this server; an option that it leaves out has the default of the process (`configure`).

        Raises:
            DefinitionError: on assignment, if the protocol version is unknown or cannot carry a registered definition.
        """
        return self.offering.configuration

    @configuration.setter
    def configuration(self, configuration: Configuration) -> None:
        self.offering.configure(configuration)
        self.dispatcher.derive()

    @property
    def store(self) -> Store:
        """What the processes of this server share; the engine that the author gave sees no plain text.

        Raises:
            ConfigError: the store reaches other machines, and the server has no secret.
        """
        return self.storage.store

    @explaining("server.mount()", MOUNT_OPTIONS_ELSEWHERE)
    def mount(
        self,
        server: Server | str | PathLike[str] | Sequence[str] | Mapping[str, Any],
        prefix: str | None = None,
        *,
        separator: str = "_",
        rename: Mapping[str, str] | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
    ) -> None:
        """Serve what another server has as well, under a prefix: what it has now, and what is registered there later.

        Example:
            server.mount(weather, prefix="weather")  # its tool `forecast` is `weather_forecast` here

        Any target of `Server.proxy` is mounted as `Server.proxy(target)`.
        The requests for it are run by the other server, with its own middleware, dependencies, lifespan and extensions.
        A URI gets the prefix after its scheme: `data://cities` is `data://weather/cities`. `rename` maps names and URIs
        of the other server to those that they have here. `include` and `exclude` are names and URIs to serve or to
        leave out; in them `*` stands for any text.

        Raises:
            DefinitionError: a name is taken or too long, an option has an invalid value, or the servers form a cycle.
        """
        if not isinstance(server, Server):
            server = cast("Server", look_up("dragoman.forward.proxy.configured", "mountable")(server))
        renaming = look_up("dragoman.forward.mount.renaming", "Renaming")(prefix, separator, rename, include, exclude)
        mounts = self.dispatcher.mounts or look_up("dragoman.forward.mount.mounts", "Mounts")(self.dispatcher)
        mounts.add(server.dispatcher, renaming)

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which the server serves in this loop: it enters and leaves lifespans and extensions.

        Example:
            async with server.serving():
                connection = server.connect(sent.append)

        `run`, `asgi`, clients and the other ways to serve do this themselves. Only code that calls `connect` needs it.
        Entering raises the exception of a lifespan or an extension that cannot begin.
        """
        return self.lifecycle.serving()

    def log(self, level: types.LoggingLevel, data: object, logger: str | None = None) -> bool:
        """Send a log message, from any thread, to every client whose log level includes it.

        Returns whether a client of this process gets it.

        Example:
            server.log("warning", {"disk": "full"}, "storage")

        Raises:
            ValueError: there is no such level.
            ValidationError: the data cannot be JSON.
        """
        return self.notifier.log(level, data, logger)

    def notify_tools_list_changed(self) -> bool:
        """Notify every client, from any thread, that the tools changed; return whether a client here gets it."""
        return self.notifier.notify_change(TOOLS_CHANGED)

    def notify_prompts_list_changed(self) -> bool:
        """Notify every client, from any thread, that the prompts changed; return whether a client here gets it."""
        return self.notifier.notify_change(PROMPTS_CHANGED)

    def notify_resources_list_changed(self) -> bool:
        """Notify every client, from any thread, that the resources changed; return whether a client here gets it."""
        return self.notifier.notify_change(RESOURCES_CHANGED)

    def notify_resource_updated(self, uri: str) -> bool:
        """Notify every client that subscribed to a resource, from any thread, that the resource was updated.

        Returns whether a client of this process gets the notification.
        """
        return self.notifier.notify_resource_updated(uri)

    def notify(
        self, method: str, subject: str | None = None, params: types.Json | None = None, *, everywhere: bool = True
    ) -> bool:
        """Send a notification of an extension, from any thread, to the clients that subscribed to it.

        Example:
            server.notify("notifications/prices", "apple", {"item": "apple", "price": 3})

        Every process of the server notifies its clients that subscribed to the subject, or to all subjects. Without a
        subject, the server also notifies the clients of the handshake era that declared the extension. If each process
        learns of the change by itself, `everywhere=False` notifies the clients of this process alone. Returns whether a
        client of this process gets the notification.

        Raises:
            DefinitionError: no extension of the server has such a notification.
            ValidationError: the parameters cannot be JSON.
        """
        return self.notifier.notify_extension(method, subject, params, everywhere=everywhere)

    def notify_elicitation_complete(self, elicitation_id: str) -> bool:
        """Notify a client, from any thread, that its user completed a url elicitation (2025-11-25).

        Example:
            @app.get("/signed-in")
            def signed_in(state: str):
                server.notify_elicitation_complete(state)

        Only the client that received this id, from `ctx.elicit_url` or `UrlElicitationRequired`, receives the
        notification, and receives it once. Returns whether that client is connected to this process.
        """
        return self.notifier.complete_elicitation(elicitation_id)

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
        return DuplexConnection(self.dispatcher, FunctionSink(send) if callable(send) else send)

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
        run(self.dispatcher, self.routes, transport, options)

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
        await run_async(self.dispatcher, self.routes, transport, options, handle_signals=handle_signals)

    @lists_options(AsgiOptions, SimpleNamespace(**{name: rule.default for name, rule in RULES.items()}))
    def asgi(self, path: str = "/mcp", **options: Unpack[AsgiOptions]) -> AsgiApp:
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
        from dragoman.server.serving import asgi_app

        refuse_unknown("server.asgi()", options, AsgiOptions.__annotations__)
        self.check()
        return asgi_app(self.dispatcher, self.routes, {"path": path, **options})

    def wsgi(
        self,
        path: str = "/mcp",
        *,
        allowed_hosts: str | Iterable[str] | None = None,
        allowed_origins: str | Iterable[str] | None = None,
        server_context: Callable[[Environ], object] | object = None,
    ) -> WsgiApp:
        """Return a WSGI application that answers each request with one JSON body; serve it alone or mount it.

        Example:
            app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": server.wsgi()})

        Streams, sessions and questions to clients before 2026-07-28 need `asgi`. If `server_context` is callable, the
        application calls it with the WSGI environ of each request and uses the returned object as the context.

        Raises:
            DefinitionError: a tool requires scopes, which only `asgi` and `run` can verify.
            DragomanError: gevent or eventlet has replaced threads, as in gunicorn's gevent workers.
        """
        from dragoman.server.http.views import wsgi_app

        self.check()
        return wsgi_app(self.dispatcher, path, allowed_hosts, allowed_origins, server_context)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: object,  # noqa: ARG002
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Tell an ASGI server, as of `uvicorn file:server`, that it needs the application of `asgi`.

        Raises:
            DefinitionError: always, unless the ASGI server asks to start; it is then told that the start failed.
        """
        message = f"{self!r} is not an ASGI application: write `app = server.asgi()`, and serve `app` instead"
        if scope["type"] != "lifespan":
            raise DefinitionError(message)
        await send({"type": "lifespan.startup.failed", "message": message})

    async def handle_http_async(
        self, method: str, headers: Headers, body: bytes | str, server_context: object = None
    ) -> HttpReply:
        """Answer one HTTP request in an asynchronous view, as `handle_http` does in a blocking one."""
        from dragoman.server.http.views import ViewService

        self.check()
        if self._views is None:
            self._views = ViewService(self.dispatcher)
        return await self._views.answer(method, headers, body, server_context)

    def handle_http(self, method: str, headers: Headers, body: bytes | str, server_context: object = None) -> HttpReply:
        """Answer one HTTP request in a blocking view of a web framework, without streams and sessions.

        Example:
            reply = server.handle_http(request.method, request.headers, request.get_data(), server_context=user)
            return Response(reply.body, reply.status, reply.headers)

        The framework checks the host (`ALLOWED_HOSTS` of Django, `TRUSTED_HOSTS` of Flask). The server refuses a web
        page whose origin differs from the host, unless `DRAGOMAN_ALLOWED_ORIGINS` names that origin.

        Raises:
            DragomanError: an event loop runs in this thread; await `handle_http_async` instead.
            DefinitionError: a tool requires scopes, which only `asgi` and `run` can verify.
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_http_async(method, headers, body, server_context))

    async def handle_json_async(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Return the response to one JSON-RPC message; None if the message has no response."""
        from dragoman.server.serving import answer_message

        self.check()
        # A lone surrogate becomes bytes that are not UTF-8. The decoder then refuses the message with a parse error.
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        return await answer_message(self.dispatcher, data, server_context)

    def handle_json(self, body: bytes | str, server_context: object = None) -> bytes | None:
        """Return the response to one JSON-RPC message, blocking; None if the message has no response.

        Example:
            server.handle_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_json_async(body, server_context))

    async def handle_async(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Return the response to one parsed JSON-RPC message; None if the message has no response."""
        return _parsed(await self.handle_json_async(encode(message), server_context))

    def handle(self, message: types.Json, server_context: object = None) -> types.Json | None:
        """Return the response to one parsed JSON-RPC message, blocking; None if the message has no response."""
        return _parsed(self.handle_json(encode(message), server_context))


def _parsed(data: bytes | None) -> types.Json | None:
    return None if data is None else msgspec.json.decode(data)
