"""`dragoman skill show|load [TARGET] NAME`: show what a server lists of a skill, or load the skill and verify it.

`dragoman skill --path` prints the folder of the skill that comes with the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from dragoman.cli.arguments import split_target_word
from dragoman.cli.command import connecting, saving
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman.client.extensions.skills import AsyncBoundSkill


def _print_path(ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:  # noqa: FBT001
    """Print the folder of the skill "write an MCP server with Dragoman", and end the command."""
    if is_wanted:
        import dragoman.skills

        click.echo(Path(dragoman.skills.__path__[0]) / "write-mcp-server")
        ctx.exit()


@click.group("skill", short_help="Show or load a skill of a server.")
@click.option(
    "--path",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_path,
    help="Print the folder of the skill for coding agents that comes with Dragoman.",
)
def command() -> None:
    """Show or load a skill of a server; NAME is its name, or the URI of its SKILL.md."""


@command.command("show", short_help="Show the fields and the files of a skill.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] NAME")
@connecting
async def show(terminal: Terminal, words: tuple[str, ...]) -> None:
    """Show the fields and the files of a skill, without fetching the files."""
    target, name = split_target_word(words, "the name of a skill")
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        skill = await client.skill(name)
    if terminal.settings.json:
        terminal.write_json(skill.entry)
        return
    terminal.write(printable_line(f"{skill.name} of {skill.origin}"), "bold")
    for line in _lines(skill):
        terminal.write("  " + printable_line(line))


@command.command("load", short_help="Load a skill, and verify it.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] NAME")
@click.option("--file", "path", metavar="PATH", help="Another file of the skill than its SKILL.md.")
@saving("a file that is not text")
@connecting
async def load(terminal: Terminal, words: tuple[str, ...], path: str | None, save_to: str | None) -> None:
    """Fetch the SKILL.md or another file of a skill, compare it with the server's list, and write it to stdout."""
    from dragoman import types
    from dragoman.cli.display import Display

    target, name = split_target_word(words, "the name of a skill")
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        skill = await client.skill(name)
        content: str | bytes = await skill.load(approve=True)
        if path is not None:
            content = await skill.read(path)
    place = path or skill.uri
    text, blob = (content, None) if isinstance(content, str) else (None, content)
    contents = types.ResourceContents(place, text=text, blob=blob)
    if terminal.settings.json:
        terminal.write_json({"skill": skill.entry, "contents": contents})
    else:
        Display(terminal, place.rpartition("/")[2], save_to).contents([contents])


def _lines(skill: AsyncBoundSkill) -> list[str]:
    fields = [f"{key}: {_text(value)}" for key, value in skill.entry.frontmatter.items() if key != "name"]
    files = [f"{path}  {one.size:,} bytes  {one.digest}" for path, one in skill.files.items()]
    return [skill.uri, *fields, *(files or ["the server makes the files anew each time, so they cannot be verified"])]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
