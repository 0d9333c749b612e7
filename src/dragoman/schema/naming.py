"""Names of tools and properties that the APIs of language models accept."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

MAX_NAME_LENGTH = 64

_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def safe_name(name: str, taken: Collection[str] = ()) -> str:
    """Return a tool name that every API accepts: letters, digits, `_` and `-`, at most 64, not one of `taken`.

    Example:
        safe_name("München/Wetter")  # "Munchen-Wetter"
    """
    reduced = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", reduced) or "tool"
    # Gemini requires that a name starts with a letter or an underscore.
    plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
    chosen = plain if len(plain) <= MAX_NAME_LENGTH else _hashed(plain, name)
    number = 1
    while chosen in taken:
        chosen = _hashed(plain, name if number == 1 else f"{name} {number}")
        number += 1
    return chosen


def _hashed(plain: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: MAX_NAME_LENGTH - 9]}-{digest}"


def tool_names(pairs: Iterable[tuple[str | None, str]]) -> list[str]:
    """Return a name for each tool, given as (server, tool); tools of equal names become `server__tool`.

    The name of a tool depends on the other tools, but not on their order.

    Example:
        tool_names([("git", "log"), ("web", "search"), ("docs", "search")])  # ["log", "web__search", "docs__search"]
    """
    tools = list(pairs)
    names = [safe_name(tool) for _, tool in tools]
    names = _where_clashing(names, [safe_name(f"{server}__{tool}" if server else tool) for server, tool in tools])
    names = _where_clashing(names, [_hashed(name, repr(pair)) for name, pair in zip(names, tools, strict=True)])
    taken: set[str] = set()
    for place, name in enumerate(names):
        names[place] = safe_name(name, taken)
        taken.add(names[place])
    return names


def _where_clashing(names: list[str], others: list[str]) -> list[str]:
    count = Counter(names)
    return [other if count[name] > 1 else name for name, other in zip(names, others, strict=True)]


def matches(patterns: Iterable[str], *names: str) -> bool:
    """Tell whether a name is equal to, or matches, one of the patterns."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns for name in names)


def property_alias(name: str) -> str:
    """Return the name of a property for APIs that accept only ASCII letters, digits, `_`, `.` and `-`."""
    return name if _PROPERTY.fullmatch(name) else safe_name(name)
