"""The lists of a server: its tools, prompts, resources and templates, by pages and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from dragoman import types
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import Kind, shortest
from dragoman.client.connection import Options
from dragoman.client.core import Core, offers
from dragoman.errors import MethodNotFound, NotFound, PaginationLimit

MOST_PAGES = 1000

_TEMPLATES = "resources/templates/list"
_LISTS: dict[Kind, tuple[str, type[types.PaginatedResult], str, str]] = {
    "tools": ("tools/list", types.ListToolsResult, "tools", "tools_list_changed"),
    "prompts": ("prompts/list", types.ListPromptsResult, "prompts", "prompts_list_changed"),
    "resources": ("resources/list", types.ListResourcesResult, "resources", "resources_list_changed"),
    "resource_templates": (_TEMPLATES, types.ListResourceTemplatesResult, "resources", "resources_list_changed"),
}
"""The method of each list, its result, its capability, and the field of a subscription to its changes."""
Found = TypeVar("Found", bound=AsyncBoundTool | AsyncBoundPrompt | AsyncBoundResource | AsyncBoundResourceTemplate)


class Lists:
    """The lists of one client's server; at most `most_pages` of each are read."""

    def __init__(self, core: Core, most_pages: int) -> None:
        self._core = core
        self._most_pages = most_pages

    async def page(self, kind: Kind, cursor: str | None, options: Options) -> types.PaginatedResult:
        """Return one page; an empty one where the server does not have such things."""
        method, result, capability, _ = _LISTS[kind]
        connection = await self._core.start()
        if not offers(connection, capability):
            return cast("Any", result)([])  # type: ignore[no-any-return]
        params = {} if cursor is None else {"cursor": cursor}
        page = await self._core.request(method, params, result, options)
        if kind == "tools":
            mirrors = connection.link.is_http and connection.version.stateless
            page = cast("types.ListToolsResult", page)
            page.tools = self._core.catalog.learn(page.tools, mirrors=mirrors)
        return page

    async def all(self, kind: Kind, *, refresh: bool) -> list[Any]:
        """Return every entry; those that are kept, unless they are to be fetched anew.

        Raises:
            PaginationLimit: there are too many pages.
        """
        _, _, capability, watched = _LISTS[kind]
        connection = await self._core.start()
        catalog, is_stateless = self._core.catalog, connection.version.stateless
        identity = await self._core.identity()
        if not refresh:
            found = catalog.find(kind, identity, holds=not is_stateless, channel=self._channel(kind))
            if found is not None:
                return found
        if is_stateless and offers(connection, capability, "list_changed"):
            self._core.listening.want(connection, **{watched: True})
        channel, edition = self._channel(kind), catalog.edition(kind)
        items, ttl_ms = await self._fetch(kind)
        catalog.keep(kind, identity, items, ttl_ms, channel=channel, edition=edition)
        return items

    def _channel(self, kind: Kind) -> object | None:
        """Return what the server acknowledged, if it tells of changes of such a list; another object each time."""
        heard = self._core.listening.heard
        return heard if getattr(heard, _LISTS[kind][3]) else None

    async def _fetch(self, kind: Kind) -> tuple[list[Any], int | None]:
        items: list[Any] = []
        ttl_ms: int | None = None
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._most_pages):
            try:
                page = await self.page(kind, cursor, Options())
            except MethodNotFound:
                # A server may declare resources, and have no templates.
                if cursor is not None:
                    raise
                return items, None
            items += getattr(page, kind)
            ttl_ms = shortest(ttl_ms, page.ttl_ms)
            cursor = page.next_cursor
            if cursor is None:
                return items, ttl_ms
            if cursor in seen:
                self._core.warn("The pages of %s come back to the cursor %r; the list ends there", kind, cursor)
                return items, ttl_ms
            seen.add(cursor)
        raise PaginationLimit(f"There are more than {self._most_pages} pages of {kind}; raise max_pages")


def find(kind: str, name: str, items: Sequence[Found], names: Callable[[Found], tuple[str, ...]]) -> Found:
    """Return the item that has a name.

    Raises:
        NotFound: there is none; the error has the names that resemble it.
    """
    from difflib import get_close_matches

    for item in items:
        if name in names(item):
            return item
    raise NotFound(kind, name, get_close_matches(name, [known for item in items for known in names(item)]))
