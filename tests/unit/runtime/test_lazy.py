"""Packages whose names are imported when they are first used."""

import subprocess
import sys

import pytest

import dragoman
from dragoman import auth, chat, testing


@pytest.mark.parametrize("package", [dragoman, auth, chat, testing], ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_listed(package):
    assert package.__all__ == sorted(set(package.__all__))
    assert all(getattr(package, name).__name__ == name for name in package.__all__ if name != "Part")
    assert {*package.__all__, "__doc__"} <= set(dir(package))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'dragoman.auth' has no attribute 'Nothing'"):
        _ = auth.Nothing


def test_a_module_is_imported_by_the_first_use_of_a_name_of_it():
    script = (
        "import sys, dragoman\n"
        "assert 'dragoman.errors' not in sys.modules\n"
        "dragoman.NotFound\n"
        "assert 'dragoman.errors' in sys.modules and 'dragoman.server' not in sys.modules\n"
        "assert vars(dragoman)['NotFound'] is dragoman.errors.NotFound\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
