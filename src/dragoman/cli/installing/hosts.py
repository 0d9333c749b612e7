"""The hosts that `dragoman install` knows: where each keeps its servers, and what an entry looks like there.

A scope of a host is a file, or a command of the host that adds an entry. A command stands where the host keeps the
entry in a file that the host itself rewrites, or in a place that its documentation does not name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from dragoman.types import Json


class Host(Struct, frozen=True):
    """A program that uses servers."""

    title: str
    key: str
    """The key of the file under which the servers stand."""
    files: Mapping[str, str]
    """The file of each scope; a scope without a file may have a command."""
    commands: Mapping[str, tuple[str, ...]] = {}
    """The command of a scope that adds an entry; `{name}` and `{entry}` stand for the name and the JSON of it."""
    default: str = "user"
    further: Mapping[str, str] = {}
    """Fields that every entry has."""
    scopes: tuple[str, ...] = ("user", "project")
    then: str = "Start the host again to use the server."

    def file(self, scope: str) -> Path | None:
        """Return the file of a scope; None if the documentation names none for this machine."""
        found = self.files.get(scope)
        if found is not None and found.startswith("~/.codex/") and os.environ.get("CODEX_HOME"):
            return Path(os.environ["CODEX_HOME"]) / "config.toml"
        return None if found is None else Path(found).expanduser()

    def command(self, scope: str, name: str, entry: Json) -> list[str] | None:
        """Return the words of the command that adds an entry to a scope."""
        named = entry if "{name}" in self.commands.get(scope, ()) else {"name": name, **entry}
        text = msgspec.json.encode(named).decode()
        words = [{"{name}": name, "{entry}": text}.get(word, word) for word in self.commands.get(scope, ())]
        return words or None


_DESKTOP = {
    "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
    "win32": "~/AppData/Roaming/Claude/claude_desktop_config.json",
}
_ADD_TO_CLAUDE_CODE = ("claude", "mcp", "add-json", "--scope", "user", "{name}", "{entry}")

HOSTS = {
    "claude-desktop": Host(
        "Claude Desktop",
        "mcpServers",
        {"user": _DESKTOP[sys.platform]} if sys.platform in _DESKTOP else {},
        scopes=("user",),
        then="Quit Claude Desktop and start it again to use the server.",
    ),
    "claude-code": Host(
        "Claude Code",
        "mcpServers",
        {"project": ".mcp.json"},
        {"user": _ADD_TO_CLAUDE_CODE},
        default="project",
        further={"type": "stdio"},
        then="Claude Code asks once whether to trust the server of this project.",
    ),
    "cursor": Host("Cursor", "mcpServers", {"user": "~/.cursor/mcp.json", "project": ".cursor/mcp.json"}),
    "vscode": Host(
        "VS Code",
        "servers",
        {"project": ".vscode/mcp.json"},
        {"user": ("code", "--add-mcp", "{entry}")},
        default="project",
        further={"type": "stdio"},
        then="Start the server in VS Code: open the file, and choose Start above its entry.",
    ),
    "gemini": Host("Gemini CLI", "mcpServers", {"user": "~/.gemini/settings.json", "project": ".gemini/settings.json"}),
    "codex": Host("Codex", "mcp_servers", {"user": "~/.codex/config.toml", "project": ".codex/config.toml"}),
}


def server_entry(target: str, env: Mapping[str, str], host: Host) -> Json:
    """Return the entry that starts a server file with this Python; `target` is FILE[:object] with an absolute path."""
    # Hosts start servers in folders of their own choice: -P keeps modules that are there from being imported.
    words = {"command": sys.executable, "args": ["-P", "-m", "dragoman", "run", target]}
    return {**host.further, **words, **({"env": dict(env)} if env else {})}


def with_file(host: Host, path: str) -> Host:
    """Return a host that keeps its servers in another file, whatever the scope."""
    return structs.replace(host, files=dict.fromkeys(("user", "project"), path), commands={})
