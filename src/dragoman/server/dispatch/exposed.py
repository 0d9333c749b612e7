"""`exposing_tools`: the resources and prompts of a server as tools, for hosts that know only tools.

Each tool makes a request of the protocol for its own caller, such as `resources/read`, and the runner runs it. So
middleware, scopes, `visible` functions and tags apply as they do to the request of a client, and the tools always see
what is registered now.

Rejected: one tool for each resource or prompt. The list of tools would have to follow every change, and resources of
templates and of `on_list_resources` have no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import PaginationLimit, RpcError, ToolError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import METHODS
from dragoman.server.define.content import Piece
from dragoman.server.define.tool_results import ToolResult
from dragoman.server.define.tools import Tool
from dragoman.server.dispatch.opening import open_inner
from dragoman.server.dispatch.runner import run_detached
from dragoman.server.registry import PageCursors
from dragoman.server.request.context import Context
from dragoman.types.decoding import decoders

_READ_ONLY = types.ToolAnnotations(read_only_hint=True)
_ROWS = {row.name: row for row in METHODS}
Entries = list[dict[str, Any]]


async def list_resources(ctx: Context) -> dict[str, Entries]:
    """Lists the resources that `read_resource` can read.

    A resource template stands for many resources: replace each variable in braces in its `uriTemplate`.
    """
    return {
        "resources": await _entries(ctx, "resources/list", "resources"),
        "resourceTemplates": await _entries(ctx, "resources/templates/list", "resource_templates"),
    }


async def read_resource(uri: str, ctx: Context) -> ToolResult:
    """Reads a resource.

    Args:
        uri: The URI of a resource of `list_resources`, or one made from a resource template.
    """
    result = await _request(ctx, "resources/read", {"uri": uri})
    return ToolResult([_content(contents) for contents in result.contents])


async def list_prompts(ctx: Context) -> dict[str, Entries]:
    """Lists the prompts that `get_prompt` can fill in, with their arguments."""
    return {"prompts": await _entries(ctx, "prompts/list", "prompts")}


async def get_prompt(name: str, ctx: Context, arguments: dict[str, str] | None = None) -> dict[str, Any]:
    """Returns the messages of a prompt.

    Args:
        name: The name of a prompt of `list_prompts`.
        arguments: The values of its arguments, by name.
    """
    result = await _request(ctx, "prompts/get", {"name": name, "arguments": arguments or {}})
    return {"description": result.description, "messages": msgspec.to_builtins(result.messages)}


def exposing_tools(*, resources: bool, prompts: bool, tags: Iterable[str]) -> list[Tool[..., Any]]:
    """Return the tools that list and read resources, and those that list and fill in prompts."""
    tags = tags if isinstance(tags, str) else list(tags)  # a generator can be read only once, and each tool reads
    functions: list[Callable[..., object]] = [list_resources, read_resource] if resources else []
    functions += [list_prompts, get_prompt] if prompts else []
    return [Tool.define(function, annotations=_READ_ONLY, tags=tags) for function in functions]


async def _entries(ctx: Context, method: str, field: str) -> Entries:
    cursors, page = PageCursors(method), await _request(ctx, method, {})
    entries: Entries = msgspec.to_builtins(getattr(page, field))
    try:
        while cursors.continues(page.next_cursor):
            page = await _request(ctx, method, {"cursor": page.next_cursor})
            entries += msgspec.to_builtins(getattr(page, field))
    except PaginationLimit as error:
        raise ToolError(str(error)) from error
    return entries


def _content(contents: types.ResourceContents) -> Piece:
    kind = (contents.mime_type or "").partition("/")[0]
    if contents.blob is None:
        return contents.text or ""
    if kind == "image":
        return types.ImageContent(contents.blob, contents.mime_type or "")
    return types.AudioContent(contents.blob, contents.mime_type or "") if kind == "audio" else contents


async def _request(ctx: Context, method: str, params: types.Json) -> Any:
    """Run a request of the protocol for the caller of a tool, and return its result.

    Raises:
        ToolError: the request was refused, or its handler asks a question, which only a client can forward.
    """
    outer, row = ctx._call, _ROWS[method]
    call = open_inner(outer, row, Raw(encode(params)))
    call.request = msgspec.structs.replace(call.request, progress_token=None)
    # A `def` in a thread learns of the cancellation only from its own call.
    remove_callback = outer.on_cancel(lambda: call.mark_cancelled(outer.cancel_reason))
    try:
        result = await run_detached(call, seals=False)
    except RpcError as error:
        raise ToolError(error.message) from error
    finally:
        remove_callback()
    if isinstance(result, types.InputRequiredResult):
        raise ToolError(f"{method} asks the user a question, which this tool cannot do")
    return decoders[row.result].decode(result) if isinstance(result, Raw) else result
