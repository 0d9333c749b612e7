"""The methods of a Server with which authors register tools, prompts, resources, methods, hooks and middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, Unpack, cast, overload

from dragoman import types
from dragoman.config import is_async
from dragoman.errors import DefinitionError, MethodAlreadyDefined
from dragoman.protocol.methods import METHODS, Method
from dragoman.schema.compile import InputSchema, OutputSchema
from dragoman.server.define.binding import Hook
from dragoman.server.define.definition import P, R, decorated, options_among
from dragoman.server.define.prompts import Prompt, PromptOptions
from dragoman.server.define.resources import Resource, ResourceOptions, ResourceTemplate, resource
from dragoman.server.define.tools import Tool, ToolOptions
from dragoman.server.dispatch.handlers import HANDLERS, CustomMethod
from dragoman.server.dispatch.middleware import Chain, Middleware
from dragoman.server.registry import AnyPrompt, AnyResource, AnyTemplate, AnyTool, Definitions, Registry

Function = TypeVar("Function", bound=Callable[..., object])
OwnMiddleware = TypeVar("OwnMiddleware", bound=Middleware)
OwnTool = TypeVar("OwnTool", bound=Tool[..., Any])
OwnPrompt = TypeVar("OwnPrompt", bound=Prompt[..., Any])
OwnResource = TypeVar("OwnResource", bound=Resource[..., Any] | ResourceTemplate[..., Any])


class Registration:
    """The part of a Server with which authors register."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.resource_lister: Hook | None = None
        self.resource_reader: Hook | None = None
        self.completer: Hook | None = None
        self.subscriber: Hook | None = None
        self.unsubscriber: Hook | None = None
        self._roots_hooks: list[Callable[[], Any]] = []
        self.middlewares: tuple[Middleware, ...] = ()
        """In the order of their registration, the first outermost."""
        self.middleware_chain: Chain | None = None
        """The middleware and hooks around every request, composed; None if there are none."""
        self.handlers = dict(HANDLERS)
        """The handler of each method: of the protocol, of extensions, and of the server's own."""
        self.own_methods: tuple[Method, ...] = ()
        """The rows of the server's own methods, which need no capability."""

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def tool(
        self, given_name: str | None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    def tool(
        self,
        given: Callable[P, R] | str | None = None,
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
        wrap_result: bool = True,
        **further: object,
    ) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
        """Register a function as a tool.

        Example:
            @server.tool(annotations={"readOnlyHint": True})
            def add(a: int, b: int) -> int: ...

        `@server.tool("plus")` and `@server.tool(name="plus")` give it another name than the function's. Further options
        are those of the server's extensions.

        Raises:
            DefinitionError: the function cannot be a tool; the message says why.
            ToolNotUnique: there is a tool of that name.
        """
        return decorated(self._define_tool, given, options_among(locals(), ToolOptions) | further)

    def _define_tool(self, function: Callable[P, R], **options: Any) -> Tool[P, R]:
        return self.add_tool(Tool.define(function, **options))

    @overload
    def prompt(self, function: Callable[P, R], /) -> Prompt[P, R]: ...
    @overload
    def prompt(
        self, given_name: str | None = None, /, **options: Unpack[PromptOptions]
    ) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
    def prompt(
        self,
        given: Callable[P, R] | str | None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        arguments: Iterable[types.PromptArgument | types.Json] | None = None,
        meta: types.Json | None = None,
        icons: Iterable[types.Icon | types.Json] = (),
        inline: bool = False,
    ) -> Prompt[P, R] | Callable[[Callable[P, R]], Prompt[P, R]]:
        """Register a function as a prompt.

        Example:
            @server.prompt
            def review(code: str) -> str:
                return f"Review this: {code}"

        Raises:
            DefinitionError: the function cannot be a prompt; the message says why.
        """
        return decorated(self._define_prompt, given, options_among(locals(), PromptOptions))

    def _define_prompt(self, function: Callable[P, R], **options: Any) -> Prompt[P, R]:
        return self.add_prompt(Prompt.define(function, **options))

    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: types.Annotations | types.Json | None = None,
        size: int | None = None,
        meta: types.Json | None = None,
        icons: Iterable[types.Icon | types.Json] = (),
        inline: bool = False,
        unsafe_paths: bool = False,
    ) -> Callable[[Callable[P, R]], Resource[P, R] | ResourceTemplate[P, R]]:
        """Register a function as the reader of a resource, or of a template when the URI has variables.

        Example:
            @server.resource("users://{user_id}/profile")
            def profile(user_id: int) -> dict: ...

        Raises:
            DefinitionError: the URI or the function's parameters cannot be served.
        """
        make = resource(uri, **options_among(locals(), ResourceOptions))

        def register(function: Callable[P, R]) -> Resource[P, R] | ResourceTemplate[P, R]:
            made = make(function)
            self.registry.add_resource(made)
            return made

        return register

    def method(self, name: str) -> Callable[[Function], Function]:
        """Serve a JSON-RPC method of your own: parameters by name, or all of them as one `params`.

        Example:
            @server.method("acme/add")
            def add(a: int, b: int) -> int:
                return a + b

        A client may also send it as a notification: the function runs, its result is dropped, and its error reported.

        Raises:
            MethodAlreadyDefined: the protocol or this server has a method of that name.
        """
        if name in self.handlers or any(name == known.name for known in METHODS):
            raise MethodAlreadyDefined(f"The method {name!r} is defined already and cannot be replaced")

        def register(function: Function) -> Function:
            self.handlers[name] = CustomMethod.define(function, name=name).handle
            self.own_methods = (*self.own_methods, Method(name=name, result=types.Result))
            self.registry.changed()
            return function

        return register

    def on_complete(self, function: Function) -> Function:
        """Complete every argument without a completion of its own, by a function of `(ref, argument, arguments)`."""
        self.completer = Hook(function)
        self.registry.changed()
        return function

    def on_read_resource(self, function: Function) -> Function:
        """Read every resource by one function of `(uri)`, instead of the registered ones."""
        self.resource_reader = Hook(function)
        return function

    def on_list_resources(self, function: Function) -> Function:
        """List resources by a function, called for each request; the server adds pages and cache hints."""
        self.resource_lister = Hook(function)
        return function

    def on_subscribe(self, function: Function) -> Function:
        """Call a function of `(uri)` when a client subscribes to a resource (until 2025-11-25)."""
        self.subscriber = Hook(function)
        self.registry.changed()
        return function

    def on_unsubscribe(self, function: Function) -> Function:
        """Call a function of `(uri)` when a client unsubscribes from a resource (until 2025-11-25)."""
        self.unsubscriber = Hook(function)
        return function

    def on_roots_changed(self, function: Function) -> Function:
        """Call a function of no parameters when a client notifies that its roots changed (until 2025-11-25)."""
        self._roots_hooks.append(function)
        return function

    def middleware(self, function: OwnMiddleware) -> OwnMiddleware:
        """Run an `async def (ctx, call_next)` around every request, including those that are refused.

        Example:
            @server.middleware
            async def audit(ctx: Context, call_next: CallNext) -> object:
                try:
                    return await call_next()
                except RpcError as error:
                    log.warning("%s: %s was refused: %s", ctx.principal, ctx.method, error)
                    raise

        `call_next()` returns the result as an object of `dragoman.types`, or raises the RpcError that the request is
        answered with. The function returns the result to send: that one, another one or a dict. Its exceptions are
        answered like those of handlers. The first middleware that is registered is the outermost.

        Raises:
            DefinitionError: the function is not async.
        """
        if not is_async(function):
            raise DefinitionError(
                f"Middleware must be async, and {function!r} is not: write `async def around(ctx, call_next)` and"
                " return what call_next() gives"
            )
        self.middlewares = (*self.middlewares, function)
        self.registry.changed()
        return function

    def renew(self) -> None:
        """Derive lists and capabilities again, after an extension changed what it adds to them."""
        self.registry.changed()

    @property
    def tools(self) -> list[AnyTool]:
        """The tools; assigning a list replaces them.

        Raises:
            DefinitionError: by setting it, for what cannot be a tool; the tools stay as they are.
        """
        return list(self.registry.tools.values())

    @tools.setter
    def tools(self, tools: Definitions) -> None:
        self.registry.replace(tools=tools)

    @property
    def prompts(self) -> list[AnyPrompt]:
        """The prompts; assigning a list replaces them."""
        return list(self.registry.prompts.values())

    @prompts.setter
    def prompts(self, prompts: Definitions) -> None:
        self.registry.replace(prompts=prompts)

    @property
    def resources(self) -> list[AnyResource]:
        """The resources at fixed URIs; assigning a list replaces them."""
        return list(self.registry.resources.values())

    @resources.setter
    def resources(self, resources: Definitions) -> None:
        self.registry.replace(resources=resources)

    @property
    def resource_templates(self) -> list[AnyTemplate]:
        """The resource templates; assigning a list replaces them."""
        return list(self.registry.templates.values())

    @resource_templates.setter
    def resource_templates(self, templates: Definitions) -> None:
        self.registry.replace(resource_templates=templates)

    @overload
    def add_tool(self, tool: OwnTool | type[OwnTool]) -> OwnTool: ...
    @overload
    def add_tool(self, tool: Callable[P, R]) -> Tool[P, R]: ...
    def add_tool(self, tool: Callable[..., object]) -> AnyTool:
        """Register a Tool, a Tool class or a function.

        Raises:
            ToolNotUnique: there is a tool of that name.
        """
        return self.registry.add_tool(tool)

    @overload
    def add_prompt(self, prompt: OwnPrompt | type[OwnPrompt]) -> OwnPrompt: ...
    @overload
    def add_prompt(self, prompt: Callable[P, R]) -> Prompt[P, R]: ...
    def add_prompt(self, prompt: Callable[..., object]) -> AnyPrompt:
        """Register a Prompt, a Prompt class or a function."""
        return self.registry.add_prompt(prompt)

    def add_resource(self, definition: OwnResource | type[OwnResource]) -> OwnResource:
        """Register a Resource or ResourceTemplate, or a class of either."""
        return cast("OwnResource", self.registry.add_resource(definition))

    def remove_tool(self, tool: AnyTool | str) -> None:
        """Remove a tool, by itself or by its name."""
        self.registry.remove(self.registry.tools, tool)

    def remove_prompt(self, prompt: AnyPrompt | str) -> None:
        """Remove a prompt, by itself or by its name."""
        self.registry.remove(self.registry.prompts, prompt)

    def remove_resource(self, definition: AnyResource | AnyTemplate | str) -> None:
        """Remove a resource or template, by itself or by its URI."""
        tables: tuple[dict[str, Any], ...] = (self.registry.templates, self.registry.resources)
        found = next((table for table in tables if definition in table or definition in table.values()), tables[1])
        self.registry.remove(found, definition)
