"""`dragoman call [TARGET] TOOL key=value ...`: call a tool, and show its progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.arguments import Arguments, split_words
from dragoman.cli.command import connecting, saving, server_line
from dragoman.cli.completion import complete_words
from dragoman.cli.exit_codes import FAILED, OK
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal
from dragoman.errors import WITHHELD
from dragoman.inspector.targets import ServerTarget
from dragoman.runtime.terminal import is_terminal, printable_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from dragoman.client.hear.notifications import LogMessage
    from dragoman.client.results import CallResult


@click.command("call", short_help="Call a tool.")
@click.argument(
    "words", nargs=-1, required=True, metavar="[TARGET] TOOL [KEY=VALUE ...]", shell_complete=complete_words("tools")
)
@click.option("--json-args", metavar="JSON", help="The arguments as a JSON object.")
@saving("images, sounds and other data")
@connecting
async def command(terminal: Terminal, words: tuple[str, ...], json_args: str | None, save_to: str | None) -> int:
    """Call a tool.

    KEY=VALUE is converted to the type in the schema of the tool. KEY:=JSON is JSON. @FILE and - (stdin) hold JSON
    objects with arguments.
    """
    from dragoman.cli.elicitation import TerminalElicitation

    (target, name), rest = split_words(words)
    arguments = Arguments(rest, json_args)
    settings, progress = terminal.settings, ProgressView(terminal, name)

    def show_log(message: LogMessage) -> None:
        source = f" {' '.join(message.logger.split())}" if message.logger else ""
        terminal.report(server_line(resolved.name, f"{message.level}{source}: {message.data}"), "dim")

    handlers = {
        "on_elicitation": TerminalElicitation(terminal, progress.close),
        "on_log": show_log,
        "log_level": "debug" if settings.verbose else "info",
        "tasks": True,
    }
    resolved = await resolve_target(terminal, target)
    async with connected(terminal, resolved, **handlers) as client:
        tool = await client.tool(name)
        typed = arguments.typed(tool.input_schema)
        for remark in arguments.remarks:
            terminal.report(f"dragoman: {remark}", "dim")
        try:
            result = await tool.call(typed, on_progress=progress.report, raise_on_error=False)
        finally:
            progress.close()
    if terminal.hidden_lines and not (result.is_error or settings.json):
        lines = "a line" if terminal.hidden_lines == 1 else f"{terminal.hidden_lines} lines"
        terminal.report(f"dragoman: the server wrote {lines} to stderr; --verbose shows what", "dim")
    return show_result(terminal, resolved, name, result, save_to)


def show_result(terminal: Terminal, resolved: ServerTarget, name: str, result: CallResult, save_to: str | None) -> int:
    """Write the result of a tool, or report its failure; return the exit code."""
    from dragoman.cli.display import Display

    if result.is_error and not terminal.settings.json:
        text = " ".join(result.text.split()) or "it did not say why"
        hint = f"; {_log_hint(resolved)}" if text == WITHHELD else ""
        terminal.report(f"dragoman: the tool failed: {text}{hint}")
        return FAILED
    Display(terminal, name, save_to).result(result)
    return FAILED if result.is_error else OK


def _log_hint(resolved: ServerTarget) -> str:
    """Return where the exception of a tool can be read."""
    if resolved.url is None:
        return "the server's log says why: --verbose shows it"
    return (
        "the server's log, on its stderr, says why; while you develop, serve it with `dragoman run --dev --http FILE`"
    )


class ProgressView:
    """Shows the progress of one call: a bar on a terminal, lines elsewhere."""

    def __init__(self, terminal: Terminal, name: str) -> None:
        self._terminal = terminal
        self._name = name
        self._bar: Progress | None = None
        self._task: TaskID

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Show progress."""
        text = printable_line(" ".join((message or "").split()))
        if not is_terminal(sys.stderr):
            done = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            self._terminal.report(f"progress: {done} {text}".rstrip())
            return
        if self._terminal.is_asking:
            return
        shown: dict[str, Any] = {"completed": progress, "total": total, "description": text or self._name}
        if self._bar is None:
            self._open(shown)
        else:
            self._bar.update(self._task, **shown)

    def report_status(self, message: str) -> None:
        """Show the status message of a task."""
        if not is_terminal(sys.stderr):
            self._terminal.report(f"status: {printable_line(' '.join(message.split()))}")
        else:
            self.report(0, None, message)

    def _open(self, shown: dict[str, Any]) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
        self._bar = Progress(*columns, TimeElapsedColumn(), console=self._terminal.error_console, transient=True)
        self._task = self._bar.add_task(**shown)
        self._bar.start()

    def close(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
