"""Verbs: methods of the backend that the page calls by `POST /api/<noun>/<verb>` with a JSON object.

A method whose name is that of a type ends with `_`, which the page leaves out.
The parameters of a method are the members of the object, in camel case; their types check the object. A method returns
an object for JSON, an `Attachment`, or a `FailedVerb`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError, InspectorError
from dragoman.inspector.inspector import Inspector


class Attachment(Struct):
    """Bytes that the page saves as a file."""

    name: str
    type: str
    data: bytes


class FailedVerb(Struct):
    """An error with further members for the page."""

    error: DragomanError
    more: dict[str, Any]


Served = dict[str, Any] | Attachment | FailedVerb
Verb = Callable[[bytes], Awaitable[Served]]
"""Serves the body of a request."""


class PageVerbs:
    """The verbs of one noun: the public async methods."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    def all(self) -> dict[str, Verb]:
        """Return the verbs by their names."""
        methods = inspect.getmembers(self, inspect.iscoroutinefunction)
        return {name.rstrip("_"): _verb(method) for name, method in methods if not name.startswith("_")}


def _verb(method: Callable[..., Awaitable[Served]]) -> Verb:
    hints = get_type_hints(method)
    fields: list[Any] = [
        (name, hints[name]) if found.default is found.empty else (name, hints[name], found.default)
        for name, found in inspect.signature(method).parameters.items()
    ]
    kind = msgspec.defstruct(method.__name__, fields, rename="camel", kw_only=True, forbid_unknown_fields=True)
    decoder = msgspec.json.Decoder(kind)

    async def serve(body: bytes) -> Served:
        try:
            params = decoder.decode(body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InspectorError(f"The request is wrong: {error}") from None
        return await method(**{name: getattr(params, name) for name in kind.__struct_fields__})

    return serve
