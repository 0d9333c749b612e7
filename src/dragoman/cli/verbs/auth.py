"""`dragoman auth login|status|logout URL`: logging in to a server once, for all commands to come."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import listen_to_logs, refuse, reporting
from dragoman.cli.exits import FAILED, OK
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal
from dragoman.errors import InsecureUrl
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman.auth.client.oauth import OAuth
    from dragoman.auth.client.records import Tokens
    from dragoman.auth.client.storage import Keeper


def authorizer(**given: Any) -> OAuth:
    """Return what lets the command in; DRAGOMAN_CLIENT_ID and DRAGOMAN_CLIENT_SECRET say what it is known by."""
    from dragoman.auth.client.oauth import OAuth
    from dragoman.auth.client.storage import FileStorage

    own: dict[str, Any] = {
        "storage": FileStorage(),
        "client_id": os.environ.get("DRAGOMAN_CLIENT_ID"),
        "client_secret": os.environ.get("DRAGOMAN_CLIENT_SECRET"),
        "client_metadata": {"client_name": "dragoman"},
    }
    return OAuth(**{**own, **given})


def _login_of(url: str, scope: str | None = None) -> tuple[OAuth, Keeper]:
    """Return what lets the command in to a server, and where that is kept."""
    login = authorizer(scope=scope)
    try:
        return login, login.bind(url)
    except InsecureUrl as error:
        raise refuse(f"{error}.") from None


@click.group("auth", short_help="Log in to a server, once.")
def command() -> None:
    """Log in to a server that wants OAuth; the login is kept for all commands to come.

    DRAGOMAN_CLIENT_ID and DRAGOMAN_CLIENT_SECRET say what the client is known by, where it may not register itself.
    """


@command.command("login", short_help="Log in.")
@click.argument("url")
@click.option("--scope", multiple=True, help="What to ask for; may be given again.")
@reporting
@click.pass_obj
def login(settings: CommandSettings, url: str, scope: tuple[str, ...]) -> None:
    """Log in with a browser, or by pasting an address where there is none."""
    asyncio.run(_login(settings, url, " ".join(scope) or None))


async def _login(settings: CommandSettings, url: str, scope: str | None) -> None:
    from dragoman.cli.targets import Aim, make_client
    from dragoman.client.client import AsyncClient

    terminal = Terminal(settings)
    listen_to_logs(terminal)
    oauth, keeper = _login_of(url, scope)
    async with make_client(AsyncClient, Aim(url, url), {"auth": oauth, "connect_timeout": 600.0}):
        tokens = await keeper.tokens()
    if settings.json:
        terminal.write_json(_facts(url, tokens))
    elif tokens is None:
        terminal.write(f"{url} lets everybody in; nobody has to log in.")
    else:
        terminal.write(f"Logged in to {url}.")


@command.command("status", short_help="Show whether there is a login.")
@click.argument("url")
@reporting
@click.pass_obj
def status(settings: CommandSettings, url: str) -> int:
    """Show whether there is a login, from whom and until when; without one the exit code is 1."""
    tokens = asyncio.run(_tokens(url))
    terminal = Terminal(settings)
    facts = _facts(url, tokens)
    if settings.json:
        terminal.write_json(facts)
    elif tokens is None:
        terminal.write(f"Not logged in to {url}; log in with: dragoman auth login {url}")
    else:
        terminal.write(_line(url, tokens))
    return OK if facts["loggedIn"] else FAILED


async def _tokens(url: str) -> Tokens | None:
    return await _login_of(url)[1].tokens()


def _facts(url: str, tokens: Tokens | None) -> dict[str, Any]:
    if tokens is None:
        return {"url": url, "loggedIn": False}
    return {
        "url": url,
        "loggedIn": not tokens.is_expired or tokens.refresh_token is not None,
        "issuer": tokens.issuer,
        "scopes": tokens.scopes,
        "expiresAt": tokens.expires_at,
        "renewable": tokens.refresh_token is not None,
    }


def _line(url: str, tokens: Tokens) -> str:
    parts = [f"Logged in to {url}"]
    if tokens.issuer:
        parts.append(f"by {tokens.issuer}")
    if tokens.scopes:
        parts.append(f"for {' '.join(tokens.scopes)}")
    if tokens.expires_at is not None:
        moment = datetime.fromtimestamp(tokens.expires_at, UTC).astimezone()
        is_over = tokens.expires_at <= time.time()
        renewed = " (renewed by itself)" if tokens.refresh_token else ""
        parts.append(f"{'expired' if is_over else 'until'} {moment:%Y-%m-%d %H:%M}{renewed}")
    return printable_line(", ".join(parts))


@command.command("logout", short_help="Forget a login.")
@click.argument("url")
@reporting
@click.pass_obj
def logout(settings: CommandSettings, url: str) -> None:
    """Forget the login, and what the authorization server knows the command by."""
    was_there = asyncio.run(_forget(url))
    terminal = Terminal(settings)
    if settings.json:
        terminal.write_json({"url": url, "loggedIn": False, "forgotten": was_there})
    else:
        terminal.write(f"Logged out of {url}." if was_there else f"There was no login to {url}.")


async def _forget(url: str) -> bool:
    _, keeper = _login_of(url)
    async with keeper.lock():
        was_there = await keeper.tokens() is not None
        await keeper.save_tokens(None)
        await keeper.save_client(None)
    return was_there
