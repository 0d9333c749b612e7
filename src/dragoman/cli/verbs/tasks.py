"""`dragoman tasks start|list|get|result|cancel [TARGET] ...`: the tasks of a server, also those of other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dragoman.cli.arguments import Arguments, split_target_word, split_words
from dragoman.cli.command import connecting, saving
from dragoman.cli.exit_codes import OK
from dragoman.cli.targets import connected, resolve_target
from dragoman.cli.terminal import Terminal
from dragoman.cli.verbs.call import ProgressView, show_result
from dragoman.protocol.versions import find_version
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman import types
    from dragoman.client.client import AsyncClient
    from dragoman.client.extensions.tasks.handles import AsyncTask


@click.group("tasks", short_help="Start, list, show, await or cancel tasks of a server.")
def command() -> None:
    """Start, list, show, await or cancel tasks of a server; ID is the id of a task."""


@command.command("start", short_help="Call a tool as a task, and do not wait for its end.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] TOOL [KEY=VALUE ...]")
@click.option("--json-args", metavar="JSON", help="The arguments as a JSON object.")
@connecting
async def start(terminal: Terminal, words: tuple[str, ...], json_args: str | None) -> int:
    """Call a tool, and show its task; if the server answers at once, show the result."""
    from dragoman.cli.elicitation import TerminalElicitation

    (target, name), rest = split_words(words)
    arguments = Arguments(rest, json_args)
    handlers = {"tasks": True, "on_elicitation": TerminalElicitation(terminal)}
    resolved = await resolve_target(terminal, target)
    async with connected(terminal, resolved, **handlers) as client:
        tool = await client.tool(name)
        task = await client.start_tool(tool, arguments.typed(tool.input_schema))
        if not task.id:
            return show_result(terminal, resolved, name, await task.result(raise_on_error=False), None)
    _show(terminal, task)
    return OK


@command.command("list", short_help="List the tasks of a server.")
@click.argument("target", required=False)
@connecting
async def list_tasks(terminal: Terminal, target: str | None) -> None:
    """List the tasks of a server of 2025-11-25. Servers of 2026-07-28 do not list tasks."""
    async with connected(terminal, await resolve_target(terminal, target), tasks=True) as client:
        found = await client.tasks.list()
        remark = None if found else _why_none(client)
    if terminal.settings.json:
        terminal.write_json({"tasks": [_fields(task) for task in found]})
    for task in found if not terminal.settings.json else ():
        terminal.write(_line(task))
    if remark is not None:
        terminal.report(f"dragoman: {remark}", "dim")


def _why_none(client: AsyncClient) -> str | None:
    version = None if client.protocol_version is None else find_version(client.protocol_version)
    if version is not None and version.stateless:
        return f"servers of {version.name} do not list their tasks; give the id of a task, or --mode handshake"
    return "the server has no tasks for this client"


@command.command("get", short_help="Show a task.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] ID")
@connecting
async def get(terminal: Terminal, words: tuple[str, ...]) -> None:
    """Show the status of a task."""
    target, id = split_target_word(words, "the id of a task")
    async with connected(terminal, await resolve_target(terminal, target), tasks=True) as client:
        task = await client.task(id)
    _show(terminal, task)


@command.command("cancel", short_help="Cancel a task.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] ID")
@connecting
async def cancel(terminal: Terminal, words: tuple[str, ...]) -> None:
    """Cancel a task, and show its status."""
    target, id = split_target_word(words, "the id of a task")
    async with connected(terminal, await resolve_target(terminal, target), tasks=True) as client:
        task = await client.task(id)
        await task.cancel()
        await task.refresh()
    _show(terminal, task)


@command.command("result", short_help="Wait for the end of a task, and show the result of its tool.")
@click.argument("words", nargs=-1, required=True, metavar="[TARGET] ID")
@saving("images, sounds and other data")
@connecting
async def result(terminal: Terminal, words: tuple[str, ...], save_to: str | None) -> int:
    """Wait for the end of a task, answer its questions, and show the result; Ctrl-C does not end the task."""
    from dragoman.cli.elicitation import TerminalElicitation

    target, id = split_target_word(words, "the id of a task")
    progress = ProgressView(terminal, id)
    handlers = {"tasks": True, "on_elicitation": TerminalElicitation(terminal, progress.close)}
    resolved = await resolve_target(terminal, target)
    async with connected(terminal, resolved, **handlers) as client:
        task = await client.task(id)
        try:
            await task.wait(on_status=progress.report_status)
        finally:
            progress.close()
        outcome = await task.result(raise_on_error=False)
    return show_result(terminal, resolved, id, outcome, save_to)


def _show(terminal: Terminal, task: AsyncTask) -> None:
    if terminal.settings.json:
        terminal.write_json(_fields(task))
    else:
        terminal.write(_line(task))


def _line(task: AsyncTask) -> str:
    return printable_line(f"{task.id}  {task.status}  {task.created_at}  {task.status_message or ''}".rstrip())


def _fields(task: AsyncTask) -> types.Json:
    """Return a task with the names of 2026-07-28, in whichever version the server sent it."""
    fields = {
        "taskId": task.id,
        "status": task.status,
        "statusMessage": task.status_message,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.last_updated_at,
        "pollIntervalMs": None if task.poll_interval is None else round(task.poll_interval * 1000),
    }
    kept = {name: value for name, value in fields.items() if value is not None}
    return kept | {"ttlMs": None if task.ttl is None else round(task.ttl * 1000)}
