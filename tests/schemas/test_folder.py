from __future__ import annotations

from pathlib import Path

import pytest

from schemas.folder import VERSIONS, schema_folder


def test_the_folder_of_the_environment_is_taken_when_it_holds_every_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in VERSIONS:
        (tmp_path / version).mkdir()
        (tmp_path / version / "schema.json").write_text("{}")
    monkeypatch.setenv("DRAGOMAN_SCHEMAS", str(tmp_path))
    assert schema_folder() == tmp_path


def test_without_the_schemas_the_tests_are_skipped_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SCHEMAS", str(tmp_path))
    monkeypatch.delenv("DRAGOMAN_REQUIRE_SCHEMAS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"2026-07-28 are not in .*: set DRAGOMAN_SCHEMAS"):
        schema_folder()


def test_without_the_schemas_the_tests_fail_when_they_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SCHEMAS", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_REQUIRE_SCHEMAS", "1")
    with pytest.raises(pytest.fail.Exception, match="set DRAGOMAN_SCHEMAS"):
        schema_folder()
