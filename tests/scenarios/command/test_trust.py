"""Configuration files that were merely found, as in a repository that was cloned: nothing in them is run unasked."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scenarios.command_line import DEADLINE, AtTerminal, dragoman, environment

pytestmark = pytest.mark.covers("CMD-26")

SERVER = """
    import pathlib, sys
    pathlib.Path(__file__).with_name("ran").touch()
    from dragoman import Server
    server = Server("shed")
    @server.tool
    def look() -> str:
        return "a spade"
    server.run()
"""
VERBS = [
    ["list"],
    ["list", "shed"],
    ["doctor"],
    ["doctor", "shed", "--json"],
    ["call", "look"],
    ["read", "x://a"],
    ["prompt", "x"],
    ["complete", "prompt", "a", "b", "c"],
    ["chat", "openai:test"],
]


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "server.py").write_text(textwrap.dedent(SERVER))
    write(folder)
    return folder


def write(folder, name=".mcp.json", **more):
    entry = {"command": sys.executable, "args": [str(folder / "server.py")], **more}
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": {"shed": entry}}, ensure_ascii=False))


def has_run(folder):
    mark = folder / "ran"
    is_there = mark.exists()
    mark.unlink(missing_ok=True)
    return is_there


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_without_a_terminal_a_file_that_was_found_runs_nothing_and_the_remedy_is_told(tmp_path, repository, words):
    finished = dragoman(*words, home=tmp_path, cwd=repository, input="Hi")
    assert finished.code == 2
    assert "--trust" in finished.err.splitlines()[-1]
    assert "--config .mcp.json" in finished.err.splitlines()[-1]
    assert not has_run(repository)


@pytest.mark.parametrize("name", ["mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"])
def test_every_file_that_is_looked_for_here_must_be_trusted(tmp_path, repository, name):
    (repository / ".mcp.json").unlink()
    write(repository, name)
    assert dragoman("list", home=tmp_path, cwd=repository).code == 2
    assert not has_run(repository)


def test_trust_is_asked_for_once_for_each_text_of_a_file(tmp_path, repository):
    def listed(answer):
        with AtTerminal("list", home=tmp_path, cwd=repository) as terminal:
            if answer is not None:
                terminal.until(f"{repository}/.mcp.json was found in this folder.")
                terminal.until("server.py")
                terminal.answer("Trust this file until it changes? [y/N] ", answer)
            return terminal.end()[0]

    assert (listed("\n"), has_run(repository)) == (2, False)
    assert (listed("y\n"), has_run(repository)) == (0, True)
    assert (listed(None), has_run(repository)) == (0, True)
    assert (dragoman("list", home=tmp_path, cwd=repository).code, has_run(repository)) == (0, True)
    write(repository, env={"PYTHONSTARTUP": "elsewhere.py"})
    assert (listed("n\n"), has_run(repository)) == (2, False)
    assert (dragoman("list", home=tmp_path, cwd=repository).code, has_run(repository)) == (2, False)
    kept = list((tmp_path / ".local" / "state" / "dragoman" / "trusted").iterdir())
    assert len(kept) == 1
    assert kept[0].parent.stat().st_mode & 0o077 == 0


def test_a_copy_elsewhere_is_another_file(tmp_path, repository):
    assert dragoman("list", "--trust", home=tmp_path, cwd=repository).code == 0
    has_run(repository)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".mcp.json").write_bytes((repository / ".mcp.json").read_bytes())
    assert dragoman("list", home=tmp_path, cwd=copy).code == 2
    assert not has_run(repository)


def test_the_question_shows_all_that_would_be_run_and_sent_with_nothing_hidden(tmp_path, repository):
    servers = {
        "a\u202eb": {"command": "sh", "args": ["-c", "true\x1b[2J; " + "x" * 5000 + " rm -rf END"]},
        "web": {"url": "https://\u0430pple.com/mcp", "headers": {"X": "${HOME}"}, "trusted": True},
    }
    (repository / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with AtTerminal("list", "web", home=tmp_path, cwd=repository) as terminal:
        terminal.until("a\\u202eb: runs sh -c 'true\\x1b[2J; xxx")
        terminal.turn_pages_until("Trust this file until it changes? [y/N] ")
        terminal.type("n\n")
        assert terminal.end()[0] == 2
    assert "rm -rf END'" in terminal.screen
    assert '"headers": {"X": "${HOME}"}' in terminal.screen
    assert '"trusted": true' in terminal.screen
    assert "Beware: The host mixes the scripts CYRILLIC, LATIN" in terminal.screen
    assert "\u202e" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw


def test_a_file_that_the_user_names_or_keeps_needs_no_question(tmp_path, repository):
    assert dragoman("list", "--config", ".mcp.json", home=tmp_path, cwd=repository).code == 0
    assert dragoman("list", home=tmp_path, cwd=repository, DRAGOMAN_CONFIG=".mcp.json").code == 0
    assert dragoman("list", home=tmp_path, cwd=repository).code == 2


def test_an_empty_name_of_a_file_names_none(tmp_path, repository):
    assert dragoman("list", "--config", "", home=tmp_path, cwd=repository).code == 2
    assert not has_run(repository)


@pytest.mark.covers("CMD-22")
@pytest.mark.parametrize(("kind", "name"), [("client", ".mcp.json"), ("chat", "mcp.json"), ("server", "mcp.json")])
def test_a_project_that_begins_beside_a_file_does_not_trust_it(tmp_path, repository, kind, name):
    (repository / ".mcp.json").rename(repository / name)
    (repository / "server.py").rename(repository / "shed.py")
    (repository / name).write_text((repository / name).read_text().replace("server.py", "shed.py"))
    assert dragoman("init", "--kind", kind, home=tmp_path, cwd=repository).code == 0
    if kind == "server":
        (repository / ".mcp.json").unlink()
    assert dragoman("list", home=tmp_path, cwd=repository).code == 2
    assert not has_run(repository)


def test_the_question_shows_what_inputs_stand_for(tmp_path, repository):
    entry = {"command": "${input:program}", "args": ["-c", "${input:code}"]}
    inputs = [{"id": "program", "default": "sh"}, {"id": "code", "default": "touch ran\x1b[2J"}]
    (repository / ".mcp.json").write_text(json.dumps({"servers": {"shed": entry}, "inputs": inputs}))
    with AtTerminal("list", home=tmp_path, cwd=repository) as terminal:
        terminal.until("shed: runs '${input:program}' -c '${input:code}'")
        terminal.turn_pages_until("Trust this file until it changes? [y/N] ")
        terminal.type("n\n")
        assert terminal.end()[0] == 2
    assert '"default": "sh"' in terminal.screen
    assert '"default": "touch ran\\u001b[2J"' in terminal.screen


@pytest.mark.covers("CMD-19")
def test_trust_that_cannot_be_remembered_holds_for_one_command(tmp_path, repository):
    finished = dragoman("list", "--trust", home="/proc/nowhere", cwd=repository)
    assert (finished.code, "cannot be saved" in finished.err) == (0, True)
    assert dragoman("list", home="/proc/nowhere", cwd=repository).code == 2


def test_a_folder_of_marks_that_others_may_write_is_not_believed(tmp_path, repository):
    assert dragoman("list", "--trust", home=tmp_path, cwd=repository).code == 0
    assert dragoman("list", home=tmp_path, cwd=repository).code == 0
    (tmp_path / ".local" / "state" / "dragoman" / "trusted").chmod(0o777)
    assert dragoman("list", home=tmp_path, cwd=repository).code == 2


def test_no_module_of_the_working_directory_is_loaded(tmp_path, repository):
    for name in ("click.py", "rich.py", "dragoman.py"):
        (repository / name).write_text(f'open({str(tmp_path / "loaded")!r}, "w").close()')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repository / "server.py").rename(elsewhere / "server.py")
    listed = subprocess.run(
        [Path(sys.executable).with_name("dragoman"), "list", f"{elsewhere}/server.py:server"],
        cwd=repository,
        env=environment(tmp_path),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert has_run(elsewhere), listed.stderr
    assert not (tmp_path / "loaded").exists()
    (repository / "dragoman.py").unlink()
    assert dragoman("version", home=tmp_path, cwd=repository).code == 0
    assert not (tmp_path / "loaded").exists()
