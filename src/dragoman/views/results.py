"""The results of tools under a view: what a JMESPath expression picks of them, or what a function makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import ToolError
from dragoman.protocol.fields import is_marked_as_wrapped, is_wrapped, marked_as_wrapped
from dragoman.runtime.callables import invoke
from dragoman.types import Json
from dragoman.views.view import ResultFunction, View, compile_pick


async def reshaped_result(
    tool: str, view: View, result: types.CallToolResult, context: object, output_schema: Json | None
) -> types.CallToolResult:
    """Return the result that clients receive; a result that is an error is not changed.

    `output_schema` is that of the tool in its upstream.

    Raises:
        ToolError: the result does not have what the view picks.
    """
    if result.is_error or not (view.pick or view.result):
        return result
    wraps = output_schema is not None and is_wrapped(output_schema)
    if view.pick is not None:
        return with_value(result, _picked(tool, view.pick, structured_value(result, wraps=wraps)))
    return await _of_function(view.result, result, context) if view.result is not None else result


async def _of_function(function: ResultFunction, result: types.CallToolResult, context: object) -> types.CallToolResult:
    value = await invoke(function, msgspec.structs.replace(result), context, in_place=True)
    return value if isinstance(value, types.CallToolResult) else with_value(result, value)


def structured_value(result: types.CallToolResult, *, wraps: bool) -> Any:
    """Return the structured content of a result, else the JSON of its only text; UNSET if it has neither."""
    structured = result.structured_content
    if structured is UNSET:
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        try:
            return msgspec.json.decode(texts[0]) if len(texts) == 1 else UNSET
        except (ValueError, RecursionError):
            return UNSET
    structured = msgspec.json.decode(msgspec.json.encode(structured))
    is_whole = isinstance(structured, dict) and structured.keys() == {"result"}
    if is_whole and (wraps or is_marked_as_wrapped(result.meta)):
        return structured["result"]
    return structured


def with_value(result: types.CallToolResult, value: object) -> types.CallToolResult:
    """Return a result with another value; a value that is no object is wrapped as `{"result": value}`."""
    encoded = msgspec.json.encode(value)
    text = value if isinstance(value, str) else encoded.decode()
    if encoded.startswith(b"{"):
        structured: object = Raw(encoded)
        meta = {name: mark for name, mark in (result.meta or {}).items() if not is_marked_as_wrapped({name: mark})}
    else:
        structured, meta = {"result": Raw(encoded)}, marked_as_wrapped(result.meta)
    return msgspec.structs.replace(
        result, content=[types.TextContent(text)], structured_content=structured, meta=meta or None
    )


def _picked(tool: str, expression: str, value: object) -> object:
    if value is UNSET:
        raise ToolError(
            f"The result of {tool!r} cannot be read: it has neither structured content nor JSON as its text"
        )
    try:
        return compile_pick(expression).search(value)
    except ValueError as error:
        # The error shows the value, which the view may be there to leave out.
        raise ToolError(f"The result of {tool!r} cannot be read: it does not have the form that is expected") from error
