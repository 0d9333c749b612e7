"""`dragoman complete [TARGET] prompt|resource NAME ARG VALUE`: complete an argument."""

from __future__ import annotations

import click

from dragoman.cli.command import connecting, named_value, usage_error
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import printable_line
from dragoman.types import Json

_WORDS = 4
"""The number of words on the command line without a target."""


@click.command("complete", short_help="Complete an argument of a prompt or resource template.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] prompt|resource NAME ARG VALUE")
@click.option("--context", type=named_value("="), multiple=True, metavar="ARG=VALUE", help="Another argument.")
@connecting
async def command(terminal: Terminal, words: tuple[str, ...], context: tuple[tuple[str, str], ...]) -> None:
    """Show values for an argument of a prompt, or of a resource template, which you name by its URI template."""
    if len(words) not in (_WORDS, _WORDS + 1) or words[-_WORDS] not in ("prompt", "resource"):
        raise usage_error("Write: [TARGET] prompt NAME ARG VALUE, or: [TARGET] resource URI_TEMPLATE ARG VALUE.")
    target = words[0] if len(words) > _WORDS else None
    kind, name, argument, value = words[-_WORDS:]
    reference: Json = {"type": f"ref/{kind}", "name" if kind == "prompt" else "uri": name}
    async with connected(terminal, await resolve_target(terminal, target)) as client:
        found = await client.complete(reference, argument, value, dict(context) or None)
    if terminal.settings.json:
        terminal.write_json(found)
        return
    for one in found.values:
        terminal.write(printable_line(one))
    if found.has_more:
        terminal.report("There are more values.")
