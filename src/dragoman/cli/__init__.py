"""The entry point of the `dragoman` command.

This module parses `run` without click, so that a server starts without the imports of the other verbs.
"""

import sys

_USAGE = """\
usage: dragoman run FILE[:object]           serve the server in a Python file over stdin and stdout
       dragoman run --http FILE[:object]    serve it over HTTP, with /healthz and /readyz
           [--host 127.0.0.1] [--port 8000] [--path /mcp] [--workers 1]
           [--access-log]                   log one line for each HTTP request
           [--no-health]                    do not serve /healthz and /readyz
           [--include-tags a,b]             serve only definitions with one of these tags, also over stdin and stdout
           [--exclude-tags a,b]             serve no definition with one of these tags
           [--dev]                          for development: clients see exceptions, and HTTP requests are logged
           [--reload]                       like --dev, and start again when a Python file or a SKILL.md changes
           [--log-format text|json]         write the log to stderr in this form
"""


def main() -> None:
    """Run the command."""
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        run_words(words[1:])
        return
    from dragoman.cli.command import main as perform

    perform(["--help"] if words[:1] == ["help"] else words)


def run_words(words: list[str]) -> None:
    """Run `dragoman run` with the words after it."""
    if words[:1] in (["--help"], ["-h"]) or words[1:] in (["--help"], ["-h"]):
        sys.stdout.write(_USAGE)
        return
    if words[:1] == ["--script"] and len(words) == 2:  # a client starts a file
        _run_script(words[1])
        return
    from dragoman.cli.verbs.run import end, parse, run
    from dragoman.errors import ConfigError

    try:
        parsed = parse(words)
    except ConfigError as error:
        end(ConfigError(f"{str(error).rstrip('?')}. See: dragoman run --help"))
    if "--reload" in words:
        from dragoman.cli.verbs.run_reload import serve_reloading

        serve_reloading(words)
    else:
        run(parsed)


def _run_script(file: str) -> None:
    """Run a Python file as a script, and serve the server that it defines if it serves none itself."""
    from pathlib import Path

    from dragoman.cli.server_file import run_script
    from dragoman.errors import ConfigError

    try:
        server = run_script(Path(file))
    except ConfigError as error:
        from dragoman.cli.verbs.run import end

        end(error)
    if server is not None:
        server.run()


__all__ = ["main"]
