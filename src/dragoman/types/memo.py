"""What is made once for each of a few keys, and looked up in passing from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """What a function makes of each key, made when it is first asked for.

    Example:
        decoders = Memo(msgspec.json.Decoder)
        decoders[Tool].decode(data)

    A look into it takes half the time that `functools.cache` takes.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        made = self[key] = self._make(key)
        return made
