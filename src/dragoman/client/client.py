"""The asynchronous client; the blocking one drives it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.client.answer.approval import Approval, ApprovalHandler, Approvals
from dragoman.client.answer.handlers import HANDLER_OPTIONS, Handlers
from dragoman.client.answer.roots import Roots
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import ListedTool
from dragoman.client.connect.connection import OnProgress, Options
from dragoman.client.connect.endpoint import EndpointOptions, Target, way_to
from dragoman.client.connect.finalizer import Finalizer
from dragoman.client.connect.handshake import Endpoint, OfferedVersions
from dragoman.client.connect.server_requests import MAX_SERVER_REQUESTS
from dragoman.client.extensions.installed import Extensions
from dragoman.client.lists import MOST_PAGES, Lists, find
from dragoman.client.options import ClientOptions, check, credentials_of, misplaced
from dragoman.client.properties import ClientProperties
from dragoman.client.results import CallResult, Structured, unwrap
from dragoman.client.session import CONNECT_SECONDS, TIMEOUT_SECONDS, ClientCallbacks, ClientSession, offers, seconds
from dragoman.errors import (
    CapabilityNotAvailable,
    DragomanError,
    HeaderMismatch,
    RpcError,
    ToolError,
    TransportError,
    ValidationError,
)
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from typing import Never, Self, Unpack


class NamedTool(Protocol):
    """A tool, of whatever kind, with its name."""

    @property
    def name(self) -> str:
        """Its name."""


ToolLike = str | NamedTool
"""A tool to call: its name, a definition, or a tool that a client found."""


class AsyncClient(ClientProperties):
    """A client of any MCP server: of a URL, a command, a script, or a `Server` of this process.

    Example:
        async with AsyncClient("https://example.com/mcp") as client:
            result = await client.call_tool("forecast", {"city": "Oslo"})
            print(result.text)

    The first request connects, and one after the connection was lost connects again. The options are those of
    `ClientOptions`.

    Raises:
        TypeError: there is no such option, or the target is nothing that a client can be pointed at.
        ValueError: an option has a value that makes no sense.
    """

    def __init__(self, target: Target, **options: Unpack[ClientOptions]) -> None:
        check(options)
        given = cast("dict[str, Any]", options)
        roots = Roots(given.get("roots") or ())
        self._looking: asyncio.Task[None] | None = None
        self._strict = bool(given.get("strict"))
        self.trusted = bool(given.get("trusted"))
        self._on_approval: ApprovalHandler | None = given.get("on_approval")
        self._approval_timeout = given.get("approval_timeout")
        self._approvals = Approvals()
        credentials = credentials_of(given.get("headers"), given.get("auth"))
        limits = Limits(given.get("max_message_bytes", DEFAULT_LIMITS.message_bytes), DEFAULT_LIMITS.nesting)
        around = EndpointOptions(credentials, limits=limits, **_chosen(given, EndpointOptions.__struct_fields__))
        self._ending = Finalizer(self)
        extensions = Extensions(given.get("extensions"))
        self._session = ClientSession(
            self._guarded(way_to(target, around)),
            info=types.Implementation(given.get("name") or "dragoman", given.get("version") or _own_version()),
            speech=OfferedVersions.of(given.get("mode", "auto"), given.get("protocol_version")),
            handlers=Handlers(
                roots=roots,
                server=given.get("server_name"),
                served=extensions.served,
                **_chosen(given, HANDLER_OPTIONS),
            ),
            extensions=extensions,
            watchers=ClientCallbacks(**_chosen(given, ClientCallbacks.__struct_fields__)),
            credentials=credentials,
            timeout=seconds(given.get("timeout"), "DRAGOMAN_TIMEOUT", TIMEOUT_SECONDS),
            total_timeout=given.get("total_timeout"),
            connect_timeout=seconds(given.get("connect_timeout"), "DRAGOMAN_CONNECT_TIMEOUT", CONNECT_SECONDS),
            meta=given.get("meta"),
            limits=limits,
            max_server_requests=given.get("max_server_requests", MAX_SERVER_REQUESTS),
        )
        self._lists = Lists(self._session, given.get("max_pages", MOST_PAGES))
        self._ending.watch(self._session)
        roots.on_change = self._session.roots_changed

    def _guarded(self, way: Endpoint) -> Endpoint:
        fallback = None if way.fallback is None else self._ending.guarded(way.fallback)
        return msgspec.structs.replace(way, link=self._ending.guarded(way.link), fallback=fallback)

    # Its life.

    async def start(self) -> Self:
        """Connect, if there is no connection.

        Raises:
            TransportError: the server cannot be reached, or does not answer.
            RpcError: it refuses.
        """
        self._session.connections.restart()
        await self._session.start()
        return self

    async def _start_patiently(self) -> None:
        """Connect, if there is no connection, however long others would wait for it."""
        self._session.connections.restart()
        await self._session.start(is_patient=True)

    async def stop(self) -> None:
        """End the connection; safe from any task and thread, in any state, more than once.

        Calls that wait for approval are denied.
        """
        self._approvals.deny_all("the client was stopped")
        home = self._session._loop
        if home is not None and home is not asyncio.get_running_loop() and home.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.stop(), home))
            return
        await self._session.stop()
        await self._ending.cancel()

    async def restart(self) -> Self:
        """End the connection, and connect anew."""
        await self.stop()
        return await self.start()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _living(self) -> AsyncClient:
        return self

    async def ping(self, timeout: float | None = None, *, meta: Mapping[str, Any] | None = None) -> bool:
        """Tell whether the server answers."""
        try:
            connection = await self._session.start()
            method = "server/discover" if connection.version.stateless else "ping"
            await self._session.request(method, {}, Raw, Options(timeout=timeout, meta=meta))
        except (TransportError, RpcError):
            return False
        return True

    async def discover(
        self, *, timeout: float | None = None, meta: Mapping[str, Any] | None = None
    ) -> types.DiscoverResult:
        """Ask the server what it speaks and offers.

        A server of the handshake era cannot be asked; it said so once, in its answer to `initialize`, and that is
        returned.

        Raises:
            TransportError: the server cannot be reached, or does not answer.
            RpcError: it refuses.
        """
        connection = await self._session.start()
        if not connection.version.stateless:
            return connection.introduction()
        return await self._session.request(
            "server/discover", {}, types.DiscoverResult, Options(timeout=timeout, meta=meta)
        )

    # Tools.

    async def tools(self, *, refresh: bool = False) -> list[AsyncBoundTool]:
        """Return every tool of the server; kept as long as the server says that it holds.

        Raises:
            PaginationLimit: there are too many pages.
        """
        return [AsyncBoundTool(self, tool) for tool in await self._lists.all("tools", refresh=refresh)]

    async def tool(self, name: str, *, refresh: bool = False) -> AsyncBoundTool:
        """Return a tool; `refresh` asks the server for its list anew.

        Raises:
            NotFound: the server has none of that name.
        """
        return find("tool", name, await self.tools(refresh=refresh), lambda tool: (tool.name,))

    async def list_tools(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListToolsResult:
        """Return one page of tools."""
        return await self._lists.page(types.ListToolsResult, cursor, Options(meta=meta, timeout=timeout))

    async def call_tool(
        self,
        tool: ToolLike,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        timeout: float | None = None,
        total_timeout: float | None = None,
        on_progress: OnProgress | None = None,
        progress_token: types.ProgressToken | None = None,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
        raise_on_error: bool = True,
        idempotent: bool | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
        **unknown: Never,
    ) -> CallResult[Structured]:
        """Call a tool and return its result.

        Example:
            result = await client.call_tool("forecast", {"city": "Oslo"}, on_progress=print, timeout=5)

        `result_type` is what the structured content is read as: a dataclass, TypedDict, Struct or pydantic model.
        `idempotent` lets it be repeated after a break; `input_responses` and `request_state` take up `InputNeeded`.

        Raises:
            ToolError: the tool failed, unless `raise_on_error` is False; or the call was not approved.
            RpcError: the server refused the call.
            Timeout: nothing was heard of it in time.
            TransportError: the connection was lost, and the call may have run.
            ValidationError: the structured content does not fit its schema, and the client is strict; or it is no
                `result_type`.
        """
        name, given = tool if isinstance(tool, str) else str(tool.name), dict(arguments or {})
        params: dict[str, Any] = {"name": name, "arguments": given}
        if unknown or input_responses is not None or request_state is not None:
            params |= _taken_up(input_responses, request_state, unknown)
        if self._on_approval is not None:
            params["arguments"] = await self._approved(self._on_approval, name, given)
        options = Options(timeout, total_timeout, on_progress, progress_token, headers, meta, is_safe=idempotent)
        try:
            result = await self._call(name, params, options)
        except HeaderMismatch:
            options.is_safe = idempotent
            result = await self._call_anew(name, params, options)
        known = self._session.catalog.tools.get(name)
        if known is None or known.misfit(result) is not None:
            known = await self._judged(name, known, result)
        if known is not None and known.is_wrapped:
            unwrap(result)
        outcome = CallResult.of(result)
        if types.ResourceLink in map(type, outcome.content):
            self._session.note_links(outcome.content)
        if outcome.is_error and raise_on_error:
            self._failed(outcome)
        return outcome if result_type is None else outcome.of_type(result_type)

    def _failed(self, outcome: CallResult) -> NoReturn:
        raise ToolError(self._session.with_advice(outcome.failure), outcome)

    async def _approved(self, decider: ApprovalHandler, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Let the author decide about a call, and return the arguments that were approved."""
        known = self._session.catalog.tools.get(name)
        approval = Approval(name, arguments, tool=None if known is None else known.tool, server=self.server_name)
        await self._approvals.decide(decider, approval, self._approval_timeout)
        return dict(approval.arguments)

    def _call(self, name: str, params: dict[str, Any], options: Options) -> Coroutine[Any, Any, types.CallToolResult]:
        connection = self._session.connections.latest
        # What is known goes with the connection.
        known = None if connection is None or connection.state != "alive" else self._session.catalog.tools.get(name)
        options.mirrored = None if known is None else known.plan
        if options.is_safe is None and known is not None and self.trusted:
            options.is_safe = known.is_idempotent
        return self._session.request("tools/call", params, types.CallToolResult, options)

    async def _call_anew(self, name: str, params: dict[str, Any], options: Options) -> types.CallToolResult:
        """Call a tool that may mirror arguments in headers which are not known here, or not any more."""
        await self._lists.all("tools", refresh=True)
        return await self._call(name, params, options)

    async def _judged(self, name: str, known: ListedTool | None, result: types.CallToolResult) -> ListedTool | None:
        """Return what is known of a tool whose result is to be compared with its schema, listed again if need be.

        Raises:
            ValidationError: the result does not fit, and the client is strict.
        """
        catalog = self._session.catalog
        if known is None and result.structured_content is not UNSET and not result.is_error and not catalog.has_looked:
            await self._look_up()
            catalog.has_looked = True
            known = catalog.tools.get(name)
        misfit = None if known is None else known.misfit(result)
        return known if known is None or misfit is None else await self._fitting(known, result, misfit)

    async def _fitting(self, known: ListedTool, result: types.CallToolResult, misfit: ValidationError) -> ListedTool:
        """Return the tool as it is now, if what is known of it is out of date and its result fits it now.

        Raises:
            ValidationError: it does not fit, and the client is strict.
        """
        if not known.is_doubted:
            await self._look_up()
            known.is_doubted = True
            latest = self._session.catalog.tools.get(known.tool.name)
            if latest is not None and latest is not known:
                later = latest.misfit(result)
                if later is None:
                    return latest
                misfit = later
        if self._strict:
            raise misfit
        self._session.warn("%s", misfit)
        return known

    async def _look_up(self) -> None:
        """List the tools for what is known of one, once for all who want it now."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._list_tools_quietly())
        await asyncio.shield(self._looking)

    async def _list_tools_quietly(self) -> None:
        """List the tools; that it fails must not lose the result of a call."""
        try:
            await self._lists.all("tools", refresh=False)
        except DragomanError as error:
            self._session.warn("The tools cannot be listed, to compare a result with its schema: %s", error)

    # Prompts.

    async def prompts(self, *, refresh: bool = False) -> list[AsyncBoundPrompt]:
        """Return every prompt of the server; kept as long as the server says that it holds."""
        return [AsyncBoundPrompt(self, prompt) for prompt in await self._lists.all("prompts", refresh=refresh)]

    async def prompt(self, name: str, *, refresh: bool = False) -> AsyncBoundPrompt:
        """Return a prompt; `refresh` asks the server for its list anew.

        Raises:
            NotFound: the server has none of that name.
        """
        return find("prompt", name, await self.prompts(refresh=refresh), lambda prompt: (prompt.name,))

    async def list_prompts(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListPromptsResult:
        """Return one page of prompts."""
        return await self._lists.page(types.ListPromptsResult, cursor, Options(meta=meta, timeout=timeout))

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
        """Return a prompt with its arguments filled in; what is no text is sent as JSON.

        `input_responses` and `request_state` take up a request that raised `InputNeeded`.

        Raises:
            RpcError: there is no such prompt, or an argument is missing.
        """
        texts = {key: _as_text(value) for key, value in (arguments or {}).items()}
        params = {"name": name, "arguments": texts, **_taken_up(input_responses, request_state)}
        options = Options(timeout=timeout, headers=headers, meta=meta)
        return await self._session.request("prompts/get", params, types.GetPromptResult, options)

    # Resources.

    async def resources(self, *, refresh: bool = False) -> list[AsyncBoundResource]:
        """Return every resource of the server; kept as long as the server says that it holds."""
        return [AsyncBoundResource(self, resource) for resource in await self._lists.all("resources", refresh=refresh)]

    async def resource(self, name: str, *, refresh: bool = False) -> AsyncBoundResource:
        """Return a resource, by its name or URI; `refresh` asks the server for its list anew.

        Raises:
            NotFound: the server has none of that name.
        """
        return find(
            "resource", name, await self.resources(refresh=refresh), lambda resource: (resource.name, resource.uri)
        )

    @property
    def linked_resources(self) -> list[AsyncBoundResource]:
        """The resources that results of tools linked to; the server need not list them."""
        return [AsyncBoundResource(self, resource) for resource in list(self._session.linked.values())]

    async def list_resources(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListResourcesResult:
        """Return one page of resources."""
        return await self._lists.page(types.ListResourcesResult, cursor, Options(meta=meta, timeout=timeout))

    async def resource_templates(self, *, refresh: bool = False) -> list[AsyncBoundResourceTemplate]:
        """Return every resource template of the server; kept as long as the server says that it holds."""
        found = await self._lists.all("resource_templates", refresh=refresh)
        return [AsyncBoundResourceTemplate(self, template) for template in found]

    async def resource_template(self, name: str, *, refresh: bool = False) -> AsyncBoundResourceTemplate:
        """Return a resource template, by its name or URI template; `refresh` asks the server for its list anew.

        Raises:
            NotFound: the server has none of that name.
        """
        templates = await self.resource_templates(refresh=refresh)
        return find("resource template", name, templates, lambda template: (template.name, template.uri_template))

    async def list_resource_templates(
        self, cursor: str | None = None, *, meta: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.ListResourceTemplatesResult:
        """Return one page of resource templates."""
        return await self._lists.page(types.ListResourceTemplatesResult, cursor, Options(meta=meta, timeout=timeout))

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
        """Return what a resource holds.

        `input_responses` and `request_state` take up a request that raised `InputNeeded`.

        Raises:
            RpcError: there is no such resource.
        """
        params = {"uri": uri, **_taken_up(input_responses, request_state)}
        options = Options(timeout=timeout, headers=headers, meta=meta)
        return await self._session.request("resources/read", params, types.ReadResourceResult, options)

    async def subscribe(self, uri: str, on_update: Callable[[str], object] | None = None) -> None:
        """Be told when a resource changes: `on_update`, and the client's `on_resource_updated`, get its URI.

        Raises:
            CapabilityNotAvailable: the server does not tell of that.
        """
        connection = await self._session.start()
        if not offers(connection, "resources", "subscribe"):
            raise CapabilityNotAvailable("The server does not tell when resources change (resources.subscribe)")
        await self._session.subscribe(uri, on_update)

    async def unsubscribe(self, uri: str) -> None:
        """Be told no more when a resource changes."""
        await self._session.unsubscribe(uri)

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
        """Return how an argument of a prompt or resource template may go on.

        Example:
            await client.complete({"type": "ref/prompt", "name": "greet"}, "name", "jo")

        Raises:
            CapabilityNotAvailable: the server completes nothing.
        """
        connection = await self._session.start()
        if not offers(connection, "completions"):
            raise CapabilityNotAvailable("The server completes no arguments (completions)")
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        options = Options(timeout=timeout, meta=meta)
        return (await self._session.request("completion/complete", params, types.CompleteResult, options)).completion

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> types.Json:
        """Make a request of a method that the server added, and return its result.

        Raises:
            RpcError: the server refused.
        """
        raw = await self._session.request(method, dict(params or {}), Raw, Options(timeout=timeout, meta=meta))
        return cast("types.Json", msgspec.json.decode(raw))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification of an extension, or of a method that the server added.

        Raises:
            TransportError: it could not be sent.
        """
        connection = await self._session.start()
        await connection.notify(method, connection.introduced(params or {}))

    async def listen(self, /, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Subscribe to notifications of extensions, and return what the server said that it sends.

        Example:
            await client.listen(quote_ids=["q-1", "q-2"])

        A field replaces what it asked for before: True asks for all, a list for those about its subjects, and None for
        nothing any more. The extension's `notifications` and the client's `on_notification` are told. A server of the
        handshake era is not asked: it sends what it sends.

        Raises:
            TypeError: no extension of this client has such a field.
            CapabilityNotAvailable: the server has not declared the extension.
            RpcError: the server refused.
        """
        return await self._session.listen(**fields)

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Say from which level on log messages are wanted."""
        await self._session.set_log_level(level)


def _chosen(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _taken_up(
    input_responses: Mapping[str, Any] | None, request_state: str | None, unknown: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the parameters by which a call is taken up that needed input.

    Raises:
        TypeError: arguments of a tool were given as options.
    """
    if unknown:
        raise misplaced(unknown)
    given = {
        "inputResponses": None if input_responses is None else dict(input_responses),
        "requestState": request_state,
    }
    return {key: value for key, value in given.items() if value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _own_version() -> str:
    return str(sys.modules["dragoman"].__version__)
