"""Folders and files that belong to this user alone.

Whoever may write into a folder can put files and links there, which would be read as ours. So a folder, or a file, that
somebody else may touch is refused, and nothing is changed in it. Where the system knows no users by number (Windows),
nothing is checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import NotPrivate

TOUCHED_BY_OTHERS = 0o077
WRITTEN_BY_OTHERS = 0o022
_NO_LINKS_NO_WAITING = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def private_folder(path: Path, forbidden: int = TOUCHED_BY_OTHERS) -> Path:
    """Return a folder of this user, made if it is not there; `forbidden` are the modes that it may not have.

    Raises:
        NotPrivate: it is a link, belongs to somebody else, or has one of these modes.
        OSError: it cannot be made.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    require_private(path, forbidden)
    return path


def require_private(path: Path, forbidden: int = TOUCHED_BY_OTHERS) -> None:
    """Check a folder that is there.

    Raises:
        NotPrivate: it is a link, belongs to somebody else, or has one of the forbidden modes.
        FileNotFoundError: it is not there.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or not _is_own(found) or found.st_mode & forbidden:
        raise NotPrivate(f"{path} must be a folder of this user that nobody else may change; run: chmod 700 {path}")


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user and return its descriptor; with `os.O_CREAT` it is made for this user alone.

    Raises:
        NotPrivate: it is a link or no file, belongs to somebody else, or others may read or write it.
        OSError: it cannot be opened.
    """
    try:
        _require_own_file(path, path.lstat())
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | _NO_LINKS_NO_WAITING, 0o600)
    try:
        _require_own_file(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def written_beside(path: Path, content: bytes, *, lasting: bool = False) -> Iterator[Path]:
    """Write a file of this user beside a path, for the block to give it that name; what is left is removed.

    So nobody reads half a file. A `lasting` one is on the disk before the block begins.
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
    is_exposed = hasattr(os, "getuid") and found.st_mode & TOUCHED_BY_OTHERS
    if not stat.S_ISREG(found.st_mode) or not _is_own(found) or is_exposed:
        raise NotPrivate(f"{path} must be a file of this user that nobody else may read or write; remove it")


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()
