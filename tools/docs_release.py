"""Put the built documentation into a site that has a folder for each release: `make docs-release`.

    site/index.html     leads to latest/
    site/latest/        a copy of the newest release, for links that should not grow old
    site/0.2.0/ ...     one folder for each release; other releases stay as they are

Each folder has the list of all releases in assets/releases.js, for the selector in the header. The list is a script and
not JSON, because a browser fetches no JSON for a page that was opened as a file.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
LATEST = "latest"
LIST = Path("assets") / "releases.js"
INDEX = f"""<!doctype html>
<meta charset="utf-8">
<title>Dragoman</title>
<meta http-equiv="refresh" content="0; url={LATEST}/index.html">
<a href="{LATEST}/index.html">The documentation of Dragoman</a>
"""


def present_version() -> str:
    """Return the version of this package, without loading it."""
    text = (ROOT / "src" / "dragoman" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found
    return found[1]


def releases(site: Path) -> list[str]:
    """Return the releases that a site has, the newest first; releases stand before versions that are not released."""
    versions = [version for folder in site.iterdir() if folder.is_dir() and (version := _version(folder.name))]
    return [str(version) for version in sorted(versions, key=lambda one: (not one.is_prerelease, one), reverse=True)]


def _version(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


def publish(built: Path, site: Path, version: str) -> None:
    """Put built pages into a site as a release, in place of pages of the same release."""
    _replace(site / str(Version(version)), built)
    found = releases(site)
    listed = [{"version": one, "pages": _pages(site / one)} for one in found]
    for one in found:
        (site / one / LIST).write_text(f"const RELEASES = {json.dumps(listed)};\n", encoding="utf-8")
    _replace(site / LATEST, site / found[0])
    (site / "index.html").write_text(INDEX, encoding="utf-8")


def _pages(folder: Path) -> list[str]:
    return sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))


def _replace(folder: Path, source: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the built pages into a site with a folder for each release.")
    parser.add_argument("built", type=Path, help="the folder with the built pages")
    parser.add_argument("site", type=Path, help="the folder of the site, with the releases before this one")
    parser.add_argument("--version", default=present_version(), help="the release; by default the package's version")
    given = parser.parse_args()
    publish(given.built, given.site, given.version)
    print(f"{given.site} has {', '.join(releases(given.site))}; open {given.site / 'index.html'}")


if __name__ == "__main__":
    main()
