"""What a client keeps of lists, and for how long."""

import pytest

from dragoman import types
from dragoman.client.catalog import MAX_LISTS, Catalog


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def catalog(clock):
    return Catalog(clock)


def tool(name, **schema):
    return types.Tool(name=name, input_schema={"type": "object", **schema})


def test_what_was_never_listed_is_not_found(catalog):
    assert catalog.find("tools", None, is_always_fresh=True) is None


def test_a_list_without_a_time_is_fresh_only_where_it_holds(catalog):
    catalog.keep("tools", None, ["a"], None)
    assert catalog.find("tools", None, is_always_fresh=True) == ["a"]
    assert catalog.find("tools", None) is None


def test_a_list_with_a_time_is_fresh_until_then(catalog, clock):
    catalog.keep("tools", None, ["a"], 1500)
    clock.now = 1.4
    assert catalog.find("tools", None) == ["a"]
    clock.now = 1.5
    assert catalog.find("tools", None) is None
    assert catalog.find("tools", None, is_always_fresh=True) == ["a"]


def test_a_time_of_zero_is_no_time_at_all(catalog):
    catalog.keep("tools", None, ["a"], 0)
    assert catalog.find("tools", None) is None


def test_a_list_is_fresh_while_the_stream_is_the_one_that_it_was_fetched_under(catalog):
    stream = object()
    catalog.keep("tools", None, ["a"], None, stream=stream)
    assert catalog.find("tools", None, stream=stream) == ["a"]
    assert catalog.find("tools", None, stream=object()) is None
    assert catalog.find("tools", None, stream=None) is None


def test_a_list_that_changed_since_it_was_begun_is_not_kept(catalog):
    edition = catalog.edition("tools")
    catalog.forget("tools")
    catalog.keep("tools", None, ["old"], None, edition=edition)
    assert catalog.find("tools", None, is_always_fresh=True) is None
    catalog.keep("prompts", None, ["p"], None, edition=catalog.edition("prompts"))
    assert catalog.find("prompts", None, is_always_fresh=True) == ["p"]


def test_lists_are_kept_apart_by_kind_and_by_whom_they_were_shown_to(catalog):
    catalog.keep("tools", "ann", ["a"], None)
    catalog.keep("tools", "bob", ["b"], None)
    catalog.keep("prompts", "ann", ["p"], None)
    assert catalog.find("tools", "ann", is_always_fresh=True) == ["a"]
    assert catalog.find("tools", "bob", is_always_fresh=True) == ["b"]
    assert catalog.find("prompts", "bob", is_always_fresh=True) is None
    catalog.forget("tools")
    assert catalog.find("tools", "ann", is_always_fresh=True) is None
    assert catalog.find("prompts", "ann", is_always_fresh=True) == ["p"]


def test_an_empty_list_replaces_what_was_kept(catalog):
    catalog.keep("tools", None, ["a"], None)
    catalog.keep("tools", None, [], None)
    assert catalog.find("tools", None, is_always_fresh=True) is None


def test_what_is_kept_has_a_bound(catalog):
    for number in range(MAX_LISTS + 5):
        catalog.keep("tools", number, ["a"], None)
    assert len(catalog._lists) <= MAX_LISTS


def test_a_tool_that_is_listed_again_as_it_was_is_the_same(catalog):
    catalog.add_tools([tool("a")], mirrors=False)
    known = catalog.tools.get("a")
    catalog.add_tools([tool("a")], mirrors=False)
    assert catalog.tools.get("a") is known
    catalog.add_tools([tool("a", title="other")], mirrors=False)
    assert catalog.tools.get("a") is not known
    catalog.was_listed_for_result = True
    catalog.forget("prompts")
    assert catalog.tools.get("a") is not None
    catalog.forget("tools")
    assert catalog.tools.get("a") is None
    assert not catalog.was_listed_for_result


def test_a_tool_whose_headers_cannot_be_built_is_left_out_where_there_are_headers(catalog, caplog):
    bad = tool("bad", properties={"x": {"type": "object", "x-mcp-header": "X"}})
    assert [known.name for known in catalog.add_tools([tool("good"), bad], mirrors=True)] == ["good"]
    assert "'bad' was left out" in caplog.text
    assert len(catalog.add_tools([tool("good"), bad], mirrors=False)) == 2
