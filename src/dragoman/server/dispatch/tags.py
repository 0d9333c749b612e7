"""`with_tags`: a server as one application serves it, with only the definitions that tags select.

`include_tags` and `exclude_tags` belong to one way of serving, so one server can be served twice, such as by a public
application and by one for administrators. A `TaggedDispatcher` has a registry of its own, with the selected
definitions. It selects them again after each change of the server's registry.

Rejected: a check of the tags of each definition in each request. A definition that was left out when the registry was
made cannot be listed or called by mistake, and a server that is served without tags pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.errors import DefinitionError
from dragoman.server.define.definition import Definition
from dragoman.server.dispatch.dispatcher import Dispatcher
from dragoman.server.options import Tags
from dragoman.server.registry import Registry


def with_tags(server: Dispatcher, include_tags: Tags, exclude_tags: Tags) -> Dispatcher:
    """Return a server as it is served with tags; the server itself if there are none.

    A definition is served if it has at least one of the included tags, and none of the excluded ones.

    Raises:
        DefinitionError: a tag is not text.
    """
    included, excluded = _checked("include_tags", include_tags), _checked("exclude_tags", exclude_tags)
    if included is None and excluded is None:
        return server
    return TaggedDispatcher(server, included, excluded or frozenset())


def _checked(option: str, tags: Tags) -> frozenset[str] | None:
    if tags is None:
        return None
    given: Any = [tags] if isinstance(tags, str) else tags
    several = list(given) if isinstance(given, Iterable) else [given]  # a generator can be read only once
    if not all(isinstance(tag, str) for tag in several):
        raise DefinitionError(f'{option} must be a tag or a set of tags, such as {{"public"}}, not {tags!r}')
    return frozenset(several)


class TaggedDispatcher(Dispatcher):
    """A dispatcher with another registry; everything else is that of the whole one, also what changes later."""

    def __init__(self, whole: Dispatcher, included: frozenset[str] | None, excluded: frozenset[str]) -> None:
        self._whole = whole
        self._included = included
        self._excluded = excluded
        self._selected: Registry | None = None
        self._mounted: dict[Dispatcher, TaggedDispatcher] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def alike(self, server: Dispatcher) -> TaggedDispatcher:
        """Return a mounted server as it is served with the same tags."""
        if server not in self._mounted:
            self._mounted[server] = TaggedDispatcher(server, self._included, self._excluded)
        return self._mounted[server]

    @property
    def registry(self) -> Registry:  # type: ignore[override]
        """The selected definitions."""
        whole, selected = self._whole.registry, self._selected
        if selected is None or selected.edition != whole.edition:
            self._selected = selected = whole.selected(self._selects)
        return selected

    def _selects(self, definition: Definition[..., Any]) -> bool:
        tags = frozenset(definition.tags)
        return (self._included is None or not tags.isdisjoint(self._included)) and tags.isdisjoint(self._excluded)
