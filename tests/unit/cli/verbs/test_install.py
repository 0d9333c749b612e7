"""`dragoman install`: the entry that it writes starts the server, and nothing else changes."""

import json
import subprocess
import sys
import tomllib

import pytest

from scenarios.command_line import DEADLINE, PING, PONG, dragoman, environment, written

pytestmark = pytest.mark.covers("CMD-32")

SOURCE = """
    from dragoman import Server

    print("this is no result")
    server = Server("Tea house")

    @server.tool
    def brew() -> str:
        return "tea"
"""
FILES = {
    "claude-code": ("here/.mcp.json", "mcpServers"),
    "cursor": ("home/.cursor/mcp.json", "mcpServers"),
    "vscode": ("here/.vscode/mcp.json", "servers"),
    "gemini": ("home/.gemini/settings.json", "mcpServers"),
    "codex": ("home/.codex/config.toml", "mcp_servers"),
}


@pytest.fixture
def place(tmp_path):
    """A folder with a server, and an empty home."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    written(tmp_path / "here", SOURCE, "tea.py")
    return tmp_path


def install(place, *words):
    return dragoman("install", *words, home=place / "home", cwd=place / "here", CODEX_HOME="")


def entries(place, host):
    file, key = FILES[host]
    read = tomllib.loads if file.endswith(".toml") else json.loads
    return read((place / file).read_text())[key]


@pytest.mark.parametrize("host", FILES)
def test_a_host_starts_what_was_installed(place, host):
    finished = install(place, host, "tea.py:server")
    assert finished.code == 0, finished.err
    assert "Wrote 'Tea-house' to " in finished.out
    assert "this is no result" not in finished.out
    entry = entries(place, host)["Tea-house"]
    answered = subprocess.run(
        [entry["command"], *entry["args"]],
        input=PING.encode(),
        capture_output=True,
        timeout=DEADLINE,
        cwd="/",
        env=environment(place / "home"),
        check=True,
    )
    assert answered.stdout.decode() == PONG


def test_installing_again_changes_nothing_and_other_variables_change_the_entry(place):
    install(place, "cursor", "tea.py", "--env", "A=1")
    file = place / FILES["cursor"][0]
    before = file.stat()
    again = install(place, "cursor", "tea.py", "--json")
    assert (again.code, again.json["isChanged"]) == (0, False)
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert "; nothing was changed" in install(place, "cursor", "tea.py", "--env", "A=1").out
    more = install(place, "cursor", "tea.py", "--env", "B=2", "--json").json
    assert (more["isChanged"], more["entry"]["env"]) == (True, {"A": "1", "B": "2"})
    assert json.loads((file.parent / "mcp.json.bak").read_text())["mcpServers"]["Tea-house"]["env"] == {"A": "1"}


def test_a_dry_run_shows_the_entry_and_writes_nothing(place):
    shown = install(place, "gemini", "tea.py", "--dry-run", "--name", "tea")
    assert json.loads(shown.out)["mcpServers"]["tea"]["command"] == sys.executable
    assert "nothing was changed" in shown.err
    assert list((place / "home").iterdir()) == []
    toml = tomllib.loads(install(place, "codex", "tea.py", "--dry-run").out)
    assert list(toml["mcp_servers"]) == ["Tea-house"]


def test_another_server_of_the_same_name_is_replaced_only_on_request(place):
    (place / "here/.mcp.json").write_text('{"mcpServers": {"tea": {"command": "other", "timeout": 3}}}')
    refused = install(place, "claude-code", "tea.py", "--name", "tea")
    assert (refused.code, refused.out) == (2, "")
    assert "has another server 'tea': choose a --name, or add --replace." in refused.err
    assert install(place, "claude-code", "tea.py", "--name", "tea", "--replace").code == 0
    assert entries(place, "claude-code")["tea"].keys() == {"type", "command", "args"}


@pytest.mark.parametrize("entry", [{"args": 5}, {"args": ["tea.py"], "env": [1]}, {"args": {"a": 1}}])
def test_an_entry_of_another_form_is_refused_in_words(place, entry):
    if isinstance(entry["args"], list):
        entry["args"] = [str(place / "here/tea.py")]
    (place / "here/.mcp.json").write_text(json.dumps({"mcpServers": {"tea": entry}}))
    refused = install(place, "claude-code", "tea.py", "--name", "tea")
    assert (refused.code, "has another server 'tea'" in refused.err) == (2, True)


def test_where_no_file_is_documented_the_command_or_the_entry_is_shown(place):
    shown = install(place, "claude-code", "tea.py", "--scope", "user")
    assert shown.out.startswith("claude mcp add-json --scope user Tea-house '{")
    assert "Nothing was changed" in shown.err
    named = install(place, "claude-desktop", "tea.py", "--to", place / "desktop.json")
    assert (named.code, list(json.loads((place / "desktop.json").read_text()))) == (0, ["mcpServers"])
    if sys.platform == "linux":
        by_hand = install(place, "claude-desktop", "tea.py")
        assert list(json.loads(by_hand.out)["mcpServers"]) == ["Tea-house"]
        assert "name its file with --to" in by_hand.err
    assert list((place / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["emacs", "tea.py"], "'emacs' is not one of 'claude-desktop'"),
        (["cursor", "coffee.py"], "there is no file 'coffee.py'"),
        (["cursor", "tea.py:pot"], "has no Server called 'pot'"),
        (["cursor", "tea.py", "--name", "a b"], "Not every host takes the name 'a b'"),
        (["cursor", "tea.py", "--env", "A"], "must be written as 'NAME=VALUE'"),
        (["claude-desktop", "tea.py", "--scope", "project"], "Claude Desktop has no scope 'project'"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(place, words, fault):
    finished = install(place, *words)
    assert (finished.code, finished.out) == (2, "")
    assert fault in finished.err
    assert list((place / "home").iterdir()) == []
