"""The hosts of `dragoman install`: where their files are, and what an entry is."""

import json
import sys
from pathlib import Path

import pytest

from dragoman.cli.installing.hosts import HOSTS, server_entry, with_file


@pytest.mark.parametrize(
    ("host", "scope", "path"),
    [
        ("claude-code", "project", ".mcp.json"),
        ("cursor", "user", "~/.cursor/mcp.json"),
        ("cursor", "project", ".cursor/mcp.json"),
        ("vscode", "project", ".vscode/mcp.json"),
        ("gemini", "user", "~/.gemini/settings.json"),
        ("gemini", "project", ".gemini/settings.json"),
        ("codex", "user", "~/.codex/config.toml"),
        ("codex", "project", ".codex/config.toml"),
    ],
)
def test_a_host_has_the_files_that_it_documents(monkeypatch, host, scope, path):
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    assert HOSTS[host].file(scope) == Path(path.replace("~", "/home/ada"))


def test_codex_may_have_a_home_of_its_own(monkeypatch):
    monkeypatch.setenv("CODEX_HOME", "/srv/codex")
    assert HOSTS["codex"].file("user") == Path("/srv/codex/config.toml")
    assert HOSTS["codex"].file("project") == Path(".codex/config.toml")


def test_a_host_that_rewrites_its_file_adds_an_entry_by_a_command():
    entry = server_entry("/a.py", {"KEY": "x y"}, HOSTS["claude-code"])
    *words, text = HOSTS["claude-code"].command("user", "tea", entry)
    assert words == ["claude", "mcp", "add-json", "--scope", "user", "tea"]
    assert json.loads(text) == entry
    *words, text = HOSTS["vscode"].command("user", "tea", entry)
    assert (words, json.loads(text)) == (["code", "--add-mcp"], {"name": "tea", **entry})
    assert HOSTS["cursor"].command("user", "tea", entry) is None
    assert HOSTS["claude-code"].file("user") is None


def test_an_entry_starts_the_file_with_this_python():
    plain = server_entry("/a.py:server", {}, HOSTS["cursor"])
    assert plain == {"command": sys.executable, "args": ["-P", "-m", "dragoman", "run", "/a.py:server"]}
    typed = server_entry("/a.py", {"KEY": "1"}, HOSTS["vscode"])
    assert (typed["type"], typed["env"]) == ("stdio", {"KEY": "1"})


def test_another_file_can_be_named_for_any_scope():
    host = with_file(HOSTS["claude-code"], "~/elsewhere.json")
    assert host.file("user") == host.file("project") == Path("~/elsewhere.json").expanduser()
    assert host.command("user", "tea", {}) is None
