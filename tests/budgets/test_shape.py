"""What is promised of the code's shape: sizes, names, the public surface."""

import ast

import pytest

import dragoman.types
from budgets.source import ROOT, nodes
from dragoman.schema import walk

FILES = sorted((ROOT / "src").rglob("*.py"))
LONGEST_FILE = 600
LONGEST_FUNCTION = 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < LONGEST_FUNCTION, node.name


def test_no_file_has_a_name_that_says_nothing():
    assert not [path for path in FILES if path.stem in {"utils", "helpers", "common", "base", "manager"}]


def files_with(text):
    return [str(path.relative_to(ROOT / "src/dragoman")) for path in FILES if text in path.read_text(encoding="utf-8")]


def test_schemas_are_compiled_in_one_place():
    assert files_with("import jsonschema_rs") == ["schema/compile.py"]


KEYWORDS = frozenset().union(
    *(walk.NAMED, walk.LISTED, walk.SINGLE, walk.PLAIN, walk.LIMITS, walk.REFERENCES, *walk.OF_TYPE.values())
)
MOST_KEYWORDS = 3
"""The keywords that code outside the table may name together: with more, they are a table of their own."""


def lists_keywords(node):
    """Tell whether a set, list or tuple is a table of keywords."""
    values = {getattr(part, "value", None) for part in getattr(node, "elts", ())}
    return len(KEYWORDS & {value for value in values if isinstance(value, str)}) > MOST_KEYWORDS


def test_the_keywords_of_schemas_are_listed_in_one_place():
    found = {f"{path.name}:{node.lineno}" for path in FILES for node in nodes(path) if lists_keywords(node)}
    assert {place.partition(":")[0] for place in found} == {"walk.py"}, found


def test_the_types_export_what_they_say_and_nothing_private():
    names = dragoman.types.__all__
    assert len(names) == len(set(names))
    assert all(hasattr(dragoman.types, name) for name in names)
    assert not [name for name in names if name.startswith("_")]
