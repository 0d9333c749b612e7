"""`with_tags`: a server as one application serves it, with only the definitions that tags select.

`include_tags` and `exclude_tags` belong to one way of serving, so one server can be served twice, such as by a public
application and by one for administrators. A `TaggedServer` stands for the server and has a registry of its own, with
the selected definitions. It selects them again after each change of the server's registry.

Rejected: a check of the tags of each definition in each request. A definition that was left out when the registry was
made cannot be listed or called by mistake, and a server that is served without tags pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from dragoman.errors import DefinitionError
from dragoman.server.define.definition import Definition
from dragoman.server.registry import Registry

if TYPE_CHECKING:
    from dragoman.server.server import Server

Tags = str | Iterable[str] | None
"""A tag or several; None: no selection."""


def with_tags(server: Server, include_tags: Tags, exclude_tags: Tags) -> Server:
    """Return a server as it is served with tags; the server itself if there are none.

    A definition is served if it has at least one of the included tags, and none of the excluded ones.

    Raises:
        DefinitionError: a tag is not text.
    """
    included, excluded = _checked("include_tags", include_tags), _checked("exclude_tags", exclude_tags)
    if included is None and excluded is None:
        return server
    return cast("Server", TaggedServer(server, included, excluded or frozenset()))


def _checked(option: str, tags: Tags) -> frozenset[str] | None:
    if tags is None:
        return None
    given: Any = [tags] if isinstance(tags, str) else tags
    several = list(given) if isinstance(given, Iterable) else [given]  # a generator can be read only once
    if not all(isinstance(tag, str) for tag in several):
        raise DefinitionError(f'{option} must be a tag or a set of tags, such as {{"public"}}, not {tags!r}')
    return frozenset(several)


class TaggedServer:
    """A server with another registry; everything else is that of the server."""

    def __init__(self, server: Server, included: frozenset[str] | None, excluded: frozenset[str]) -> None:
        self._server = server
        self._included = included
        self._excluded = excluded
        self._selected: Registry | None = None
        self._mounted: dict[Server, Server] = {}

    def __getattr__(self, name: str) -> Any:
        # A method of the server is bound to this object, because it may pass itself on, as `connect` does.
        method = getattr(type(self._server), name, None)
        return MethodType(method, self) if isinstance(method, FunctionType) else getattr(self._server, name)

    def alike(self, server: Server) -> Server:
        """Return a mounted server as it is served with the same tags."""
        if server not in self._mounted:
            self._mounted[server] = cast("Server", TaggedServer(server, self._included, self._excluded))
        return self._mounted[server]

    @property
    def registry(self) -> Registry:
        """The selected definitions."""
        whole, selected = self._server.registry, self._selected
        if selected is None or selected.edition != whole.edition:
            self._selected = selected = whole.selected(self._selects)
        return selected

    def _selects(self, definition: Definition[..., Any]) -> bool:
        tags = frozenset(definition.tags)
        return (self._included is None or not tags.isdisjoint(self._included)) and tags.isdisjoint(self._excluded)
