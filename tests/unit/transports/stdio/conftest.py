"""What the tests of writers share."""

import os

import pytest


@pytest.fixture
def writes(monkeypatch):
    """The sizes of all writes."""
    sizes = []

    def recorded(write):
        def record(descriptor, data):
            count = write(descriptor, data)
            sizes.append(count)
            return count

        return record

    monkeypatch.setattr(os, "write", recorded(os.write))
    monkeypatch.setattr(os, "writev", recorded(os.writev))
    return sizes
