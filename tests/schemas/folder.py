"""Where the official schemas are: they are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "schema"


def schema_folder() -> Path:
    """Return the folder that holds `<version>/schema.json`; without it, skip the module that asks, or fail it."""
    folder = Path(os.environ.get("DRAGOMAN_SCHEMAS") or _BESIDE_THE_REPOSITORY)
    missing = [version for version in VERSIONS if not (folder / version / "schema.json").is_file()]
    if not missing:
        return folder
    reason = (
        f"The official schemas of {', '.join(missing)} are not in {folder}: "
        "set DRAGOMAN_SCHEMAS to a folder that holds <version>/schema.json"
    )
    if os.environ.get("DRAGOMAN_REQUIRE_SCHEMAS") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
