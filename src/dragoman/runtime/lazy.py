"""Packages whose names are imported when they are first used (PEP 562).

A package imports its names `X as X` where type checkers read it, and says here which module has which names. `__all__`
follows from that. Rejected: a stub file that is read at run time, because that costs every import of the package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, by the names that each of its modules has.

    Example:
        __getattr__, __dir__, __all__ = attach(__name__, {"wire": "Frame Wire", "scripted": "ScriptedModel"})
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names, sorted(home_of)
