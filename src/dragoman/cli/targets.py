"""Resolves the TARGET of the command line to a server, and makes the client of that server."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli.command import show_logs, usage_error
from dragoman.cli.exit_codes import for_person
from dragoman.cli.server_file import split_target
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal
from dragoman.errors import AuthRequired
from dragoman.inspector.login import program_login, stored_tokens
from dragoman.inspector.targets import ServerTarget
from dragoman.inspector.targets import target_of_entry as entry_target
from dragoman.runtime.terminal import is_terminal

if TYPE_CHECKING:
    from dragoman.auth.client.oauth import OAuth
    from dragoman.cli.configuration_file import ConfigurationFile
    from dragoman.client.client import AsyncClient
    from dragoman.client.group.entry import ServerEntry

COMMAND_LINE = "command line"
SILENT_SECONDS = 3.0
"""Seconds after which the command reports to a person at a terminal that it still waits for a connection."""
_ADDRESS = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+)(:\d+)?/|[\w.-]+:\d+$")
"""A host with a path or a port: a URL without its scheme."""
_SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs"})


async def resolve_target(terminal: Terminal, word: str | None) -> ServerTarget:
    """Return the server that a word names; without a word, the command after -- or the only configured server.

    Raises:
        UsageError: the server is unknown, or its configuration file is not trusted.
        ConfigError: the configuration cannot be used.
    """
    settings = terminal.settings
    if settings.command is not None:
        if word is not None:
            raise usage_error(f"Give either the target {word!r} or a command after --, not both.")
        if not settings.command:
            raise usage_error("The command after -- is missing; write, for example: -- python server.py")
        return _server(settings.command, " ".join(settings.command))
    return await _configured(terminal, None) if word is None else await resolve_word(terminal, word)


async def resolve_word(terminal: Terminal, word: str) -> ServerTarget:
    """Return the server that a word names; raises as `resolve_target` does."""
    if "://" in word.partition(" ")[0]:
        return _server(word, word, url=word)
    return _script(word) or await _configured(terminal, word)


def _server(target: Any, name: str, **facts: Any) -> ServerTarget:
    return ServerTarget(target=target, name=name, source=COMMAND_LINE, **facts)


def _script(word: str) -> ServerTarget | None:
    path, name = split_target(word)
    is_script = path.suffix in _SCRIPTS
    if is_script and not path.is_file() and " " not in word:
        raise usage_error(f"There is no file {str(path)!r}.")
    if name is not None and path.suffix == ".py":
        return _server(f"{path.absolute()}:{name}", word, is_own=True)
    if (is_script or os.sep in word) and path.is_file():
        return _server(path.absolute(), word, is_own=True)
    return _server(word, word) if " " in word else None


def read_configuration(
    settings: CommandSettings, word: str | None = None
) -> tuple[ConfigurationFile, list[ServerEntry]]:
    """Return the configuration file, and its entries.

    Raises:
        UsageError: there is no configuration file.
        ConfigError: the file cannot be read.
    """
    from dragoman.cli.configuration_file import ConfigurationFile
    from dragoman.client.group.config import FILES, find, parse, read

    path = Path(settings.config) if settings.config else find()
    if path is None:
        if word is not None and _ADDRESS.match(word):
            raise usage_error(f"{word!r} is no URL; write http://{word} or https://{word}.")
        which = "The target is missing." if word is None else f"{word!r} is no URL, no script and no known server."
        files = f"{', '.join(FILES)} or --config FILE"
        raise usage_error(f"{which} Give a URL, a script, or a command after --; or name servers in {files}.")
    text = read(path)
    is_named = bool(settings.config) or bool(os.environ.get("DRAGOMAN_CONFIG"))
    file = ConfigurationFile(path, text, is_named=is_named or path not in map(Path, FILES))
    return file, parse(text, path, inputs=dict(settings.input) or None)


async def _configured(terminal: Terminal, word: str | None) -> ServerTarget:
    """Return the server of a name in the configuration file; without a name, the only one."""
    file, entries = read_configuration(terminal.settings, word)
    listed = [entry for entry in entries if word is not None or not entry.disabled]
    chosen = [entry for entry in listed if word in (None, entry.name)]
    if len(chosen) == 1:
        return await target_of_entry(terminal, chosen[0], file)
    names = ", ".join(entry.name for entry in listed) or "none"
    if word is None:
        raise usage_error(f"Choose one server of {file}: give its name as the target; there are: {names}.")
    raise usage_error(f"There is no server {word!r} in {file}; there are: {names}.")


async def target_of_entry(terminal: Terminal, entry: ServerEntry, file: ConfigurationFile) -> ServerTarget:
    """Return the server of an entry, if its file is trusted.

    Raises:
        ConfigError: the entry cannot be used.
        UsageError: the file is not trusted.
    """
    if entry.error is not None:
        raise entry.error
    await file.require_trust(terminal)
    return entry_target(entry, str(file))


async def client_options(settings: CommandSettings, resolved: ServerTarget) -> dict[str, Any]:
    """Return the options of a client; options of the command override those of the configuration."""
    options = {"server_name": resolved.name, **resolved.options, **settings.client_options()}
    if resolved.url is not None and not settings.is_authorized and not resolved.is_authorized:
        stored = await _stored_login(resolved.url, resolved.login)
        if stored is not None:
            options["auth"] = stored
    return options


async def _stored_login(url: str, options: dict[str, Any]) -> OAuth | None:
    def remedy(scopes: list[str]) -> str:
        words = ["dragoman", "auth", "login", url, *(word for scope in scopes for word in ("--scope", scope))]
        return f"log in again: {shlex.join(words)}"

    oauth = program_login(remedy, **options)
    return None if await stored_tokens(oauth, url) is None else oauth


@contextmanager
def announcing_wait(terminal: Terminal, resolved: ServerTarget) -> Iterator[None]:
    """Report to a person at a terminal that the command waits, if the block takes long."""
    if not is_terminal(sys.stderr):
        yield
        return
    what = (
        f"{resolved.name} to answer" if resolved.url is not None else f"the server to start and answer: {resolved.name}"
    )
    note = f"dragoman: waiting for {what} (Ctrl-C ends it)"
    pending = asyncio.get_running_loop().call_later(SILENT_SECONDS, terminal.report, note, "dim")
    try:
        yield
    finally:
        pending.cancel()


@asynccontextmanager
async def connected(terminal: Terminal, resolved: ServerTarget, **handlers: Any) -> AsyncIterator[AsyncClient]:
    """Connect to a target for the block."""
    from dragoman.client.client import AsyncClient

    show_logs(terminal, resolved.name, counts_stderr=resolved.is_own)
    if terminal.settings.header and resolved.url is None:
        terminal.report(f"dragoman: --header has no effect, because {resolved.name} is a program and not a URL", "dim")
    client = make_client(AsyncClient, resolved, {**await client_options(terminal.settings, resolved), **handlers})
    try:
        try:
            with announcing_wait(terminal, resolved):
                await client.start()
        except AuthRequired as error:
            raise with_remedy(error, resolved) from error
        yield client
    finally:
        await client.stop()


def with_remedy(error: AuthRequired, resolved: ServerTarget) -> AuthRequired:
    """Return the error of a server that requires credentials, with the remedy."""
    if resolved.url is None or error.has_remedy:
        return error
    text = str(error).rstrip(".").removesuffix("; give auth= or headers=")
    return AuthRequired(
        f"{text}; log in with: dragoman auth login {resolved.url}, or give --token or --header",
        error.status,
        error.challenge,
    )


def make_client(kind: Any, resolved: ServerTarget, options: dict[str, Any]) -> Any:
    """Return a client of a class.

    Raises:
        UsageError: an option is invalid.
    """
    try:
        return kind(resolved.target, **options)
    except (TypeError, ValueError) as error:
        raise usage_error(f"{for_person(str(error))}.") from error
