"""Names of tools and of their properties in the alphabet that the APIs of language models take."""

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
    """Return a name that every API takes for a tool: letters, digits, `_` and `-`, at most 64, not one of `taken`.

    Example:
        safe_name("München/Wetter")  # "Munchen-Wetter"
    """
    reduced = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", reduced) or "tool"
    # Gemini: a name MUST start with a letter or an underscore.
    plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
    wanted = plain if len(plain) <= MAX_NAME_LENGTH else _hashed(plain, name)
    number = 1
    while wanted in taken:
        wanted = _hashed(plain, name if number == 1 else f"{name} {number}")
        number += 1
    return wanted


def _hashed(plain: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: MAX_NAME_LENGTH - 9]}-{digest}"


def tool_names(pairs: Iterable[tuple[str | None, str]]) -> list[str]:
    """Return a name for each tool, given as (server, tool); those that would clash are named `server__tool`.

    A tool's name depends on which others there are, and not on their order.

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
    """Tell whether one of the names is, or fits, one of the patterns."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns for name in names)


def property_alias(name: str) -> str:
    """Return what a property is called where an API refuses its name."""
    return name if _PROPERTY.fullmatch(name) else safe_name(name)
