"""Where names and URIs stand: in the parameters of requests, in the entries of lists, in results and in notifications.

These tables are all that mounting knows of the messages. A method that is in none of them has no name to be found by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.protocol.jsonrpc import encode
from dragoman.types.decoding import decode, decoders

EACH = "*"
"""Stands for each element of a list in a path."""
TASKS_GET = "tasks/get"


class ListPlace(NamedTuple):
    """The entries of a list: their field in the result, and the field by which an entry is known."""

    field: str
    key: str | None
    page_size: int | None = None
    """The number of entries on a page, for the lists that a server cannot set it for."""


LISTS: Mapping[str, ListPlace] = {
    "tools/list": ListPlace("tools", "name"),
    "prompts/list": ListPlace("prompts", "name"),
    "resources/list": ListPlace("resources", "uri"),
    "resources/templates/list": ListPlace("resourceTemplates", "uriTemplate"),
    "skills/list": ListPlace("skills", "uri", 20),
    "tasks/list": ListPlace("tasks", None, 100),
}
SUBJECTS: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "completion/complete": "ref",
    "skills/get": "uri",
    "resources/directory/read": "uri",
}
"""The parameter that names what a request is about; a `ref` holds a name or a URI."""
TASK_METHODS = frozenset({TASKS_GET, "tasks/result", "tasks/update", "tasks/cancel"})
"""The requests about one task. The ids of tasks stay as they are, because no two servers make the same id."""
_CONTENT = (("content", EACH, "uri"), ("content", EACH, "resource", "uri"))
URI_PATHS: tuple[tuple[str, ...], ...] = (
    ("uri",),
    ("uriTemplate",),
    ("contents", EACH, "uri"),
    *_CONTENT,
    *(("result", *path) for path in _CONTENT),
    ("messages", EACH, "content", "uri"),
    ("messages", EACH, "content", "resource", "uri"),
    ("resources", EACH, "uri"),
    ("skill", "uri"),
    ("skill", "resources", EACH, "uri"),
    ("_meta", "ui", "resourceUri"),
    ("_meta", "ui/resourceUri"),
)
"""The URIs in a result, in an entry of a list, and in the parameters of a notification."""
_MENTIONS_URI = re.compile(rb'[uU]ri(?:Template)?":')


def with_uris(tree: Any, rename: Callable[[str], str]) -> Any:
    """Change every URI of a message that is given as JSON types, in place, and return the message."""
    for path in URI_PATHS:
        _change(tree, path, rename)
    return tree


def _change(tree: Any, path: tuple[str, ...], rename: Callable[[str], str]) -> None:
    step, *rest = path
    if step == EACH:
        for element in tree if isinstance(tree, list) else ():
            _change(element, tuple(rest), rename)
    elif isinstance(tree, dict) and step in tree:
        if rest:
            _change(tree[step], tuple(rest), rename)
        elif isinstance(tree[step], str):
            tree[step] = rename(tree[step])


def result_with_uris(result: Any, rename: Callable[[str], str]) -> Any:
    """Return a result with other URIs: a Struct, a dict, or an encoded result. The same object if it has no URI."""
    encoded = result if isinstance(result, Raw) else encode(result)
    if _MENTIONS_URI.search(encoded) is None:
        return result
    changed = with_uris(msgspec.json.decode(encoded), rename)
    if isinstance(result, Struct):
        return decode(encode(changed), type(result))
    return Raw(encode(changed)) if isinstance(result, Raw) else changed


def subject_of(method: str, params: Any) -> tuple[str, bool]:
    """Return the name or the URI that a request is about, and whether it is a URI."""
    field = SUBJECTS[method]
    if field == "ref":
        is_uri = isinstance(params.ref, types.ResourceTemplateReference)
        return (params.ref.uri if is_uri else params.ref.name), is_uri
    return getattr(params, field), field == "uri"


def params_about(method: str, raw_params: Raw, subject: str) -> Raw:
    """Return the encoded parameters of a request about another subject; everything else stays as it was sent."""
    params = decoders[dict[str, Raw]].decode(raw_params)
    field = SUBJECTS[method]
    if field == "ref":
        ref = msgspec.json.decode(params["ref"])
        params["ref"] = Raw(encode({**ref, "uri" if "uri" in ref else "name": subject}))
    else:
        params[field] = Raw(encode(subject))
    return Raw(encode(params))
