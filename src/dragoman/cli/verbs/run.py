"""`dragoman run FILE[:object]`: serve the server of a Python file over stdin and stdout, or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.cli.server_file import load_server, split_target
from dragoman.errors import DragomanError
from dragoman.server.serving import SoleService
from dragoman.transports.stdio.serving import claim, run_stdio

if TYPE_CHECKING:
    from dragoman.server.server import Server

_HTTP_OPTIONS: dict[str, Callable[[str], Any]] = {"--host": str, "--port": int, "--path": str, "--workers": int}
_HTTP_FLAGS = {"--access-log": ("access_log", True), "--no-health": ("health", False)}
_TAG_OPTIONS = ("--include-tags", "--exclude-tags")
_LOG_FORMATS = ("text", "json")


class RunWords(Struct):
    """The command line of `dragoman run`."""

    target: str
    http: dict[str, Any] | None
    """The options of HTTP; None for stdio."""
    tags: dict[str, list[str]]
    """The options `include_tags` and `exclude_tags`."""
    is_dev: bool
    """Whether clients receive the text and the place of exceptions."""
    log_format: Any
    """The form of log lines on stderr; None if the command leaves logging alone."""


def parse(words: Sequence[str]) -> RunWords | None:
    """Return the parsed words, or None if the usage is wrong."""
    targets: list[str] = []
    options: dict[str, Any] = {}
    tags: dict[str, list[str]] = {}
    flags: set[str] = set()
    log_format = None
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _HTTP_OPTIONS:
            try:
                options[name.removeprefix("--")] = _HTTP_OPTIONS[name](value if equals else next(left, ""))
            except ValueError:
                return None
        elif name in _TAG_OPTIONS:
            tags[name.removeprefix("--").replace("-", "_")] = (value if equals else next(left, "")).split(",")
        elif name == "--log-format":
            log_format = value if equals else next(left, "")
        elif word in ("--http", "--dev", "--reload", *_HTTP_FLAGS):
            flags.add(word)
        else:
            targets.append(word)
    options |= dict(_HTTP_FLAGS[flag] for flag in flags & _HTTP_FLAGS.keys())
    is_http = "--http" in flags
    given = [*options.values(), *(tag for several in tags.values() for tag in several)]
    if len(targets) != 1 or targets[0].startswith("-") or "" in given or (options and not is_http):
        return None
    if log_format not in (None, *_LOG_FORMATS):
        return None
    is_dev = bool(flags & {"--dev", "--reload"})
    http = {"health": True, "access_log": is_dev, **options} if is_http else None
    return RunWords(targets[0], http, tags, is_dev, log_format)


def run(words: RunWords) -> None:
    """Serve the server that a file defines."""
    # The streams are claimed before the import of the file, so that its prints go to stderr.
    streams = claim() if words.http is None else None
    if words.log_format is not None:
        import logging

        from dragoman.server.routes.log_lines import log_to_stderr

        log_to_stderr(logging.getLogger("dragoman"), words.log_format)

    def serve(server: Server) -> None:
        from dragoman.server.serving import LOADING

        LOADING.serve = None
        server.debug = server.debug or words.is_dev
        try:
            if words.http is not None:
                server.run("http", **{**words.http, **words.tags})
                return
            server.check()
            server.require_shared_secret()
        except DragomanError as error:
            sys.exit(f"dragoman: {error}")
        run_stdio(SoleService(server, words.tags), streams=streams)

    serve(load_server(*split_target(words.target), serve))
