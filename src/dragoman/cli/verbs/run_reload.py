"""`dragoman run --reload`: serve in a child process, and restart it when a Python file or a SKILL.md changes.

The parent compares the names, sizes and times of these files below the served file's folder three times a second.
A child that failed is restarted at the next change. Over stdio the new child has the same streams, and the client has
to initialize again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from dragoman.cli.server_file import split_target
from dragoman.cli.verbs.run import end, parse
from dragoman.errors import ConfigError
from dragoman.runtime.terminal import printable_line

POLL_SECONDS = 0.3
END_SECONDS = 10.0
MAX_FILES = 10_000
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Snapshot = dict[str, tuple[int, int]]


class _Ended(BaseException):
    """The process received SIGINT or SIGTERM."""


def serve_reloading(words: list[str]) -> None:
    """Serve the file until the process receives a signal, or the child ends without failure."""
    parsed = parse(words)
    own = ["--dev" if word == "--reload" else word for word in words]
    path, _ = split_target(parsed.target)
    if not path.is_file():
        end(ConfigError(f"there is no file {str(path)!r}"))
    folder = path.resolve().parent
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    child: subprocess.Popen[bytes] | None = None
    try:
        while True:
            seen = snapshot(folder)
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


def _watch(child: subprocess.Popen[bytes], folder: Path, seen: Snapshot) -> bool:
    """Wait; return False when a file has changed, and True when the child has ended without failure."""
    failed = False
    while True:
        time.sleep(POLL_SECONDS)
        now = snapshot(folder)
        if now != seen:
            names = sorted(name for name, _ in set(now.items()) ^ set(seen.items()))
            _report(f"{os.path.relpath(names[0], folder)} changed; starting again")
            return False
        code = child.poll()
        if code == 0:
            return True
        if code is not None and not failed:
            failed = True
            _report(f"the server ended with exit code {code}; it starts again when a file changes")


def _report(text: str) -> None:
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


def snapshot(folder: Path) -> Snapshot:
    """Return the time and the size of each Python file and SKILL.md below a folder."""
    found: Snapshot = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        for name in files:
            if (name.endswith(".py") or name == "SKILL.md") and len(found) < MAX_FILES:
                path = f"{parent}{os.sep}{name}"
                try:
                    facts = os.stat(path)  # noqa: PTH116
                except OSError:
                    continue
                found[path] = facts.st_mtime_ns, facts.st_size
    return found
