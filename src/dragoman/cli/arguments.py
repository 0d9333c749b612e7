"""Arguments: reads the arguments of tools and prompts from words such as `days=3`, typed by the tool's schema.

A value is text unless the schema has another type. The value of `key:=json` is JSON, and the schema is ignored.
`@file.json` and `-` (stdin) give a whole object, to which the other words are added. If a key of the type array is
given again, its value is appended.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import click
import msgspec

from dragoman.cli.command import usage_error
from dragoman.types import Json

_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0"})
_ARTICLES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
}


def split_words(words: Sequence[str]) -> tuple[tuple[str | None, str], list[str]]:
    """Return target and name, and the arguments; the target is None if only one word stands before the arguments."""
    has_target = len(words) > 1 and not _is_argument(words[1])
    arguments = list(words[2 if has_target else 1 :])
    for word in arguments:
        if not _is_argument(word):
            raise usage_error(f"{word!r} is not an argument; write KEY=VALUE, KEY:=JSON, @FILE, or - for stdin.")
    if not has_target and _is_target(words[0]):
        raise usage_error(f"A name is missing after {words[0]!r}; `dragoman list {words[0]}` shows the names.")
    return (words[0], words[1]) if has_target else (None, words[0]), arguments


def split_target_word(words: Sequence[str], what: str) -> tuple[str | None, str]:
    """Return the target, None if there is only one word, and the last word; `what` says what that word is."""
    if len(words) > 2:
        raise usage_error(f"The word {words[2]!r} is too many; give a target and {what}.")
    return words[0] if len(words) > 1 else None, words[-1]


def _is_argument(word: str) -> bool:
    return word == "-" or word.startswith("@") or "=" in word


def _is_target(word: str) -> bool:
    return word.startswith(("http://", "https://")) or Path(word).suffix in (".py", ".js", ".mjs", ".cjs")


class Arguments:
    """The untyped arguments of the command line; `typed` converts them when the schema is known."""

    def __init__(self, words: Sequence[str], json_text: str | None = None) -> None:
        self._whole: Json = {} if json_text is None else _object(json_text, "--json-args")
        self._pairs: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        """What a person should know of the arguments that `typed` returned."""
        for word in words:
            if "=" in word and not word.startswith("@"):
                key, _, value = word.partition("=")
                if not key.removesuffix(":"):
                    raise usage_error(f"{word!r} has no key before the '='.")
                self._pairs.append((key, value))
            else:
                self._whole |= _object(_read(word), word)

    def typed(self, schema: Json) -> Json:
        """Return the arguments for a schema.

        Raises:
            UsageError: a value is not of the type that the schema names.
        """
        from dragoman.schema.inline import inline

        fields = _fields(inline(schema))
        given = dict(self._whole)
        seen: set[str] = set()
        for key, text in self._pairs:
            if key.endswith(":"):
                given[key[:-1]] = _json(text, key[:-1])
                continue
            field = fields.get(key, {"type": ["string"]})
            value = _value(key, text, field)
            is_more = key in seen and "array" in _types(field)
            given[key] = [*given[key], *value] if is_more and isinstance(value, list) else value
            seen.add(key)
            if not _types(field) and not isinstance(_json_or(text, ""), str):
                self.remarks.append(f"{key} has no type, so it is sent as text; to send JSON, write {key}:={text}")
        self.remarks += [f"the tool has no parameter {key!r}, and may ignore it" for key in given if key not in fields]
        return given

    def texts(self) -> dict[str, Any]:
        """Return the arguments of a prompt; all values are texts."""
        return self.typed({})


def _fields(tree: Json) -> Json:
    found: Json = {}
    for branch in tree.get("anyOf", ()):
        found |= _fields(branch)
    return {**found, **tree.get("properties", {})}


def _read(word: str) -> str:
    try:
        return sys.stdin.read() if word == "-" else Path(word[1:]).expanduser().read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except RuntimeError:
        reason = "there is no user of that name, or no home folder"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    place = "stdin" if word == "-" else f"The file {word[1:]!r}"
    raise usage_error(f"{place} cannot be read: {reason}.")


def _object(text: str, where: str) -> Json:
    found = _json(text, where)
    if not isinstance(found, dict):
        raise usage_error(f"{where} must hold a JSON object.")
    return found


def _json(text: str, where: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise usage_error(f"{where} is not valid JSON ({error}).") from None


def _json_or(text: str, default: object) -> Any:
    """Return the JSON value of a text, the default if there is none."""
    with suppress(click.UsageError):
        return _json(text, "")
    return default


def _types(tree: Json) -> list[str]:
    """Return the types that a value may have; an empty list if it may have any type."""
    from dragoman.schema.walk import kinds_of

    branches = (kind for branch in tree.get("anyOf", ()) for kind in _types(branch))
    return list(dict.fromkeys(kinds_of(tree) or branches))


def _value(key: str, text: str, tree: Json) -> Any:
    kinds = _types(tree)
    if not kinds:
        return text
    for kind in ("null", "boolean", "integer", "number", "array", "object"):
        if kind in kinds:
            found, value = _of_kind(kind, text, tree, is_sure=[kind] == [one for one in kinds if one != "null"])
            if found:
                return value
    if "string" in kinds:
        return text
    wanted = " or ".join(_ARTICLES.get(kind, kind) for kind in kinds)
    raise usage_error(f"{key} must be {wanted}, not {text!r}; to give an exact value, write KEY:=JSON.")


def _of_kind(kind: str, text: str, tree: Json, *, is_sure: bool) -> tuple[bool, Any]:
    """Return whether a text is a value of a type, and the value."""
    if kind == "null":
        return text == "null", None
    if kind == "boolean":
        word = text.lower()
        return (word in _YES | _NO, word in _YES) if is_sure else (word in ("true", "false"), word == "true")
    if kind == "integer":
        return _number(int, text)
    if kind == "number":
        return _number(float, text)
    expected = list if kind == "array" else dict
    value = _json_or(text, None)
    if isinstance(value, expected):
        return True, value
    return (True, [_value("item", text, tree.get("items", {}))]) if kind == "array" and is_sure else (False, None)


def _number(kind: type[int] | type[float], text: str) -> tuple[bool, Any]:
    try:
        number = int(text) if kind is int or text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return False, None
    return isinstance(number, int) or isfinite(number), number
