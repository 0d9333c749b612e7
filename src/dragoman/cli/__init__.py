"""The `dragoman` command, one file per verb."""

import sys


def main() -> None:
    """Run the command."""
    verb, *arguments = sys.argv[1:] or ["help"]
    if verb == "run" and len(arguments) == 1:
        from dragoman.cli.run import run

        run(arguments[0])
    else:
        sys.exit("usage: dragoman run FILE[:object]    serve the server of a Python file over stdin and stdout")


__all__ = ["main"]
