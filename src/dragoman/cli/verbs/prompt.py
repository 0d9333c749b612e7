"""`dragoman prompt [TARGET] NAME key=value ...`: a prompt with its arguments filled in."""

from __future__ import annotations

import asyncio

import click

from dragoman.cli.arguments import Arguments, split_words
from dragoman.cli.command import connecting, raw_option
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import aim_at, connected
from dragoman.cli.terminal import Terminal


@click.command("prompt", short_help="Show a prompt with its arguments filled in.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] NAME [KEY=VALUE ...]")
@click.option("--save-to", metavar="FOLDER", help="Where images, sounds and other data are saved (here).")
@raw_option
@connecting
@click.pass_obj
def command(settings: CommandSettings, words: tuple[str, ...], save_to: str | None) -> None:
    """Show the messages of a prompt."""
    names, rest = split_words(words)
    arguments = Arguments(rest)
    target = names[0] if len(names) > 1 else None
    asyncio.run(_prompt(settings, target, names[-1], arguments, save_to))


async def _prompt(
    settings: CommandSettings, target: str | None, name: str, arguments: Arguments, folder: str | None
) -> None:
    from dragoman.cli.display import Display

    terminal = Terminal(settings)
    async with connected(terminal, await aim_at(terminal, target)) as client:
        result = await client.get_prompt(name, arguments.texts())
    if settings.json:
        terminal.write_json(result)
        return
    display = Display(terminal, name, folder)
    for message in result.messages:
        display.blocks([message.content], before=f"{message.role}: ")
