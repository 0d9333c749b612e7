import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.schema.naming import safe_name, tool_names

EXAMPLES = settings(
    max_examples=int(os.environ.get("DRAGOMAN_EXAMPLES", "50")),
    deadline=None,
    database=None,
)


@pytest.mark.covers("LMT-08")
@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("forecast", "forecast"),
        ("get.weather/now", "get-weather-now"),
        ("München", "Munchen"),
        ("ﬁnd", "find"),
        ("天気", "tool"),
        ("", "tool"),
        ("2fast", "_2fast"),
        ("-x", "_-x"),
    ],
)
def test_a_name_is_made_of_what_every_api_takes(name, safe):
    assert safe_name(name) == safe


def test_a_name_that_is_too_long_or_taken_is_marked_with_a_hash():
    long = safe_name("x" * 100)
    assert len(long) == 64
    assert long != safe_name("x" * 101)
    assert safe_name("a.b", {"a-b"}) == safe_name("a.b", {"a-b"}) != "a-b"
    taken = set()
    for _ in range(5):
        taken.add(safe_name("a" * 64, taken))
    assert len(taken) == 5


@EXAMPLES
@given(st.lists(st.tuples(st.none() | st.text(max_size=70), st.text(max_size=70)), max_size=8))
def test_names_of_tools_are_safe_and_unique_in_any_case(tools):
    names = tool_names(tools)
    assert len(set(names)) == len(names) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)


@EXAMPLES
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "a__x", "x.", "x-"])), unique=True), st.data()
)
def test_the_name_of_a_tool_does_not_depend_on_their_order(tools, data):
    named = dict(zip(tools, tool_names(tools), strict=True))
    shuffled = data.draw(st.permutations(tools))
    assert dict(zip(shuffled, tool_names(shuffled), strict=True)) == named


def test_only_tools_that_clash_are_named_with_their_server():
    assert tool_names([("git", "log"), ("web", "search"), ("docs", "search"), (None, "search")]) == [
        "log",
        "web__search",
        "docs__search",
        "search",
    ]
