"""AsyncClient: the asynchronous client of one server. The blocking `Client` calls its methods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, cast

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.client.answer.approval import Approval, ApprovalHandler, Approvals
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import MAX_PAGES, ListedTool, Lists, find
from dragoman.client.connect.endpoint import Target
from dragoman.client.connect.finalizer import Finalizer
from dragoman.client.extensions.installed import Extensions
from dragoman.client.extensions.official import requested
from dragoman.client.options import (
    CallOptions,
    ClientOptions,
    RequestOptions,
    checked_options,
    named_arguments,
    request_options,
    resumption,
    text_arguments,
    tool_name,
)
from dragoman.client.properties import ClientProperties
from dragoman.client.results import CallResult, FurtherResult, Structured, unwrap
from dragoman.client.session import ClientSession
from dragoman.errors import CapabilityNotAvailable, DragomanError, HeaderMismatch, RpcError, ToolError, TransportError

if TYPE_CHECKING:
    from dragoman.client.extensions.apps import AppView
    from dragoman.client.extensions.skills import AsyncBoundSkill
    from dragoman.client.extensions.tasks.handles import AsyncServerTasks, AsyncTask

_logger = logging.getLogger("dragoman.client")


class NamedTool(Protocol):
    """Any object with the name of a tool."""

    @property
    def name(self) -> str:
        """The name of the tool."""


ToolLike = str | NamedTool
"""A tool to call: its name, a definition, or a tool that a client returned."""


class AsyncClient(ClientProperties):
    """A client of one MCP server: a URL, a command, a script, or a `Server` of this process.

    Example:
        async with AsyncClient("https://example.com/mcp") as client:
            result = await client.call_tool("forecast", {"city": "Oslo"})
            print(result.text)

    The client connects at its first request, and again at the first request after it lost the connection. The options
    are those of `ClientOptions`; `dragoman.configure` sets defaults for some of them.

    Raises:
        TypeError: an option is unknown, or the target is of an unsupported type.
        ValueError: an option has an invalid value.
    """

    def __init__(self, target: Target, **options: Unpack[ClientOptions]) -> None:
        given = checked_options(options)
        self._strict = bool(given.get("strict"))
        self.trusted = bool(given.get("trusted"))
        self._on_approval: ApprovalHandler | None = given.get("on_approval")
        self._approval_timeout = given.get("approval_timeout")
        self._approvals = Approvals(parallel=bool(given.get("parallel_approvals")))
        self._listing_tools: asyncio.Task[None] | None = None
        self._session = ClientSession(target, given, Extensions(requested(given)))
        self._lists = Lists(self._session, given.get("max_pages", MAX_PAGES))
        self._finalizer = Finalizer(self, self._session)

    # Connecting.

    async def start(self) -> Self:
        """Connect, if there is no connection.

        Raises:
            TransportError: the server cannot be reached, or does not answer.
            RpcError: the server refuses the request.
        """
        self._session.connections.restart()
        await self._session.start()
        return self

    async def _start_without_limit(self) -> None:
        """Connect, if there is no connection, without the limit `max_wait`."""
        self._session.connections.restart()
        await self._session.start(unlimited=True)

    async def stop(self) -> None:
        """End the connection, and deny the tool calls that wait for approval.

        It may be called from any task and thread, in any state, and more than once.
        """
        self._approvals.deny_all("the client was stopped")
        loop = self._session.loop
        if loop is not None and loop is not asyncio.get_running_loop() and loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.stop(), loop))
            return
        await self._session.stop()
        await self._finalizer.cancel()

    async def restart(self) -> Self:
        """End the connection, and connect again."""
        await self.stop()
        return await self.start()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _current_client(self) -> AsyncClient:
        return self

    async def ping(self, timeout: float | None = None, *, meta: Mapping[str, Any] | None = None) -> bool:
        """Tell whether the server answers."""
        try:
            connection = await self._session.start()
            method = "server/discover" if connection.version.stateless else "ping"
            await self._session.request(method, {}, Raw, RequestOptions(timeout=timeout, meta=meta))
        except (TransportError, RpcError):
            return False
        return True

    async def discover(
        self, *, timeout: float | None = None, meta: Mapping[str, Any] | None = None
    ) -> types.DiscoverResult:
        """Return the versions and capabilities of the server.

        In the handshake era this sends no request, and returns what the server declared in its answer to `initialize`.

        Raises:
            TransportError: the server cannot be reached, or does not answer.
            RpcError: the server refuses the request.
        """
        connection = await self._session.start()
        if not connection.version.stateless:
            return connection.discover_result()
        return await self._session.request(
            "server/discover", {}, types.DiscoverResult, RequestOptions(timeout=timeout, meta=meta)
        )

    # Tools.

    async def tools(self, *, refresh: bool = False) -> list[AsyncBoundTool]:
        """Return every tool of the server, from the cached list while that is fresh.

        Raises:
            PaginationLimit: the list has more than `max_pages` pages.
        """
        return [AsyncBoundTool(self, tool) for tool in await self._lists.all("tools", refresh=refresh)]

    async def tool(self, name: str, *, refresh: bool = False) -> AsyncBoundTool:
        """Return a tool; `refresh` fetches the list again.

        Raises:
            NotFound: the server has nothing of that name.
        """
        return find("tool", name, await self.tools(refresh=refresh), lambda tool: (tool.name,))

    async def list_tools(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListToolsResult:
        """Return one page of tools."""
        return await self._lists.page(types.ListToolsResult, cursor, RequestOptions(meta=meta, timeout=timeout))

    async def call_tool(
        self,
        tool: ToolLike,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        **options: Unpack[CallOptions],
    ) -> CallResult[Structured]:
        """Call a tool and return its result.

        Example:
            result = await client.call_tool("forecast", {"city": "Oslo"}, on_progress=print, timeout=5)

        `result_type` is the type of the structured content: a class, such as a dataclass, or `int`, `list[str]`. The
        options are those of `CallOptions`. With `idempotent` the client may send the call again after it lost the
        connection. `input_responses` and `request_state` resume a call that raised `InputNeeded`.

        Raises:
            ToolError: the tool failed, or the call was not approved, unless `raise_on_error` is False.
            RpcError: the server refused the call.
            Timeout: neither an answer nor progress arrived within `timeout`, or no result within `total_timeout`.
            TransportError: the connection was lost; the tool may have run.
            ValidationError: the structured content does not fit `result_type`, or the schema in a strict client.
        """
        outcome = await self._call(tool, arguments, options)
        return outcome if result_type is None else outcome.of_type(result_type)  # type: ignore[no-any-return]

    async def call_tool_unfinished(
        self, tool: ToolLike, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> CallResult | FurtherResult:
        """Call a tool as `call_tool` does, but do not let an extension finish a result of one of its types.

        Example:
            result = await client.call_tool_unfinished("render")
            if isinstance(result, FurtherResult):
                print(result.result_type, result.fields)

        The options are those of `call_tool`, which also says what is raised.
        """
        return await self._call(tool, arguments, options, finish=False)  # type: ignore[no-any-return]

    async def _call(self, tool: Any, arguments: Any, options: CallOptions, *, finish: bool = True) -> Any:
        """Return the `CallResult` of a call, or a `FurtherResult` that no extension finished."""
        name = tool_name(tool)
        params: dict[str, Any] = {"name": name, "arguments": named_arguments(arguments)}
        params |= resumption(options.get("input_responses"), options.get("request_state"))
        sent, raise_on_error = request_options(options, finish=finish), options.get("raise_on_error", True)
        denied = None
        if self._on_approval is not None:
            denied = await self._denial(self._on_approval, name, params, raises=raise_on_error)
        if denied is not None:
            return denied
        await self._list_for_extensions(name)
        result = await self._send_call(name, params, sent)
        return result if isinstance(result, FurtherResult) else await self._outcome(name, result, raises=raise_on_error)

    async def _list_for_extensions(self, name: str) -> None:
        """List the tools, if an extension reads the listed tool for the parameters of its calls."""
        session = self._session
        needs_list = session.extensions.tool_rows and name not in session.catalog.tools
        if needs_list and session.extensions.reads_tools((await session.start()).version):
            await self._list_tools_once()

    async def _send_call(self, name: str, params: dict[str, Any], options: RequestOptions) -> Any:
        """Send a call; if the server requires arguments in other HTTP headers, list the tools and send it again."""
        session, idempotent, is_listed_again = self._session, options.is_repeatable, False
        while True:
            connection = session.connections.latest
            # A new connection clears the catalog, so the entries of a lost connection are not used.
            listed = None if connection is None or connection.state != "alive" else session.catalog.tools.get(name)
            options.mirrored = None if listed is None else listed.plan
            if idempotent is None and self.trusted:
                options.is_repeatable = self._lists.repeatability(name, listed)
            try:
                return await session.request("tools/call", params, types.CallToolResult, options)
            except HeaderMismatch:
                if is_listed_again:
                    raise
                is_listed_again = True
                await self._lists.all("tools", refresh=True)

    async def _outcome(self, name: str, result: types.CallToolResult, *, raises: bool) -> CallResult[Any]:
        """Return the result of a call, after it was compared with the schema of its tool."""
        session = self._session
        listed = session.catalog.tools.get(name)
        has_content = result.structured_content is not UNSET
        if has_content if listed is None else listed.violation(result) is not None:
            listed = await self._compared(name, listed, result)
        if has_content:
            unwrap(result, wraps=listed is not None and listed.is_wrapped)
        outcome: CallResult[Any] = CallResult.of(result)
        session.catalog.add_links(outcome.content)
        if outcome.is_error and raises:
            raise session.explained(ToolError(session.with_advice(outcome.failure), outcome))
        return outcome

    async def _denial(self, handler: ApprovalHandler, name: str, params: dict[str, Any], *, raises: bool) -> Any:
        """Ask the approval handler about a call; return the result of a denied call, or None."""
        tool = getattr(self._session.catalog.tools.get(name), "tool", None)
        approval = Approval(name, params["arguments"], tool=tool, server=self.server_name)
        params["arguments"] = approval.arguments
        return await self._approvals.denial(handler, approval, self._approval_timeout, raise_on_error=raises)

    async def _compared(self, name: str, listed: ListedTool | None, result: types.CallToolResult) -> ListedTool | None:
        """Compare a result with the output schema of its tool, and return the tool; list the tools if that may help.

        Raises:
            ValidationError: the result does not fit the schema, and the client is strict.
        """
        catalog, has_content = self._session.catalog, result.structured_content is not UNSET and not result.is_error
        if listed is None and has_content and not catalog.was_listed_for_result:
            await self._list_tools_once()
            catalog.was_listed_for_result = True
            listed = catalog.tools.get(name)
        violation = None if listed is None else listed.violation(result)
        if listed is None or violation is None:
            return listed
        if not listed.is_rechecked:
            await self._list_tools_once()
            listed.is_rechecked = True
            latest = catalog.tools.get(name)
            if latest is not None and latest is not listed:
                latest_violation = latest.violation(result)
                if latest_violation is None:
                    return latest
                violation = latest_violation
        if self._strict:
            raise violation
        _logger.warning("%s", violation)
        return listed

    async def _list_tools_once(self) -> None:
        """List the tools; calls that need the list at the same time share one listing."""
        if self._listing_tools is None or self._listing_tools.done():
            self._listing_tools = asyncio.get_running_loop().create_task(self._list_tools_quietly())
        await asyncio.shield(self._listing_tools)

    async def _list_tools_quietly(self) -> None:
        # A failure must not lose the result of a call.
        try:
            await self._lists.all("tools", refresh=False)
        except DragomanError as error:
            _logger.warning("The tools cannot be listed, to compare a result with its schema: %s", error)

    # Tasks.

    @property
    def tasks(self) -> AsyncServerTasks:
        """The tasks of the server, for a client with `tasks=True`: `list`, `get`, `result` and `cancel`."""
        from dragoman.client.extensions.tasks.handles import AsyncServerTasks

        return AsyncServerTasks(self, self._session.extensions, self._outcome)

    async def task(self, id: str, *, tool: str | None = None) -> AsyncTask:
        """Return a task by its id, as `tasks.get` does."""
        return await self.tasks.get(id, tool=tool)

    async def start_tool(
        self, tool: ToolLike, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> AsyncTask:
        """Call a tool with the options of `call_tool`, and return its task as soon as the server has made it."""
        return await self.tasks.start(tool, arguments, **options)

    # Apps.

    async def view(self, app: ToolLike) -> AppView:
        """Read an app to show it: by its `ui://` URI, or by a tool whose results it shows.

        Raises:
            NotFound: the tool has no app.
            ValidationError: the resource is not the document of an app.
        """
        from dragoman.client.extensions.apps import open_view

        return await open_view(self, app)

    async def call_from_app(
        self, view: AppView, tool: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> CallResult:
        """Call a tool for an app that is shown, with the options of `call_tool`.

        Example:
            result = await client.call_from_app(view, "refresh", {"city": "Oslo"}, raise_on_error=False)

        Raises:
            AppRefused: the app belongs to another server, or the tool is not visible to apps.
        """
        from dragoman.client.extensions.apps import require_app_visible

        await require_app_visible(self, view, tool)
        return await self.call_tool(tool, arguments, **options)

    # Skills.

    async def skills(self) -> list[AsyncBoundSkill]:
        """Return the skills that the server lists; nothing of them is fetched before they are loaded."""
        from dragoman.client.extensions.skills import list_skills

        return await list_skills(self)

    async def skill(self, name: str) -> AsyncBoundSkill:
        """Return a skill, by its name, or by the URI of its SKILL.md, which need not be listed.

        Raises:
            NotFound: the server has nothing of that name, or several skills.
        """
        from dragoman.client.extensions.skills import find_skill

        return await find_skill(self, name)

    # Prompts.

    async def prompts(self, *, refresh: bool = False) -> list[AsyncBoundPrompt]:
        """Return every prompt of the server, from the cached list while that is fresh."""
        return [AsyncBoundPrompt(self, prompt) for prompt in await self._lists.all("prompts", refresh=refresh)]

    async def prompt(self, name: str, *, refresh: bool = False) -> AsyncBoundPrompt:
        """Return a prompt; `refresh` fetches the list again.

        Raises:
            NotFound: the server has nothing of that name.
        """
        return find("prompt", name, await self.prompts(refresh=refresh), lambda prompt: (prompt.name,))

    async def list_prompts(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListPromptsResult:
        """Return one page of prompts."""
        return await self._lists.page(types.ListPromptsResult, cursor, RequestOptions(meta=meta, timeout=timeout))

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in; values that are not text are sent as JSON.

        `input_responses` and `request_state` resume a request that raised `InputNeeded`.

        Raises:
            RpcError: the server has no such prompt, or an argument is missing.
        """
        params = {"name": name, "arguments": text_arguments(arguments), **resumption(input_responses, request_state)}
        options = RequestOptions(timeout=timeout, headers=headers, meta=meta)
        return await self._session.request("prompts/get", params, types.GetPromptResult, options)

    # Resources.

    async def resources(self, *, refresh: bool = False) -> list[AsyncBoundResource]:
        """Return every resource of the server, from the cached list while that is fresh."""
        return [AsyncBoundResource(self, resource) for resource in await self._lists.all("resources", refresh=refresh)]

    async def resource(self, name: str, *, refresh: bool = False) -> AsyncBoundResource:
        """Return a resource, by its name or URI; `refresh` fetches the list again.

        Raises:
            NotFound: the server has nothing of that name.
        """
        return find(
            "resource", name, await self.resources(refresh=refresh), lambda resource: (resource.name, resource.uri)
        )

    @property
    def linked_resources(self) -> list[AsyncBoundResource]:
        """The resources that tool results linked to, even if the server does not list them."""
        return [AsyncBoundResource(self, resource) for resource in list(self._session.catalog.linked.values())]

    async def list_resources(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListResourcesResult:
        """Return one page of resources."""
        return await self._lists.page(types.ListResourcesResult, cursor, RequestOptions(meta=meta, timeout=timeout))

    async def resource_templates(self, *, refresh: bool = False) -> list[AsyncBoundResourceTemplate]:
        """Return every resource template of the server, from the cached list while that is fresh."""
        found = await self._lists.all("resource_templates", refresh=refresh)
        return [AsyncBoundResourceTemplate(self, template) for template in found]

    async def resource_template(self, name: str, *, refresh: bool = False) -> AsyncBoundResourceTemplate:
        """Return a resource template, by its name or URI template; `refresh` fetches the list again.

        Raises:
            NotFound: the server has nothing of that name.
        """
        templates = await self.resource_templates(refresh=refresh)
        return find("resource template", name, templates, lambda template: (template.name, template.uri_template))

    async def list_resource_templates(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return await self._lists.page(
            types.ListResourceTemplatesResult, cursor, RequestOptions(meta=meta, timeout=timeout)
        )

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> types.ReadResourceResult:
        """Return the contents of a resource.

        `input_responses` and `request_state` resume a request that raised `InputNeeded`.

        Raises:
            RpcError: the server has no such resource.
        """
        params = {"uri": uri, **resumption(input_responses, request_state)}
        options = RequestOptions(timeout=timeout, headers=headers, meta=meta)
        return await self._session.request("resources/read", params, types.ReadResourceResult, options)

    async def subscribe(self, uri: str, on_update: Callable[[str], object] | None = None) -> None:
        """Subscribe to a resource; its changes call `on_update` and the client's `on_resource_updated` with the URI.

        Raises:
            CapabilityNotAvailable: the server has not declared `resources.subscribe`.
        """
        await self._session.subscriptions.subscribe(uri, on_update)

    async def unsubscribe(self, uri: str) -> None:
        """End the subscription to a resource."""
        await self._session.subscriptions.unsubscribe(uri)

    async def complete(
        self,
        ref: types.PromptReference | types.ResourceTemplateReference | types.Json,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> types.Completion:
        """Return completions of an argument of a prompt or resource template.

        Example:
            await client.complete({"type": "ref/prompt", "name": "greet"}, "name", "jo")

        Raises:
            CapabilityNotAvailable: the server has not declared `completions`.
        """
        connection = await self._session.start()
        if not connection.offers("completions"):
            raise CapabilityNotAvailable("The server does not offer completions")
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        options = RequestOptions(timeout=timeout, meta=meta)
        return (await self._session.request("completion/complete", params, types.CompleteResult, options)).completion

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> types.Json:
        """Send a request of any method, such as one outside the specification, and return its result.

        Raises:
            RpcError: the server refused.
        """
        raw = await self._session.request(method, dict(params or {}), Raw, RequestOptions(timeout=timeout, meta=meta))
        return cast("types.Json", msgspec.json.decode(raw))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of an extension, or of a method that the server added.

        Raises:
            TransportError: the notification could not be sent.
        """
        await self._session.notify(method, params or {})

    async def listen(self, /, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Subscribe to notifications of extensions, and return the filter that the server acknowledged.

        Example:
            await client.listen(quote_ids=["q-1", "q-2"])

        Each keyword sets a field of the subscription filter: True requests all notifications of the field, a list those
        about its entries, and None ends the subscription. The extension's `notifications` and the client's
        `on_notification` receive the notifications. In the handshake era nothing is sent, and the filter is empty.

        Raises:
            TypeError: no extension of this client adds that field.
            CapabilityNotAvailable: the server has not declared the extension.
            RpcError: the server refused.
        """
        return await self._session.subscriptions.listen(**fields)

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Request log messages of this level and above."""
        await self._session.set_log_level(level)
