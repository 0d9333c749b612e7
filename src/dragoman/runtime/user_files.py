"""Private files of this user: the state folder, and folders and files that no other user may change.

Another user who may write into a folder can put files and links there, and a program would read them as its own. So the
functions refuse a folder or file that another user may read or change, and do not repair it. On systems without user
ids (Windows) they check nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import NotPrivate

OPEN_TO_OTHERS = 0o077
WRITABLE_BY_OTHERS = 0o022
_NO_LINKS_NO_BLOCKING = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def state_folder() -> Path:
    """Return the folder in which the programs of this user keep shared state."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dragoman"


def private_folder(path: Path, forbidden: int = OPEN_TO_OTHERS) -> Path:
    """Return a folder of this user, and make it if it is missing; `forbidden` are mode bits that it may not have.

    Raises:
        NotPrivate: the path is a link, belongs to another user, or has a forbidden mode bit.
        OSError: the folder cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_private(path, forbidden)
    return path


def require_private(path: Path, forbidden: int = OPEN_TO_OTHERS) -> None:
    """Check an existing folder.

    Raises:
        NotPrivate: the path is a link, belongs to another user, or has a forbidden mode bit.
        FileNotFoundError: the folder is missing.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or not _is_own(found) or found.st_mode & forbidden:
        raise NotPrivate(f"{path} must be a folder of this user that nobody else may change; run: chmod 700 {path}")


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user and return its descriptor; `os.O_CREAT` makes it for this user alone.

    Raises:
        NotPrivate: the path is a link or no file, belongs to another user, or other users may read or write it.
        OSError: the file cannot be opened.
    """
    try:
        _require_own_file(path, path.lstat())
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _NO_LINKS_NO_BLOCKING, 0o600)
    try:
        _require_own_file(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def written_beside(path: Path, content: bytes, *, lasting: bool = False) -> Iterator[Path]:
    """Write a temporary file beside a path; the `with` block renames or links it to the path, a leftover is removed.

    Readers of the path never see half a file. A `lasting` file is on the disk before the block begins.
    """
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def _require_own_file(path: Path, found: os.stat_result) -> None:
    is_exposed = hasattr(os, "getuid") and found.st_mode & OPEN_TO_OTHERS
    if not stat.S_ISREG(found.st_mode) or not _is_own(found) or is_exposed:
        raise NotPrivate(f"{path} must be a file of this user that nobody else may read or write; remove it")


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()
