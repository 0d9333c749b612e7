"""The `dragoman` command, one file per verb."""

import sys

_USAGE = """\
usage: dragoman run FILE[:object]           serve the server of a Python file over stdin and stdout
       dragoman run --http FILE[:object]    serve it over HTTP
           [--host 127.0.0.1] [--port 8000] [--path /mcp] [--workers 1]
"""


def main() -> None:
    """Run the command."""
    match sys.argv[1:]:
        case [] | ["help" | "--help" | "-h", *_] | [_, "--help" | "-h"]:
            sys.stdout.write(_USAGE)
        case ["run", *words]:
            from dragoman.cli.run import parse, run

            wanted = parse(words)
            if wanted is None:
                _refuse()
            else:
                run(*wanted)
        case _:
            _refuse()


def _refuse() -> None:
    sys.stderr.write(_USAGE)
    sys.exit(2)


__all__ = ["main"]
