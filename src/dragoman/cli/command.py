"""The click group of all verbs: their shared options, the report of errors with exit codes, and logs.

VERBS is the list of verbs; other files in `verbs/` belong to one of them. `run` is parsed without click (see
`__init__`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from inspect import iscoroutine
from typing import Any

import click

from dragoman.cli.exit_codes import INTERRUPTED, OK, USAGE, error_json, exit_code, one_line
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal
from dragoman.runtime.callables import did_you_mean
from dragoman.runtime.terminal import printable_line

VERBS = (
    *("run", "worker", "list", "call", "tasks", "read", "prompt", "complete", "skill", "chat", "doctor", "init"),
    *("install", "bundle", "auth", "inspect", "tap", "bridge", "version"),
)
MAX_INDENT = 40
"""The most spaces that are kept at the start of a server's line."""
Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Adds options to a function."""


class Verbs(click.Group):
    """The group of verbs, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the verbs in the order in which they are shown."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb."""
        if cmd_name == "run":
            return _run
        if cmd_name not in VERBS:
            remedy = did_you_mean(cmd_name, VERBS)
            if remedy:
                raise click.UsageError(f"No such command {cmd_name!r}{remedy}", ctx)
            return None
        found: click.Command = import_module(f"dragoman.cli.verbs.{cmd_name}").command
        return found


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _save_option(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Save an option in the settings; an option after the verb overrides or extends the one before the verb."""
    terminal, name = ctx.find_object(Terminal), str(parameter.name)
    if terminal is None or value in (None, False, ()):
        return
    known = getattr(terminal.settings, name)
    setattr(terminal.settings, name, [*known, *value] if isinstance(known, list) else value)


def named_value(separator: str) -> Callable[[str], tuple[str, str]]:
    """Return a parser of a name and a value with a separator between them."""

    def read(text: str) -> tuple[str, str]:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            shown = "NAME: VALUE" if separator == ":" else f"NAME{separator}VALUE"
            raise click.BadParameter(f"{text!r} must be written as {shown!r}.")
        return name.strip(), value.strip()

    return read


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise click.BadParameter(f"{text!r} is not a number of seconds above 0.")
    return number


def _shared(*names: str, **attributes: Any) -> Option:
    return click.option(*names, expose_value=False, callback=_save_option, **attributes)


_REPORTING = (
    _shared("--json", is_flag=True, help="Write only the result to stdout, as JSON."),
    _shared("--verbose", is_flag=True, help="Show tracebacks, and what the server writes to stderr."),
    _shared("--no-color", is_flag=True, help="Use no colours. The variable NO_COLOR does the same."),
)
_CONNECTING = (
    _shared("--config", metavar="FILE", help="The configuration file. By default the command looks for one."),
    _shared("--trust", is_flag=True, help="Trust the configuration file in this folder, and remember that."),
    _shared(
        "--input",
        type=named_value("="),
        multiple=True,
        metavar="ID=VALUE",
        help="The value of ${input:ID} in the configuration file.",
    ),
    _shared("--timeout", type=_seconds, metavar="SECONDS", help="Give up if the server is silent for so many seconds."),
    _shared("--mode", type=click.Choice(["auto", "handshake", "stateless"]), help="The era of the protocol to use."),
    _shared("--protocol-version", metavar="VERSION", help="Use only this protocol version."),
    _shared(
        "--header", type=named_value(":"), multiple=True, metavar="'K: V'", help="A header for every HTTP request."
    ),
    _shared("--token", envvar="DRAGOMAN_TOKEN", metavar="TOKEN", help="A bearer token; also DRAGOMAN_TOKEN."),
)


_RAW = _shared("--raw", is_flag=True, help="Write text to a file or a pipe unchanged, without escapes.")


def _with(options: Sequence[Option], function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


def _verb(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that click calls: it gets the terminal, and a coroutine runs in a new event loop."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        outcome = function(*args, **options)
        return asyncio.run(outcome) if iscoroutine(outcome) else outcome

    return click.pass_obj(run)


def reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a verb of a function, with the options for output."""
    return _with(_REPORTING, _verb(function))


def connecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a verb of a function, with the options for the connection and for output."""
    return _with((*_CONNECTING, *_REPORTING), _verb(function))


def saving(data: str) -> Option:
    """Return the options `--save-to` and `--raw` of a verb that writes content, some of which goes to files."""
    save_to = click.option("--save-to", metavar="FOLDER", help=f"The folder for {data}; else this one.")
    return partial(_with, (save_to, _RAW))


_EPILOG = (
    "A TARGET is a URL, a script, a name from the configuration file, or a command after --. If you give no target, the"
    " command uses the server in the configuration file, provided that there is only one. Exit codes: 0 success,"
    " 1 the tool or a check failed, 2 wrong usage, 3 no connection, 4 the server refused, 5 no answer in time,"
    " 130 interrupted."
)


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        ctx.invoke(import_module("dragoman.cli.verbs.version").command)
        ctx.exit()


@click.command(cls=Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_show_version, help="Show the version.")
@partial(_with, (*_CONNECTING, *_REPORTING))
def dragoman() -> None:
    """Serve your MCP servers, and use any MCP server."""


@click.command(
    "run",
    short_help="Serve the server in a Python file.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("words", nargs=-1, type=click.Path())
def _run(words: tuple[str, ...]) -> None:
    from dragoman.cli import run_words

    run_words(list(words))


def main(words: Sequence[str]) -> None:
    """Run a verb, and exit."""
    own, command = list(words), None
    if "--" in words and words[0] != "run":
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    terminal = Terminal(CommandSettings(command=command))
    try:
        code = _perform(own, terminal)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Without this the interpreter would fail to flush stdout at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exit_code(BrokenPipeError())
    sys.exit(code)


def _perform(words: list[str], terminal: Terminal) -> int:
    try:
        code = dragoman.main(words or ["--help"], prog_name="dragoman", obj=terminal, standalone_mode=False)
    except click.ClickException as error:
        terminal.settings.json = terminal.settings.json or "--json" in words
        return _report(error, error.exit_code, _usage_line(error), terminal)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        return _report(error, exit_code(error), one_line(error), terminal)
    return code if isinstance(code, int) else OK


def _report(error: Exception, code: int, line: str, terminal: Terminal) -> int:
    settings = terminal.settings
    if settings.verbose and code != USAGE:
        terminal.report(quoted("".join(traceback.format_exception(error))))
    if settings.json:
        terminal.write_json(error_json(error, code))
    terminal.report(f"dragoman: {line}")
    return code


def _usage_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    is_bare = isinstance(error, click.exceptions.NoArgsIsHelpError)
    text = "A command is missing." if is_bare else " ".join(error.format_message().split())
    return f"{text} See: {context.command_path} --help" if context is not None else text


def host_and_port(option: str, address: str, forms: str = "HOST:PORT") -> tuple[str, int]:
    """Return the host and the port of an address; the host is 127.0.0.1 if there is none.

    Raises:
        UsageError: the address has no port.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise usage_error(f"{option} {address} must be written as {forms}.")
    return host.strip("[]") or "127.0.0.1", int(port)


def usage_error(message: str) -> click.UsageError:
    """Return a usage error in the context of the current command."""
    return click.UsageError(message, click.get_current_context(silent=True))


def quoted(text: str) -> str:
    """Return a text with a mark before each line, so that no line looks like output of the command itself."""
    return "\n".join(f"  | {line}" for line in text.splitlines()) or "  |"


def server_line(server: str, text: str) -> str:
    """Return a server's log or stderr text; every line begins with the server's name in brackets."""
    before = f"[{printable_line(server)}]"
    return "\n".join(f"{before} {_indent(line)}{' '.join(line.split())}" for line in text.splitlines()) or before


def _indent(line: str) -> str:
    """Return the spaces at the start of a line, which order a traceback."""
    return " " * min(len(line) - len(line.lstrip(" ")), MAX_INDENT)


class _Lines(logging.Handler):
    """A log handler that reports records as lines."""

    def __init__(self, terminal: Terminal, server: str) -> None:
        super().__init__()
        self._terminal = terminal
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        text, is_verbose = record.getMessage().rstrip(), self._terminal.settings.verbose
        if record.name == _STDERR_LOGGER:
            text = str(record.args[1]).rstrip() if isinstance(record.args, tuple) else text  # without the command
            self._terminal.hidden_lines += not is_verbose
        if record.name in _SERVER_LOGGERS:
            if is_verbose or record.name != _STDERR_LOGGER:
                self._terminal.report(server_line(self._server, text), "dim")
            return
        line = "dragoman: " + " ".join(text.split())
        if is_verbose and record.exc_info:
            line += "\n" + quoted("".join(traceback.format_exception(record.exc_info[1])))
        self._terminal.report(line, "dim")


_STDERR_LOGGER = "dragoman.client.stderr"
_SERVER_LOGGERS = frozenset({"dragoman.client.server", _STDERR_LOGGER})
"""The loggers of the log messages and the stderr of servers."""


def show_logs(terminal: Terminal, server: str = "server", *, counts_stderr: bool = False) -> None:
    """Report the warnings in dragoman's log, and all records with --verbose.

    `server` is the name before the lines of a server. With `counts_stderr`, the terminal counts the lines that the
    server writes to stderr and that are not shown.
    """
    logger = logging.getLogger("dragoman")
    logger.handlers = [_Lines(terminal, server)]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if terminal.settings.verbose else logging.WARNING)
    if counts_stderr:
        logging.getLogger(_STDERR_LOGGER).setLevel(logging.DEBUG)
