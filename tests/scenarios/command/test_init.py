"""`dragoman init`: what it writes works."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from dragoman.cli.verbs.run import parse
from scenarios.command_line import DEADLINE, dragoman, environment

pytestmark = pytest.mark.covers("CMD-22")

BIN = Path(sys.executable).parent
EVERY = {"pyproject.toml", "README.md", ".gitignore", ".github/workflows/tests.yml"}
FILES = {
    "server": EVERY | {"server.py", "test_server.py", ".mcp.json", "Dockerfile", ".dockerignore"},
    "client": EVERY | {"client.py", "test_client.py"},
    "chat": EVERY | {"assistant.py", "test_assistant.py"},
}


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def on_path(home):
    found = environment(home)
    return found | {"PATH": f"{BIN}:{found['PATH']}"}


@pytest.mark.parametrize("kind", ["server", "client", "chat"])
def test_a_project_passes_its_own_test(tmp_path, kind):
    begun = dragoman("init", "tea-house", "--kind", kind, home=tmp_path, cwd=tmp_path)
    assert begun.code == 0
    folder = tmp_path / "tea-house"
    assert files_of(folder) == FILES[kind]
    assert {Path(line).relative_to("tea-house").as_posix() for line in begun.out.splitlines()} == FILES[kind]
    tested = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=environment(tmp_path),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    modules = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["setuptools"]["py-modules"]
    assert {f"{module}.py" for module in modules} == {name for name in FILES[kind] if name.endswith(".py")} - {
        f"test_{module}.py" for module in modules
    }


def test_the_workflow_and_the_image_of_a_project_name_files_that_it_has(tmp_path):
    dragoman("init", "tea-house", home=tmp_path, cwd=tmp_path)
    folder = tmp_path / "tea-house"
    workflow = yaml.safe_load((folder / ".github/workflows/tests.yml").read_text())
    runs = [step["run"] for step in workflow["jobs"]["tests"]["steps"] if "run" in step]
    assert runs == ["python -m pip install . pytest", "python -m pytest"]
    lines = (folder / "Dockerfile").read_text().splitlines()
    (copied,) = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    kept = {line[1:] for line in (folder / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == kept <= files_of(folder)
    words = json.loads(lines[-1].removeprefix("CMD "))
    assert parse(words[2:]).http == {
        "health": True,
        "access_log": False,
        "host": "0.0.0.0",
        "port": 8000,
    }


def test_the_server_of_a_project_answers_and_is_healthy(tmp_path):
    dragoman("init", "tea-house", home=tmp_path, cwd=tmp_path)
    folder, path = tmp_path / "tea-house", on_path(tmp_path)["PATH"]
    called = dragoman("call", "greet", "name=Ada", "times=2", home=tmp_path, cwd=folder, PATH=path)
    assert (called.code, called.out, called.err) == (0, "Hello, Ada! Hello, Ada!\n", "")
    assert dragoman("call", "server.py", "greet", "name=Ada", home=tmp_path, cwd=folder).out == "Hello, Ada!\n"
    assert dragoman("doctor", home=tmp_path, cwd=folder, PATH=path).code == 0


def test_the_client_of_a_project_visits_a_server(tmp_path):
    dragoman("init", "visitor", "--kind", "client", home=tmp_path, cwd=tmp_path)
    dragoman("init", "host", home=tmp_path, cwd=tmp_path)
    visited = subprocess.run(
        [sys.executable, "client.py", str(tmp_path / "host" / "server.py")],
        cwd=tmp_path / "visitor",
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (visited.returncode, visited.stdout.splitlines()[0], visited.stderr) == (0, "greet: Greet somebody.", "")


def test_nothing_that_is_there_is_overwritten(tmp_path):
    folder = tmp_path / "tea-house"
    folder.mkdir()
    (folder / "server.py").write_text("mine")
    refused = dragoman("init", "tea-house", home=tmp_path, cwd=tmp_path)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "already has server.py, and no file is overwritten" in refused.err
    assert (files_of(folder), (folder / "server.py").read_text()) == ({"server.py"}, "mine")


def test_a_project_can_begin_in_the_working_directory_beside_other_files(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    begun = dragoman("init", "--json", home=tmp_path, cwd=folder)
    assert (begun.code, set(begun.json["files"])) == (0, FILES["server"])
    assert 'Server("here")' in (folder / "server.py").read_text()


@pytest.mark.parametrize("name", ["-", "a b", "ünder", "x/.hidden"])
def test_a_name_that_is_none_is_refused(tmp_path, name):
    refused = dragoman("init", name, home=tmp_path, cwd=tmp_path)
    assert (refused.code, list(tmp_path.iterdir())) == (2, [])
