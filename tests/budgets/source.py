"""The syntax of the package, read once for the tests of a file, and not before one of them asks."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/dragoman"


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return everything that the syntax of a file consists of."""
    return list(ast.walk(tree(path)))


def forget() -> None:
    """Drop what was read, which every later collection of garbage would visit."""
    tree.cache_clear()
    nodes.cache_clear()
