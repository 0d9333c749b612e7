"""`needs_command`: tells whether a Python file defines a server of dragoman and does not serve it by itself.

Such a file is served by `dragoman run`. Every other file is run as a script, because it may be a server of any kind.
The file is parsed and not imported: a client must not run a server in its own process.

Rejected: running every file by `dragoman run`. A file that makes its server under `if __name__ == "__main__"`, or that
uses another SDK, would not be served any more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_STARTERS = frozenset({"run", "run_async", "run_stdio", "serve", "serve_stdio", "run_until_complete", "main", "cli"})
_PACKAGES = ("dragoman", "dragoman.server")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def needs_command(path: Path) -> bool:
    """Tell whether a Python file imports `Server`, and neither starts anything nor asks whether it is a script."""
    try:
        text = path.read_bytes()
        nodes = list(_loaded(ast.parse(text))) if b"dragoman" in text else []
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # Python itself says what is wrong
    return any(map(_imports_server, nodes)) and not any(map(_starts, nodes))


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


def _starts(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "__name__"
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "attr", getattr(node.func, "id", "")) in _STARTERS
