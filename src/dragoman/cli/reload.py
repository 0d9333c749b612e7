"""`dragoman run --reload`: serve in a process of its own, and start that again whenever a Python file changes.

The files below the folder of the served file are looked at a few times a second: their names, sizes and times. A child
that fails waits for the next change. Over stdin and stdout the new child goes on with the same streams, and its client
has to introduce itself again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from dragoman.cli.verbs.run import parse, split
from dragoman.runtime.terminal import printable_line

LOOK_SECONDS = 0.3
END_SECONDS = 10.0
MOST_FILES = 10_000
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Look = dict[str, tuple[int, int]]


class _Ended(BaseException):
    """A signal asks for the end."""


def serve_anew(words: list[str]) -> None:
    """Serve what the words name until a signal comes, or the child's input ends."""
    own = [word for word in words if word != "--reload"]
    wanted = parse(own)
    assert wanted is not None
    path, _ = split(wanted[0])
    if not path.is_file():
        sys.exit(f"dragoman: there is no file {str(path)!r}")
    folder = path.resolve().parent
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    child: subprocess.Popen[bytes] | None = None
    try:
        while True:
            seen = look(folder)
            child = subprocess.Popen([sys.executable, "-P", "-m", "dragoman", "run", *own])  # noqa: S603
            if _watch(child, folder, seen):
                return
            _stop(child)
    except _Ended:
        return
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if child is not None:
            _stop(child)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise _Ended


def _watch(child: subprocess.Popen[bytes], folder: Path, seen: Look) -> bool:
    """Return when a file has changed; True if the child has ended well instead."""
    failed = False
    while True:
        time.sleep(LOOK_SECONDS)
        now = look(folder)
        if now != seen:
            names = sorted(name for name, _ in set(now.items()) ^ set(seen.items()))
            _tell(f"{os.path.relpath(names[0], folder)} changed; starting again")
            return False
        code = child.poll()
        if code == 0:
            return True
        if code is not None and not failed:
            failed = True
            _tell(f"the server ended with exit code {code}; it is started again when a file changes")


def _tell(text: str) -> None:
    sys.stderr.write(f"dragoman: {printable_line(text)}\n")
    sys.stderr.flush()


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def look(folder: Path) -> Look:
    """Return the Python files below a folder, with what tells that they changed."""
    found: Look = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        for name in files:
            if name.endswith(".py") and len(found) < MOST_FILES:
                path = f"{parent}{os.sep}{name}"
                try:
                    facts = os.stat(path)  # noqa: PTH116
                except OSError:
                    continue
                found[path] = facts.st_mtime_ns, facts.st_size
    return found
