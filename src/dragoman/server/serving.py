"""What the server does for each method.

One table from method to function. A function is given the server and the call, and returns the sealed result, or a
coroutine that gives it; lists and everything else that does not change come as bytes that were sealed before.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import InvalidParams, InvalidRequest, ResourceNotFound, RpcError, ToolError, ValidationError
from dragoman.protocol import eras
from dragoman.server.call import Call
from dragoman.server.completion import Completers, completion_result
from dragoman.server.definition import Definition
from dragoman.server.listing import paginate, read_cursor
from dragoman.server.results import resource_contents, wire_object
from dragoman.server.signature import ArgumentsRejected
from dragoman.server.tools import Tool, error_result, failure

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
        call.request.params, server.offer, server.capabilities, server.info, server.instructions
    )
    return result


def discover(server: Server, call: Call) -> Any:
    """Say what the server speaks and offers."""
    return server.seal(eras.discover(server.offer, server.capabilities, server.instructions), call)


def acknowledge(server: Server, call: Call) -> Any:
    """Answer with nothing."""
    return server.seal(_EMPTY, call)


def set_level(server: Server, call: Call) -> Any:
    """Set from which level on this client is sent log messages."""
    call.session.log_level = call.request.params.level
    return server.seal(_EMPTY, call)


def list_page(server: Server, call: Call) -> Any:
    """Return a page of tools, prompts, resources or templates."""
    listing = server.registry.listings[call.request.method.name]
    return listing.page(call.request.params.cursor, call.request.caller.version, server.seal_for)


def list_resources(server: Server, call: Call) -> Any:
    """Return a page of resources, as the author's own function lists them if there is one."""
    return list_page(server, call) if server.resource_lister is None else _list_by_author(server, call)


async def _list_by_author(server: Server, call: Call) -> Any:
    offset = read_cursor(call.request.params.cursor)
    assert server.resource_lister is not None
    listed = await server.resource_lister.invoke(call)
    entries = [_listed_resource(resource) for resource in listed or ()]
    page_size = server.registry.listings["resources/list"].page_size
    return server.seal(paginate(types.ListResourcesResult, entries, offset, page_size), call)


def _listed_resource(given: Any) -> types.Resource:
    listed: types.Resource = wire_object(getattr(given, "definition", given), types.Resource, "A listed resource")
    return listed


def call_tool(server: Server, call: Call) -> Any:
    """Call a tool."""
    params = call.request.params
    tool = server.registry.tools.get(params.name)
    if tool is None:
        raise InvalidParams(f"Unknown tool: {params.name}")
    try:
        outcome = tool.run(call, params.arguments, validate=server.validates_arguments)
        if isinstance(outcome, CoroutineType):
            return _finish_tool(server, call, tool, outcome)
        return _tool_result(server, call, tool, outcome)
    except BaseException as error:
        return _tool_failed(server, call, error)


async def _finish_tool(server: Server, call: Call, tool: Tool[..., Any], outcome: Any) -> Any:
    try:
        return _tool_result(server, call, tool, await outcome)
    except BaseException as error:
        return _tool_failed(server, call, error)


def _tool_result(server: Server, call: Call, tool: Tool[..., Any], result: types.CallToolResult) -> Any:
    if server.validates_results and not result.is_error:
        tool.check(result)
    return server.seal(result, call, wraps=tool.wraps)


def _tool_failed(server: Server, call: Call, error: BaseException) -> Any:
    if isinstance(error, ToolError):
        return server.seal(error_result(error), call)
    if isinstance(error, RpcError) or call.is_given_up_by(error):
        raise error
    server.report(error, call)
    return server.seal(failure(INTERNAL_ERROR), call)


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
        raise InvalidParams(f"Unknown prompt: {params.name}")
    return _sealed(server, call, prompt.run(call, params.arguments))


def read_resource(server: Server, call: Call) -> Any:
    """Read a resource."""
    uri = call.request.params.uri
    if server.resource_reader is not None:
        return _read_by_author(server, call, uri)
    resource = server.registry.resources.get(uri)
    if resource is not None:
        return _sealed(server, call, resource.read_at(call, uri))
    for template in list(server.registry.templates.values()):
        variables = template.match(uri)
        if variables is not None:
            return _sealed(server, call, template.read_at(call, uri, variables))
    raise ResourceNotFound(uri)


async def _read_by_author(server: Server, call: Call, uri: str) -> Any:
    assert server.resource_reader is not None
    value = await server.resource_reader.invoke(call, uri)
    result = value if isinstance(value, types.Result) else types.ReadResourceResult(resource_contents(value, uri, None))
    return server.seal(result, call)


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
            raise InvalidParams(f"Unknown prompt: {ref.name}")
        return prompt.completers
    for template in list(server.registry.templates.values()):
        if template.uri_template == ref.uri or template.template.match(ref.uri) is not None:
            return template.completers
    if ref.uri not in server.registry.resources:
        raise InvalidParams(f"Unknown resource or template: {ref.uri}", {"uri": ref.uri})
    return Completers()


def _sealed(server: Server, call: Call, outcome: Any) -> Any:
    return _seal_later(server, call, outcome) if isinstance(outcome, CoroutineType) else server.seal(outcome, call)


async def _seal_later(server: Server, call: Call, outcome: CoroutineType[Any, Any, Any]) -> Any:
    return server.seal(await outcome, call)


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
    "completion/complete": complete,
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
        is_pending = isinstance(outcome, CoroutineType)
        return _finish_custom(server, call, outcome) if is_pending else _custom(server, call, outcome)

    return serve


async def _finish_custom(server: Server, call: Call, outcome: CoroutineType[Any, Any, Any]) -> Any:
    return _custom(server, call, await outcome)


def _custom(server: Server, call: Call, value: Any) -> Any:
    if isinstance(value, types.Result):
        return server.seal(value, call)
    return server.seal_value(msgspec.to_builtins(value), call.request.caller.version)
