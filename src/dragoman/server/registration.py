"""`Registration`: the methods of a `Server` that register tools, prompts, resources, methods, hooks and extensions.

The methods delegate to the registry, the dispatcher and the extensions of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from dragoman import types
from dragoman.runtime.callables import at_caller, explaining, raise_at_caller, refuse_unknown
from dragoman.server.define.binding import Hook
from dragoman.server.define.definition import Function, P, R, decorated, lists_options
from dragoman.server.define.prompts import Prompt, PromptOptions
from dragoman.server.define.resources import Resource, ResourceOptions, ResourceTemplate, resource
from dragoman.server.define.tools import Tool, ToolOptions
from dragoman.server.dispatch.dispatcher import DefinitionKind, Dispatcher
from dragoman.server.dispatch.lifecycle import OwnLifespan
from dragoman.server.offering import GivenCapabilities
from dragoman.server.registry import AnyPrompt, AnyResource, AnyTemplate, AnyTool, Definitions, PageSize, Registry
from dragoman.server.settings import ENABLE_OPTIONS_ELSEWHERE

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.server.dispatch.middleware import Middleware
    from dragoman.server.extensions.apps import AppOptions, Html
    from dragoman.server.extensions.contract import ServerExtension
    from dragoman.server.extensions.skill_files import Skill
    from dragoman.server.extensions.skills import Skills
    from dragoman.server.routes.table import AsgiApplication, RouteTable

E = TypeVar("E", bound="ServerExtension")
OwnMiddleware = TypeVar("OwnMiddleware", bound="Middleware")
AnyDefinition = AnyTool | AnyPrompt | AnyResource | AnyTemplate
OwnTool = TypeVar("OwnTool", bound=Tool[..., Any])
OwnPrompt = TypeVar("OwnPrompt", bound=Prompt[..., Any])
OwnResource = TypeVar("OwnResource", bound=Resource[..., Any] | ResourceTemplate[..., Any])

Handler = TypeVar("Handler", bound=Callable[..., Any])


@raise_at_caller(
    "tool prompt resource method middleware extension override expose_as_tools add_app skill add_skill add_skills"
    " tools prompts resources resource_templates page_size add_tool add_prompt add_resource remove_tool remove_prompt"
    " remove_resource enable disable on_complete on_read_resource on_list_resources on_subscribe on_unsubscribe"
    " lifespan mount_asgi capabilities"
)
class Registration:
    """The registering methods of a server; they delegate to its parts."""

    def __init__(self, registry: Registry, dispatcher: Dispatcher) -> None:
        self.registry = registry
        self.dispatcher = dispatcher

    @cached_property
    def routes(self) -> RouteTable:
        """The HTTP paths beside that of MCP."""
        from dragoman.server.routes.table import RouteTable

        return RouteTable()

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def tool(
        self, given_name: str | None = None, /, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
    @lists_options(ToolOptions, Tool)
    def tool(
        self, given: Callable[P, R] | str | None = None, /, **further: object
    ) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
        """Register a function as a tool.

        Example:
            @server.tool(annotations={"readOnlyHint": True})
            def add(a: int, b: int) -> int: ...

        `@server.tool("plus")` and `@server.tool(name="plus")` register the tool under the name "plus". `further` are
        the options of the server's extensions.

        Raises:
            DefinitionError: the function cannot be a tool; the message says why.
            ToolNotUnique: the server already has a tool of this name.
        """
        return decorated(self._define_tool, given, further)

    def _define_tool(self, function: Callable[P, R], **options: Any) -> Tool[P, R]:
        return self.add_tool(Tool.define(function, **options))

    @overload
    def prompt(self, function: Callable[P, R], /) -> Prompt[P, R]: ...
    @overload
    def prompt(
        self, given_name: str | None = None, /, **options: Unpack[PromptOptions]
    ) -> Callable[[Callable[P, R]], Prompt[P, R]]: ...
    @lists_options(PromptOptions, Prompt)
    def prompt(
        self, given: Callable[P, R] | str | None = None, /, **options: Any
    ) -> Prompt[P, R] | Callable[[Callable[P, R]], Prompt[P, R]]:
        """Register a function as a prompt.

        Example:
            @server.prompt
            def review(code: str) -> str:
                return f"Review this: {code}"

        Raises:
            DefinitionError: the function cannot be a prompt; the message says why.
        """
        refuse_unknown("prompt()", options, PromptOptions.__annotations__)
        return decorated(self._define_prompt, given, options)

    def _define_prompt(self, function: Callable[P, R], **options: Any) -> Prompt[P, R]:
        return self.add_prompt(Prompt.define(function, **options))

    @lists_options(ResourceOptions, Resource, ResourceTemplate)
    def resource(
        self, uri: str, **options: Unpack[ResourceOptions]
    ) -> Callable[[Callable[P, R]], Resource[P, R] | ResourceTemplate[P, R]]:
        """Register a function that reads a resource, or a resource template if the URI has variables.

        Example:
            @server.resource("users://{user_id}/profile")
            def profile(user_id: int) -> dict: ...

        Raises:
            DefinitionError: the URI or the function's parameters cannot be served.
        """
        make = resource(uri, **options)

        def register(function: Callable[P, R]) -> Resource[P, R] | ResourceTemplate[P, R]:
            self.registry.add_resource(made := make(function))
            return made

        return at_caller(register)

    def method(self, name: str) -> Callable[[Function], Function]:
        """Register a function as a JSON-RPC method of the server's own.

        Example:
            @server.method("acme/add")
            def add(a: int, b: int) -> int:
                return a + b

        The function takes the params by name, or all of them as one parameter `params`. A client may also send the
        method as a notification: the server runs the function, drops its result, and reports its error.

        Raises:
            MethodAlreadyDefined: the protocol, an extension or this server already has a method of this name.
            DefinitionError: the name is not text, or begins with `rpc.`, which JSON-RPC reserves.
        """
        return self.dispatcher.method(name)

    def is_defined(self, method: str) -> bool:
        """Tell whether this server has a method, or a server that this one is mounted in."""
        return self.dispatcher.is_defined(method)

    def override(self, dependency: Callable[..., object], replacement: Callable[..., object]) -> ExitStack:
        """Replace a dependency or a lifespan by another function, such as in a test.

        Example:
            with server.override(open_database, FakeDatabase):
                client.call_tool("orders")

        The replacement begins at once, and ends with the `with` block or with `close()` of the returned object. It may
        have dependencies of its own. If several replace the same function, the newest that is open counts; they may be
        closed in any order.

        Raises:
            DefinitionError: `dependency` or `replacement` is not a function.
        """
        return self.dispatcher.overrides.add(dependency, replacement)

    def on_complete(self, function: Function) -> Function:
        """Register a function of `(ref, argument, arguments)` that completes arguments without a completer.

        Example:
            @server.on_complete
            def complete(ref, argument, arguments):
                return [word for word in WORDS if word.startswith(argument.value)]
        """
        self.registry.hook("on_complete", function)
        return function

    def on_read_resource(self, function: Function) -> Function:
        """Register a function of `(uri)` that reads every resource in place of the registered functions.

        Example:
            @server.on_read_resource
            def read(uri: str) -> str:
                return store[uri]
        """
        self.registry.hook("on_read_resource", function)
        return function

    def on_list_resources(self, function: Function) -> Function:
        """Register a function that lists the resources for each request; the server adds pages and cache hints.

        Example:
            @server.on_list_resources
            def resources() -> list[dict]:
                return [{"uri": uri, "name": uri} for uri in store]
        """
        self.registry.hook("on_list_resources", function)
        return function

    def on_subscribe(self, function: Function) -> Function:
        """Register a function of `(uri)` to call when a client subscribes to a resource (until 2025-11-25)."""
        self.registry.hook("on_subscribe", function)
        return function

    def on_unsubscribe(self, function: Function) -> Function:
        """Register a function of `(uri)` to call when a client unsubscribes from a resource (until 2025-11-25)."""
        self.registry.hook("on_unsubscribe", function)
        return function

    def on_roots_changed(self, function: Function) -> Function:
        """Register a function, which may take a context, to call when a client changed its roots (until 2025-11-25)."""
        self.registry.roots_hooks = (*self.registry.roots_hooks, Hook(function))
        return function

    def middleware(self, function: OwnMiddleware) -> OwnMiddleware:
        """Register an `async def (ctx, call_next)` that runs around every request, including refused requests.

        Example:
            @server.middleware
            async def audit(ctx: Context, call_next: CallNext) -> object:
                try:
                    return await call_next()
                except RpcError as error:
                    log.warning("%s: %s was refused: %s", ctx.principal, ctx.method, error)
                    raise

        `call_next()` returns the result as an object of `dragoman.types`, or raises the RpcError of the error response.
        The middleware returns the result to send: the same result, another one or a dict. The server answers its
        exceptions like those of handlers. The middleware that is registered first is the outermost.

        Raises:
            DefinitionError: the function is not async.
        """
        self.dispatcher.add_middleware(function)
        return function

    def extension(self, kind: type[E]) -> E:
        """Return the extension of a class that the server has; without one, the server installs `kind()`.

        Example:
            server.extension(Quotes).change("paint", 15)

        Raises:
            DefinitionError: the extension conflicts with another, or with a method that the author registered.
        """
        from dragoman.server.extensions.installed import extension_of

        return extension_of(self.dispatcher, kind)

    def add_app(
        self, uri: str, html: Html, **options: Unpack[AppOptions]
    ) -> Resource[..., object] | ResourceTemplate[..., object]:
        """Register an app: an HTML document that a host shows for the results of tools.

        Example:
            server.add_app("ui://clock/app.html", Path("clock.html"), csp=Csp(connect=["https://time.example.com"]))

            @server.tool(ui="ui://clock/app.html")
            def now() -> str: ...

        `html` is the document, a file that has it, or a function that returns it, as the function of a resource does.
        The options are those of `AppOptions`.

        Raises:
            DefinitionError: the URI does not begin with `ui://`, an option does not fit, or there is no such file.
        """
        from dragoman.server.extensions.apps import Apps, ui_resource

        self.extension(Apps)
        return self.add_resource(ui_resource(uri, html, **options))

    def add_skills(self, folder: str | Path, *, prefix: str = "") -> None:
        """Register every skill below a folder: each folder with a SKILL.md is one.

        Example:
            server.add_skills("skills")

        The folder is looked at again at each `skills/list`. `prefix` is a path before the paths of the skills, such as
        "acme/billing".

        Raises:
            DefinitionError: a skill breaks a rule; the message names its path, and no skill is registered.
        """
        self.extension(_skills()).add_folder(folder, prefix, is_skill=False)

    def add_skill(self, skill: str | Path | Skill, *, prefix: str = "") -> None:
        """Register one skill: a folder with a SKILL.md, or a `Skill` that was made in Python.

        Example:
            server.add_skill("skills/pdf-processing")

        Raises:
            DefinitionError: the skill breaks a rule, or the server has a skill of this name.
        """
        self.extension(_skills()).add_skill(skill, prefix)

    @overload
    def skill(self, function: Function, /) -> Function: ...
    @overload
    def skill(
        self,
        given_name: str | None = None,
        /,
        *,
        description: str | None = None,
        prefix: str = "",
        fields: types.Json | None = None,
    ) -> Callable[[Function], Function]: ...
    def skill(
        self,
        given: Function | str | None = None,
        /,
        *,
        description: str | None = None,
        prefix: str = "",
        fields: types.Json | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Register a function that makes the files of a skill for each request.

        Example:
            @server.skill("refunds")
            async def refunds(path: str, ctx: Context) -> str | None:
                \"\"\"How to refund a payment.\"\"\"
                return await handbook(ctx.principal) if path == "SKILL.md" else None

        The function takes the path of the file, or nothing. For "SKILL.md" it returns the text that follows the
        frontmatter, which is made of the name, the description (by default the docstring) and `fields`. For a file that
        does not exist it returns None. Clients cannot verify such a skill, and ask for approval at each use.

        Raises:
            DefinitionError: the name or the description breaks a rule, or the server has a skill of this name.
        """
        skills = self.extension(_skills())
        if callable(given):
            return skills.add_function(given, None, description, prefix, fields)
        return at_caller(lambda function: skills.add_function(function, given, description, prefix, fields))

    def expose_as_tools(self, *, resources: bool = True, prompts: bool = True, tags: Iterable[str] = ()) -> None:
        """Register tools that list and read the resources and prompts, for hosts that know only tools.

        Example:
            server.expose_as_tools()

        The tools are `list_resources`, `read_resource`, `list_prompts` and `get_prompt`. Their callers get what they
        would get from the requests of the protocol, at the time of the call. `tags` are those of the tools.

        Raises:
            ToolNotUnique: the server already has a tool of one of these names.
        """
        from dragoman.server.dispatch.exposed import exposing_tools

        self.registry.extend(tools=exposing_tools(resources=resources, prompts=prompts, tags=tags))

    def lifespan(self, function: OwnLifespan) -> OwnLifespan:
        """Register a function that opens something before the server serves, and closes it when serving ends.

        Example:
            @server.lifespan
            async def database() -> AsyncIterator[Database]:
                async with Database.connect() as database:
                    yield database

        The function is an async generator that yields once, or returns an async context manager. It takes the server,
        or nothing. Lifespans begin in the order of their registration and end in reverse. Handlers get the value as
        `Annotated[Database, Lifespan()]` or as `ctx.lifespan`.

        Raises:
            DefinitionError: the function is of another kind, or has more parameters.
        """
        self.dispatcher.lifecycle.add(function)
        return function

    def route(
        self, path: str, methods: str | Iterable[str] = ("GET",), *, auth: bool = False
    ) -> Callable[[Handler], Handler]:
        """Register a function that answers HTTP requests to a path beside MCP, for `run("http")` and `asgi()`.

        Example:
            @server.route("/orders/{id}")
            def order(request: RouteRequest) -> dict[str, str]:
                return {"id": request.path_params["id"]}

        The function takes a `RouteRequest`, or nothing. It returns a `Response`, text, bytes, a value that JSON can
        say, or None for an empty response. A `def` runs in a thread. `methods` are the HTTP methods; GET includes
        HEAD. A route is public. With `auth=True` it serves only senders that the `auth` of `run` or `asgi` admits.

        Raises:
            DefinitionError: the path, a method or the function cannot be a route, or the route exists.
        """

        def register(function: Handler) -> Handler:
            self.routes.add(path, methods, function, needs_auth=auth)
            return function

        return at_caller(register)

    def mount_asgi(self, path: str, app: AsgiApplication) -> None:
        """Serve an ASGI application at a path and below it, beside MCP, for `run("http")` and `asgi()`.

        Example:
            server.mount_asgi("/admin", FastAPI())

        The application gets HTTP requests with `root_path` set, and neither lifespan events nor WebSockets. It is
        public, unless it authenticates its requests itself.

        Raises:
            DefinitionError: the path is invalid or taken, or the application is not callable.
        """
        self.routes.mount(path, app)

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
        return self.dispatcher.offering.capabilities

    @capabilities.setter
    def capabilities(self, given: GivenCapabilities) -> None:
        self.dispatcher.offering.declare(given)
        self.dispatcher.derive()

    def renew(self) -> None:
        """Derive the lists and the capabilities again; an extension calls this after it changed its part of them."""
        self.dispatcher.renew()

    @property
    def tools(self) -> list[AnyTool]:
        """The tools, also those that are disabled; assigning a list replaces all of them.

        Raises:
            DefinitionError: on assignment, if an entry cannot be a tool; the tools then stay as they are.
        """
        return list(self.registry.registered("tools").values())

    @tools.setter
    def tools(self, tools: Definitions) -> None:
        self.registry.replace(tools=tools)

    @property
    def prompts(self) -> list[AnyPrompt]:
        """The prompts; assigning a list replaces all of them."""
        return list(self.registry.registered("prompts").values())

    @prompts.setter
    def prompts(self, prompts: Definitions) -> None:
        self.registry.replace(prompts=prompts)

    @property
    def resources(self) -> list[AnyResource]:
        """The resources at fixed URIs; assigning a list replaces all of them."""
        return list(self.registry.registered("resources").values())

    @resources.setter
    def resources(self, resources: Definitions) -> None:
        self.registry.replace(resources=resources)

    @property
    def resource_templates(self) -> list[AnyTemplate]:
        """The resource templates; assigning a list replaces all of them."""
        return list(self.registry.registered("templates").values())

    @resource_templates.setter
    def resource_templates(self, templates: Definitions) -> None:
        self.registry.replace(resource_templates=templates)

    @property
    def page_size(self) -> PageSize:
        """The number of entries on a page of a list: an integer, a mapping such as {"tools": 50}, or None for all."""
        return self.registry.page_size

    @page_size.setter
    def page_size(self, size: PageSize) -> None:
        self.registry.page_size = size

    @overload
    def add_tool(self, tool: OwnTool | type[OwnTool]) -> OwnTool: ...
    @overload
    def add_tool(self, tool: Callable[P, R]) -> Tool[P, R]: ...
    def add_tool(self, tool: Callable[..., object]) -> AnyTool:
        """Register a Tool, a Tool class or a function, and return the Tool.

        Raises:
            DefinitionError: the object cannot be a tool; the message says why.
            ToolNotUnique: the server already has a tool of this name.
        """
        return self.registry.add_tool(tool)

    @overload
    def add_prompt(self, prompt: OwnPrompt | type[OwnPrompt]) -> OwnPrompt: ...
    @overload
    def add_prompt(self, prompt: Callable[P, R]) -> Prompt[P, R]: ...
    def add_prompt(self, prompt: Callable[..., object]) -> AnyPrompt:
        """Register a Prompt, a Prompt class or a function, and return the Prompt.

        Raises:
            DefinitionError: the object cannot be a prompt, or the server already has a prompt of this name.
        """
        return self.registry.add_prompt(prompt)

    def add_resource(self, definition: OwnResource | type[OwnResource]) -> OwnResource:
        """Register a Resource, a ResourceTemplate or a class of either, and return the object.

        Raises:
            DefinitionError: the object cannot be a resource, or the server already has one with this URI.
        """
        return cast("OwnResource", self.registry.add_resource(definition))

    def remove_tool(self, tool: AnyTool | str) -> None:
        """Remove a tool; `tool` is the Tool or its name.

        Raises:
            DefinitionError: the tool is not registered.
        """
        self.registry.remove(tool, "tools")

    def remove_prompt(self, prompt: AnyPrompt | str) -> None:
        """Remove a prompt; `prompt` is the Prompt or its name.

        Raises:
            DefinitionError: the prompt is not registered.
        """
        self.registry.remove(prompt, "prompts")

    def remove_resource(self, definition: AnyResource | AnyTemplate | str) -> None:
        """Remove a resource or a template; `definition` is the object or its URI.

        Raises:
            DefinitionError: the resource is not registered.
        """
        self.registry.remove(definition, "templates", "resources")

    @explaining("server.enable()", ENABLE_OPTIONS_ELSEWHERE)
    def enable(self, definition: AnyDefinition | str, *, kind: DefinitionKind | None = None) -> None:
        """Serve a tool, prompt, resource or template that is disabled, and notify the clients.

        Example:
            @server.tool(enabled=False)
            def migrate() -> str: ...

            server.enable("migrate")

        `definition` is the object, the name of a tool or prompt, or the URI of a resource or template. `kind` is needed
        if a tool and a prompt have the same name. This changes the server of this process; other processes of the
        server, such as the workers of `run("http", workers=4)`, have a server of their own.

        Raises:
            DefinitionError: the definition is not registered, or its name does not say which kind is meant.
        """
        self.dispatcher.set_enabled(definition, kind, enabled=True)

    @explaining("server.disable()", ENABLE_OPTIONS_ELSEWHERE)
    def disable(self, definition: AnyDefinition | str, *, kind: DefinitionKind | None = None) -> None:
        """Do not list and do not serve a tool, prompt, resource or template until `enable`, and notify the clients.

        Example:
            server.disable("migrate")

        The parameters are those of `enable`. Requests that are being served go on.

        Raises:
            DefinitionError: the definition is not registered, or its name does not say which kind is meant.
        """
        self.dispatcher.set_enabled(definition, kind, enabled=False)


def _skills() -> type[Skills]:
    from dragoman.server.extensions.skills import Skills

    return Skills
