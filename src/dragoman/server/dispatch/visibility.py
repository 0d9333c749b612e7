"""`hidden_definitions`: the definitions that the caller of a request does not see, by their `visible` functions.

The runner asks before the handler of a request that may concern a definition, if a definition of the server has a
`visible` function. The handlers treat a hidden definition like one that does not exist. A function is called at most
once for each request, however many definitions share it. A function that fails hides its definitions, and its error is
reported. A detached call was checked when its request came, and has no HTTP headers to be checked by; nothing is hidden
from it.

Rejected: one cached list for each principal. A function may read anything of the request, so no key says when two
callers see the same list.
"""

from __future__ import annotations

from typing import Any

from dragoman.server.define.definition import Definition, Visible, is_visible
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.request.call import Call

_RESOURCES = ("resources", "templates")
_TABLES: dict[str, tuple[str, ...]] = {
    "tools/list": ("tools",),
    "tools/call": ("tools",),
    "prompts/list": ("prompts",),
    "prompts/get": ("prompts",),
    "resources/list": ("resources",),
    "resources/templates/list": ("templates",),
    "resources/read": _RESOURCES,
    "resources/subscribe": _RESOURCES,
    "subscriptions/listen": _RESOURCES,
    "completion/complete": ("prompts", *_RESOURCES),
}
VISIBILITY_METHODS = frozenset(_TABLES)
"""The requests that may concern a definition."""


async def hidden_definitions(call: Call) -> frozenset[Definition[..., Any]]:
    """Return the definitions that the caller does not see, among those that the request may concern."""
    if call.within is not None:
        return frozenset()
    params, registry = call.request.params, dispatcher_of(call).registry
    tables: list[dict[str, Any]] = [getattr(registry, name) for name in _TABLES[call.request.method.name]]
    named = tables[0].get(getattr(params, "name", "") or getattr(params, "uri", ""))
    answers: dict[Visible, bool] = {}
    if named is not None and await is_visible(call, named, answers):
        return frozenset()
    # A hidden name is answered like an unknown one: with the names that the caller sees.
    every = [definition for table in tables for definition in list(table.values())]
    return frozenset([definition for definition in every if not await is_visible(call, definition, answers)])
