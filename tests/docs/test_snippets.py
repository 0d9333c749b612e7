"""Every Python snippet in the documentation runs, and every example does.

A snippet with a title is a file of the tutorial, which is followed as a whole: its files are written, its commands are
run, and what they write is what the pages show.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import forked
from scenarios.http_crew import unannounced

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page for pages in ("*.md", "docs/**/*.md", "bench/*.md", "src/**/*.md", "tests/*.md") for page in ROOT.glob(pages)
]
SNIPPET = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
TUTORIAL = [ROOT / "docs/tutorial" / f"{page}.md" for page in ("server", "client", "chat")]
STEP = re.compile(
    r'^```(?:python title="(?P<file>[^"]+)"|(?P<kind>sh|text))\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)


def snippets(text: str) -> list[str]:
    """Return the Python of a page; that of a tab is indented."""
    return [dedent(snippet) for _, snippet in SNIPPET.findall(text)]


SNIPPETS = [
    pytest.param(snippet, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, snippet in enumerate(snippets(page.read_text(encoding="utf-8")), 1)
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_in_the_documentation_runs(snippet):
    finished = forked.run(["-W", "error", "-c", snippet], timeout=60, env=dict(os.environ))
    assert finished.returncode == 0, finished.stderr.decode()


def test_only_the_tutorial_has_files():
    with_files = [page for page in PAGES if "```python title=" in page.read_text(encoding="utf-8")]
    assert sorted(with_files) == sorted(TUTORIAL)


def test_the_tutorial_can_be_followed_line_by_line(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
    written = ""
    for step in (step for page in TUTORIAL for step in STEP.finditer(page.read_text(encoding="utf-8"))):
        if step["file"]:
            (work / step["file"]).write_text(step["text"], encoding="utf-8")
        elif step["kind"] == "text":
            assert written == step["text"]
        else:
            finished = subprocess.run(
                ["sh", "-euc", step["text"]],
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
            )
            assert finished.returncode == 0, (step["text"], finished.stdout)
            written = finished.stdout


def test_the_readme_has_snippets():
    assert any("README.md" in str(parameter.id) for parameter in SNIPPETS)


def test_the_lines_of_the_readme_typed_into_its_server_get_three_answers(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = tmp_path / "sums.py"
    program.write_text(next(snippet for snippet in snippets(readme) if "server.run()" in snippet))
    lines = re.search(r"^```\n((?:\{.*\}\n)+)```", readme, re.MULTILINE)
    assert lines is not None
    finished = subprocess.run(
        [sys.executable, program], input=lines[1], capture_output=True, text=True, timeout=60, check=True
    )
    answers = sorted(map(json.loads, finished.stdout.splitlines()), key=lambda answer: answer["id"])
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert answers[0]["result"] == {}
    assert answers[1]["result"]["tools"][0]["name"] == "add"
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "42"}]


TOUR = ROOT / "examples/tour.py"
EXAMPLES = sorted({*ROOT.glob("examples/*.py"), *ROOT.glob("examples/chat/*.py")} - {TOUR})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_an_example_runs_to_its_end(example, monkeypatch):
    monkeypatch.delenv("DRAGOMAN_MODEL", raising=False)
    finished = forked.run(["-W", "error", str(example)], timeout=60, env=dict(os.environ))
    assert (finished.returncode, unannounced(finished.stderr.decode())) == (0, "")


def test_the_demonstration_shows_everything_in_both_eras_and_over_both_transports():
    shown = subprocess.run([sys.executable, TOUR], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (shown.returncode, unannounced(shown.stderr)) == (0, "")
    for version in ("2026-07-28", "2025-11-25"):
        assert shown.stdout.count(f"protocol version {version}") == 2
    for sign in ("[####################]", "Booked 3 fancy nights", "the light here is wonderful", "['Oslo', 'Osaka']"):
        assert shown.stdout.count(sign) == 4, sign
    assert "Take a warm coat" in shown.stdout
    assert "What to try next" in shown.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
