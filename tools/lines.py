"""How many lines of code there are: of each room, and in all, beside those of the first edition.

    python tools/lines.py            # the table
    python tools/lines.py --json     # the counts, as the baseline has them

A line of code has a token that is neither a comment nor a part of a docstring.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dragoman"
BASELINE = Path(__file__).with_name("lines_baseline.json")
_NO_CODE = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    }
)


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that have code."""
    silent = _docstring_lines(ast.parse(text))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - silent


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of strings that are statements: docstrings, and those that explain what stands before them."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def count() -> dict[str, int]:
    """Return how many lines of code each room has; a file outside of every room counts by its own name."""
    rooms: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        rooms[path.relative_to(SOURCE).parts[0]] += len(code_lines(path.read_text(encoding="utf-8")))
    return dict(sorted(rooms.items()))


def table(now: dict[str, int], before: dict[str, int]) -> str:
    """Return the counts as text, with the share of what there was."""
    rows = [f"{'room':16}{'first edition':>15}{'now':>9}"]
    rows += [f"{room:16}{before.get(room, 0):>15,}{now.get(room, 0):>9,}" for room in sorted({*before, *now})]
    whole, all_before = sum(now.values()), sum(before.values())
    return "\n".join([*rows, f"{'in all':16}{all_before:>15,}{whole:>9,}   {whole / all_before:.2f} x"])


def main() -> None:
    """Print what was asked for."""
    counted = count()
    if "--json" in sys.argv[1:]:
        print(json.dumps(counted, indent=2))
    else:
        print(table(counted, json.loads(BASELINE.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
