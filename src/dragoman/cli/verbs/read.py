"""`dragoman read [TARGET] URI`: read a resource."""

from __future__ import annotations

import click

from dragoman.cli.command import connecting, in_event_loop, raw_option, usage_error
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal


@click.command("read", short_help="Read a resource.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] URI")
@click.option("--save-to", metavar="FOLDER", help="The folder for data that is not text; else this one.")
@raw_option
@connecting
@click.pass_obj
@in_event_loop
async def command(terminal: Terminal, words: tuple[str, ...], save_to: str | None) -> None:
    """Read a resource. Data that is not text is saved to a file."""
    from dragoman.cli.display import Display

    if len(words) > 2:
        raise usage_error(f"The word {words[2]!r} is too many; give a target and a URI.")
    target, uri = words[0] if len(words) > 1 else None, words[-1]
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        result = await client.read_resource(uri)
    if terminal.settings.json:
        terminal.write_json(result)
    else:
        Display(terminal, uri.rpartition("/")[2] or "resource", save_to).contents(result.contents)
