"""Server files: the target FILE[:object] of the command line, and the server that a Python file defines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.server.server import Server

_MODULE = "__dragoman__"
_USUAL_NAMES = ("server", "mcp", "app")


def split_target(target: str) -> tuple[Path, str | None]:
    """Split a target, FILE[:object], into the file and the name of the object."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        return Path(path), name
    return Path(target), None


def load_server(path: Path, name: str | None) -> Server:
    """Import a Python file, and return its server: the named one, one of a usual name, or the only one.

    Raises:
        SystemExit: the file cannot be imported, or does not define such a server; the message says why.
    """
    return _find(_load(path), name, path)


def _load(path: Path) -> dict[str, Any]:
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        sys.exit(f"dragoman: there is no file {str(path)!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        sys.exit(f"dragoman: {str(path)!r} is no Python file")
    module = sys.modules[_MODULE] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _find(names: dict[str, Any], name: str | None, path: Path) -> Server:
    from dragoman.server.server import Server

    if name is not None:
        found = names.get(name)
        if not isinstance(found, Server):
            sys.exit(f"dragoman: {str(path)!r} has no Server called {name!r}")
        return found
    servers = {key: value for key, value in names.items() if isinstance(value, Server)}
    usual = [servers[key] for key in _USUAL_NAMES if key in servers]
    distinct = list({id(server): server for server in servers.values()}.values())
    if usual or len(distinct) == 1:
        return usual[0] if usual else distinct[0]
    if not distinct:
        sys.exit(f"dragoman: {str(path)!r} defines no Server; make one, for example server = Server('name')")
    choices = ", ".join(f"{path}:{key}" for key in servers)
    sys.exit(f"dragoman: {str(path)!r} defines several servers; say which: {choices}")
