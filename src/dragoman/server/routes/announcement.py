"""`announce`: says on stderr where a server serves HTTP: in one line, or with colours on a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.protocol.urls import is_loopback
from dragoman.runtime.terminal import is_terminal, printable_line
from dragoman.server.routes.health import LIVE_PATH, READY_PATH

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.options import HttpOptions

_BOLD, _DIM, _END = "\x1b[1;36m", "\x1b[2m", "\x1b[0m"


def announce(server: Dispatcher, options: HttpOptions, address: Any) -> None:
    """Write where a server serves; `address` is the address of the listening socket."""
    url, facts = _url(address, options), announced_facts(server, options, address)
    name = printable_line(f"{server.name} {server.identity.info.version}")
    if is_terminal(sys.stderr) and not os.environ.get("NO_COLOR"):
        rows = [f"{_DIM}{title:>9}{_END}  {text}" for title, text in facts.items()]
        rows.append(f"{_DIM}{'try it':>9}{_END}  dragoman list {url}")
        text = "\n".join([f"{_BOLD}dragoman{_END}  serving {name} at {_BOLD}{url}{_END}", *rows])
    else:
        listed = ", ".join(f"{title}: {text}" for title, text in facts.items())
        text = f"dragoman: serving {name} at {url} ({listed})"
    with suppress(OSError, ValueError, AttributeError):  # stderr is closed, or there is none
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def announced_facts(server: Dispatcher, options: HttpOptions, address: Any) -> dict[str, str]:
    """Return what is said of a server, by title."""
    versions = [version.name for version in server.offer.versions]
    facts = {"versions": versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"}
    facts["workers"] = str(options.get("workers", 1))
    auth = options.get("auth")
    facts["auth"] = "none" if auth is None else getattr(auth, "__name__", type(auth).__name__)
    if isinstance(auth, list | tuple):
        facts["auth"] = f"{len(auth)} issuers"
    if auth is None and not is_loopback(str(address[0])):
        facts["auth"] = "none: everybody who reaches the address may call"
    if options.get("health"):
        facts["health"] = f"{LIVE_PATH} {READY_PATH}"
    if server.identity.info.website_url:
        facts["docs"] = printable_line(server.identity.info.website_url)
    if server.debug:
        facts["debug"] = "clients see exceptions"
    return facts


def _url(address: Any, options: HttpOptions) -> str:
    host, port = str(address[0]), int(address[1])
    path = "/" + options.get("path", "/mcp").strip("/")
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{printable_line(path)}"
