"""Folders of this user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """Make a folder and the one above it, if they are not there, and return it.

    Raises:
        OSError: it cannot be made, or somebody else may enter it.
    """
    for part in (folder.parent, folder):
        part.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = part.lstat()
        if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and not _is_ours_alone(found)):
            raise PermissionError(f"{part} must be a folder that nobody else may enter (chmod 700)")
    return folder


def _is_ours_alone(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & 0o077
