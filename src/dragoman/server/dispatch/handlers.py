"""`HANDLERS`: the table that maps each method of the protocol to its handler.

A handler receives the server and the call. It returns an unsealed result, the sealed bytes of a list's page, or a
coroutine that returns a result. If an author's function serves the request, the handler sets `call.target` and
`call.arguments` instead. Only the runner calls handlers.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import msgspec

from dragoman import types
from dragoman.errors import (
    InsufficientScope,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ResourceNotFound,
)
from dragoman.protocol import eras
from dragoman.protocol.methods import ROOTS_CHANGED
from dragoman.protocol.subscriptions import Subscription, honoured_filter, require_fields_declared
from dragoman.server.define.binding import Hook
from dragoman.server.define.completion import Completers, completion_result
from dragoman.server.define.definition import Definition
from dragoman.server.define.resources import resource_result
from dragoman.server.dispatch.dispatcher import Dispatcher, Handler
from dragoman.server.dispatch.runner import sealed_page
from dragoman.server.offering import without_changes
from dragoman.server.registry import AnyPrompt, AnyTemplate, paginate, read_cursor
from dragoman.server.request.call import Call
from dragoman.server.request.questions import InputRequired
from dragoman.server.wire_objects import wire_object

Shown = TypeVar("Shown", bound=Definition[..., Any])


def initialize(server: Dispatcher, call: Call) -> Any:
    """Begin a session."""
    if call.session.caller is not None:
        raise InvalidRequest("The session is initialized already")
    result, caller = eras.initialize(
        call.request.params, server.offer, _declared(server, call), server.identity.info, server.identity.instructions
    )
    call.session.begin(caller)
    return result


def discover(server: Dispatcher, call: Call) -> Any:
    """Return the versions and capabilities of the server."""
    return eras.discover(server.offer, _declared(server, call), server.identity.instructions)


def _declared(server: Dispatcher, call: Call) -> types.ServerCapabilities:
    server.offering.warn_of_undeclared()
    return without_changes(server.capabilities) if call.channel.lacks_standalone_stream else server.capabilities


def acknowledge(_server: Dispatcher, _call: Call) -> types.Result:
    """Answer with an empty result."""
    return types.Result()


def set_level(_server: Dispatcher, call: Call) -> types.Result:
    """Set the lowest level of the log messages that this client receives."""
    call.session.set_level(call.request.params.level)
    return types.Result()


def list_page(server: Dispatcher, call: Call) -> Any:
    """Return a page of tools, prompts, resources or templates."""
    method, registry, installed = call.request.method.name, server.registry, server.installed
    is_scoped = call.scopes is not None and method == "tools/list" and registry.has_scopes
    if is_scoped or registry.facts.has_visibility or (installed is not None and installed.hides):
        return _list_shown(server, call)
    return sealed_page(call, registry.listings[method])


def _list_shown(server: Dispatcher, call: Call) -> Any:
    """Return a page of the definitions that this client sees, by scopes, by `visible` and by extensions.

    The page is not cached, and only this client may cache it.
    """
    method, registry, installed = call.request.method, server.registry, server.installed
    scopes = call.scopes if method.name == "tools/list" else None
    shown = [
        definition
        for definition in registry.listed(method.name)
        if (scopes is None or scopes.issuperset(definition.scopes))
        and definition not in call.hidden
        and (installed is None or installed.shows(call, definition))
    ]
    entries = registry.entries(method.name, shown, call.request.caller.version)
    size = registry.listings[method.name].page_size
    page = paginate(cast("Any", method.result), entries, read_cursor(call.request.params.cursor), size)
    if page.cache_scope is None:
        page.cache_scope = "private"
    return page


def list_resources(server: Dispatcher, call: Call) -> Any:
    """Return a page of resources: those of the `on_list_resources` function, if there is one."""
    lister = server.registry.hooks.get("on_list_resources")
    return list_page(server, call) if lister is None else _list_by_author(server, call, lister)


async def _list_by_author(server: Dispatcher, call: Call, lister: Hook) -> Any:
    offset = read_cursor(call.request.params.cursor)
    listed = _listed(await lister.invoke(call))
    page_size = server.registry.listings["resources/list"].page_size
    page = paginate(types.ListResourcesResult, listed.resources, offset, page_size)
    assert isinstance(page, types.ListResourcesResult)
    cursor = page.next_cursor if listed.next_cursor is None else listed.next_cursor
    return msgspec.structs.replace(listed, resources=page.resources, next_cursor=cursor)


def _listed(given: Any) -> types.ListResourcesResult:
    """Return the result for the value of `on_list_resources`: resources, a result, or a dict like a result."""
    if isinstance(given, dict):
        result = wire_object({**given, "resources": []}, types.ListResourcesResult, "A list of resources")
        entries = given.get("resources")
    elif isinstance(given, types.ListResourcesResult):
        result, entries = given, given.resources
    else:
        result, entries = types.ListResourcesResult([]), given
    resources = [
        wire_object(getattr(entry, "definition", entry), types.Resource, "A listed resource") for entry in entries or ()
    ]
    return msgspec.structs.replace(result, resources=resources)


MAX_COMPARED = 1000
"""The greatest number of registered names that an unknown name is compared with."""
MAX_COMPARED_LENGTH = 128
"""The greatest length of a tool's name; a longer name is not compared."""


def _unknown(kind: str, name: str, known: list[str]) -> InvalidParams:
    """Return the error for an unknown name; its message suggests a similar name."""
    from difflib import get_close_matches

    close = get_close_matches(name, known[:MAX_COMPARED], 1) if len(name) <= MAX_COMPARED_LENGTH else []
    error = InvalidParams(f"Unknown {kind}: {name}" + (f"; did you mean {close[0]}?" if close else ""))
    error.label = f"{kind}_not_found"
    return error


def call_tool(server: Dispatcher, call: Call) -> None:
    """Set the tool of a `tools/call` request as its target."""
    name, scopes, hidden = call.request.params.name, call.scopes, call.hidden
    tool = server.registry.tools.get(name)
    if tool is None or (hidden and tool in hidden):
        raise _unknown("tool", name, _permitted_tools(server, call))
    if scopes is not None and not scopes.issuperset(tool.scopes):
        raise InsufficientScope(tool.scopes)
    call.target = tool


def _permitted_tools(server: Dispatcher, call: Call) -> list[str]:
    """Return the names of the tools that the caller sees and may call."""
    tools, scopes = _shown(server.registry.tools, call), call.scopes
    return [name for name, known in tools.items() if scopes is None or scopes.issuperset(known.scopes)]


def get_prompt(server: Dispatcher, call: Call) -> None:
    """Set the prompt of a `prompts/get` request as its target."""
    params = call.request.params
    call.target, call.arguments = _prompt(server, call, params.name), params.arguments


def _prompt(server: Dispatcher, call: Call, name: str) -> AnyPrompt:
    prompts = _shown(server.registry.prompts, call)
    if name not in prompts:
        raise _unknown("prompt", name, list(prompts))
    return prompts[name]


def _shown(table: dict[str, Shown], call: Call) -> dict[str, Shown]:
    """Return the definitions of a table that the caller sees."""
    if not call.hidden:
        return table
    return {key: definition for key, definition in list(table.items()) if definition not in call.hidden}


def read_resource(server: Dispatcher, call: Call) -> Any:
    """Set the resource or template of a `resources/read` request as its target, or call `on_read_resource`."""
    uri = call.request.params.uri
    if _is_hidden(server, call, uri):
        raise ResourceNotFound(uri)
    reading = None if server.installed is None else server.installed.reading(call, uri)
    if reading is not None:
        return _read_by_author(reading, uri)
    reader = server.registry.hooks.get("on_read_resource")
    if reader is not None:
        return _read_by_author(reader.invoke(call, uri), uri)
    call.target = _shown(server.registry.resources, call).get(uri)
    if call.target is not None:
        return None
    for template in list(_shown(server.registry.templates, call).values()):
        variables = template.match(uri)
        if variables is not None:
            call.target, call.arguments = template, variables
            return None
    raise ResourceNotFound(uri)


def _is_hidden(server: Dispatcher, call: Call, uri: str) -> bool:
    """Tell whether every definition of a URI is hidden from the caller or not served, and there is at least one."""
    registry = server.registry
    disabled, templates = registry.disabled["resources"], registry.disabled["templates"]
    if not (call.hidden or disabled or templates):
        return False
    if uri in _shown(registry.resources, call) or _has_match(_shown(registry.templates, call), uri):
        return False
    return uri in registry.resources or uri in disabled or _has_match(registry.templates | templates, uri)


def _has_match(templates: dict[str, AnyTemplate], uri: str) -> bool:
    return any(template.match(uri) is not None for template in list(templates.values()))


async def _read_by_author(reading: Coroutine[Any, Any, Any], uri: str) -> Any:
    value = await reading
    return value if isinstance(value, InputRequired) else resource_result(value, uri, None)


async def complete(server: Dispatcher, call: Call) -> Any:
    """Complete an argument of a prompt or a variable of a template."""
    params: types.CompleteRequestParams = call.request.params
    completers = _completers(server, call, params.ref)
    arguments = (params.context.arguments if params.context else None) or {}
    completer, hook = completers.find(params.argument.name), server.registry.hooks.get("on_complete")
    values = None
    if completer is not None:
        values = await completer.invoke(call, params.argument.value, arguments)
    elif hook is not None:
        values = await hook.invoke(call, params.ref, params.argument, arguments)
    return completion_result(values)


def _completers(
    server: Dispatcher, call: Call, ref: types.PromptReference | types.ResourceTemplateReference
) -> Completers:
    if isinstance(ref, types.PromptReference):
        return _prompt(server, call, ref.name).completers
    for template in list(_shown(server.registry.templates, call).values()):
        if template.uri_template == ref.uri or template.template.match(ref.uri) is not None:
            return template.completers
    if ref.uri not in _shown(server.registry.resources, call):
        raise InvalidParams(f"Unknown resource or template: {ref.uri}", {"uri": ref.uri})
    return Completers()


async def subscribe(server: Dispatcher, call: Call) -> Any:
    """Call the `on_subscribe` function, and then subscribe this client to a resource."""
    if call.channel.lacks_standalone_stream:
        raise MethodNotFound("resources/subscribe is not served here: there is no stream for notifications of changes")
    # A hidden resource is answered like an unknown one, but the client is never notified of it.
    if _is_hidden(server, call, call.request.params.uri):
        return types.Result()
    result = await _run_hook(call, server.registry.hooks.get("on_subscribe"))
    call.session.subscribe(call.request.params.uri)
    return result


async def unsubscribe(server: Dispatcher, call: Call) -> Any:
    """Call the `on_unsubscribe` function, and then unsubscribe this client from a resource."""
    result = await _run_hook(call, server.registry.hooks.get("on_unsubscribe"))
    call.session.unsubscribe(call.request.params.uri)
    return result


async def _run_hook(call: Call, hook: Hook | None) -> types.Result:
    given = None if hook is None else await hook.invoke(call, call.request.params.uri)
    meta = given.get("_meta") if isinstance(given, dict) else None
    return types.Result(meta=meta if isinstance(meta, dict) else None)


async def listen(server: Dispatcher, call: Call) -> Any:
    """Serve a subscription of a stateless client until the client cancels it or the connection ends."""
    wanted, fields = call.request.params.notifications, server.offer.table.subscription_fields()
    require_fields_declared(wanted, call.request.caller.capabilities, fields)
    honoured = honoured_filter(wanted, server.capabilities, fields)
    if server.installed is not None:
        honoured = await server.installed.honour(call, honoured)
    hidden = frozenset(uri for uri in honoured.resource_subscriptions or () if _is_hidden(server, call, uri))
    subscription = Subscription(call.request.id, honoured, fields, hidden)
    await call.channel.listen(subscription)
    return subscription.result()


async def run_roots_hooks(server: Dispatcher, call: Call) -> None:
    """Run all functions of `on_roots_changed`; an error of a function is reported, and the others run."""
    from asyncio import gather

    async def run(hook: Hook) -> None:
        try:
            await hook.invoke(call)
        except Exception as error:
            server.report(error, None, {"notification": ROOTS_CHANGED})

    await gather(*map(run, server.registry.roots_hooks))


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
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "completion/complete": complete,
    "subscriptions/listen": listen,
    ROOTS_CHANGED: run_roots_hooks,
}
