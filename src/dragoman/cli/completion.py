"""Completion of the words of a command line in a shell: files, names of servers, and their tools and prompts.

The shell starts the command anew for each completion. To list tools, the server is started or connected to, with a
bound in time. A server of a configuration file that is not trusted is not: nobody can be asked meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from io import StringIO
from typing import TYPE_CHECKING, Literal

import click
from click.shell_completion import CompletionItem

from dragoman.cli.targets import client_options, make_client, read_configuration, resolve_word
from dragoman.cli.terminal import Terminal
from dragoman.errors import DragomanError
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman.client.client import AsyncClient

SECONDS = 5.0
"""Seconds that a server has to list what it offers."""
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_file(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_target(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a target: the name of a server in the configuration file, or a file."""
    try:
        _, entries = read_configuration(_terminal(ctx).settings)
    except (click.ClickException, DragomanError, OSError):
        entries = []
    return [*complete_file(ctx, parameter, incomplete), *_items((entry.name for entry in entries), incomplete)]


def complete_words(kind: Literal["tools", "prompts"]) -> Completion:
    """Return the completion of the words `[TARGET] NAME`."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = ctx.params.get("words") or ()
        if not words:
            return complete_target(ctx, parameter, incomplete)
        return _items(asyncio.run(_names(_terminal(ctx), words[0], kind)), incomplete) if len(words) == 1 else []

    return complete


def _terminal(ctx: click.Context) -> Terminal:
    found = ctx.find_object(Terminal)
    assert found is not None
    return found


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and printable_line(name) == name]


async def _names(terminal: Terminal, word: str, kind: str) -> list[str]:
    from dragoman.client.client import AsyncClient

    logging.disable()  # a line on stderr would stand in the middle of the command line
    sys.stdin = StringIO()  # so that nobody is asked for trust
    try:
        async with asyncio.timeout(SECONDS):
            resolved = await resolve_word(terminal, word)
            options = await client_options(terminal.settings, resolved)
            client: AsyncClient = make_client(AsyncClient, resolved, options)
            async with client:
                return [one.name for one in await getattr(client, kind)()]
    except (click.ClickException, DragomanError, OSError):
        return []
