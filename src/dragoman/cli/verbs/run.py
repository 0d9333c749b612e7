"""`dragoman run FILE[:object]`: serve the server of a Python file over stdin and stdout, or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.cli.server_file import load_server, split_target
from dragoman.errors import DragomanError
from dragoman.server.serving import SoleService
from dragoman.transports.stdio.serving import claim, run_stdio

_HTTP_OPTIONS: dict[str, Callable[[str], Any]] = {"--host": str, "--port": int, "--path": str, "--workers": int}


def parse(words: Sequence[str]) -> tuple[str, dict[str, Any] | None] | None:
    """Return the target and the HTTP options (None for stdio), or None if the usage is wrong."""
    targets: list[str] = []
    options: dict[str, Any] = {}
    is_http = False
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _HTTP_OPTIONS:
            try:
                options[name.removeprefix("--")] = _HTTP_OPTIONS[name](value if equals else next(left, ""))
            except ValueError:
                return None
        elif word == "--http":
            is_http = True
        else:
            targets.append(word)
    if len(targets) != 1 or targets[0].startswith("-") or "" in options.values() or (options and not is_http):
        return None
    return targets[0], options if is_http else None


def run(target: str, http: dict[str, Any] | None = None) -> None:
    """Serve the server that a file defines."""
    # The streams are claimed before the import of the file, so that its prints go to stderr.
    streams = claim() if http is None else None
    server = load_server(*split_target(target))
    try:
        if http is not None:
            server.run("http", **http)
            return
        server.check()
        server.require_shared_secret()
    except DragomanError as error:
        sys.exit(f"dragoman: {error}")
    run_stdio(SoleService(server), streams=streams)
