"""Packages whose names are imported when they are first used."""

import ast
import subprocess
import sys
from types import ModuleType

import pytest

from dragoman.runtime.lazy import lazy, look_up


@pytest.fixture
def package(monkeypatch):
    module = ModuleType("json")
    module.__path__ = sys.modules["json"].__path__
    monkeypatch.setitem(sys.modules, "json", module)
    module.__getattr__, module.__dir__, module.__all__ = lazy("json", {"decoder": "JSONDecodeError JSONDecoder"})
    return module


def test_a_name_is_found_in_its_home_and_kept(package):
    from json.decoder import JSONDecoder

    assert "JSONDecoder" not in vars(package)
    assert package.JSONDecoder is JSONDecoder
    assert vars(package)["JSONDecoder"] is JSONDecoder


def test_the_names_are_listed_before_they_are_imported(package):
    assert package.__all__ == ["JSONDecodeError", "JSONDecoder"]
    assert {"JSONDecodeError", "JSONDecoder", "__name__"} <= set(dir(package))


def test_another_name_is_an_error_of_the_package(package):
    with pytest.raises(AttributeError, match=r"module 'json' has no attribute 'Nothing'"):
        _ = package.Nothing


def test_a_home_may_be_below_the_package_above():
    from dragoman import client
    from dragoman.runtime.network import Network

    assert client.Network is Network


def test_nothing_is_imported_before_it_is_used():
    program = (
        "import sys, dragoman.client, dragoman.server\nprint([m for m in sys.modules if m.startswith('dragoman')])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(ast.literal_eval(finished.stdout)) == [
        *("dragoman", "dragoman.client", "dragoman.runtime", "dragoman.runtime.lazy", "dragoman.server")
    ]


def test_a_module_is_imported_by_the_first_use_of_a_name_of_it():
    script = (
        "import sys, dragoman\n"
        "assert 'dragoman.errors' not in sys.modules\n"
        "dragoman.NotFound\n"
        "assert 'dragoman.errors' in sys.modules and 'dragoman.server' not in sys.modules\n"
        "assert vars(dragoman)['NotFound'] is dragoman.errors.NotFound\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_name_of_a_module_is_looked_up():
    from json.decoder import JSONDecoder

    assert look_up("json.decoder", "JSONDecoder") is JSONDecoder
