"""Packages whose names are imported when they are first used."""

import sys
from types import ModuleType

import pytest

from dragoman.runtime.lazy import attach


@pytest.fixture
def package(monkeypatch):
    found, home = ModuleType("shop"), ModuleType("shop.counter")
    home.Sale, home.Receipt = "a sale", "a receipt"
    monkeypatch.setitem(sys.modules, "shop", found)
    monkeypatch.setitem(sys.modules, "shop.counter", home)
    found.__getattr__, found.__dir__, found.__all__ = attach("shop", {"counter": "Sale Receipt"})
    return found


def test_a_name_is_imported_when_it_is_first_used_and_then_kept(package):
    assert "Sale" not in vars(package)
    assert package.Sale == "a sale"
    assert vars(package)["Sale"] == "a sale"


def test_the_names_are_listed_in_order(package):
    assert package.__all__ == ["Receipt", "Sale"]
    assert {"Receipt", "Sale", "__name__"} <= set(dir(package))


def test_what_is_not_there_is_no_attribute(package):
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'Return'"):
        _ = package.Return
