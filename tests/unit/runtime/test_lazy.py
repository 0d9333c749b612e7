"""Packages whose names are imported when they are first used."""

import ast
import subprocess
import sys
from types import ModuleType

import pytest

from dragoman.runtime.lazy import look_up

PACKAGE = """
from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.errors import NotFound as NotFound
    from dragoman.errors import Timeout as Timeout
    from dragoman.protocol.jsonrpc import Limits as Limits
else:
    __getattr__, __dir__ = lazy()
"""


@pytest.fixture
def package():
    module = ModuleType("package")
    exec(PACKAGE, vars(module))
    return module


def test_a_name_is_found_in_its_home_and_kept(package):
    from dragoman.protocol.jsonrpc import Limits

    assert "Limits" not in vars(package)
    assert package.Limits is Limits
    assert vars(package)["Limits"] is Limits


def test_the_names_are_listed_before_they_are_imported(package):
    assert package.__all__ == ["Limits", "NotFound", "Timeout"]
    assert {"Limits", "NotFound", "Timeout", "__name__"} <= set(dir(package))


def test_a_star_imports_the_public_names_and_nothing_else():
    namespace = {}
    exec("from dragoman.stores import *", namespace)
    assert {"Local", "Memory"} <= namespace.keys()
    assert not {"TYPE_CHECKING", "lazy"} & namespace.keys()


def test_another_name_is_an_error_of_the_package(package):
    with pytest.raises(AttributeError, match=r"module 'package' has no attribute 'Nothing'"):
        _ = package.Nothing


def test_a_name_may_be_of_a_module_outside_of_the_package():
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
