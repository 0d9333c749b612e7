"""Every promise of docs/security.md names a test that is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")


def promises() -> list[tuple[str, str]]:
    """The rows of the tables of promises: the promise, and the cell that names its test."""
    tables = re.findall(r"^\| promise \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row.strip("| ").rsplit(" | ", 1) for table in tables for row in table.splitlines()]
    return [(promise, test) for promise, test in rows]


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions}


def test_every_test_that_the_page_names_stands_in_a_table_of_promises():
    assert len(promises()) == PAGE.count("::test_") >= 30


@pytest.mark.parametrize(("promise", "test"), promises())
def test_a_promise_is_a_sentence_with_a_test_that_is_there(promise, test):
    named = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", test)
    assert promise.endswith(".")
    assert named is not None
    assert named[2] in functions_of(named[1])
