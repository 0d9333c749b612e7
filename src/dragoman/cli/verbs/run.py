"""`dragoman run FILE[:object]`: serve the server of a Python file over stdin and stdout, or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from dragoman.cli.exit_codes import exit_code
from dragoman.cli.server_file import load_server, split_target
from dragoman.errors import ConfigError, DefinitionError, DragomanError
from dragoman.runtime.callables import did_you_mean
from dragoman.server.serving import SoleService
from dragoman.transports.stdio.serving import claim, run_stdio

if TYPE_CHECKING:
    from dragoman.server.options import HttpOptions
    from dragoman.server.server import Server

_HTTP_OPTIONS: dict[str, Callable[[str], Any]] = {"--host": str, "--port": int, "--path": str, "--workers": int}
_HTTP_FLAGS = {"--access-log": ("access_log", True), "--no-health": ("health", False)}
_TAG_OPTIONS = ("--include-tags", "--exclude-tags")
_LOG_FORMATS = ("text", "json")
_WITH_VALUES = (*_HTTP_OPTIONS, *_TAG_OPTIONS, "--log-format")
_FLAGS = ("--http", "--dev", "--reload", *_HTTP_FLAGS)
_OF_HTTP = (*_HTTP_OPTIONS, *_HTTP_FLAGS)


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


def parse(words: Sequence[str]) -> RunWords:
    """Return the parsed words.

    Raises:
        ConfigError: the usage is wrong; the message names the fault.
    """
    targets: list[str] = []
    options: dict[str, Any] = {}
    tags: dict[str, list[str]] = {}
    flags: set[str] = set()
    log_format = None
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _WITH_VALUES:
            value = value if equals else next(left, "")
            if not value:
                raise ConfigError(f"{name} needs a value")
        if name in _HTTP_OPTIONS:
            options[name.removeprefix("--")] = _http_value(name, value)
        elif name in _TAG_OPTIONS:
            tags[name.removeprefix("--").replace("-", "_")] = _tags(name, value)
        elif name == "--log-format":
            log_format = value
        elif word in _FLAGS:
            flags.add(word)
        elif word.startswith("-"):
            raise ConfigError(f"There is no option {word!r}{did_you_mean(name, (*_WITH_VALUES, *_FLAGS))}")
        else:
            targets.append(word)
    options |= dict(_HTTP_FLAGS[flag] for flag in flags & _HTTP_FLAGS.keys())
    is_http, is_dev = "--http" in flags, bool(flags & {"--dev", "--reload"})
    _check(targets, [word for word in words if word.partition("=")[0] in _OF_HTTP and not is_http], log_format)
    http = {"health": True, "access_log": is_dev, **options} if is_http else None
    return RunWords(targets[0], http, tags, is_dev, log_format)


def _http_value(name: str, text: str) -> Any:
    try:
        return _HTTP_OPTIONS[name](text)
    except ValueError:
        raise ConfigError(f"{name} must be a number, not {text!r}") from None


def _tags(name: str, text: str) -> list[str]:
    tags = text.split(",")
    if "" in tags:
        raise ConfigError(f"{name} must be tags with commas between them, such as a,b, not {text!r}")
    return tags


def _check(targets: list[str], without_http: list[str], log_format: str | None) -> None:
    if not targets:
        raise ConfigError("The file is missing: write dragoman run FILE[:object]")
    if len(targets) > 1:
        raise ConfigError(f"Give one file, not {' and '.join(targets)}")
    if without_http:
        raise ConfigError(f"{without_http[0].partition('=')[0]} is for HTTP: add --http, or leave it out")
    if log_format not in (None, *_LOG_FORMATS):
        raise ConfigError(f"--log-format must be {' or '.join(_LOG_FORMATS)}, not {log_format!r}")


def run(words: RunWords) -> None:
    """Serve the server that a file defines."""
    # The streams are claimed before the import of the file, so that its prints go to stderr.
    streams = claim() if words.http is None else None
    if words.log_format is not None:
        import logging

        from dragoman.server.routes.log_lines import log_to_stderr

        log_to_stderr(logging.getLogger("dragoman"), words.log_format)

    def serve(server: Server, options: HttpOptions) -> None:
        from dragoman.server.serving import LOADING

        LOADING.serve = None
        server.debug = server.debug or words.is_dev
        try:
            if words.http is not None:
                server.run("http", **{**options, **words.http, **words.tags})
                return
            server.check()
            server.storage.require_shared_secret()
        except DragomanError as error:
            end(error)
        try:
            run_stdio(SoleService(server.dispatcher, {**options, **words.tags}), streams=streams)
        except DefinitionError as error:
            end(error)

    try:
        server = load_server(*split_target(words.target), serve)
    except ConfigError as error:
        end(error)
    serve(server, {})


def end(error: DragomanError) -> NoReturn:
    """Write an error to stderr, and end the process with its exit code."""
    sys.stderr.write(f"dragoman: {error}\n")
    sys.exit(exit_code(error))
