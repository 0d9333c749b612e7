"""Budgets are those of an application without OpenTelemetry, whatever the tests before have loaded."""

import sys

import pytest


@pytest.fixture(autouse=True)
def without_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process look as if nothing had loaded OpenTelemetry."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
