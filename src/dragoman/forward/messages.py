"""Positions of names and URIs in messages, as the rows of the methods declare them.

`protocol/methods` and the rows of extensions name the parameters, fields and paths (`Method.name_in`, `uri_in`,
`uris`). Mounts and proxies know nothing else about the content of messages, so an extension of anybody works behind
them. Beside this, the file reads what else passes encoded: members of objects, pages of lists, and headers of tools.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from dragoman.errors import DragomanError
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import Method
from dragoman.server.registry import PageCursors
from dragoman.types.decoding import decode, decoders

UNREACHABLE = -32000
"""The code of the error that a client gets if the target of a proxy cannot be reached."""
RawObject = dict[str, Raw]
Rename = Callable[[str], str]


class Subject(NamedTuple):
    """The name or the URI of what a request is about."""

    text: str
    is_uri: bool


def raw_object(raw: Raw | bytes) -> RawObject:
    """Return the members of a JSON object, each still encoded; an empty dict for any other value."""
    try:
        members: RawObject = decoders[RawObject].decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return members


def subject_of(method: Method, raw_params: Raw) -> Subject | None:
    """Return what a request is about; None if its method declares no name and no URI."""
    value = msgspec.json.decode(raw_object(raw_params).get(method.name_in or method.uri_in or "", b"null"))
    is_uri = "uri" in value if isinstance(value, dict) else method.uri_in is not None
    if isinstance(value, dict):
        value = value.get("uri" if is_uri else "name")
    return Subject(value, is_uri) if isinstance(value, str) else None


def with_subject(method: Method, raw_params: Raw, text: str) -> Raw:
    """Return the encoded parameters of a request about another subject; everything else stays as it was sent."""
    params, field = raw_object(raw_params), method.name_in or method.uri_in or ""
    value: Any = msgspec.json.decode(params[field])
    if isinstance(value, dict):
        value["uri" if "uri" in value else "name"] = text
    else:
        value = text
    return Raw(encode({**params, field: value}))


def with_uris(tree: Any, paths: tuple[str, ...], rename: Rename) -> Any:
    """Change the URIs at the given paths of a message that consists of JSON types, in place, and return the message."""
    for path in paths:
        _change(tree, path.split("."), rename)
    return tree


def _change(tree: Any, steps: list[str], rename: Rename) -> None:
    key, rest = steps[0].removesuffix("[]"), steps[1:]
    if not isinstance(tree, dict) or key not in tree:
        return
    value = tree[key]
    if steps[0] != key:
        for element in value if isinstance(value, list) else ():
            _change(element, rest, rename)
    elif rest:
        _change(value, rest, rename)
    elif isinstance(value, str):
        tree[key] = rename(value)


def result_with_uris(result: Any, paths: tuple[str, ...], rename: Rename) -> Any:
    """Return a result with other URIs: a Struct, a dict, or an encoded result. The same object if it has no URI."""
    encoded = result if isinstance(result, Raw) else encode(result)
    keys = {path.rpartition(".")[2] for path in paths}
    if not any(f'"{key}":'.encode() in bytes(encoded) for key in keys):
        return result
    changed = with_uris(msgspec.json.decode(encoded), paths, rename)
    if isinstance(result, Struct):
        return decode(encode(changed), type(result))
    return Raw(encode(changed)) if isinstance(result, Raw) else changed


class _Page(Struct, rename="camel"):
    next_cursor: str | None = None


async def pages_of(fetch: Callable[[str | None], Awaitable[Raw]], cursors: PageCursors) -> AsyncIterator[Raw]:
    """Yield the pages of a list, each encoded; `fetch` takes a cursor and returns a page.

    Raises:
        PaginationLimit: the list has too many pages.
    """
    cursor = None
    while True:
        page = await fetch(cursor)
        yield page
        cursor = decoders[_Page].decode(page).next_cursor
        if not cursors.continues(cursor):
            return


class _ListedTool(Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any] = field(default_factory=dict)


class _ListedTools(Struct):
    tools: list[Raw] = []


def listed_plans(raw: Raw) -> dict[str, HeaderPlan]:
    """Return which arguments of each listed tool are repeated in headers of HTTP."""
    plans: dict[str, HeaderPlan] = {}
    try:
        page = msgspec.json.decode(raw, type=_ListedTools)
    except (msgspec.DecodeError, RecursionError):
        return plans
    for one in page.tools:
        try:
            tool = msgspec.json.decode(one, type=_ListedTool)
            plans[tool.name] = HeaderPlan.of(tool.input_schema)
        except (DragomanError, ValueError, RecursionError):
            continue
    return plans
