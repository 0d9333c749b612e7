"""Budgets are those of an application without OpenTelemetry, whatever the tests before have loaded."""

import sys
from collections.abc import Iterator

import pytest

from budgets import source


@pytest.fixture(autouse=True)
def without_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process look as if nothing had loaded OpenTelemetry."""
    package = sys.modules.get("opentelemetry")
    if package is not None and hasattr(package, "trace"):
        # A test that loads the module again changes the package too.
        monkeypatch.setattr(package, "trace", package.trace)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


@pytest.fixture(autouse=True, scope="module")
def without_the_syntax() -> Iterator[None]:
    """Let the syntax of the package go with the file that looked at it."""
    yield
    source.forget()
