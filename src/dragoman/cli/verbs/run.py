"""`dragoman run FILE[:object]`: serve the server of a Python file over stdin and stdout, or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.transports.stdio.serving import claim, run_stdio

if TYPE_CHECKING:
    from dragoman.server.server import Server

_MODULE = "__dragoman__"
_USUAL_NAMES = ("server", "mcp", "app")
_HTTP_OPTIONS: dict[str, Callable[[str], Any]] = {"--host": str, "--port": int, "--path": str, "--workers": int}


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any] | None] | None:
    """Return the target and the HTTP options (None for stdio), or None if the usage is wrong."""
    targets: list[str] = []
    options: dict[str, Any] = {}
    is_http = False
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _HTTP_OPTIONS:
            try:
                options[name.removeprefix("--")] = _HTTP_OPTIONS[name](value if equals else next(left, ""))
            except ValueError:
                return None
        elif word == "--http":
            is_http = True
        else:
            targets.append(word)
    if len(targets) != 1 or targets[0].startswith("-") or "" in options.values() or (options and not is_http):
        return None
    return targets[0], options if is_http else None


def run(target: str, http: dict[str, Any] | None = None) -> None:
    """Serve the server that a file defines."""
    path, name = split_target(target)
    # The streams are claimed before the import of the file, so that its prints go to stderr.
    streams = claim() if http is None else None
    server = _find(_load(path), name, path)
    try:
        if http is not None:
            server.run("http", **http)
            return
        server.require_shared_secret()
    except DragomanError as error:
        sys.exit(f"dragoman: {error}")
    run_stdio(server, streams=streams)


def split_target(target: str) -> tuple[Path, str | None]:
    """Split a target, FILE[:object], into the file and the name of the object."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        return Path(path), name
    return Path(target), None


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
