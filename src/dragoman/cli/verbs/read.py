"""`dragoman read [TARGET] URI`: read a resource."""

from __future__ import annotations

import click

from dragoman.cli.arguments import split_target_word
from dragoman.cli.command import connecting, saving
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal


@click.command("read", short_help="Read a resource.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] URI")
@saving("data that is not text")
@connecting
async def command(terminal: Terminal, words: tuple[str, ...], save_to: str | None) -> None:
    """Read a resource. Data that is not text is saved to a file."""
    from dragoman.cli.display import Display

    target, uri = split_target_word(words, "a URI")
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        result = await client.read_resource(uri)
    if terminal.settings.json:
        terminal.write_json(result)
    else:
        Display(terminal, uri.rpartition("/")[2] or "resource", save_to).contents(result.contents)
