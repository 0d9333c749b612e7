"""Names, URIs and templates of a mounted server: outside and back."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.errors import DefinitionError
from dragoman.forward.mount.renaming import Renaming
from dragoman.protocol.uritemplate import UriTemplate

NAME = st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True)
PREFIX = st.none() | NAME
SEPARATOR = st.sampled_from(["", "_", ".", "--"])
SCHEME = st.from_regex(r"[a-z][a-z0-9+.-]{0,5}:(//)?", fullmatch=True) | st.just("")
URI = st.builds("{}{}".format, SCHEME, st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=20))
HEADS = ["data://", "data:", "data:///", "http://example.com/", "x+y://a/"]
TEMPLATES = ["{id}", "a/{id}", "{id}/b{?q}", "a{/id}", "{+path}", "{id}.{path}", "a{?q}", "a{#path}"]


@given(PREFIX, SEPARATOR, NAME)
def test_a_name_leads_back_to_itself(prefix, separator, name):
    renaming = Renaming(prefix, separator)
    outer = renaming.name(name)
    assert outer == ("" if prefix is None else prefix + separator) + name
    assert renaming.inner_name(outer) == name


@given(PREFIX, URI)
@example("p", "data:")
@example("p", "data:///a")
@example("p", "p/data://a")
@example("p", "http://example.com/a")
@example("p", "")
def test_a_uri_leads_back_to_itself_and_keeps_its_scheme(prefix, uri):
    renaming = Renaming(prefix, "_")
    outer = renaming.uri(uri)
    assert renaming.inner_uri(outer) == uri
    scheme = re.match(r"[a-z][a-z0-9+.-]*:", uri)
    assert scheme is None or outer.startswith(scheme[0])
    is_web = uri.startswith(("http:", "https:"))
    assert (outer == uri) is (prefix is None or is_web)


@given(NAME, st.sampled_from(HEADS), st.sampled_from(TEMPLATES), st.text(min_size=1, max_size=8), st.text(min_size=1))
def test_the_uri_that_is_made_of_a_renamed_template_leads_back_to_that_of_the_template(prefix, head, text, one, other):
    renaming, inner = Renaming(prefix, "_"), UriTemplate(head + text)
    outer = UriTemplate(renaming.uri(head + text))
    values = {"id": one, "path": other, "q": other}
    assert renaming.inner_uri(outer.expand(values)) == inner.expand(values)
    assert renaming.inner_uri(outer.template) == inner.template
    assert outer.match(outer.expand(values)) == inner.match(inner.expand(values))


@given(PREFIX, NAME, NAME)
def test_a_renamed_name_has_no_other_name(prefix, name, other):
    renaming = Renaming(prefix, "_", {name: other})
    assert renaming.name(name) == other
    assert renaming.inner_name(other) == name
    usual = ("" if prefix is None else f"{prefix}_") + name
    assert renaming.inner_name(usual) == (name if usual == other else None)


@pytest.mark.parametrize(
    ("include", "exclude", "selected"),
    [
        (None, None, ["get", "get_all", "data://a", "data://a/{id}"]),
        ("get", None, ["get"]),
        (["get*"], ["*all"], ["get"]),
        (["data://*"], None, ["data://a", "data://a/{id}"]),
        (["data://a/{id}"], None, ["data://a/{id}"]),
        (None, "*", []),
        ([], None, []),
    ],
)
def test_patterns_select_names_and_uris(include, exclude, selected):
    renaming = Renaming("p", "_", None, include, exclude)
    names, uris = ["get", "get_all"], ["data://a", "data://a/{id}"]
    assert [name for name in names if renaming.name(name)] + [uri for uri in uris if renaming.uri(uri)] == selected
    for name in names:
        assert renaming.inner_name(f"p_{name}") == (name if name in selected else None)


def test_a_pattern_that_is_a_template_selects_what_is_made_of_the_template():
    renaming = Renaming("p", "_", include=["data://a/{id}/x"])
    assert renaming.inner_uri("data://p/a/7/x") == "data://a/7/x"
    assert renaming.inner_uri("data://p/a/7/y") is None
    assert renaming.inner_uri("data://q/a/7/x") is None


def test_a_renamed_uri_leads_back_to_itself():
    renaming = Renaming("p", "_", {"data://a": "city://a"})
    assert renaming.uri("data://a") == "city://a"
    assert renaming.inner_uri("city://a") == "data://a"
    assert renaming.inner_uri("data://p/a") is None


def test_a_name_that_another_has_is_given_once():
    with pytest.raises(DefinitionError, match="'a' and 'b' the same name 'c'"):
        Renaming("p", "_", {"a": "c", "b": "c"})
