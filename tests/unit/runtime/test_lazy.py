"""Packages whose names are imported when they are first used."""

import ast
import subprocess
import sys
from types import ModuleType

import pytest

from dragoman.runtime.lazy import lazy


@pytest.fixture
def package(monkeypatch):
    module = ModuleType("json.made_up")
    monkeypatch.setitem(sys.modules, "json.made_up", module)
    find, names = lazy("json.made_up", {"json.decoder": "JSONDecoder JSONDecodeError", "fractions": "Fraction"})
    module.__getattr__, module.__dir__ = find, names
    return module


def test_a_name_is_found_in_its_home_and_kept(package):
    from json.decoder import JSONDecoder

    assert "JSONDecoder" not in vars(package)
    assert package.JSONDecoder is JSONDecoder
    assert vars(package)["JSONDecoder"] is JSONDecoder


def test_the_names_are_listed_before_they_are_imported(package):
    assert {"Fraction", "JSONDecodeError", "JSONDecoder", "__name__"} <= set(dir(package))


def test_another_name_is_an_error_of_the_package(package):
    with pytest.raises(AttributeError, match=r"module 'json\.made_up' has no attribute 'Nothing'"):
        _ = package.Nothing


def test_nothing_is_imported_before_it_is_used():
    program = (
        "import sys, dragoman.client, dragoman.server\nprint([m for m in sys.modules if m.startswith('dragoman')])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(ast.literal_eval(finished.stdout)) == [
        *("dragoman", "dragoman.client", "dragoman.runtime", "dragoman.runtime.lazy", "dragoman.server")
    ]
