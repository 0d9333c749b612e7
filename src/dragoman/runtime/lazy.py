"""Packages whose names are imported when they are first used.

Every package with public names uses this one mechanism, so that a server does not load what only clients need. Type
checkers do not see it: the package shows them plain imports under `if TYPE_CHECKING`, because a module with a
`__getattr__` has every name for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package whose names stand in other modules.

    Example:
        if not TYPE_CHECKING:
            __getattr__, __dir__ = lazy(__name__, {".blocking": "Chat", ".messages": "Message Model"})

    `homes` has the names, separated by spaces, by the module that defines them; one that begins with a dot is a module
    of the package.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names
