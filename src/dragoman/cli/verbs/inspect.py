"""`dragoman inspect [TARGET | configuration file | session file]`: a page to see and try servers."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dragoman.cli.command import connecting, show_logs, stop_event, usage_error
from dragoman.cli.targets import read_configuration, resolve_target
from dragoman.cli.terminal import Terminal

if TYPE_CHECKING:
    from dragoman.inspector.targets import ServerTarget

SESSION_SUFFIX = ".mcpsession"


@click.command("inspect", short_help="See and try servers in the browser.")
@click.argument("target", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of the page; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address of the page.")
@connecting
async def command(terminal: Terminal, target: str | None, port: int, no_browser: bool) -> int:  # noqa: FBT001
    """Serve a page on this machine, on which you call, examine and record servers.

    TARGET is a server, a configuration file, or a session file whose name ends with .mcpsession. If you give no target,
    the page shows the servers in the configuration file, if there is one.
    """
    from dragoman.inspector.inspector import Inspector
    from dragoman.inspector.web import InspectorSite

    show_logs(terminal)
    inspector = Inspector()
    is_session = target is not None and target.endswith(SESSION_SUFFIX)
    targets = [] if is_session else await _targets(terminal, target)
    stop = stop_event()
    async with AsyncExitStack() as stack:
        try:
            site = await stack.enter_async_context(InspectorSite(inspector, port=port))
        except OSError as error:
            raise usage_error(f"The page cannot be served on port {port}: {error.strerror}.") from None
        if is_session:
            await inspector.open(Path(str(target)), follow=True)
        inspector.add(targets)
        terminal.write(site.url)
        sys.stdout.flush()
        if not no_browser:
            _open_browser(site.url)
        await stop.wait()
    return 0


async def _targets(terminal: Terminal, word: str | None) -> list[ServerTarget]:
    """Return the servers that a word names: one server, or all of a configuration file."""
    from dragoman.inspector.targets import target_of_entry

    settings = terminal.settings
    if word is not None and _is_configuration(word):
        settings.config, word = word, None
    if word is not None or settings.command is not None:
        named = await resolve_target(terminal, word)
        named.shown = named.url or named.name
        found = [named]
    else:
        try:
            file, entries = read_configuration(settings)
        except click.UsageError:  # there is no configuration file, and the page starts empty
            return []
        await file.require_trust(terminal)
        found = [target_of_entry(entry, str(file)) for entry in entries if not entry.disabled]
    for target in found:
        target.options |= settings.client_options()
        target.is_authorized = target.is_authorized or settings.is_authorized
    return found


def _is_configuration(word: str) -> bool:
    from dragoman.inspector.targets import FILES

    return Path(word).suffix in FILES and Path(word).is_file()


def _open_browser(url: str) -> None:
    """Open the page if there is a browser that is no terminal; the opening may block, so a thread does it."""
    import threading
    import webbrowser

    from dragoman.auth.client.browser_login import can_open_browser

    if can_open_browser():
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
