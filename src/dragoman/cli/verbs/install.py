"""`dragoman install HOST FILE`: add a server file to the configuration of a host."""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr

import click

from dragoman.cli.command import named_value, reporting, usage_error
from dragoman.cli.completion import complete_file
from dragoman.cli.installing.host_file import HostFile, fragment
from dragoman.cli.installing.hosts import HOSTS, Host, server_entry, with_file
from dragoman.cli.server_file import load_server, split_target
from dragoman.cli.terminal import Terminal
from dragoman.types import Json

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that every host takes."""


@click.command("install", short_help="Add a server to Claude, Cursor, VS Code, Gemini or Codex.")
@click.argument("host", type=click.Choice(list(HOSTS)))
@click.argument("file", shell_complete=complete_file)
@click.option("--name", help="The name of the entry; by default the name of the server.")
@click.option("--env", type=named_value("="), multiple=True, metavar="NAME=VALUE", help="A variable for the server.")
@click.option("--scope", type=click.Choice(["user", "project"]), help="For you in every folder, or for this folder.")
@click.option("--to", metavar="PATH", help="Write to this file instead of the host's own file.")
@click.option("--replace", is_flag=True, help="Replace an entry of the same name that starts something else.")
@click.option("--dry-run", is_flag=True, help="Show the entry, and change nothing.")
@reporting
def command(
    terminal: Terminal,
    *,
    host: str,
    file: str,
    name: str | None,
    env: tuple[tuple[str, str], ...],
    scope: str | None,
    to: str | None,
    replace: bool,
    dry_run: bool,
) -> None:
    """Add the server in FILE[:object] to the configuration of a host.

    The command first backs up the configuration file, and keeps its other entries. If a host documents no file, the
    command shows the entry, or the host's own command that adds it.
    """
    found = HOSTS[host] if to is None else with_file(HOSTS[host], to)
    chosen = scope or found.default
    if chosen not in found.scopes:
        raise usage_error(f"{found.title} has no scope {chosen!r}; leave --scope out.")
    target, called = _server(file, name)
    entry = server_entry(target, dict(env), found)
    path = found.file(chosen)
    if path is None:
        _show_by_hand(terminal, found, chosen, called, entry)
        return
    kept = HostFile(path, found.key)
    before = kept.entry(called)
    args, variables = (before or {}).get("args"), (before or {}).get("env") or {}
    is_same = isinstance(args, list) and target in args and isinstance(variables, dict)
    if before is not None and not is_same and not replace:
        raise usage_error(f"{path} has another server {called!r}: choose a --name, or add --replace.")
    if before is not None and not replace:
        variables = {**variables, **dict(env)}
        entry = {**before, **entry, **({"env": variables} if variables else {})}
    is_changed = before != entry
    backup = kept.write(called, entry) if is_changed and not dry_run else None
    if terminal.settings.json:
        report = {"file": str(path), "name": called, "entry": entry, "isChanged": is_changed and not dry_run}
        terminal.write_json(report | ({"backup": str(backup)} if backup else {}))
        return
    if dry_run:
        terminal.write(fragment(found.key, called, entry, is_toml=path.suffix == ".toml").rstrip())
        terminal.report(f"This would be {'written to' if is_changed else 'in'} {path}; nothing was changed.")
    elif is_changed:
        terminal.write(f"Wrote {called!r} to {path}." + (f" The backup is {backup}." if backup else ""))
        terminal.report(found.then)
    else:
        terminal.write(f"{path} already has {called!r}; nothing was changed.")


def _server(file: str, name: str | None) -> tuple[str, str]:
    """Return FILE[:object] with an absolute path, and the name of the entry, after a look at the server."""
    path, chosen = split_target(file)
    with redirect_stdout(stderr):  # what the file prints is no result of the command
        server = load_server(path, chosen)
    called = re.sub(r"[^A-Za-z0-9_-]+", "-", server.name).strip("-")[:64] if name is None else name
    if _NAME.fullmatch(called) is None:
        raise usage_error(f"Not every host takes the name {called!r}: give a --name of letters, digits, '_' and '-'.")
    absolute = str(Path(path).resolve())
    return absolute if chosen is None else f"{absolute}:{chosen}", called


def _show_by_hand(terminal: Terminal, host: Host, scope: str, name: str, entry: Json) -> None:
    words = host.command(scope, name, entry)
    if terminal.settings.json:
        terminal.write_json({"name": name, "entry": entry, "isChanged": False} | ({"command": words} if words else {}))
    elif words is not None:
        terminal.write(shlex.join(words))
        terminal.report(f"Nothing was changed: run this command to add the server to {host.title}.")
    else:
        terminal.write(fragment(host.key, name, entry, is_toml=False).rstrip())
        terminal.report(
            f"Nothing was changed: add this to the configuration of {host.title}, or name its file with --to."
        )
