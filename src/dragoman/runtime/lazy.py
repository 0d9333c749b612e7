"""Lazy packages: a name of the package is imported at its first use.

Every package with public names uses this mechanism, so that a server does not load the modules of clients. A package
names each of its public names once, in an import under `TYPE_CHECKING`. Type checkers read these imports. They never
run, but they stand in the compiled package, where `lazy` reads them. A module-level `__getattr__` would make type
checkers accept any name, so a package sets it in the `else` branch, which type checkers skip.

Rejected: a table of the names beside the imports, which repeats every name. A stub file that `lazy` reads: programs
that freeze an application include modules, and no stub files. PEP 810 (`lazy from ... import`) needs Python 3.15.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def look_up(module: str, name: str) -> Any:
    """Return a name of a room above the caller's room; `tests/budgets` lists every use.

    Example:
        look_up("dragoman.forward.proxy.proxy", "ProxyServer")
    """
    return getattr(import_module(module), name)


def lazy() -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the package that calls this function; `__all__` is found like a name.

    Example:
        if TYPE_CHECKING:
            from dragoman.stores.memory import Memory as Memory
        else:
            __getattr__, __dir__ = lazy()
    """
    frame = sys._getframe(1)
    code, namespace, present = frame.f_code, frame.f_globals, set(frame.f_globals)
    root = __name__.partition(".")[0]

    @cache
    def homes() -> dict[str, str]:
        """Return the module of each public name: one of this package that is not imported when `lazy` is called."""
        from dis import get_instructions

        modules, module = {}, ""
        for instruction in get_instructions(code):
            name = instruction.argval
            if instruction.opname == "IMPORT_NAME":
                module = name
            elif instruction.opname == "IMPORT_FROM" and module.startswith(root) and name not in present:
                modules[name] = module
        return modules

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(homes())
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(homes()[name]), name)
        return value

    return get, lambda: sorted({*namespace, *homes()})
