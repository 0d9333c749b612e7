"""`dragoman bridge (URL | CASSETTE.jsonl)`: serve stdin and stdout in front of a server over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import connecting, show_logs, usage_error
from dragoman.cli.terminal import Terminal
from dragoman.inspector.login import program_oauth
from dragoman.protocol.urls import is_http_url
from dragoman.transports.stdio.serving import claim, run_stdio

if TYPE_CHECKING:
    from dragoman.transports.contract import Transport


@click.command("bridge", short_help="Serve stdio in front of a server over HTTP.")
@click.argument("target")
@connecting
@click.pass_obj
def command(terminal: Terminal, target: str) -> None:
    """Serve stdin and stdout in front of the server at URL, for hosts that only start processes.

    Messages pass unchanged. A server that requires a login opens the browser once; --token and --header are sent
    instead if they are given. A cassette (a file that ends with .jsonl) is played back.
    """
    streams = claim()
    show_logs(terminal)
    from dragoman.compose.bridge import StdioBridge

    run_stdio(StdioBridge(_transport(terminal, target)), streams=streams)


def _transport(terminal: Terminal, target: str) -> Transport:
    if target.endswith(".jsonl"):
        from dragoman.testing.cassettes.cassette import cassette

        return cassette(target, record="none")
    if not is_http_url(target):
        raise usage_error(f"{target!r} is neither a URL nor a cassette; a command needs no bridge to stdio.")
    from dragoman.client.connect.credentials import Credentials
    from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
    from dragoman.compose.passthrough import LIMITS, Passthrough

    headers: dict[str, str] = dict(terminal.settings.header)
    auth: Any = terminal.settings.token
    if auth is None and not any(name.lower() == "authorization" for name in headers):
        auth = program_oauth()
    return Passthrough(endpoint_of(target, EndpointOptions(Credentials.of(headers or None, auth), limits=LIMITS)))
