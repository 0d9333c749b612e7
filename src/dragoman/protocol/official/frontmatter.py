"""Frontmatter: the YAML block at the beginning of a SKILL.md, read as the core schema of YAML 1.2 says.

PyYAML reads YAML 1.1, in which `yes` is true and `2026-07-28` is a date. Here its parser makes the tree, and the values
follow the core schema: null, booleans, numbers and texts. What JSON cannot hold, or YAML 1.1 and 1.2 read differently,
is refused. The tree is walked here too, so that aliases cannot make a small file a large value.

Rejected: a parser of our own for a part of YAML. Authors use more of YAML than such a part has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any

from dragoman import types
from dragoman.errors import ConfigError, ValidationError

MAX_CHARACTERS = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_INTEGER = 2**63 - 1
_TAG = "tag:yaml.org,2002:"
_PLAIN_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
"""The plain scalars of the core schema that are no texts: a pattern, and the characters that they begin with."""


def split_frontmatter(text: str) -> tuple[str, str]:
    """Return the YAML block and the rest of a SKILL.md.

    Raises:
        ValidationError: the text does not begin with a block between two lines `---`.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = re.match(r"---\n(.*?)^---[ \t]*(?:\n|\Z)", lines, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValidationError("SKILL.md must begin with its frontmatter: a line `---`, YAML, and another line `---`")
    return found[1], lines[found.end() :]


def read_frontmatter(text: str) -> types.Json:
    """Return the frontmatter of a SKILL.md as a JSON object.

    Raises:
        ValidationError: there is no frontmatter, or it is not YAML that JSON can hold; the message names the line.
        ConfigError: PyYAML is not installed.
    """
    block, _ = split_frontmatter(text)
    yaml = _yaml()
    if len(block) > MAX_CHARACTERS:
        raise ValidationError(f"The frontmatter has {len(block):,} characters, and at most {MAX_CHARACTERS:,} are read")
    # YAML 1.1 ends a line at these characters, and YAML 1.2 does not.
    if found := re.search("[\x85\u2028\u2029]", block):
        raise ValidationError(f'The frontmatter has the character {found[0]!r}: write it as an escape in "quotes"')
    try:
        tree = yaml.compose(block, Loader=_core_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f" in line {mark.line + 2}"
        raise ValidationError(f"The frontmatter is no YAML{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ValidationError(f"The frontmatter is no YAML: {error}") from None
    if not isinstance(tree, yaml.MappingNode):
        raise ValidationError("The frontmatter must be a mapping, such as `name: my-skill`")
    value: types.Json = _CoreValues().value(tree, 0)
    return value


def write_frontmatter(fields: Mapping[str, Any]) -> str:
    """Return a frontmatter block that has these fields; JSON is YAML too.

    Raises:
        ValueError: JSON cannot hold a field.
    """
    lines = [f"{_key(name)}: {_printable(value)}\n" for name, value in fields.items()]
    return f"---\n{''.join(lines)}---\n"


def _key(name: str) -> str:
    is_plain = re.fullmatch(r"[a-z]+(?:-[a-z]+)*", name) and name not in ("null", "true", "false")
    return name if is_plain else _printable(name)


def _printable(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _yaml() -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        remedy = "install it with `pip install dragoman[yaml]`"
        raise ConfigError(f"The frontmatter of a skill is YAML, and PyYAML is not installed: {remedy}") from None
    return yaml


@cache
def _core_loader() -> Any:
    """Return a loader whose plain scalars have the tags of the core schema."""
    loader: Any = type("CoreLoader", (_yaml().BaseLoader,), {})
    for name, (pattern, beginnings) in _PLAIN_SCALARS.items():
        loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z"), beginnings)
    return loader


class _CoreValues:
    """The values of the nodes of one tree."""

    def __init__(self) -> None:
        self._count = 0

    def value(self, node: Any, depth: int) -> Any:
        self._count += 1
        line = node.start_mark.line + 2
        if depth > MAX_DEPTH or self._count > MAX_NODES:
            raise ValidationError(f"The frontmatter is nested too deeply, or too large, in line {line}")
        name = node.tag.removeprefix(_TAG)
        if name == "map" and isinstance(node.value, list):
            return self._mapping(node, depth)
        if name == "seq" and isinstance(node.value, list):
            return [self.value(one, depth + 1) for one in node.value]
        if name not in ("str", *_PLAIN_SCALARS) or not isinstance(node.value, str):
            raise ValidationError(f"The frontmatter has the tag {node.tag!r}, which JSON cannot hold, in line {line}")
        try:
            return _scalar(name, node.value)
        except ValueError:
            text = f"{node.value!r}, which JSON cannot hold, in line {line}"
            raise ValidationError(f"The frontmatter has the value {text}: write it in quotes") from None

    def _mapping(self, node: Any, depth: int) -> types.Json:
        found: types.Json = {}
        for key, member in node.value:
            name, line = self.value(key, depth + 1), key.start_mark.line + 2
            if not isinstance(name, str):
                raise ValidationError(f"The key {name!r} in line {line} of the frontmatter must be a text: quote it")
            if name in found:
                raise ValidationError(f"The frontmatter has the key {name!r} twice, again in line {line}")
            found[name] = self.value(member, depth + 1)
        return found


def _scalar(name: str, text: str) -> Any:
    """Return the value of a scalar.

    Raises:
        ValueError: the text is no such value, or JSON cannot hold it.
    """
    if name == "str":
        return text
    if re.fullmatch(_PLAIN_SCALARS[name][0], text) is None:
        raise ValueError(text)
    if name == "null":
        return None
    if name == "bool":
        return text.lower() == "true"
    number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if name == "int" else float(text)
    if not isfinite(number) or (name == "int" and abs(number) > MAX_INTEGER):
        raise ValueError(text)
    return number
