"""`dragoman prompt [TARGET] NAME key=value ...`: show a prompt with its arguments filled in."""

from __future__ import annotations

import click

from dragoman.cli.arguments import Arguments, split_words
from dragoman.cli.command import connecting, saving
from dragoman.cli.completion import complete_words
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal


@click.command("prompt", short_help="Show a prompt with its arguments filled in.")
@click.argument(
    "words", nargs=-1, required=True, metavar="[TARGET] NAME [KEY=VALUE ...]", shell_complete=complete_words("prompts")
)
@saving("images, sounds and other data")
@connecting
async def command(terminal: Terminal, words: tuple[str, ...], save_to: str | None) -> None:
    """Show the messages of a prompt."""
    from dragoman.cli.display import Display

    (target, name), rest = split_words(words)
    arguments = Arguments(rest)
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        result = await client.get_prompt(name, arguments.texts())
    if terminal.settings.json:
        terminal.write_json(result)
        return
    display = Display(terminal, name, save_to)
    for message in result.messages:
        display.blocks([message.content], before=f"{message.role}: ")
