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
from typing import TYPE_CHECKING

from dragoman.errors import ValidationError

if TYPE_CHECKING:
    from dragoman.inspector.traffic.rows import TrafficRecord

COLUMNS = ("method", "server", "sender", "kind", "what", "id", "span")
_WORD = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_BOUND = re.compile(r"([<>])(\d+(?:\.\d+)?)([a-zA-Z]*)")
_SECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "kib": 1024.0, "mib": 1048576.0}


Test = Callable[["TrafficRecord"], bool]


class Filter:
    """A filter of rows.

    Example:
        Filter("method:tools/* -error").matches(row)

    Raises:
        ValidationError: a bound such as `>5xy` has an unknown unit.
    """

    def __init__(self, text: str = "") -> None:
        self._tests = [_test(*found.groups()) for found in _WORD.finditer(text)]

    def matches(self, record: TrafficRecord) -> bool:
        """Tell whether a record matches all words."""
        return all(test(record) for test in self._tests)


def _test(minus: str, quoted: str | None, word: str | None) -> Test:
    test = _text_test(quoted) if word is None else _word_test(word)
    return (lambda record: not test(record)) if minus else test


def _word_test(word: str) -> Test:
    name, colon, pattern = word.partition(":")
    if word == "error":
        return lambda record: record.row.error is not None
    if colon and name in COLUMNS:
        return _column_test(name, pattern.strip('"') or "*")
    bound = _BOUND.fullmatch(word)
    return _text_test(word) if bound is None else _bound_test(*bound.groups())


def _column_test(name: str, wanted: str) -> Test:
    known: dict[tuple[str, ...], bool] = {}  # a column has few values, and a filter reads every row

    def test(record: TrafficRecord) -> bool:
        values = record.column(name)
        if values not in known:
            known[values] = any(fnmatchcase(value, wanted) for value in values)
        return known[values]

    return test


def _text_test(text: str | None) -> Test:
    wanted = (text or "").lower()
    return lambda record: wanted in record.text()


def _bound_test(sign: str, number: str, unit: str) -> Test:
    unit = unit.lower() or "ms"
    factor = _SECONDS.get(unit) or _BYTES.get(unit)
    if factor is None:
        raise ValidationError(f"{sign}{number}{unit} has an unknown unit: write ms, s, m, B, kB or MB")
    bound, is_time = float(number) * factor, unit in _SECONDS

    def test(record: TrafficRecord) -> bool:
        value = record.row.ms if is_time else record.row.bytes
        return value is not None and (value > bound if sign == ">" else value < bound)

    return test
