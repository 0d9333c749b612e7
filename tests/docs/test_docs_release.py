"""The site of the documentation has a folder for each release, and leads to the newest."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman

ROOT = Path(__file__).resolve().parents[2]


def release(site: Path, *pages: str, version: str | None = None) -> str:
    """Put pages into a site as a release, and return what the command says."""
    built = site.parent / "built"
    for page in [*pages, "assets/releases.js"]:
        (built / page).parent.mkdir(parents=True, exist_ok=True)
        (built / page).write_text(f"{page} of {version}", encoding="utf-8")
    command = [sys.executable, ROOT / "tools/docs_release.py", built, site]
    named = ["--version", version] if version else []
    ended = subprocess.run([*command, *named], capture_output=True, text=True, timeout=60, check=True)
    shutil.rmtree(built)
    return ended.stdout


def listed(folder: Path) -> list[dict[str, object]]:
    text = (folder / "assets" / "releases.js").read_text(encoding="utf-8")
    assert text.startswith("const RELEASES = ")
    found: list[dict[str, object]] = json.loads(text.removeprefix("const RELEASES = ").rstrip(";\n"))
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with three releases, which were not made in the order of their numbers."""
    folder = tmp_path / "site"
    release(folder, "index.html", "old.html", version="0.9.0")
    release(folder, "index.html", "deploy/new.html", version="0.10.0")
    release(folder, "index.html", "old.html", version="0.9.1")
    return folder


def test_each_release_keeps_its_folder_with_its_pages(site):
    assert sorted(one.name for one in site.iterdir()) == ["0.10.0", "0.9.0", "0.9.1", "index.html", "latest"]
    assert (site / "0.9.0/old.html").read_text(encoding="utf-8") == "old.html of 0.9.0"
    assert (site / "0.9.1/old.html").read_text(encoding="utf-8") == "old.html of 0.9.1"
    assert not (site / "0.10.0/old.html").exists()


def test_every_folder_lists_all_releases_with_their_pages_and_the_newest_first(site):
    wanted = [
        {"version": "0.10.0", "pages": ["deploy/new.html", "index.html"]},
        {"version": "0.9.1", "pages": ["index.html", "old.html"]},
        {"version": "0.9.0", "pages": ["index.html", "old.html"]},
    ]
    for name in ("0.10.0", "0.9.1", "0.9.0", "latest"):
        assert listed(site / name) == wanted


def test_the_site_leads_to_the_newest_release(site):
    assert 'content="0; url=latest/index.html"' in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "latest/index.html").read_text(encoding="utf-8") == "index.html of 0.10.0"


def test_a_version_that_is_not_released_is_the_latest_only_where_there_is_no_release(site, tmp_path):
    release(site, "index.html", version="1.0.0rc1")
    assert (site / "latest/index.html").read_text(encoding="utf-8") == "index.html of 0.10.0"
    release(tmp_path / "other", "index.html", version="1.0.0rc1")
    assert (tmp_path / "other/latest/index.html").read_text(encoding="utf-8") == "index.html of 1.0.0rc1"


def test_a_release_that_is_built_again_takes_the_place_of_the_first_build(site):
    release(site, "index.html", version="0.10.0")
    assert not (site / "0.10.0/deploy").exists()
    assert not (site / "latest/deploy").exists()


def test_the_release_is_the_version_of_the_package(tmp_path):
    said = release(tmp_path / "site", "index.html")
    assert (tmp_path / "site" / dragoman.__version__ / "index.html").exists()
    assert dragoman.__version__ in said
