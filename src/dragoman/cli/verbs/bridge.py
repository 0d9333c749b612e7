"""`dragoman bridge`: serve stdio in front of a server over HTTP, or HTTP in front of a command or a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dragoman.cli.command import connecting, host_and_port, show_logs, usage_error
from dragoman.cli.terminal import Terminal
from dragoman.inspector.login import program_oauth
from dragoman.protocol.urls import is_http_url, is_loopback
from dragoman.transports.stdio.serving import claim, run_stdio

if TYPE_CHECKING:
    from dragoman.transports.contract import Transport


@click.command("bridge", short_help="Serve stdio in front of HTTP, or HTTP in front of a command.")
@click.argument("target", required=False)
@click.option("--http", metavar="[HOST]:PORT", help="Serve HTTP here instead of stdio, by default on 127.0.0.1.")
@click.option("--path", default="/mcp", metavar="PATH", help="The path for --http.")
@connecting
def command(terminal: Terminal, target: str | None, http: str | None, path: str) -> None:
    """Serve stdin and stdout in front of the server at URL, for hosts that only start processes.

    The bridge does not change messages. If the server requires a login, the browser opens once, unless you give --token
    or --header. The bridge also plays a cassette (a file that ends with .jsonl).

    `dragoman bridge --http :8000 -- COMMAND` serves HTTP in front of a command, for any number of clients. You may also
    write --http at the end of COMMAND. A URL works in place of COMMAND.
    """
    words = list(terminal.settings.command or ())
    if http is None and words[-2:-1] == ["--http"]:
        *words, _, http = words
    if http is not None:
        _serve_http(terminal, target, words, http, path)
        return
    if words or target is None:
        raise usage_error("Give a URL or a cassette; a command after -- needs --http, such as --http :8000.")
    streams = claim()
    show_logs(terminal)
    from dragoman.forward.bridge import StdioBridge

    run_stdio(StdioBridge(_transport(terminal, target)), streams=streams)


def _serve_http(terminal: Terminal, target: str | None, words: list[str], http: str, path: str) -> None:
    from dragoman.server.server import Server

    host, port = host_and_port("--http", http, "HOST:PORT or :PORT")
    if (target is None) == (not words) or (target is not None and not is_http_url(target)):
        raise usage_error("--http needs a URL, or a command after --, to serve.")
    show_logs(terminal)
    headers, auth = _credentials(terminal, may_login=is_loopback(host)) if target is not None else ({}, None)
    Server.proxy(target or words, headers=headers, auth=auth).run("http", host=host, port=port, path=path)


def _credentials(terminal: Terminal, *, may_login: bool = True) -> tuple[dict[str, str], Any]:
    """Return the headers and the authorization for a URL: a login of a person, unless a token or a header is given.

    Without `may_login` there is no login of a person: other machines reach the bridge, and would act as that person.
    """
    headers: dict[str, str] = dict(terminal.settings.header)
    auth: Any = terminal.settings.token
    if may_login and not terminal.settings.is_authorized:
        auth = program_oauth()
    return headers, auth


def _transport(terminal: Terminal, target: str) -> Transport:
    if target.endswith(".jsonl"):
        from dragoman.testing.cassettes.cassette import cassette

        return cassette(target, record="none")
    if not is_http_url(target):
        raise usage_error(f"{target!r} is neither a URL nor a cassette; a command speaks stdio without a bridge.")
    from dragoman.client.connect.credentials import Credentials
    from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
    from dragoman.forward.passthrough import LIMITS, Passthrough

    headers, auth = _credentials(terminal)
    return Passthrough(endpoint_of(target, EndpointOptions(Credentials.of(headers or None, auth), limits=LIMITS)))
