"""The server: what an author registers, and how it is served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.config import Configuration
from dragoman.config import configuration as process_configuration
from dragoman.errors import DefinitionError, InternalError, MethodAlreadyDefined, RpcError
from dragoman.protocol import eras
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.listen import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED
from dragoman.protocol.methods import METHODS, Method
from dragoman.protocol.versions import VERSIONS, Version, find_version, version_names
from dragoman.server import serving
from dragoman.server.call import Call
from dragoman.server.completion import Completers
from dragoman.server.definition import P, R
from dragoman.server.hook import Hook
from dragoman.server.instrument import is_observed, observed
from dragoman.server.prompts import Prompt
from dragoman.server.registry import AnyPrompt, AnyResource, AnyTemplate, AnyTool, PageSize, Registry
from dragoman.server.resources import Resource, ResourceTemplate, resource
from dragoman.server.results import wire_object, wire_objects
from dragoman.server.schemas import InputSchema, OutputSchema
from dragoman.server.telling import Audience
from dragoman.server.tools import Tool

if TYPE_CHECKING:
    from dragoman.protocol.tokens import KeyRing
    from dragoman.server.connection import Connection

Function = TypeVar("Function", bound=Callable[..., Any])
Middleware = Callable[[eras.Request, Callable[[], Any]], Any]


class Server:
    """An MCP server of every protocol version.

    Example:
        server = Server("sums")

        @server.tool
        def add(a: int, b: int) -> int:
            \"\"\"Adds two numbers.\"\"\"
            return a + b

        server.run()

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
        tools: Iterable[Any] = (),
        prompts: Iterable[Any] = (),
        resources: Iterable[Any] = (),
        resource_templates: Iterable[Any] = (),
        capabilities: types.ServerCapabilities | types.Json | None = None,
        configuration: Configuration | None = None,
        server_context: Any = None,
        page_size: PageSize = None,
        ttl_ms: int | None = None,
        cache_scope: types.CacheScope | None = None,
        secret: str | bytes | Iterable[str | bytes] | None = None,
    ) -> None:
        self._info = types.Implementation(
            name, version, title, description, website_url, wire_objects(icons, types.Icon, "A server's icon")
        )
        self._info_bytes = Raw(encode(self._info))
        self.instructions = instructions
        self.server_context = server_context
        self.configuration = configuration or Configuration()
        self.registry = Registry()
        self.audience = Audience()
        self.registry.page_size = page_size
        self.resource_lister: Hook | None = None
        self.resource_reader: Hook | None = None
        self.completer: Hook | None = None
        self.subscriber: Hook | None = None
        self.unsubscriber: Hook | None = None
        self._roots_hooks: list[Callable[[], Any]] = []
        self._background: set[Any] = set()
        self._merged: tuple[tuple[Configuration, Configuration], Configuration] | None = None
        self._middleware: list[Middleware] = []
        self._secret = secret
        self._key_ring: KeyRing | None = None
        self._given_capabilities = wire_object(capabilities, types.ServerCapabilities, "capabilities")
        self._cache_hints = _cache_hints(ttl_ms, cache_scope)
        self._custom: dict[str, serving.Handler] = {}
        self._offer: _Compiled | None = None
        for tool in tools:
            self.add_tool(tool)
        for prompt in prompts:
            self.add_prompt(prompt)
        for definition in (*resources, *resource_templates):
            self.add_resource(definition)

    @property
    def info(self) -> types.Implementation:
        """Who the server is, as clients are told."""
        return self._info

    @property
    def name(self) -> str:
        """The server's name."""
        return self._info.name

    @property
    def page_size(self) -> PageSize:
        """How many entries a page of a list has: an integer, a mapping such as {"tools": 50}, or None for all."""
        return self.registry.page_size

    @page_size.setter
    def page_size(self, size: PageSize) -> None:
        self.registry.page_size = size

    # What authors register.

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        input_schema: InputSchema | types.Json | None = None,
        output_schema: OutputSchema | types.Json | None = None,
        annotations: types.ToolAnnotations | types.Json | None = None,
        meta: types.Json | None = None,
        icons: Iterable[types.Icon | types.Json] = (),
        inline: bool = False,
        scopes: Sequence[str] = (),
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function as a tool.

        Example:
            @server.tool(annotations={"readOnlyHint": True})
            def add(a: int, b: int) -> int: ...

        Raises:
            DefinitionError: the function cannot be a tool; the message says why.
            ToolNotUnique: there is a tool of that name.
        """
        if function is None:
            return lambda function: self.add_tool(Tool.define(function, **options))
        return self.add_tool(Tool.define(function, **options))

    @overload
    def prompt(self, function: Callable[P, R], /) -> Prompt[P, R]: ...
    @overload
    def prompt(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        arguments: Iterable[types.PromptArgument | types.Json] | None = None,
        meta: types.Json | None = None,
        icons: Iterable[types.Icon | types.Json] = (),
        inline: bool = False,
    ) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
    def prompt(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function as a prompt.

        Example:
            @server.prompt
            def review(code: str) -> str:
                return f"Review this: {code}"

        Raises:
            DefinitionError: the function cannot be a prompt; the message says why.
        """
        if function is None:
            return lambda function: self.add_prompt(Prompt.define(function, **options))
        return self.add_prompt(Prompt.define(function, **options))

    def resource(
        self, uri: str, /, **options: Any
    ) -> Callable[[Callable[P, R]], Resource[P, R] | ResourceTemplate[P, R]]:
        """Register a function as the reader of a resource, or of a template when the URI has variables.

        Example:
            @server.resource("users://{user_id}/profile")
            def profile(user_id: int) -> dict: ...

        The options are those of `dragoman.resource`.

        Raises:
            DefinitionError: the URI or the function's parameters cannot be served.
        """
        make = resource(uri, **options)
        return lambda function: self.add_resource(make(function))

    def method(self, name: str) -> Callable[[Function], Function]:
        """Serve a JSON-RPC method of your own: parameters by name, or all of them as one `params`.

        Example:
            @server.method("acme/add")
            def add(a: int, b: int) -> int:
                return a + b

        Raises:
            MethodAlreadyDefined: the protocol or this server has a method of that name.
        """
        if name in self._custom or any(name == known.name for known in METHODS):
            raise MethodAlreadyDefined(f"The method {name!r} is defined already and cannot be replaced")

        def register(function: Function) -> Function:
            self._custom[name] = serving.custom_method(function, name)
            self.registry.changed()
            return function

        return register

    def on_complete(self, function: Function) -> Function:
        """Complete what has no completion of its own, by a function of `(ref, argument, arguments)`."""
        self.completer = Hook(function)
        self.registry.changed()
        return function

    def on_read_resource(self, function: Function) -> Function:
        """Read every resource by one function of `(uri)`, instead of those registered."""
        self.resource_reader = Hook(function)
        return function

    def on_list_resources(self, function: Function) -> Function:
        """List resources by a function, anew for each request; pages and lifetimes are taken care of."""
        self.resource_lister = Hook(function)
        return function

    def on_subscribe(self, function: Function) -> Function:
        """Call a function of `(uri)` when a client asks to be told of a resource (until 2025-11-25)."""
        self.subscriber = Hook(function)
        self._offer = None
        return function

    def on_unsubscribe(self, function: Function) -> Function:
        """Call a function of `(uri)` when a client does not want to be told any more (until 2025-11-25)."""
        self.unsubscriber = Hook(function)
        return function

    def on_roots_changed(self, function: Function) -> Function:
        """Call a function of no parameters when a client says that its roots changed (until 2025-11-25)."""
        self._roots_hooks.append(function)
        return function

    def middleware(self, function: Function) -> Function:
        """Let an `async def (request, call_next)` stand around every request; it returns what `call_next()` gives.

        Example:
            @server.middleware
            async def timed(request, call_next):
                result = await call_next()
                return result
        """
        self._middleware.append(function)
        return function

    def add_tool(self, tool: Any) -> AnyTool:
        """Register a Tool, a Tool class or a function.

        Raises:
            ToolNotUnique: there is a tool of that name.
        """
        return self.registry.add_tool(tool)

    def add_prompt(self, prompt: Any) -> AnyPrompt:
        """Register a Prompt, a Prompt class or a function."""
        return self.registry.add_prompt(prompt)

    def add_resource(self, definition: Any) -> Any:
        """Register a Resource or ResourceTemplate, or a class of either."""
        return self.registry.add_resource(definition)

    def remove_tool(self, tool: AnyTool | str) -> None:
        """Take a tool out, by itself or by its name."""
        self.registry.remove(self.registry.tools, tool)

    def remove_prompt(self, prompt: AnyPrompt | str) -> None:
        """Take a prompt out, by itself or by its name."""
        self.registry.remove(self.registry.prompts, prompt)

    def remove_resource(self, definition: AnyResource | AnyTemplate | str) -> None:
        """Take a resource or template out, by itself or by its URI."""
        tables: tuple[dict[str, Any], ...] = (self.registry.templates, self.registry.resources)
        found = next((table for table in tables if definition in table or definition in table.values()), tables[1])
        self.registry.remove(found, definition)

    # How it is served.

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server declares: what was given, or what it serves."""
        return self._compiled().capabilities

    @property
    def offer(self) -> eras.Offer:
        """The versions and methods that are served."""
        return self._compiled().offer

    def _compiled(self) -> _Compiled:
        configuration = self._configured()
        compiled = self._offer
        changes = self.registry.changes + Completers.changes
        if compiled is None or compiled.changes != changes:
            completes = self.completer is not None or self.registry.completes
            capabilities = self._given_capabilities or _served_capabilities(
                completes=completes, subscribes=self.subscriber is not None
            )
            served = [method for method in METHODS if method.name in serving.HANDLERS]
            custom = [Method(name=name, result=types.Result) for name in self._custom]
            offer = eras.Offer.of(capabilities, _versions(configuration), (*served, *custom))
            compiled = _Compiled(changes, capabilities, offer)
            self._offer = compiled
        return compiled

    def serve(self, call: Call) -> Any:
        """Serve a request; the outcome is the sealed result, or a coroutine that gives it.

        Raises:
            RpcError: the request is refused.
        """
        name = call.request.method.name
        handler = serving.HANDLERS.get(name) or self._custom[name]
        configuration = self._configured()
        if self._middleware or is_observed(configuration):
            return self._serve_observed(call, handler, configuration)
        return handler(self, call)

    async def _serve_observed(self, call: Call, handler: serving.Handler, configuration: Configuration) -> Any:
        async def serve() -> Any:
            outcome = handler(self, call)
            return await outcome if isinstance(outcome, CoroutineType) else outcome

        chain: Callable[[], Any] = serve
        for middleware in reversed(self._middleware):
            chain = partial(middleware, call.request, chain)
        return await observed(self, call, chain, configuration)

    def _configured(self) -> Configuration:
        sources = self.configuration, process_configuration()
        if self._merged is None or self._merged[0][0] is not sources[0] or self._merged[0][1] is not sources[1]:
            self._merged = sources, sources[0].over(sources[1])
            self._offer = None
        return self._merged[1]

    @property
    def validates_arguments(self) -> bool:
        """Whether arguments are compared with a schema that the author gave."""
        return self._configured().validate_tool_call_arguments is not False

    @property
    def validates_results(self) -> bool:
        """Whether structured results are compared with the output schema."""
        return self._configured().validate_tool_call_results is True

    @property
    def key_ring(self) -> KeyRing:
        """The keys that seal what comes back from clients."""
        if self._key_ring is None:
            from dragoman.runtime.keys import key_ring

            self._key_ring = key_ring(self._secret)
        return self._key_ring

    def notified(self, method: str) -> None:
        """Take a notification that a client sent."""
        if method == "notifications/roots/list_changed":
            for hook in self._roots_hooks:
                self._run_in_background(hook)

    def _run_in_background(self, function: Callable[[], Any]) -> None:
        import asyncio

        async def run() -> None:
            try:
                outcome = function()
                if isinstance(outcome, CoroutineType):
                    await outcome
            except Exception as error:
                self.report(error, None)

        task = asyncio.get_running_loop().create_task(run())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message to every client that set a level that wants it, from any thread."""
        for connection in self.audience.members():
            connection.log(level, data, logger)

    def notify_tools_list_changed(self) -> None:
        """Tell every client, from any thread, that the tools changed."""
        self._tell(TOOLS_CHANGED)

    def notify_prompts_list_changed(self) -> None:
        """Tell every client, from any thread, that the prompts changed."""
        self._tell(PROMPTS_CHANGED)

    def notify_resources_list_changed(self) -> None:
        """Tell every client, from any thread, that the resources changed."""
        self._tell(RESOURCES_CHANGED)

    def notify_resource_updated(self, uri: str) -> None:
        """Tell every client that follows a resource, from any thread, that it changed."""
        self._tell(RESOURCE_UPDATED, uri)

    def _tell(self, method: str, uri: str | None = None) -> None:
        for connection in self.audience.members():
            try:
                connection.tell(method, uri)
            except Exception as error:
                self.report(error, None, {"notification": method})

    def seal(self, result: types.Result, call: Call, *, wraps: bool = False) -> types.Result:
        """Return a result as the caller's version carries it."""
        return self.seal_for(result, call.request.caller.version, wraps=wraps)

    def seal_for(self, result: types.Result, version: Version, *, wraps: bool = False) -> types.Result:
        """Return a result as a version carries it, with the server's cache hints where it has none."""
        if version.stateless and isinstance(result, types.CacheableResult):
            result = self._with_cache_hints(result)
        return eras.seal(result, version, self._info_bytes, wraps=wraps)

    def seal_value(self, value: Any, version: Version) -> Any:
        """Return what a method of the server's own gave back as a version carries it."""
        return eras.seal_value(value, version, self._info_bytes)

    def _with_cache_hints(self, result: types.CacheableResult) -> types.CacheableResult:
        # A copy: an author may give the same result every time.
        ttl_ms, cache_scope = self._cache_hints
        return msgspec.structs.replace(
            result,
            ttl_ms=ttl_ms if result.ttl_ms is None else result.ttl_ms,
            cache_scope=cache_scope if result.cache_scope is None else result.cache_scope,
        )

    def refusal(self, error: BaseException, call: Call | None) -> RpcError:
        """Return the error to answer with; what was not meant for the client is reported and not said."""
        if not isinstance(error, RpcError):
            self.report(error, call)
            error = InternalError("Internal error")
        return error if call is None else eras.seal_error(error, call.request.caller.version)

    def report(self, error: BaseException, call: Call | None, info: dict[str, Any] | None = None) -> None:
        """Tell the reporter, or else the log, of an error that nobody else will hear of; this itself never fails."""
        import logging

        logger = logging.getLogger("dragoman.server")
        where = "a request" if call is None else f"{call.request.method.name} (request {call.request.id!r})"
        with suppress(Exception):
            reporter = self._configured().exception_reporter
            if reporter is None:
                logger.error("Unexpected error in %s", where, exc_info=error)
                return
            try:
                reporter(error, info or {"request": _described(call)})
            except Exception:
                logger.exception("The exception reporter failed on an error in %s", where)

    def connect(self, send: Callable[[bytes], None]) -> Connection:
        """Serve one duplex connection: messages come in by `receive` and go out by `send`."""
        from dragoman.server.connection import Connection

        return Connection(self, send)

    def run(self) -> None:
        """Serve stdin and stdout until the client closes them."""
        from dragoman.transports.stdio import run_stdio

        run_stdio(self)

    async def handle_json_async(self, body: bytes | str, server_context: Any = None) -> bytes | None:
        """Answer one JSON-RPC message; None for what is not answered."""
        from dragoman.server.connection import answer

        # A lone surrogate becomes bytes that are not UTF-8, which is answered as such.
        data = body.encode(errors="surrogatepass") if isinstance(body, str) else body
        return await answer(self, data, server_context)

    def handle_json(self, body: bytes | str, server_context: Any = None) -> bytes | None:
        """Answer one JSON-RPC message, blocking; None for what is not answered.

        Example:
            server.handle_json('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        """
        from dragoman.runtime.portal import run_blocking

        return run_blocking(self.handle_json_async(body, server_context))

    async def handle_async(self, message: types.Json, server_context: Any = None) -> types.Json | None:
        """Answer one parsed JSON-RPC message; None for what is not answered."""
        return _parsed(await self.handle_json_async(encode(message), server_context))

    def handle(self, message: types.Json, server_context: Any = None) -> types.Json | None:
        """Answer one parsed JSON-RPC message, blocking; None for what is not answered."""
        return _parsed(self.handle_json(encode(message), server_context))


class _Compiled(msgspec.Struct, frozen=True):
    """What follows from all that is registered, and after how many changes."""

    changes: int
    capabilities: types.ServerCapabilities
    offer: eras.Offer


def _parsed(data: bytes | None) -> types.Json | None:
    return None if data is None else msgspec.json.decode(data)


def _versions(configuration: Configuration) -> tuple[Version, ...]:
    pinned = configuration.protocol_version
    if pinned is None:
        return VERSIONS
    version = find_version(pinned)
    if version is None:
        raise DefinitionError(
            f"There is no protocol version {pinned!r}; there are {', '.join(version_names(VERSIONS))}"
        )
    return (version,)


def _described(call: Call | None) -> types.Json | None:
    if call is None:
        return None
    request = call.request
    return {"id": request.id, "method": request.method.name, "params": msgspec.json.decode(request.raw_params)}


def _served_capabilities(*, completes: bool, subscribes: bool) -> types.ServerCapabilities:
    return types.ServerCapabilities(
        tools=types.ListChangedCapability(list_changed=True),
        prompts=types.ListChangedCapability(list_changed=True),
        resources=types.ResourcesCapability(list_changed=True, subscribe=subscribes or None),
        logging={},
        completions={} if completes else None,
    )


def _cache_hints(ttl_ms: int | None, cache_scope: str | None) -> tuple[int | None, Any]:
    if ttl_ms is not None and (type(ttl_ms) is not int or ttl_ms < 0):
        raise DefinitionError(f"ttl_ms must be an integer of at least 0, not {ttl_ms!r}")
    if cache_scope not in (None, "public", "private"):
        raise DefinitionError(f'cache_scope must be "public" or "private", not {cache_scope!r}')
    return ttl_ms, cache_scope
