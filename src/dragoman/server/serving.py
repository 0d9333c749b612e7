"""What the server does for each method.

One table from method to function. A function is given the server and the call, and returns the sealed result, or a
coroutine that gives it; lists and everything else that does not change come as bytes that were sealed before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import (
    InsufficientScope,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ResourceNotFound,
    RpcError,
    ToolError,
    UrlElicitationRequired,
    ValidationError,
)
from dragoman.protocol import eras, fields
from dragoman.protocol.listen import Subscription, honour
from dragoman.runtime.callables import resolved, then
from dragoman.server.asking import explanation, settled
from dragoman.server.binding import Hook
from dragoman.server.call import Call
from dragoman.server.capabilities import without_changes
from dragoman.server.completion import Completers, completion_result
from dragoman.server.definition import Definition
from dragoman.server.listing import paginate, read_cursor
from dragoman.server.questions import InputRequired
from dragoman.server.results import resource_result, wire_object
from dragoman.server.signature import ArgumentsRejected
from dragoman.server.tools import Tool, failure

if TYPE_CHECKING:
    from dragoman.server.server import Server

Handler = Callable[["Server", Call], Any]
INTERNAL_ERROR = "Internal error occurred"
_EMPTY = types.Result()


def initialize(server: Server, call: Call) -> Any:
    """Begin a session."""
    if call.session.caller is not None:
        raise InvalidRequest("The session is initialized already")
    result, call.session.caller = eras.initialize(
        call.request.params, server.offer, _declared(server, call), server.info, server.instructions
    )
    return result


def discover(server: Server, call: Call) -> Any:
    """Say what the server speaks and offers."""
    return server.seal(eras.discover(server.offer, _declared(server, call), server.instructions), call)


def _declared(server: Server, call: Call) -> types.ServerCapabilities:
    return without_changes(server.capabilities) if call.channel.is_mute else server.capabilities


def acknowledge(server: Server, call: Call) -> Any:
    """Answer with nothing."""
    return server.seal(_EMPTY, call)


def set_level(server: Server, call: Call) -> Any:
    """Set from which level on this client is sent log messages."""
    call.session.set_level(call.request.params.level)
    return server.seal(_EMPTY, call)


def list_page(server: Server, call: Call) -> Any:
    """Return a page of tools, prompts, resources or templates."""
    listing = server.registry.listings[call.request.method.name]
    if call.scopes is not None and listing is server.registry.listings["tools/list"] and server.registry.has_scopes:
        return _list_permitted(server, call, call.scopes)
    return listing.page(call.request.params.cursor, call.request.caller.version, server.seal_for)


def _list_permitted(server: Server, call: Call, scopes: frozenset[str]) -> Any:
    """Return a page of the tools that whoever asks may call."""
    tools = [tool.definition for tool in list(server.registry.tools.values()) if scopes.issuperset(tool.scopes)]
    size = server.registry.listings["tools/list"].page_size
    page = paginate(types.ListToolsResult, tools, read_cursor(call.request.params.cursor), size)
    if page.cache_scope is None:
        page.cache_scope = "private"
    return server.seal(page, call)


def list_resources(server: Server, call: Call) -> Any:
    """Return a page of resources, as the author's own function lists them if there is one."""
    return list_page(server, call) if server.resource_lister is None else _list_by_author(server, call)


async def _list_by_author(server: Server, call: Call) -> Any:
    offset = read_cursor(call.request.params.cursor)
    assert server.resource_lister is not None
    listed = _listed(await server.resource_lister.invoke(call))
    page_size = server.registry.listings["resources/list"].page_size
    page = paginate(types.ListResourcesResult, listed.resources, offset, page_size)
    assert isinstance(page, types.ListResourcesResult)
    cursor = page.next_cursor if listed.next_cursor is None else listed.next_cursor
    return server.seal(msgspec.structs.replace(listed, resources=page.resources, next_cursor=cursor), call)


def _listed(given: Any) -> types.ListResourcesResult:
    """Return what an author listed: resources, a whole result, or a dict in the shape of one."""
    if isinstance(given, dict):
        result = wire_object({**given, "resources": []}, types.ListResourcesResult, "A list of resources")
        entries = given.get("resources")
    elif isinstance(given, types.ListResourcesResult):
        result, entries = given, given.resources
    else:
        result, entries = types.ListResourcesResult([]), given
    listed: types.ListResourcesResult = msgspec.structs.replace(
        result, resources=[_listed_resource(entry) for entry in entries or ()]
    )
    return listed


def _listed_resource(given: Any) -> types.Resource:
    listed: types.Resource = wire_object(getattr(given, "definition", given), types.Resource, "A listed resource")
    return listed


MOST_COMPARED = 1000
"""A name that is not known is compared with this many others, and only if it is not longer than a tool's may be."""
LONGEST_COMPARED = 128


def _closest(name: str, known: list[str]) -> str:
    """Return a hint at the name that was probably meant."""
    from difflib import get_close_matches

    close = get_close_matches(name, known[:MOST_COMPARED], 1) if len(name) <= LONGEST_COMPARED else []
    return f"; did you mean {close[0]}?" if close else ""


def call_tool(server: Server, call: Call) -> Any:
    """Call a tool."""
    params = call.request.params
    tool = server.registry.tools.get(params.name)
    if tool is None:
        scopes = call.scopes
        permitted = [
            name
            for name, known in list(server.registry.tools.items())
            if scopes is None or scopes.issuperset(known.scopes)
        ]
        raise InvalidParams(f"Unknown tool: {params.name}{_closest(params.name, permitted)}")
    if call.scopes is not None and not call.scopes.issuperset(tool.scopes):
        raise InsufficientScope(tool.scopes)

    try:
        outcome = tool.begin(call, params.arguments)
        if isinstance(outcome, CoroutineType):
            return _finish_tool(server, call, tool, outcome)
        if eras.carries_plainly[call.request.caller.version] and (plain := _plain_result(call, tool, outcome)):
            return plain
        result = tool.output.result(outcome)
        if call.asking is None and (type(result) is types.CallToolResult or not isinstance(result, InputRequired)):
            return _tool_result(server, call, tool, result)
    except BaseException as error:
        if call.asking is None and not isinstance(error, UrlElicitationRequired):
            return _tool_failed(server, call, error)
        result = _raise(error)
    return _settle_tool(server, call, tool, result)


def _is_pending(call: Call, outcome: Any) -> bool:
    return isinstance(outcome, CoroutineType | InputRequired) or call.asking is not None


async def _raise(error: BaseException) -> None:
    raise error


async def _finish_tool(server: Server, call: Call, tool: Tool[..., Any], outcome: CoroutineType[Any, Any, Any]) -> Any:
    try:
        value = await outcome
        if type(value) is CoroutineType:  # of a `def` that returned what an `async def` gave it
            value = await value
        if eras.carries_plainly[call.request.caller.version] and (plain := _plain_result(call, tool, value)):
            return plain
        result = tool.output.result(value)
        if call.asking is None and (type(result) is types.CallToolResult or not isinstance(result, InputRequired)):
            return _tool_result(server, call, tool, result)
    except BaseException as error:
        if call.asking is None and not isinstance(error, UrlElicitationRequired):
            return _tool_failed(server, call, error)
        result = _raise(error)
    return await _settle_tool(server, call, tool, result)


def _plain_result(call: Call, tool: Tool[..., Any], value: Any) -> types.CallToolResult | None:
    """Return the result of most tools, which need not be compared, wrapped or sealed before it is sent."""
    if call.asking is not None or call.settings.validates_results or tool.output.is_bare:
        return None
    return tool.output.plain_result(value)


async def _settle_tool(server: Server, call: Call, tool: Tool[..., Any], outcome: Any) -> Any:
    """Finish a call that has asked the client, or is to."""

    async def run_again() -> Any:
        begun = tool.begin(call, call.request.params.arguments)
        return tool.output.result(await resolved(begun))

    try:
        return _tool_result(server, call, tool, await settled(call, outcome, run_again))
    except BaseException as error:
        return _tool_failed(server, call, error)


def _tool_result(server: Server, call: Call, tool: Tool[..., Any], result: types.Result) -> Any:
    if call.settings.validates_results and isinstance(result, types.CallToolResult) and not result.is_error:
        try:
            tool.output.check(result)
        except ValidationError as error:
            server.report(error, call)
            raise InternalError(f"The result of {tool.name!r} does not fit its output schema") from None
    version = call.request.caller.version
    if tool.output.wraps and tool.output.is_bare and not version.stateless:
        result = fields.wrap(result)
    return eras.seal(result, version, server.info_bytes)


def _tool_failed(server: Server, call: Call, error: BaseException) -> Any:
    if isinstance(error, ToolError):
        return server.seal(failure(str(error)), call)
    said = explanation(call, error)
    if said is not None:
        return server.seal(failure(said), call)
    if isinstance(error, RpcError) or call.is_given_up_by(error):
        raise error
    server.report(error, call)
    return server.seal(failure(INTERNAL_ERROR), call)


def is_crash(result: Any) -> bool:
    """Tell whether a result stands for an unexpected failure of a tool."""
    return isinstance(result, types.CallToolResult) and result.content == failure(INTERNAL_ERROR).content


def unencodable(server: Server, call: Call, error: ValidationError) -> Any:
    """Return the result to send in place of one that cannot be JSON.

    Raises:
        ValidationError: the method has no result that says so.
    """
    if call.request.method.name != "tools/call":
        raise error
    return _tool_failed(server, call, error)


def get_prompt(server: Server, call: Call) -> Any:
    """Fill in a prompt."""
    params = call.request.params
    prompt = server.registry.prompts.get(params.name)
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {params.name}{_closest(params.name, list(server.registry.prompts))}")
    return _asked(server, call, lambda: prompt.run(call, params.arguments))


def read_resource(server: Server, call: Call) -> Any:
    """Read a resource."""
    uri = call.request.params.uri
    if server.resource_reader is not None:
        return _read_by_author(server, call, uri)
    resource = server.registry.resources.get(uri)
    if resource is not None:
        return _asked(server, call, lambda: resource.read_at(call, uri))
    for template in list(server.registry.templates.values()):
        variables = template.match(uri)
        if variables is not None:
            return _asked(server, call, partial(template.read_at, call, uri, variables))
    raise ResourceNotFound(uri)


def _read_by_author(server: Server, call: Call, uri: str) -> Any:
    reader = server.resource_reader
    assert reader is not None

    async def read() -> Any:
        value = await reader.invoke(call, uri)
        return value if isinstance(value, InputRequired) else resource_result(value, uri, None)

    return _asked(server, call, read)


async def complete(server: Server, call: Call) -> Any:
    """Complete an argument of a prompt or a variable of a template."""
    params: types.CompleteRequestParams = call.request.params
    completers = _completers(server, params.ref)
    arguments = (params.context.arguments if params.context else None) or {}
    completer = completers.find(params.argument.name)
    if completer is not None:
        found = await completer.invoke(call, params.argument.value, arguments)
    elif server.completer is not None:
        found = await server.completer.invoke(call, params.ref, params.argument, arguments)
    else:
        found = None
    return server.seal(completion_result(found), call)


def _completers(server: Server, ref: types.PromptReference | types.ResourceTemplateReference) -> Completers:
    if isinstance(ref, types.PromptReference):
        prompt = server.registry.prompts.get(ref.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {ref.name}{_closest(ref.name, list(server.registry.prompts))}")
        return prompt.completers
    for template in list(server.registry.templates.values()):
        if template.uri_template == ref.uri or template.template.match(ref.uri) is not None:
            return template.completers
    if ref.uri not in server.registry.resources:
        raise InvalidParams(f"Unknown resource or template: {ref.uri}", {"uri": ref.uri})
    return Completers()


def _asked(server: Server, call: Call, run: Callable[[], Any]) -> Any:
    """Run a handler that may ask the client, and seal what it gives."""
    try:
        outcome = run()
    except BaseException as error:
        if call.asking is None and not isinstance(error, UrlElicitationRequired):
            raise
        outcome = _raise(error)
    return _seal_later(server, call, outcome, run) if _is_pending(call, outcome) else server.seal(outcome, call)


async def _seal_later(server: Server, call: Call, outcome: Any, run_again: Callable[[], Any]) -> Any:
    return server.seal(await settled(call, outcome, run_again), call)


async def follow(server: Server, call: Call) -> Any:
    """Tell this client of a resource's changes from now on; the author's own function may do more."""
    if call.channel.is_mute:
        raise MethodNotFound("resources/subscribe is not served here: there is no stream to tell of changes")
    result = await _told(call, server.subscriber)
    call.session.follow(call.request.params.uri)
    return server.seal(result, call)


async def unfollow(server: Server, call: Call) -> Any:
    """Tell this client of a resource's changes no more."""
    result = await _told(call, server.unsubscriber)
    call.session.unfollow(call.request.params.uri)
    return server.seal(result, call)


async def _told(call: Call, hook: Hook | None) -> types.Result:
    given = None if hook is None else await hook.invoke(call, call.request.params.uri)
    meta = given.get("_meta") if isinstance(given, dict) else None
    return types.Result(meta=meta if isinstance(meta, dict) else None)


async def listen(server: Server, call: Call) -> Any:
    """Tell a stateless client of changes, until it or the connection ends."""
    subscription = Subscription(call.request.id, honour(call.request.params.notifications, server.capabilities))
    await call.channel.listen(subscription)
    return server.seal(subscription.result(), call)


HANDLERS: dict[str, Handler] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": acknowledge,
    "logging/setLevel": set_level,
    "tools/list": list_page,
    "tools/call": call_tool,
    "prompts/list": list_page,
    "prompts/get": get_prompt,
    "resources/list": list_resources,
    "resources/templates/list": list_page,
    "resources/read": read_resource,
    "resources/subscribe": follow,
    "resources/unsubscribe": unfollow,
    "completion/complete": complete,
    "subscriptions/listen": listen,
}


def custom_method(function: Callable[..., Any], name: str) -> Handler:
    """Return the handler of a method of the server's own: parameters by name, or all of them as `params`."""
    definition: Definition[..., Any] = Definition.define(function, name=name)
    takes_all = [parameter.name for parameter in definition.signature.parameters] == ["params"]

    def serve(server: Server, call: Call) -> Any:
        raw = call.request.raw_params
        arguments = Raw(b'{"params":' + bytes(raw) + b"}") if takes_all else raw
        try:
            outcome = definition.invoke(call, arguments)
        except ArgumentsRejected as rejected:
            raise InvalidParams(str(rejected)) from None
        return then(outcome, partial(_custom, server, call))

    return serve


def _custom(server: Server, call: Call, value: Any) -> Any:
    if isinstance(value, types.Result):
        return server.seal(value, call)
    return server.seal_value(msgspec.to_builtins(value), call.request.caller.version)
