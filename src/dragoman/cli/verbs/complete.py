"""`dragoman complete [TARGET] prompt|resource NAME ARG VALUE`: how an argument may go on."""

from __future__ import annotations

import asyncio

import click

from dragoman.cli.command import connecting, pair, refuse
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import aim_at, connected
from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import printable_line
from dragoman.types import Json

_LEAST = 4


@click.command("complete", short_help="Complete an argument of a prompt or resource template.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] prompt|resource NAME ARG VALUE")
@click.option("--context", type=pair("="), multiple=True, metavar="ARG=VALUE", help="An argument that is known.")
@connecting
@click.pass_obj
def command(settings: CommandSettings, words: tuple[str, ...], context: tuple[tuple[str, str], ...]) -> None:
    """Show how an argument of a prompt, or of a resource template (its URI template), may go on."""
    if len(words) not in (_LEAST, _LEAST + 1) or words[-_LEAST] not in ("prompt", "resource"):
        raise refuse("Write: [TARGET] prompt NAME ARG VALUE, or: [TARGET] resource URI_TEMPLATE ARG VALUE.")
    target = words[0] if len(words) > _LEAST else None
    kind, name, argument, value = words[-_LEAST:]
    reference: Json = (
        {"type": "ref/prompt", "name": name} if kind == "prompt" else {"type": "ref/resource", "uri": name}
    )
    asyncio.run(_complete(settings, target, reference, argument, value, dict(context)))


async def _complete(
    settings: CommandSettings, target: str | None, reference: Json, argument: str, value: str, context: dict[str, str]
) -> None:
    terminal = Terminal(settings)
    async with connected(terminal, await aim_at(terminal, target)) as client:
        found = await client.complete(reference, argument, value, context or None)
    if settings.json:
        terminal.write_json(found)
        return
    for one in found.values:
        terminal.write(printable_line(one))
    if found.has_more:
        terminal.tell("There are more.")
