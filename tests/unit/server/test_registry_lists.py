import json

import pytest
from msgspec import Raw

from dragoman import types
from dragoman.errors import PaginationLimit
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from dragoman.server.registry import Listing, PageCursors


class Counted:
    """A list of names, which counts how often it is read."""

    def __init__(self, names):
        self.names = names
        self.reads = 0
        self.listing = Listing(types.ListToolsResult, self.entries)

    def entries(self, _version):
        self.reads += 1
        return [types.Tool(name=name, input_schema={}) for name in self.names]

    def page(self, cursor=None, version=V2025_11_25):
        return self.listing.page(cursor, version, lambda result, version: result)


def test_a_page_is_made_once_for_each_version():
    counted = Counted("abc")
    first = counted.page()
    assert counted.page() is first
    assert counted.page("0") is first
    assert counted.reads == 1
    assert counted.page(version=V2026_07_28) is not first
    assert counted.reads == 2


def test_a_page_is_made_anew_when_the_list_has_changed():
    counted = Counted("abc")
    before = counted.page()
    counted.names = "abcd"
    counted.listing.clear()
    assert counted.page() != before


def test_a_page_holds_no_newline_whatever_an_author_gave():
    schema = {"type": "object", "properties": {"a": Raw(b'{\r\n"type": "string"\n}')}}
    listing = Listing(types.ListToolsResult, lambda _version: [types.Tool(name="a", input_schema=schema)])
    page = bytes(listing.page(None, V2025_11_25, lambda result, version: result))
    assert b"\n" not in page
    assert b"\r" not in page
    assert json.loads(page)["tools"][0]["inputSchema"]["properties"] == {"a": {"type": "string"}}


def test_only_pages_that_begin_where_a_cursor_of_the_list_points_are_kept():
    counted = Counted("abcdef")
    assert counted.page("3") == counted.page("3")
    assert counted.reads == 2
    counted.listing.page_size = 2
    assert counted.page("4") is counted.page("4")
    assert counted.reads == 3
    assert counted.page("5") is not counted.page("5")


def test_a_page_that_is_made_while_the_list_changes_is_not_kept():
    counted = Counted("abc")

    def changing(result, version):
        counted.listing.clear()
        return result

    counted.listing.page(None, V2025_11_25, changing)
    counted.page()
    assert counted.reads == 2


def test_a_list_of_another_server_ends_at_a_repeated_cursor_and_at_the_limit():
    circle = PageCursors("tools/list")
    assert [circle.continues(cursor) for cursor in ("a", "b", "a")] == [True, True, False]
    assert not PageCursors("tools/list").continues(None)
    assert not PageCursors("tools/list").continues("")
    endless = PageCursors("tools/list", 3)
    assert [endless.continues(cursor) for cursor in ("a", "b")] == [True, True]
    with pytest.raises(PaginationLimit, match="more than 3 pages of tools/list"):
        endless.continues("c")
