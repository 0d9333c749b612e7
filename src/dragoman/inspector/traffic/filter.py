"""The filter of the traffic: words such as `method:tools/* error >500ms text`, all of which a row must match.

    method:GLOB server:GLOB sender:GLOB kind:GLOB what:GLOB id:GLOB span:GLOB    a column of the row
    error                                                                       the row is a failure
    >500ms <2s >10kB <1MB                                                       its time, or its size
    "some text" word                                                            a text in its message, in any case

A word that begins with `-` matches what the word without it does not match. A parser of nested expressions was
rejected: words in any order are typed faster, and no word of a half-typed filter is wrong except a half-typed size.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Protocol

from dragoman.errors import ValidationError

COLUMNS = ("method", "server", "sender", "kind", "what", "id", "span")
_WORD = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_BOUND = re.compile(r"([<>])(\d+(?:\.\d+)?)([a-zA-Z]*)")
_SECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "kib": 1024.0, "mib": 1048576.0}


class Filtered(Protocol):
    """What a filter looks at."""

    @property
    def ms(self) -> float | None:
        """The time of a response since its request."""

    @property
    def size(self) -> int:
        """The size of the message in bytes."""

    @property
    def error(self) -> str | None:
        """Why the row is a failure."""

    def column(self, name: str) -> tuple[str, ...]:
        """Return the values of a column, any of which may match."""

    def text(self) -> str:
        """Return the message in lower case."""


Test = Callable[[Filtered], bool]


class Filter:
    """A filter of rows.

    Example:
        Filter("method:tools/* -error").matches(row)

    Raises:
        ValidationError: a bound such as `>5xy` has an unknown unit.
    """

    def __init__(self, text: str = "") -> None:
        self._tests = [_test(*found.groups()) for found in _WORD.finditer(text)]

    @property
    def is_empty(self) -> bool:
        """Whether every row matches."""
        return not self._tests

    def matches(self, row: Filtered) -> bool:
        """Tell whether a row matches all words."""
        for test in self._tests:  # noqa: SIM110  # a generator for each row takes a third of the time
            if not test(row):
                return False
        return True


def _test(minus: str, quoted: str | None, word: str | None) -> Test:
    test = _text_test(quoted) if word is None else _word_test(word)
    return (lambda row: not test(row)) if minus else test


def _word_test(word: str) -> Test:
    name, colon, pattern = word.partition(":")
    if word == "error":
        return lambda row: row.error is not None
    if colon and name in COLUMNS:
        return _column_test(name, pattern.strip('"') or "*")
    bound = _BOUND.fullmatch(word)
    return _text_test(word) if bound is None else _bound_test(*bound.groups())


def _column_test(name: str, wanted: str) -> Test:
    known: dict[tuple[str, ...], bool] = {}  # a column has few values, and a filter reads every row

    def test(row: Filtered) -> bool:
        values = row.column(name)
        if values not in known:
            known[values] = any(fnmatchcase(value, wanted) for value in values)
        return known[values]

    return test


def _text_test(text: str | None) -> Test:
    wanted = (text or "").lower()
    return lambda row: wanted in row.text()


def _bound_test(sign: str, number: str, unit: str) -> Test:
    unit = unit.lower() or "ms"
    factor = _SECONDS.get(unit) or _BYTES.get(unit)
    if factor is None:
        raise ValidationError(f"{sign}{number}{unit} has an unknown unit: write ms, s, m, B, kB or MB")
    bound, is_time = float(number) * factor, unit in _SECONDS

    def test(row: Filtered) -> bool:
        value = row.ms if is_time else row.size
        return value is not None and (value > bound if sign == ">" else value < bound)

    return test
