"""What the word TARGET means, and the client that is pointed at it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dragoman.cli.command import listen_to_logs, refuse
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal
from dragoman.cli.verbs.run import split
from dragoman.errors import AuthRequired
from dragoman.runtime.terminal import is_terminal

if TYPE_CHECKING:
    from dragoman.cli.configuration_file import FoundFile
    from dragoman.client.client import AsyncClient
    from dragoman.client.group.config import ServerEntry

SILENT_SECONDS = 3.0
"""How long it may take to connect before a person is told what is waited for."""
_SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs"})


class Aim(Struct):
    """What a client is pointed at, and what it is told besides."""

    target: Any
    label: str
    options: dict[str, Any] = field(default_factory=dict)
    url: str | None = None
    file: str | None = None
    """The configuration file that it is from."""
    is_authorized: bool = False
    """Whether its own headers say who asks."""
    login: dict[str, Any] = field(default_factory=dict)
    """What its entry says about a login."""
    is_own: bool = False
    """Whether it is named by its file, so that the user can change it."""


async def aim_at(terminal: Terminal, word: str | None) -> Aim:
    """Return what a word stands for, or its absence.

    Raises:
        UsageError: it stands for nothing, or for a server of a file that is not trusted.
        ConfigError: the configuration cannot be used.
    """
    settings = terminal.settings
    if settings.command is not None:
        if word is not None:
            raise refuse(f"Give either the target {word!r} or a command after --, not both.")
        if not settings.command:
            raise refuse("There is no command after --; write it as in: -- python server.py")
        return Aim(settings.command, " ".join(settings.command))
    if word is None:
        return await _only(terminal)
    if "://" in word.partition(" ")[0]:
        return Aim(word, word, url=word)
    return _script(word) or await _named(terminal, word)


def _script(word: str) -> Aim | None:
    path, name = split(word)
    is_script = path.suffix in _SCRIPTS
    if is_script and not path.is_file() and " " not in word:
        raise refuse(f"There is no file {str(path)!r}.")
    if name is not None and path.suffix == ".py":
        return Aim([sys.executable, "-P", "-m", "dragoman", "run", word], word, is_own=True)
    if (is_script or os.sep in word) and path.is_file():
        return Aim(path.absolute(), word, is_own=True)
    return Aim(word, word) if " " in word else None


def configuration(settings: CommandSettings, word: str | None = None) -> tuple[FoundFile, list[ServerEntry]]:
    """Return the configuration file that is meant, and its servers.

    Raises:
        UsageError: there is none.
        ConfigError: it cannot be read.
    """
    from dragoman.cli.configuration_file import FoundFile
    from dragoman.client.group.config import FILES, find, parse, read

    path = Path(settings.config) if settings.config else find()
    if path is None:
        which = "Which server is meant?" if word is None else f"{word!r} is no URL and no script, and no file names it."
        files = f"{', '.join(FILES)} or --config FILE"
        raise refuse(f"{which} Give a URL, a script, or a command after --; or name servers in {files}.")
    text = read(path)
    is_named = bool(settings.config) or bool(os.environ.get("DRAGOMAN_CONFIG"))
    file = FoundFile(path, text, is_named=is_named or path not in map(Path, FILES))
    return file, parse(text, path, inputs=dict(settings.input) or None)


async def _only(terminal: Terminal) -> Aim:
    file, entries = configuration(terminal.settings)
    usable = [entry for entry in entries if not entry.disabled]
    if len(usable) != 1:
        names = ", ".join(entry.name for entry in usable) or "none"
        raise refuse(f"Which server of {file} is meant? Give its name as the target; there are: {names}.")
    return await of_entry(terminal, usable[0], file)


async def _named(terminal: Terminal, word: str) -> Aim:
    file, entries = configuration(terminal.settings, word)
    for entry in entries:
        if entry.name == word:
            return await of_entry(terminal, entry, file)
    names = ", ".join(entry.name for entry in entries) or "none"
    raise refuse(f"There is no server {word!r} in {file}; there are: {names}.")


async def of_entry(terminal: Terminal, entry: ServerEntry, file: FoundFile) -> Aim:
    """Return what an entry of a configuration file stands for, if the file is trusted.

    Raises:
        ConfigError: it cannot be used.
        UsageError: the file is not trusted.
    """
    if entry.error is not None:
        raise entry.error
    await file.require_trust(terminal)
    url = entry.target.get("url")
    named = {name.lower() for name in entry.target.get("headers") or ()}
    options = dict(entry.options)
    if entry.login is not None:
        del options["auth"]  # the command itself logs nobody in
    return Aim(
        entry.target,
        entry.name,
        options,
        url=url if isinstance(url, str) else None,
        file=str(file),
        is_authorized="authorization" in named or "auth" in options,
        login=entry.login or {},
    )


async def client_options(settings: CommandSettings, aim: Aim) -> dict[str, Any]:
    """Return the options of a client: the command's own come before those of the configuration."""
    options = {"server_name": aim.label, **aim.options, **settings.client_options()}
    if aim.url is not None and not settings.is_authorized and not aim.is_authorized:
        kept = await _kept_login(aim.url, aim.login)
        if kept is not None:
            options["auth"] = kept
    return options


async def _kept_login(url: str, said: dict[str, Any]) -> Any:
    """Return what a login that was made earlier gives, None if there was none."""
    from dragoman.cli.verbs.auth import authorizer
    from dragoman.errors import AuthError

    login = authorizer(**said, redirect_handler=lambda _: _refuse_login(url))
    try:
        tokens = await login.bind(url).tokens()
    except AuthError:
        return None
    return None if tokens is None else login


def _refuse_login(url: str) -> None:
    raise AuthRequired(f"The login has expired; log in again: dragoman auth login {url}")


@contextmanager
def noting_wait(terminal: Terminal, aim: Aim) -> Iterator[None]:
    """Tell a person at a terminal what is waited for, if the block takes long."""
    if not is_terminal(sys.stderr):
        yield
        return
    what = f"{aim.label} to answer" if aim.url is not None else f"the server to start and answer: {aim.label}"
    note = f"dragoman: waiting for {what} (Ctrl-C ends it)"
    pending = asyncio.get_running_loop().call_later(SILENT_SECONDS, terminal.tell, note, "dim")
    try:
        yield
    finally:
        pending.cancel()


@asynccontextmanager
async def connected(terminal: Terminal, aim: Aim, **handlers: Any) -> AsyncIterator[AsyncClient]:
    """Connect to a target for as long as the block lasts."""
    from dragoman.client.client import AsyncClient

    listen_to_logs(terminal, aim.label)
    client = make_client(AsyncClient, aim, {**await client_options(terminal.settings, aim), **handlers})
    try:
        try:
            with noting_wait(terminal, aim):
                await client.start()
        except AuthRequired as error:
            raise with_remedy(error, aim) from error
        yield client
    finally:
        await client.stop()


def with_remedy(error: AuthRequired, aim: Aim) -> AuthRequired:
    """Return the error of a server that wants credentials, with what to do about it."""
    if aim.url is None or "dragoman auth login" in str(error):
        return error
    text = str(error).rstrip(".")
    return AuthRequired(
        f"{text}; log in with: dragoman auth login {aim.url}, or give --token", error.status, error.challenge
    )


def make_client(kind: Any, aim: Aim, options: dict[str, Any]) -> Any:
    """Return a client of some kind.

    Raises:
        UsageError: an option makes no sense.
    """
    try:
        return kind(aim.target, **options)
    except (TypeError, ValueError) as error:
        raise refuse(f"{error}.") from error
