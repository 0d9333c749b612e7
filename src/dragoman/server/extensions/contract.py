"""`ServerExtension`: the base class of extensions for servers.

The rows of an extension list the methods, fields and capabilities that it adds to the wire. Its Python methods
implement them on the server. Every Python method has a default.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from dragoman import types
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method
from dragoman.protocol.subscriptions import SubscriptionField
from dragoman.server.define.resources import Resource
from dragoman.server.define.tools import Tool
from dragoman.server.registry import AnyPrompt, AnyResource, AnyTemplate, AnyTool

if TYPE_CHECKING:
    from dragoman.server.request.asking import OnStep
    from dragoman.server.request.context import Context
    from dragoman.server.request.detached import DetachedCall, OnProgress
    from dragoman.server.request.tool_task import OfferedTask
    from dragoman.server.server import Server

Outcome = types.Result | types.Json
"""A result of `dragoman.types`, a subclass of `Result`, or a dict."""
NextCall = Callable[[], Awaitable[Outcome]]
"""Runs the rest of a call: the extensions after this one, and the tool."""
ExtensionHandler = Callable[["Context", Any], Awaitable[Outcome]]
"""Answers a request; its second parameter has the type that the row of the method names."""
ResourceReader = Callable[["Context"], Awaitable[object]]
AnyDefinition = AnyTool | AnyPrompt | AnyResource | AnyTemplate
"""A tool, prompt, resource or resource template, with any parameters and any result."""
Wanted = bool | list[str]
"""The value of a subscription field: True for every notification, or the subjects."""


class ServerExtension:
    """The server side of an extension of the protocol.

    Example:
        class Prices(ServerExtension):
            rows = (ExtensionRow(id="com.example/prices", methods=(GET_PRICE,)),)

            def handlers(self):
                return {"prices/get": self.get}

            async def get(self, ctx: Context, params: GetPriceParams) -> Price: ...

        server = Server("shop", extensions=[Prices()])

    `rows` has one row, or several rows with the same id: one for each generation of the extension. `tool_options` maps
    the name of each option that the extension adds to tools to its type. `@server.tool(...)`, `Tool.define` and Tool
    classes (as attributes) take these options. `resource_options` are those of resources and resource templates.
    `around_methods` are the requests that `around_call` surrounds: `tools/call`, `prompts/get`, `resources/read` or
    `completion/complete`.
    """

    rows: tuple[ExtensionRow, ...] = ()
    tool_options: ClassVar[Mapping[str, type | UnionType]] = {}
    resource_options: ClassVar[Mapping[str, type | UnionType]] = {}
    around_methods: ClassVar[Sequence[str]] = ("tools/call",)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # An author may define a tool before a server has the extension, so all tools take the options.
        Tool.add_options(cls.tool_options)
        Resource.add_options(cls.resource_options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(dict.fromkeys(row.id for row in self.rows))}>"

    def settings(self) -> types.Json | None:
        """Return the settings that the server declares under the id of the extension; by default those of its row.

        If the method returns None, the server does not declare or offer the extension. The server calls this method
        after each registration and in `server.renew()`.
        """
        return next((dict(row.settings) for row in self.rows if not row.capability), {})

    def capability_settings(self, row: ExtensionRow) -> types.Json | None:
        """Return the settings that the server declares at the `capability` path of a row; None declares nothing there.

        The server calls this for the rows that have such a path, when it calls `settings`.
        """
        return dict(row.settings)

    def bind(self, server: Server) -> None:
        """Receive the server; the extension may register tools and resources.

        The constructor of the server calls `handlers` first and then this method, once.
        """

    @asynccontextmanager
    async def serving(self, server: Server) -> AsyncIterator[None]:  # noqa: ARG002
        """Do what the extension needs before the server serves, yield, and end it when the server has served.

        Example:
            @asynccontextmanager
            async def serving(self, server):
                async with asyncio.TaskGroup() as group:
                    sweeping = group.create_task(self.sweep())
                    yield
                    sweeping.cancel()

        The server enters it once in each process and event loop that serves, before the first request, and leaves it
        after the last. An exception before the `yield` keeps the server from serving.
        """
        yield

    def handlers(self) -> Mapping[str, ExtensionHandler]:
        """Return an `async def (ctx, params)` for each request that a client may send according to the rows.

        `params` has the type that the row of the method names. A handler has the same middleware and error handling as
        the handlers of the protocol. A notification that a client may send may have a handler too; its result is
        dropped.
        """
        return {}

    def reader(self, uri: str) -> ResourceReader | None:  # noqa: ARG002
        """Return an `async def (ctx)` that reads a resource of the extension; None if it has no such resource.

        The function returns the contents, as the function of a resource does. The server asks its extensions first,
        before the resources that are registered.
        """
        return None

    def define_tool(self, tool: Tool[..., Any], options: Mapping[str, Any]) -> None:
        """Check a tool at its registration; `options` holds the values of those `tool_options` that the tool has.

        Raises:
            DefinitionError: the options do not fit the tool; the tool is then not registered.
        """

    def define_resource(self, resource: AnyResource | AnyTemplate, options: Mapping[str, Any]) -> None:
        """Check a resource or a resource template at its registration, as `define_tool` does with a tool.

        Raises:
            DefinitionError: the options do not fit the resource, which is then not registered.
        """

    def forget(self, definition: AnyDefinition) -> None:
        """Forget a definition that the server has removed."""

    def check(self) -> None:
        """Check the whole server before it is served; the server calls this again after each registration.

        Raises:
            DefinitionError: the server cannot be served as it is.
        """

    def entry(self, definition: AnyDefinition) -> Struct | None:  # noqa: ARG002
        """Return the fields to add to the entry of a definition in a list, as the Struct of the row; None adds none.

        A field with the value None is left out. The field `meta` is merged over the `_meta` of the definition. The
        server calls this for the lists in `entries` of the row, in the versions in which the row exists. It caches
        lists until the next registration or `server.renew()`.
        """
        return None

    def shows(self, ctx: Context, definition: AnyDefinition) -> bool:  # noqa: ARG002
        """Tell whether a definition is in the list that the client of a request gets.

        A client can still use what it does not see. A server with an extension that overrides this makes each page of a
        list anew for each request.
        """
        return True

    async def around_call(self, ctx: Context, call_next: NextCall) -> Outcome:  # noqa: ARG002
        """Return the result of `tools/call`, or of another of the `around_methods`; `call_next` runs the tool.

        The server has refused unknown tools already. `ctx.params` holds the params, including the fields that the row
        adds. The server sends a result with a `result_type` of the row only to a client that declared the extension.

        Raises:
            MissingCapability: the client did not declare a capability that the extension requires.
        """
        return await call_next()

    async def run_detached(
        self,
        server: Server,
        call: DetachedCall,
        *,
        task: OfferedTask | None = None,
        on_progress: OnProgress | None = None,
        on_step: OnStep | None = None,
    ) -> Outcome:
        """Run the tool of a call once, apart from its request, and return its result as the client would receive it.

        Example:
            outcome = await self.run_detached(self.server, DetachedCall.of(ctx))
            if isinstance(outcome, types.InputRequiredResult):
                self.ask(outcome.input_requests)

        The run passes through the server's middleware, and through the extensions that come after this one. A question
        without a recorded answer ends the run; the outcome is then an `InputRequiredResult`. Record the answers in
        `call.recording`, and run the call again. Cancelling this coroutine cancels the tool. `task` is the task that
        the handler sees as `ctx.task`. `on_progress` is called with the progress that the handler reports. `on_step` is
        awaited before each step, and after the step with its encoded value.

        Raises:
            RpcError: the error that the client would receive, such as for a tool that the server does not have.
            DefinitionError: the server does not have this extension.
        """
        from dragoman.server.extensions.detached import run_in_own_task

        opened = call.open(server, on_progress, on_step)
        opened.within, opened.offered_task = self, task
        outcome: Outcome = await run_in_own_task(opened)
        return outcome

    async def honour(self, ctx: Context, field: str, wanted: Wanted) -> Wanted | None:  # noqa: ARG002
        """Return the part of a subscription field that the server honours; None if it honours no part.

        `wanted` is the value of the field in the client's `subscriptions/listen` request.
        """
        return wanted


__all__ = ["ExtensionRow", "Method", "ServerExtension", "SubscriptionField"]
