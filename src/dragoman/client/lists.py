"""The lists of a server: its tools, prompts, resources and templates, by pages and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from dragoman import types
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import Kind, shortest
from dragoman.client.connect.connection import Options
from dragoman.client.session import ClientSession, offers
from dragoman.errors import MethodNotFound, NotFound, PaginationLimit

MOST_PAGES = 1000

_PAGES: dict[Kind, type[types.PaginatedResult]] = {
    "tools": types.ListToolsResult,
    "prompts": types.ListPromptsResult,
    "resources": types.ListResourcesResult,
    "resource_templates": types.ListResourceTemplatesResult,
}
_LISTS: dict[type[types.PaginatedResult], tuple[str, str, str]] = {
    types.ListToolsResult: ("tools/list", "tools", "tools"),
    types.ListPromptsResult: ("prompts/list", "prompts", "prompts"),
    types.ListResourcesResult: ("resources/list", "resources", "resources"),
    types.ListResourceTemplatesResult: ("resources/templates/list", "resources", "resourceTemplates"),
}
"""The method of each kind of page, the capability of servers that have it, and what its entries are called."""
P = TypeVar("P", bound=types.PaginatedResult)
Found = TypeVar("Found", bound=AsyncBoundTool | AsyncBoundPrompt | AsyncBoundResource | AsyncBoundResourceTemplate)


class Lists:
    """The lists of one client's server; at most `most_pages` of each are read."""

    def __init__(self, session: ClientSession, most_pages: int) -> None:
        self._session = session
        self._most_pages = most_pages

    async def page(self, kind: type[P], cursor: str | None, options: Options) -> P:
        """Return one page; an empty one where the server does not have such things."""
        method, capability, entries = _LISTS[kind]
        connection = await self._session.start()
        if not offers(connection, capability):
            return msgspec.convert({entries: []}, kind)
        params = {} if cursor is None else {"cursor": cursor}
        extended = self._session.extensions.page_type(method, kind, entries, connection.version)
        page = await self._session.request(method, params, extended, options)
        if isinstance(page, types.ListToolsResult):
            mirrors = connection.link.is_http and connection.version.stateless
            page.tools = self._session.catalog.learn(page.tools, mirrors=mirrors)
        return page

    async def all(self, kind: Kind, *, refresh: bool) -> list[Any]:
        """Return every entry; those that are kept, unless they are to be fetched anew.

        Raises:
            PaginationLimit: there are too many pages.
        """
        connection = await self._session.start()
        catalog, is_stateless = self._session.catalog, connection.version.stateless
        identity = await self._session.identity()
        if not refresh:
            found = catalog.find(kind, identity, holds=not is_stateless, channel=self._channel(kind))
            if found is not None:
                return found
        if is_stateless and offers(connection, _capability(kind), "list_changed"):
            self._session.listening.want(connection, **{f"{_capability(kind)}_list_changed": True})
        channel, edition = self._channel(kind), catalog.edition(kind)
        items, ttl_ms = await self._fetch(kind)
        catalog.keep(kind, identity, items, ttl_ms, channel=channel, edition=edition)
        return items

    def _channel(self, kind: Kind) -> object | None:
        """Return what the server acknowledged, if it tells of changes of such a list; another object each time."""
        heard = self._session.listening.heard
        return heard if getattr(heard, f"{_capability(kind)}_list_changed") else None

    async def _fetch(self, kind: Kind) -> tuple[list[Any], int | None]:
        items: list[Any] = []
        ttl_ms: int | None = None
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._most_pages):
            try:
                page = await self.page(_PAGES[kind], cursor, Options())
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
                self._session.warn("The pages of %s come back to the cursor %r; the list ends there", kind, cursor)
                return items, ttl_ms
            seen.add(cursor)
        raise PaginationLimit(f"There are more than {self._most_pages} pages of {kind}; raise max_pages")


def _capability(kind: Kind) -> str:
    return _LISTS[_PAGES[kind]][1]


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
