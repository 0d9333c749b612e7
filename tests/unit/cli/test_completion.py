"""Completion in a shell: what the command answers to the scripts that the shells run."""

import json
import sys

import pytest

from scenarios.command_line import TRAVEL, dragoman

pytestmark = pytest.mark.covers("CMD-34")


def completed(line, tmp_path):
    """Return what bash is offered for the last word of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DRAGOMAN_COMPLETE": "bash_complete"}
    finished = dragoman(home=tmp_path, cwd=tmp_path, **asked)
    assert (finished.code, finished.err) == (0, "")
    return finished.out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dragoman inst", ["plain,install"]),
        ("dragoman list --mo", ["plain,--mode"]),
        ("dragoman install cl", ["plain,claude-desktop", "plain,claude-code"]),
        ("dragoman install cursor se", ["file,se"]),
        ("dragoman run se", ["file,se"]),
        (f"dragoman call {TRAVEL} fo", ["plain,forecast"]),
        (f"dragoman prompt {TRAVEL} ", ["plain,packing"]),
        (f"dragoman call {TRAVEL} forecast ci", []),
        ("dragoman call http://127.0.0.1:9/mcp ", []),
        ("dragoman call missing.py ", []),
    ],
)
def test_a_shell_is_offered_what_fits(tmp_path, line, offered):
    assert completed(line, tmp_path) == offered


def test_names_of_a_configuration_are_offered_and_its_servers_are_started_only_if_it_is_trusted(tmp_path):
    mark = tmp_path / "started"
    program = f"open({str(mark)!r}, 'w').close(); import runpy; runpy.run_path({str(TRAVEL)!r}, run_name='__main__')"
    servers = {"travel": {"command": sys.executable, "args": ["-c", program]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert completed("dragoman doctor tr", tmp_path) == ["file,tr", "plain,travel"]
    assert completed("dragoman call travel fo", tmp_path) == []
    assert not mark.exists()
    assert dragoman("list", "travel", "--trust", home=tmp_path, cwd=tmp_path).code == 0
    assert completed("dragoman call travel fo", tmp_path) == ["plain,forecast"]


def test_the_script_of_each_shell_can_be_had(tmp_path):
    for shell in ("bash", "zsh", "fish"):
        script = dragoman(home=tmp_path, _DRAGOMAN_COMPLETE=f"{shell}_source")
        assert (script.code, "_DRAGOMAN_COMPLETE" in script.out) == (0, True), script.err
