"""`dragoman auth login|status|logout URL`: one login to a server for all later commands."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import reporting, show_logs, usage_error
from dragoman.cli.exit_codes import FAILED, OK
from dragoman.cli.targets import make_client
from dragoman.cli.terminal import Terminal
from dragoman.errors import InsecureUrl
from dragoman.inspector.login import forget_login, login_facts, program_oauth
from dragoman.inspector.targets import ServerTarget
from dragoman.runtime.terminal import printable_line

if TYPE_CHECKING:
    from dragoman.auth.client.oauth import OAuth
    from dragoman.auth.client.storage import LoginRecords
    from dragoman.auth.client.stored_records import Tokens


def _oauth_of(url: str) -> tuple[OAuth, LoginRecords]:
    """Return the `OAuth` of the command for a server, and the storage of that server."""
    oauth = program_oauth()
    try:
        return oauth, oauth.bind(url)
    except InsecureUrl as error:
        raise usage_error(f"{error}.") from None


@click.group("auth", short_help="Log in to a server, once.")
def command() -> None:
    """Log in to a server with OAuth. Later commands use the login.

    If clients may not register themselves, set DRAGOMAN_CLIENT_ID and DRAGOMAN_CLIENT_SECRET.
    """


@command.command("login", short_help="Log in.")
@click.argument("url")
@click.option("--scope", multiple=True, help="A scope to ask for. You can repeat the option.")
@reporting
async def login(terminal: Terminal, url: str, scope: tuple[str, ...]) -> None:
    """Log in with a browser, or paste an address if there is no browser.

    A login that lacks a --scope is replaced by one that has it and those of the old login.
    """
    from dragoman.client.client import AsyncClient

    show_logs(terminal)
    oauth, records = _oauth_of(url)
    oauth.extra_scope = " ".join(scope) or None
    async with make_client(AsyncClient, ServerTarget(name=url, target=url), {"auth": oauth, "connect_timeout": 600.0}):
        tokens = await records.tokens()
        if tokens is not None:
            await oauth.require_extra_scope(url)
            tokens = await records.tokens()
    refused = set(" ".join(scope).split()).difference((tokens.scope or "").split() if tokens is not None else scope)
    if tokens is not None and refused:
        terminal.report(f"dragoman: the login was not granted: {printable_line(' '.join(sorted(refused)))}", "yellow")
    if terminal.settings.json:
        terminal.write_json(_facts(url, tokens))
    elif tokens is None:
        terminal.write(f"{url} needs no login.")
    else:
        terminal.write(f"Logged in to {url}.")


@command.command("status", short_help="Show whether there is a login.")
@click.argument("url")
@reporting
async def status(terminal: Terminal, url: str) -> int:
    """Show whether you are logged in, by which issuer and until when. Without a login the exit code is 1."""
    tokens = await _oauth_of(url)[1].tokens()
    facts = _facts(url, tokens)
    if terminal.settings.json:
        terminal.write_json(facts)
    elif tokens is None:
        terminal.write(f"Not logged in to {url}; log in with: dragoman auth login {url}")
    else:
        terminal.write(_line(url, tokens))
    return OK if facts["loggedIn"] else FAILED


def _facts(url: str, tokens: Tokens | None) -> dict[str, Any]:
    facts = login_facts(tokens)
    names = ("loggedIn",) if tokens is None else ("loggedIn", "issuer", "scopes", "expiresAt")
    renewable = {} if tokens is None else {"renewable": facts["canRefresh"]}
    return {"url": url, **{name: facts[name] for name in names}, **renewable}


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
async def logout(terminal: Terminal, url: str) -> None:
    """Forget the login, and the registration at the authorization server."""
    was_there = await forget_login(_oauth_of(url)[1])
    if terminal.settings.json:
        terminal.write_json({"url": url, "loggedIn": False, "forgotten": was_there})
    else:
        terminal.write(f"Logged out of {url}." if was_there else f"There was no login to {url}.")
