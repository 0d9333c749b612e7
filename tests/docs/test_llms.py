"""What coding agents read: AGENTS.md, the skill of the package, and the files that tools/llms.py makes.

Their Python snippets run in test_snippets.py. The files of tools/llms.py have no snippets but those of the pages.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.test_snippets import PAGES, snippets
from dragoman.cli.command import VERBS

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "AGENTS.md"
SKILL = ROOT / "src/dragoman/skills/write-mcp-server/SKILL.md"
ADDRESS = "https://github.com/dragoman-mcp/dragoman"
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
llms = runpy.run_path(str(ROOT / "tools/llms.py"))


def commands(page: Path) -> list[str]:
    """Return the lines of a page that are typed into a shell."""
    return "".join(SHELL.findall(page.read_text(encoding="utf-8"))).splitlines()


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command.replace(".venv/bin", str(Path(sys.executable).parent)))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PATH": path}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("command", commands(AGENTS))
def test_command_in_agents_md_works(command):
    finished = run(command, ROOT)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("command", commands(SKILL))
def test_command_in_the_skill_works_with_its_server(tmp_path, command):
    (tmp_path / "notes.py").write_text(snippets(SKILL.read_text(encoding="utf-8"))[0], encoding="utf-8")
    finished = run(command, tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md", "tests/README.md", ".github/workflows/ci.yml"])
def test_make_target_that_is_named_exists(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|run: )make ([a-z][\w-]+)", (ROOT / page).read_text(encoding="utf-8")))
    assert named
    assert named <= targets


def test_verb_that_the_skill_names_exists():
    named = re.findall(r"^dragoman (\w+)|`dragoman (\w+)", SKILL.read_text(encoding="utf-8"), re.MULTILINE)
    assert {first or second for first, second in named} <= set(VERBS)


def test_index_lists_every_page_with_its_title_once():
    pages = [str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")]
    assert sorted(re.findall(r"^- \[.+?\]\(([^)]+)\)", llms["index"](), re.MULTILINE)) == sorted(pages)


def test_full_text_has_only_snippets_that_run_as_part_of_a_page():
    tested = {snippet for page in PAGES for snippet in snippets(page.read_text(encoding="utf-8"))}
    tested |= {path.read_text(encoding="utf-8") for path in ROOT.glob("examples/**/*.py")}
    assert len(snippets(llms["full"]())) > 100
    assert set(snippets(llms["full"]())) <= tested


def test_files_that_a_page_includes_are_written_out():
    assert "kind: Deployment" in llms["markdown"](Path("deploy/kubernetes.md"))
    assert "--8<--" not in llms["full"]()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Title\n\nA [tool](tools.md) is a function.  It\nruns.\n", "A tool is a function"),
        ("# Title\n\n```python\nimport os\n\nos\n```\n\nSee below:\n", "See below"),
        ("# Title\n\n- One.\n", ""),
    ],
)
def test_description_is_the_first_sentence_of_prose(text, sentence):
    assert llms["description"](text) == sentence


def test_repository_has_one_address():
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("*.cff"),
        *ROOT.glob("*.toml"),
        *ROOT.glob("*.yml"),
        *ROOT.glob(".github/**/*.*"),
    ]
    named = [line for file in files for line in re.findall(r"https://\S*dragoman\S*", file.read_text(encoding="utf-8"))]
    assert len(named) > 5
    assert [line for line in named if not line.startswith(ADDRESS)] == []
