"""Lazy packages: a name of the package is imported at its first use.

Every package with public names uses this mechanism, so that a server does not load the modules of clients. Type
checkers read the names from imports under `TYPE_CHECKING`. A module-level `__getattr__` would make type checkers accept
any name, so a package sets it in the `else` branch, which type checkers skip.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def look_up(module: str, name: str) -> Any:
    """Return a name of a room above the caller's room; `tests/budgets` lists every use.

    Example:
        look_up("dragoman.forward.proxy.proxy", "ProxyServer")
    """
    return getattr(import_module(module), name)


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; `homes` maps modules to the names that they define.

    Example:
        __getattr__, __dir__, __all__ = lazy(__name__, {"contract": "Bus Store", ".runtime.network": "Network"})

    A module that begins with a dot is looked up in the parent package, as in a relative import.
    """
    home_of = {name: f".{home}" for home, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = namespace[name] = getattr(import_module(home_of[name], package), name)
        return found

    return get, lambda: sorted({*namespace, *home_of}), sorted(home_of)
