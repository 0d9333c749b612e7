"""`dragoman call [TARGET] TOOL key=value ...`: call a tool."""

from __future__ import annotations

import asyncio

import click

from dragoman.cli.arguments import Arguments, split_words
from dragoman.cli.command import connecting, raw_option, said_by
from dragoman.cli.exit_codes import FAILED, OK
from dragoman.cli.settings import CommandSettings
from dragoman.cli.targets import aim_at, connected
from dragoman.cli.terminal import Terminal

CRASHED = "Internal error occurred"
"""What servers say of an error that they keep to themselves."""


@click.command("call", short_help="Call a tool.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] TOOL [KEY=VALUE ...]")
@click.option("--json-args", metavar="JSON", help="The arguments as a JSON object.")
@click.option("--save-to", metavar="FOLDER", help="Where images, sounds and other data are saved (here).")
@raw_option
@connecting
@click.pass_obj
def command(settings: CommandSettings, words: tuple[str, ...], json_args: str | None, save_to: str | None) -> int:
    """Call a tool, with values typed by its schema.

    KEY=VALUE is read as the tool's schema says, KEY:=JSON as JSON; @FILE and - (stdin) give a JSON object.
    """
    names, rest = split_words(words)
    arguments = Arguments(rest, json_args)
    target = names[0] if len(names) > 1 else None
    return asyncio.run(_call(settings, target, names[-1], arguments, save_to))


async def _call(
    settings: CommandSettings, target: str | None, name: str, arguments: Arguments, folder: str | None
) -> int:
    from dragoman.cli.display import Display
    from dragoman.cli.elicitation import Questions
    from dragoman.cli.progress import ProgressView
    from dragoman.client.hear.notifications import LogMessage

    terminal = Terminal(settings)
    progress = ProgressView(terminal, name)

    def show_log(message: LogMessage) -> None:
        source = f" {' '.join(message.logger.split())}" if message.logger else ""
        terminal.tell(said_by(aim.label, f"{message.level}{source}: {message.data}"), "dim")

    handlers = {
        "on_elicitation": Questions(terminal, progress.close),
        "on_log": show_log,
        "log_level": "debug" if settings.verbose else "info",
    }
    aim = await aim_at(terminal, target)
    async with connected(terminal, aim, **handlers) as client:
        tool = await client.tool(name)
        given = arguments.typed(tool.input_schema)
        try:
            result = await tool.call(given, on_progress=progress.report, raise_on_error=False)
        finally:
            progress.close()
    if result.is_error and not settings.json:
        said = " ".join(result.text.split()) or "it did not say why"
        where = "; the server's log says why, and --verbose shows that of a program" if said == CRASHED else ""
        terminal.tell(f"dragoman: the tool failed: {said}{where}")
        return FAILED
    Display(terminal, name, folder).result(result)
    return FAILED if result.is_error else OK
