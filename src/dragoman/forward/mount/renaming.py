"""`Renaming`: how the names and URIs of a mounted server read in the server that it is mounted in, and back.

A name gets the prefix and the separator: `forecast` becomes `weather_forecast`. A URI, or a template of URIs, gets the
prefix after its scheme: `data://cities/{id}` becomes `data://weather/cities/{id}`. So hosts still recognize apps and
skills by `ui://` and `skill://`, and the URI that a client makes of a template leads back in the same way. The
addresses of web pages (`http`, `https`) stay as they are, because clients may open them without the server.

Rejected: the prefix before the scheme (`weather+data://`). Hosts would not recognize apps and skills by their schemes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dragoman.errors import DefinitionError
from dragoman.server.define.tools import TOOL_NAME
from dragoman.server.dispatch.dispatcher import Patterns

_HEAD = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?://)?)?")
"""The part of a URI that stays before the prefix; empty if a template begins with a variable."""
_WEB = ("http:", "https:")
_ANY = re.compile(r"\*|\{[^}]*\}")
"""What stands for any text in a pattern: a star, or a variable of a template."""


class Renaming:
    """The names of a mounted server, both ways; a name that is left out has no counterpart (None).

    Example:
        renaming = Renaming("weather", "_")
        renaming.name("forecast")  # "weather_forecast"
        renaming.inner_name("weather_forecast")  # "forecast"

    Raises:
        DefinitionError: an option has an invalid value; the message names the remedy.
    """

    def __init__(
        self,
        prefix: str | None,
        separator: str,
        rename: Mapping[str, str] | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
    ) -> None:
        for option, given in ("prefix", prefix), ("separator", separator):
            _require_part_of_name(option, given)
        self.prefix = prefix
        self.start = "" if prefix is None else prefix + separator
        """The text with which names begin."""
        self._renamed = _checked_renames(rename)
        self._inner = {outer: inner for inner, outer in self._renamed.items()}
        self._include = None if include is None else _pattern("include", include)
        self._exclude = None if exclude is None else _pattern("exclude", exclude)

    def name(self, inner: str) -> str | None:
        """Return the name by which a tool or prompt is known outside."""
        return self._renamed.get(inner, self.start + inner) if self._selects(inner) else None

    def inner_name(self, outer: str) -> str | None:
        """Return the name of a tool or prompt in the mounted server."""
        inner = self._inner.get(outer)
        if inner is None and outer.startswith(self.start) and (rest := outer[len(self.start) :]) not in self._renamed:
            inner = rest
        return inner if inner is not None and self._selects(inner) else None

    def uri(self, inner: str) -> str | None:
        """Return the URI, or the URI template, by which a resource is known outside."""
        if not self._selects(inner):
            return None
        if inner in self._renamed or self.prefix is None or inner.startswith(_WEB):
            return self._renamed.get(inner, inner)
        head = _head(inner)
        return f"{head}{self.prefix}/{inner[len(head) :]}"

    def inner_uri(self, outer: str) -> str | None:
        """Return the URI, or the URI template, of a resource in the mounted server."""
        inner = self._inner.get(outer) or self._without_prefix(outer)
        if inner is None or (outer not in self._inner and inner in self._renamed) or not self._selects(inner):
            return None
        return inner

    def _without_prefix(self, outer: str) -> str | None:
        if self.prefix is None or outer.startswith(_WEB):
            return outer
        head, prefix = _head(outer), f"{self.prefix}/"
        return head + outer[len(head) + len(prefix) :] if outer.startswith(prefix, len(head)) else None

    def _selects(self, inner: str) -> bool:
        is_included = self._include is None or self._include.fullmatch(inner) is not None
        return is_included and (self._exclude is None or self._exclude.fullmatch(inner) is None)


def _head(uri: str) -> str:
    found = _HEAD.match(uri)
    return "" if found is None else found[0]


def _require_part_of_name(option: str, given: object) -> None:
    is_optional = option == "prefix" and given is None
    if is_optional or (option == "separator" and given == ""):
        return
    if not isinstance(given, str) or TOOL_NAME.fullmatch(given) is None:
        none = ", or None" if option == "prefix" else ""
        raise DefinitionError(
            f"The {option} of a mounted server must be letters, digits, underscores, hyphens and dots{none}, not"
            f" {given!r}"
        )


def _checked_renames(given: Mapping[str, str] | None) -> dict[str, str]:
    if given is None:
        return {}
    pairs: object = given
    if not isinstance(pairs, Mapping) or not all(isinstance(one, str) for pair in pairs.items() for one in pair):
        raise DefinitionError(f'rename must map names to names, such as {{"forecast": "weather_now"}}, not {given!r}')
    for inner, outer in given.items():
        if "{" in inner + outer:
            raise DefinitionError(f"rename cannot change the URI template {inner!r}: give the server a prefix instead")
        twice = [other for other, name in given.items() if name == outer]
        if len(twice) > 1:
            raise DefinitionError(f"rename gives {' and '.join(map(repr, twice))} the same name {outer!r}")
    return dict(given)


def _pattern(option: str, given: Patterns) -> re.Pattern[str]:
    several = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, str) for one in several):
        raise DefinitionError(f'{option} must be names or URIs, such as {{"forecast", "data://*"}}, not {given!r}')
    texts = (".*".join(map(re.escape, _ANY.split(one))) for one in several if isinstance(one, str))
    return re.compile("|".join(texts) or r"(?!)", re.DOTALL)
