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
