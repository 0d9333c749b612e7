"""Lists that are encoded once.

The definitions of a server change rarely and are listed often, so each page is kept as the sealed bytes of its result,
per version, until the list changes. A cursor is the offset of its page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw

from dragoman import types
from dragoman.errors import InvalidParams
from dragoman.protocol import lines
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import Version

Seal = Callable[[types.Result, Version], types.Result]


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
        """Forget the pages: the list changed."""
        self._pages = {}

    def page(self, cursor: str | None, version: Version, seal: Seal) -> Raw:
        """Return the result of one page, sealed and encoded, without newlines.

        Raises:
            InvalidParams: the cursor is none that this list gave out.
        """
        offset = read_cursor(cursor)
        pages = self._pages  # the list may change in another thread meanwhile: then what is made here is forgotten
        page = pages.get((version.name, offset))
        if page is None:
            result = paginate(self._result, list(self._entries(version)), offset, self.page_size)
            page = Raw(lines.without_newlines(encode(seal(result, version))))
            if self._begins_page(offset):
                pages[version.name, offset] = page
        return page

    def _begins_page(self, offset: int) -> bool:
        """Tell whether this list gives the offset out as a cursor; keeping any other would let clients fill memory."""
        return offset == 0 if self.page_size is None else offset % self.page_size == 0


def read_cursor(cursor: str | None) -> int:
    """Return the offset that a cursor stands for; an empty one is the start.

    Raises:
        InvalidParams: it is no offset.
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
        InvalidParams: the list does not reach that far.
    """
    if offset and offset >= len(entries):
        raise InvalidParams(f"Invalid cursor: {str(offset)!r}")
    end = len(entries) if page_size is None else offset + page_size
    return result(entries[offset:end], next_cursor=str(end) if end < len(entries) else None)
