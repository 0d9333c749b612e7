"""Every behaviour that we promise is named by a test, and every name that a test gives is a promise.

The promises stand in the TOML files of this folder, one sentence each; a test names those that it shows with
`@pytest.mark.covers("TOOL-10", ...)`.
"""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def promised() -> dict[str, str]:
    sentences: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for id, sentence in tomllib.loads(path.read_text(encoding="utf-8")).items():
            assert id not in sentences, f"{id} is promised twice"
            sentences[id] = sentence
    return sentences


@cache
def covered() -> dict[str, set[str]]:
    """The ids that tests name, with the files that name them."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "covers":
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), set()).add(str(path.relative_to(TESTS)))
    return found


@pytest.mark.parametrize("id", promised())
def test_a_promise_is_shown_by_a_test(id):
    assert id in covered()


def test_a_test_covers_only_what_is_promised():
    assert not set(covered()) - set(promised())


def test_a_promise_is_a_sentence():
    assert not [id for id, sentence in promised().items() if not sentence.endswith(".") or len(sentence) < 20]
