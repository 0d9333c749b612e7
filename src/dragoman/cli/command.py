"""Every verb but `run`: the options that they share, and the way from an error to a line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from dragoman.cli.exits import INTERRUPTED, OK, USAGE, as_json, exit_code, in_one_line
from dragoman.cli.settings import CommandSettings
from dragoman.cli.terminal import Terminal
from dragoman.runtime.terminal import printable_line

VERBS = ("run", "list", "call", "read", "prompt", "complete", "chat", "doctor", "init", "auth", "version")
F = TypeVar("F", bound=Callable[..., Any])


class Verbs(click.Group):
    """The verbs, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the verbs in the order in which they are shown."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return a verb."""
        if cmd_name == "run":
            return _run
        if cmd_name not in VERBS:
            return None
        found: click.Command = import_module(f"dragoman.cli.verbs.{cmd_name}").command
        return found


def _note(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep what an option says; what is said after the verb comes after what is said before it."""
    settings, name = ctx.find_object(CommandSettings), str(parameter.name)
    if settings is None or value in (None, False, ()):
        return
    known = getattr(settings, name)
    setattr(settings, name, [*known, *value] if isinstance(known, list) else value)


def pair(between: str) -> Callable[[str], tuple[str, str]]:
    """Return what reads a name and a value with something between them."""

    def read(text: str) -> tuple[str, str]:
        name, found, value = text.partition(between)
        if not found or not name.strip():
            raise click.BadParameter(f"{text!r} must be written as 'NAME{between} VALUE'.")
        return name.strip(), value.strip()

    return read


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise click.BadParameter(f"{text!r} is no number of seconds above 0.")
    return number


def _kept(*names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_note, **attributes)


_REPORTING = (
    _kept("--json", is_flag=True, help="Write the result as JSON, and nothing else, to stdout."),
    _kept("--verbose", is_flag=True, help="Show tracebacks, and what the server writes to stderr."),
    _kept("--no-color", is_flag=True, help="Without colours; so does the variable NO_COLOR."),
)
_CONNECTING = (
    _kept("--config", metavar="FILE", help="The file that names servers; else it is looked for."),
    _kept("--trust", is_flag=True, help="Trust the configuration file that is found here, and remember that."),
    _kept("--input", type=pair("="), multiple=True, metavar="ID=VALUE", help="What ${input:ID} stands for in it."),
    _kept("--timeout", type=_seconds, metavar="SECONDS", help="Give up after so many seconds without a sign of life."),
    _kept("--mode", type=click.Choice(["auto", "handshake", "stateless"]), help="Which era is spoken."),
    _kept("--protocol-version", metavar="VERSION", help="Speak this version alone."),
    _kept("--header", type=pair(":"), multiple=True, metavar="'K: V'", help="Sent with every HTTP request."),
    _kept("--token", envvar="DRAGOMAN_TOKEN", metavar="TOKEN", help="A bearer token; or DRAGOMAN_TOKEN."),
)


raw_option = _kept("--raw", is_flag=True, help="Write text to a file or pipe as it is, without escapes.")


def reporting(function: F) -> F:
    """Give a verb the options of what is written."""
    for option in reversed(_REPORTING):
        function = option(function)
    return function


def connecting(function: F) -> F:
    """Give a verb the options of who is connected to, and of what is written."""
    for option in reversed((*_CONNECTING, *_REPORTING)):
        function = option(function)
    return function


_EPILOG = (
    "A TARGET is a URL, a script, a name from the configuration file, or a command after --; without one it is the only"
    " server of the configuration file. Exit codes: 0 all is well, 1 the tool or a check failed, 2 wrong usage,"
    " 3 no connection, 4 the server refused, 5 no answer in time, 130 interrupted."
)


@click.command(cls=Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@connecting
def dragoman() -> None:
    """Serve MCP servers, and use those of others."""


@click.command(
    "run",
    short_help="Serve the server of a Python file.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def _run(words: tuple[str, ...]) -> None:
    from dragoman.cli import run_words

    run_words(list(words))


def main(words: Sequence[str]) -> None:
    """Run a verb, and exit."""
    settings = CommandSettings()
    own, command = _split(words)
    settings.command = command
    terminal = Terminal(settings)
    try:
        code = _perform(own, settings, terminal)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has enough; nothing more can be said, also not at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exit_code(BrokenPipeError())
    sys.exit(code)


def _split(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in words or words[0] == "run":
        return list(words), None
    at = words.index("--")
    return list(words[:at]), list(words[at + 1 :])


def _perform(words: list[str], settings: CommandSettings, terminal: Terminal) -> int:
    try:
        code = dragoman.main(words or ["--help"], prog_name="dragoman", obj=settings, standalone_mode=False)
    except click.ClickException as error:
        settings.json = settings.json or "--json" in words
        return _report(error, error.exit_code, _usage_line(error), settings, terminal)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        return _report(error, exit_code(error), in_one_line(error), settings, terminal)
    return code if isinstance(code, int) else OK


def _report(error: Exception, code: int, line: str, settings: CommandSettings, terminal: Terminal) -> int:
    if settings.verbose and code != USAGE:
        terminal.tell(quoted("".join(traceback.format_exception(error))))
    if settings.json:
        terminal.write_json(as_json(error, code))
    terminal.tell(f"dragoman: {line}")
    return code


def _usage_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    is_bare = isinstance(error, click.exceptions.NoArgsIsHelpError)
    text = "What shall be done?" if is_bare else " ".join(error.format_message().split())
    return f"{text} See: {context.command_path} --help" if context is not None else text


def refuse(message: str) -> click.UsageError:
    """Return the error of a wrong usage."""
    return click.UsageError(message, click.get_current_context(silent=True))


def quoted(text: str) -> str:
    """Return a text with a mark before each line, so that no line looks like the command's own."""
    return "\n".join(f"  | {line}" for line in text.splitlines()) or "  |"


def said_by(server: str, text: str) -> str:
    """Return what a server says beside its results: every line begins with the server's name in brackets."""
    before = f"[{printable_line(server)}]"
    return "\n".join(f"{before} {' '.join(line.split())}" for line in text.splitlines()) or before


class _Lines(logging.Handler):
    """Log records as lines beside the result."""

    def __init__(self, terminal: Terminal, server: str) -> None:
        super().__init__()
        self._terminal = terminal
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        text, is_verbose = record.getMessage().rstrip(), self._terminal.settings.verbose
        if record.name in _OF_SERVERS:
            self._terminal.tell(said_by(self._server, text), "dim")
            return
        line = "dragoman: " + " ".join(text.split())
        if is_verbose and record.exc_info:
            line += "\n" + quoted("".join(traceback.format_exception(record.exc_info[1])))
        self._terminal.tell(line, "dim")


_OF_SERVERS = frozenset({"dragoman.client.server", "dragoman.client.stderr"})
"""Loggers of what servers say."""


def listen_to_logs(terminal: Terminal, server: str = "server") -> None:
    """Show warnings of dragoman as lines, and all that it logs if more was asked for.

    `server` is the name that stands before what a server says.
    """
    logger = logging.getLogger("dragoman")
    logger.handlers = [_Lines(terminal, server)]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if terminal.settings.verbose else logging.WARNING)


__all__ = ["connecting", "listen_to_logs", "main", "quoted", "raw_option", "refuse", "reporting", "said_by"]
