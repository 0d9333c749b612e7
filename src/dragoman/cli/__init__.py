"""The `dragoman` command, one file per verb."""

import sys

_USAGE = "usage: dragoman run FILE[:object]    serve the server of a Python file over stdin and stdout\n"


def main() -> None:
    """Run the command."""
    match sys.argv[1:]:
        case ["run", target] if not target.startswith("-"):
            from dragoman.cli.run import run

            run(target)
        case [] | ["help" | "--help" | "-h", *_] | [_, "--help" | "-h"]:
            sys.stdout.write(_USAGE)
        case _:
            sys.stderr.write(_USAGE)
            sys.exit(2)


__all__ = ["main"]
