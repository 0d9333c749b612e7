"""`dragoman bundle`: what it packs is a project that serves."""

import json
import subprocess
import sys
from zipfile import ZipFile

import pytest

from scenarios.command_line import DEADLINE, PING, PONG, dragoman, environment, written

pytestmark = pytest.mark.covers("CMD-33")


def test_a_bundle_holds_a_server_that_answers(tmp_path):
    dragoman("init", "tea-house", home=tmp_path, cwd=tmp_path)
    folder = tmp_path / "tea-house"
    made = dragoman("bundle", "server.py", "--author", "Ada", "-o", tmp_path / "tea.mcpb", home=tmp_path, cwd=folder)
    assert made.code == 0, made.err
    assert made.err == ""
    with ZipFile(tmp_path / "tea.mcpb") as opened:
        opened.extractall(tmp_path / "unpacked")
        assert {line.strip() for line in made.out.splitlines()[:-1]} == set(opened.namelist())
    manifest = json.loads((tmp_path / "unpacked" / "manifest.json").read_text())
    assert (manifest["name"], [tool["name"] for tool in manifest["tools"]]) == ("tea-house", ["greet"])
    words = manifest["server"]["mcp_config"]["args"]
    answered = subprocess.run(
        [sys.executable, "-m", *words[words.index("dragoman") :]],
        cwd=tmp_path / "unpacked",
        input=PING.encode(),
        capture_output=True,
        timeout=DEADLINE,
        env=environment(tmp_path),
        check=True,
    )
    assert answered.stdout.decode() == PONG


def test_a_bundle_needs_an_author_and_real_variables_and_its_own_file(tmp_path):
    folder = tmp_path / "tea"
    folder.mkdir()
    written(folder, "from dragoman import Server\nserver = Server('tea')\n", "tea.py")
    for words, fault in (
        ([], "The author is missing: give --author"),
        (["--author", "Ada", "--ask", "A-B"], "'A-B' is not the name of a variable"),
        (["--author", "Ada", "--ask", "KEY", "--ask", "key"], "must differ in more than"),
        (["--author", "Ada", "--exclude", "*.py"], "The bundle would lack tea.py"),
    ):
        refused = dragoman("bundle", "tea.py", *words, home=tmp_path, cwd=folder)
        assert (refused.code, refused.out) == (2, "")
        assert fault in refused.err
    assert [one.name for one in folder.iterdir() if one.is_file()] == ["tea.py"]
    made = dragoman("bundle", "tea.py", "--author", "Ada", "--json", home=tmp_path, cwd=folder)
    assert made.json["files"] == ["manifest.json", "pyproject.toml", "tea.py"]
    assert "There is no pyproject.toml" in dragoman("bundle", "tea.py", "--author", "A", home=tmp_path, cwd=folder).err


def test_files_with_likely_secrets_are_named_and_the_bundle_never_holds_itself(tmp_path):
    folder = tmp_path / "tea"
    folder.mkdir()
    written(folder, "from dragoman import Server\nserver = Server('tea')\n", "tea.py")
    for name in ("prod.env", "id_rsa"):
        (folder / name).write_text("abc")
    words = ("bundle", "tea.py", "--author", "Ada", "-o", "tea.zip")
    first, second = (dragoman(*words, home=tmp_path, cwd=folder) for _ in range(2))
    assert "These may be secrets: id_rsa, prod.env. Leave them out with --exclude." in first.err
    assert first.out == second.out
