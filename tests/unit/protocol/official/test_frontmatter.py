"""The frontmatter of a SKILL.md, as the core schema of YAML 1.2 reads it."""

import builtins
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, ValidationError
from dragoman.protocol.official.frontmatter import (
    MAX_CHARACTERS,
    read_frontmatter,
    split_frontmatter,
    write_frontmatter,
)


def read(block: str) -> Any:
    return read_frontmatter(f"---\n{block}\n---\nbody")


@pytest.mark.covers("SKL-03")
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-07-28", "2026-07-28"),
        ("2026-07-28T10:00:00Z", "2026-07-28T10:00:00Z"),
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("12", 12),
        ("-7", -7),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("0b101", "0b101"),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ('!!int "12"', 12),
        ("[a, 1, {b: no}]", ["a", 1, {"b": "no"}]),
        ("|\n  one\n  two", "one\ntwo\n"),
        (">-\n  one\n  two", "one two"),
        ("<<", "<<"),
        ("=", "="),
    ],
)
def test_a_value_is_what_the_core_schema_says(written, value):
    found = read(f"key: {written}")["key"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.covers("SKL-03")
def test_aliases_are_followed_and_merge_keys_are_ordinary_keys():
    assert read("a: &x {b: 1}\nc: *x\n<<: *x") == {"a": {"b": 1}, "c": {"b": 1}, "<<": {"b": 1}}


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("a: 1\na: 2", "the key 'a' twice, again in line 3"),
        ("a: {b: 1, b: 2}", "the key 'b' twice"),
        ("1: a", "The key 1 in line 2 of the frontmatter must be a text: quote it"),
        ("? [a]\n: b", "must be a text"),
        ("a: .inf", "the value '.inf', which JSON cannot hold, in line 2: write it in quotes"),
        ("a: -.INF", "JSON cannot hold"),
        ("a: .nan", "JSON cannot hold"),
        ("a: 1e400", "JSON cannot hold"),
        ("a: 9223372036854775808", "JSON cannot hold"),
        ("a: !!int x", "JSON cannot hold"),
        ("a: !!timestamp 2026-07-28", r"the tag 'tag:yaml.org,2002:timestamp', which JSON cannot hold, in line 2"),
        ("a: !!set {b}", "which JSON cannot hold"),
        ("a: !!binary aGk=", "which JSON cannot hold"),
        ("a: !!python/object/apply:os.system [ls]", "which JSON cannot hold"),
        ("a: !!map 5", "which JSON cannot hold"),
        ("a: !!str [5]", "which JSON cannot hold"),
        ("- a", "must be a mapping"),
        ("a", "must be a mapping"),
        ("", "must be a mapping"),
        ("a: [", "is no YAML in line"),
        ("a: b: c", "is no YAML in line 2: mapping values are not allowed here"),
        ("a: \x07", "is no YAML: "),
        ("a: *b", "is no YAML in line 2: found undefined alias"),
        ("a: \u2028", "write it as an escape"),
        ("a: &x [*x]", "nested too deeply, or too large"),
        ("a: " + "[" * 40 + "]" * 40, "nested too deeply"),
        ("a: " + "[" * 9000 + "]" * 9000, "is no YAML: "),
        ("a: x" + "y" * MAX_CHARACTERS, "characters, and at most 65,536 are read"),
        ("a: &a [1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 8)}]\n" for n in range(8)
        ), "too large"),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_what_json_cannot_hold_or_yaml_does_not_allow_is_refused_with_its_line(block, said):
    with pytest.raises(ValidationError, match=said):
        read(block)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("---\na: 1\n---\nbody", ("a: 1\n", "body")),
        ("\ufeff---\r\na: 1\r\n---\r\nbody\r\n", ("a: 1\n", "body\n")),
        ("---\na: 1\n---  \t\nbody", ("a: 1\n", "body")),
        ("---\na: 1\n---", ("a: 1\n", "")),
        ("---\n---\n", ("", "")),
        ("---\na: x---\n---\n---\n", ("a: x---\n", "---\n")),
    ],
)
def test_the_block_stands_between_two_lines(text, parts):
    assert split_frontmatter(text) == parts


@pytest.mark.parametrize("text", ["", "name: a", "---", "--- \na: 1\n---\n", "\n---\na: 1\n---\n", "---\na: 1\n----\n"])
def test_a_text_without_a_block_is_refused(text):
    with pytest.raises(ValidationError, match="must begin with its frontmatter"):
        split_frontmatter(text)


def test_without_pyyaml_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install dragoman\[yaml\]"):
        read("a: 1")


texts = st.text(st.characters(exclude_categories=("Cs",)))
scalars = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | texts
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, min_size=1, max_size=4))
def test_what_is_written_is_read_again(fields):
    assert read_frontmatter(write_frontmatter(fields) + "body") == fields


def test_what_is_written_looks_like_frontmatter():
    assert write_frontmatter({"name": "a", "true": 1, "a.b": "c"}) == '---\nname: "a"\n"true": 1\n"a.b": "c"\n---\n'
    with pytest.raises(ValueError, match="JSON"):
        write_frontmatter({"a": float("nan")})
