"""`dragoman worker FILE[:object]`: run the tasks of a server, without serving clients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from dragoman.cli.command import reporting, stop_event, usage_error
from dragoman.cli.completion import complete_file
from dragoman.cli.server_file import load_server, split_target
from dragoman.cli.terminal import Terminal

if TYPE_CHECKING:
    from dragoman.server.server import Server


@click.command("worker", short_help="Run the tasks of a server.")
@click.argument("file", shell_complete=complete_file)
@reporting
async def command(terminal: Terminal, file: str) -> None:
    """Run the tasks of the server in FILE[:object] until a signal ends the process, without serving clients.

    The worker and the processes that serve clients need the same store and the same secret.
    """
    from dragoman.server.extensions.tasks.extension import RUN_TASKS
    from dragoman.server.serving import SoleService

    server = load_server(*split_target(file))
    _require_tasks(server)
    server.check()
    server.storage.require_shared_secret()
    os.environ[RUN_TASKS] = "1"
    stop = stop_event()
    async with SoleService(server.dispatcher, {}).serving():
        terminal.report(f"Running the tasks of {server.name!r}")
        await stop.wait()
        terminal.report("Stopping: running tasks have a few seconds to end")


def _require_tasks(server: Server) -> None:
    from dragoman.server.extensions.installed import installed_in
    from dragoman.server.extensions.tasks.extension import TasksExtension

    installed = installed_in(server.dispatcher)
    if installed is None or installed.find(TasksExtension) is None:
        raise usage_error(f"The server {server.name!r} has no tool that runs as a task: write @server.tool(task=True).")
    if server.store.reach == "process":
        raise usage_error(
            f"The store of the server {server.name!r} reaches one process only, so a worker finds no tasks in it."
            " Give the server a Local or a Redis store."
        )
