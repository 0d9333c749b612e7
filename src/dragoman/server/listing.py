"""`Listing`: one list of a server, in pages that are sealed and encoded once.

Definitions change rarely, and clients list them often. A `Listing` therefore caches the encoded result of each page for
each protocol version, until the list changes. A cursor is the offset of the first entry of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from dragoman import types
from dragoman.errors import InvalidParams, PaginationLimit
from dragoman.protocol import lines
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import Version

Seal = Callable[[types.Result, Version], types.Result]
MAX_PAGES = 1000
"""The greatest number of pages of a list of another server, as for a client."""


class PageCursors:
    """Bounds the reading of a list of another server, which may return cursors for ever.

    Example:
        cursors = PageCursors("tools/list")
        while cursors.continues(page.next_cursor): ...
    """

    def __init__(self, method: str, limit: int = MAX_PAGES) -> None:
        self._method = method
        self._limit = limit
        self._seen: set[str] = set()

    def continues(self, cursor: str | None) -> bool:
        """Tell whether another page follows; the list ends where a cursor comes back.

        Raises:
            PaginationLimit: the list has more pages than the limit.
        """
        if not cursor or cursor in self._seen:
            return False
        self._seen.add(cursor)
        if len(self._seen) >= self._limit:
            raise PaginationLimit(f"There are more than {self._limit} pages of {self._method}")
        return True


class Listing:
    """One list of a server, in pages.

    Example:
        listing = Listing(ListToolsResult, lambda version: [tool.definition for tool in tools])
        listing.page(cursor, version, seal)
    """

    def __init__(
        self, result: Callable[..., types.PaginatedResult], entries: Callable[[Version], Iterable[Any]]
    ) -> None:
        self._result = result
        self._entries = entries
        self._pages: dict[tuple[str, int], Raw] = {}
        self.page_size: int | None = None

    def clear(self) -> None:
        """Discard the cached pages, because the list changed."""
        self._pages = {}

    def page(self, cursor: str | None, version: Version, seal: Seal) -> Raw:
        """Return the result of one page, sealed and encoded, without newlines.

        Raises:
            InvalidParams: the cursor is not a cursor of this list.
        """
        offset = read_cursor(cursor)
        pages = self._pages  # another thread may call `clear` meanwhile: the page is then stored in the discarded dict
        page = pages.get((version.name, offset))
        if page is None:
            result = paginate(self._result, list(self._entries(version)), offset, self.page_size)
            page = Raw(lines.without_newlines(encode(seal(result, version))))
            # Only offsets that this list returns as cursors are cached: others would let a client fill the memory.
            if offset == 0 or (self.page_size is not None and offset % self.page_size == 0):
                pages[version.name, offset] = page
        return page


def read_cursor(cursor: str | None) -> int:
    """Return the offset of a cursor; a missing or empty cursor is the offset 0.

    Raises:
        InvalidParams: the cursor is not an offset.
    """
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidParams(f"Invalid cursor: {cursor!r}")
    return int(cursor)


def paginate(
    result: Callable[..., types.PaginatedResult], entries: list[Any], offset: int, page_size: int | None
) -> types.PaginatedResult:
    """Return the page that begins at an offset.

    Raises:
        InvalidParams: the offset lies beyond the list.
    """
    if offset and offset >= len(entries):
        raise InvalidParams(f"Invalid cursor: {str(offset)!r}")
    end = len(entries) if page_size is None else offset + page_size
    return result(entries[offset:end], next_cursor=str(end) if end < len(entries) else None)
