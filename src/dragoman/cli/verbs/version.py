"""`dragoman version`: the versions of dragoman, of Python and of the protocol."""

from __future__ import annotations

import platform

import click

import dragoman
from dragoman.cli.command import reporting
from dragoman.cli.terminal import Terminal


@click.command("version", short_help="Show the version.")
@reporting
def command(terminal: Terminal) -> None:
    """Show the version of dragoman, of Python, and of the protocol."""
    from dragoman.protocol.versions import VERSIONS, version_names

    own, python, protocol = dragoman.__version__, platform.python_version(), list(version_names(VERSIONS))
    if terminal.settings.json:
        terminal.write_json({"dragoman": own, "python": python, "protocol": protocol})
        return
    terminal.write(f"dragoman {own}")
    terminal.write(f"Python {python}, protocol {', '.join(protocol)}", "dim")
