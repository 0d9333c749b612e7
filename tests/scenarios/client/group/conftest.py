"""What the tests of groups share."""

from pathlib import Path

import pytest

from scenarios.group_servers import NOTES


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A server of notes, as a script."""
    path = tmp_path / "notes.py"
    path.write_text(NOTES)
    return path
