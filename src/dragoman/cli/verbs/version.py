"""`dragoman version`: which version this is, and which versions of the protocol it speaks."""

from __future__ import annotations

import platform

import click

import dragoman
from dragoman.cli.command import reporting
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal


@click.command("version", short_help="Show the version.")
@reporting
@click.pass_obj
def command(settings: CommandSettings) -> None:
    """Show the version of dragoman, of Python, and of the protocol."""
    from dragoman.protocol.versions import VERSIONS, version_names

    terminal = Terminal(settings)
    spoken = list(version_names(VERSIONS))
    if settings.json:
        known = {"dragoman": dragoman.__version__, "python": platform.python_version(), "protocol": spoken}
        terminal.write_json(known)
        return
    terminal.write(f"dragoman {dragoman.__version__}")
    terminal.write(f"Python {platform.python_version()}, protocol {', '.join(spoken)}", "dim")
