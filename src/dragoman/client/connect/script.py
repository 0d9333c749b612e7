"""`script_command`: the command that starts a script.

A Python file is run as `python FILE` would run it, because it may be a server of any kind, with two differences: its
servers of dragoman serve stdin and stdout, whatever transport the file names, and a server that the file only defines
is served when the file has ended. A file that starts nothing itself, and a file with the name of an object, are served
by `dragoman run`, which also keeps what the file prints away from stdout.

The file is parsed and not imported: a client must not run a server in its own process.

Rejected: running every file by `dragoman run`. A file that makes its server under `if __name__ == "__main__"`, or that
uses another SDK, would not be served any more.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs"})
_RUN = [sys.executable, "-P", "-m", "dragoman", "run"]
_STARTERS = frozenset({"run", "run_async", "run_stdio", "serve", "serve_stdio", "run_until_complete", "main", "cli"})
_ASGI_SERVERS = ("uvicorn.run", "hypercorn.run", "granian.Granian")
_PACKAGES = ("dragoman", "dragoman.server")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def script_command(target: str | Path) -> list[str] | None:
    """Return the command that starts a script, or the server `FILE:object` of a Python file; None for other targets."""
    path = Path(target)
    if path.suffix in SCRIPTS and _is_file(path):
        if path.suffix != ".py":
            return ["node", str(path)]
        return [*_RUN, str(path)] if needs_command(path) else [*_RUN, "--script", str(path)]
    file, _, name = str(target).rpartition(":")
    is_object = file.endswith(".py") and name.isidentifier() and _is_file(Path(file))
    return [*_RUN, str(target)] if is_object else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a long command line is not a valid path
        return False


def needs_command(path: Path) -> bool:
    """Tell whether a Python file imports `Server`, and as a script would serve nothing, or only an ASGI application."""
    try:
        text = path.read_bytes()
        nodes = list(_loaded(ast.parse(text))) if b"dragoman" in text else []
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # Python itself says what is wrong
    return any(map(_imports_server, nodes)) and (not any(map(_starts, nodes)) or any(map(_runs_asgi, nodes)))


def _loaded(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that are executed when the file is loaded."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, _DEFINITIONS):
            yield from _loaded(node)


def _imports_server(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in _PACKAGES for alias in node.names)
    if not isinstance(node, ast.ImportFrom) or node.module not in _PACKAGES:
        return False
    return any(alias.name == "Server" for alias in node.names)


def _runs_asgi(node: ast.AST) -> bool:
    """Tell whether a node hands the application of a server to an ASGI server, which would serve HTTP only."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _ASGI_SERVERS


def _starts(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "__name__"
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "attr", getattr(node.func, "id", "")) in _STARTERS
