"""`python -m dragoman` is the `dragoman` command."""

import os
import sys

if __name__ == "__main__":
    # `python -m` puts the working directory first, and nothing of the command may be loaded from there.
    if sys.path and sys.path[0] == os.getcwd():  # noqa: PTH109
        del sys.path[0]
    from dragoman.cli import main

    main()
