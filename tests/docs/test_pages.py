"""The pages belong together: all of them can be reached, and the reference leaves nothing out."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman import errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def listed(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry if isinstance(entry, list) else entry.values()
    return [page for part in parts for page in listed(part)]


def test_every_page_is_in_the_navigation_once():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.glob("**/*.md"))
    assert sorted(listed(settings["nav"])) == pages


@pytest.mark.parametrize(
    "package", ["", ".apps", ".auth", ".chat", ".client", ".server", ".skills", ".stores", ".testing"]
)
def test_every_public_name_is_in_the_reference(package):
    module = import_module(f"dragoman{package}")
    shown = re.findall(
        r"^::: (\S+)$", "\n".join(page.read_text() for page in DOCS.glob("reference/*.md")), re.MULTILINE
    )
    names = {name.rpartition(".")[2] for name in shown}
    explained = {name for name in module.__all__ if hasattr(errors, name)}
    assert set(module.__all__) <= names | explained


def test_a_heading_is_linked_to_as_it_is_written():
    for page in DOCS.glob("**/*.md"):
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in slugs, f"{page.name}: {target}#{anchor}"


def test_every_file_of_the_project_that_a_page_names_is_there():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, path)
        for page in pages
        for path in re.findall(r"`((?:tests|src|bench|examples|docs)/[^`\s]*)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [(page, path) for page, path in sorted(named) if not list(ROOT.glob(path.rstrip("/")))] == []
