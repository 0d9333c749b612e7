"""`dragoman read [TARGET] URI`: what a resource holds."""

from __future__ import annotations

import asyncio

import click

from dragoman.cli.command import connecting, raw_option, refuse
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import aim_at, connected
from dragoman.cli.terminal import Terminal


@click.command("read", short_help="Read a resource.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] URI")
@click.option("--save-to", metavar="FOLDER", help="Where data that is no text is saved (here).")
@raw_option
@connecting
@click.pass_obj
def command(settings: CommandSettings, words: tuple[str, ...], save_to: str | None) -> None:
    """Read a resource; what is no text is saved to a file."""
    if len(words) > 2:
        raise refuse(f"{words[2]!r} is too much; give a target and a URI.")
    asyncio.run(_read(settings, words[0] if len(words) > 1 else None, words[-1], save_to))


async def _read(settings: CommandSettings, target: str | None, uri: str, folder: str | None) -> None:
    from dragoman.cli.display import Display

    terminal = Terminal(settings)
    async with connected(terminal, await aim_at(terminal, target)) as client:
        result = await client.read_resource(uri)
    if settings.json:
        terminal.write_json(result)
    else:
        Display(terminal, uri.rpartition("/")[2] or "resource", folder).contents(result.contents)
