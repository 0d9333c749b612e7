"""The keys that seal tokens: session ids and request states, which clients keep and send back.

The keys come from the author, from the environment (`DRAGOMAN_SECRET`), or from a key file in the user's state folder,
which the processes of one machine share. If no file can be written, the process makes a key of its own and logs one
warning.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from dragoman.protocol.tokens import KeyRing
from dragoman.runtime.user_files import state_folder, written_beside

_VARIABLE = "DRAGOMAN_SECRET"
_KEY_BYTES = 32

Secret = str | bytes | Iterable[str | bytes] | None


def key_ring(secret: Secret = None) -> KeyRing:
    """Return the key ring for a secret; of several secrets, the first seals and all can open."""
    given = _given(secret)
    if not given:
        return _machine_ring()
    secrets = [given] if isinstance(given, str | bytes) else list(given)
    return KeyRing(*(_key(each) for each in secrets))


def has_secret(secret: Secret) -> bool:
    """Tell whether the author or the environment gives a secret; otherwise the keys are those of this machine."""
    return bool(_given(secret))


def _given(secret: Secret) -> Secret:
    return os.environ.get(_VARIABLE) if secret is None else secret


def _key(secret: str | bytes) -> bytes:
    return hashlib.sha256(b"dragoman key\0" + (secret.encode() if isinstance(secret, str) else secret)).digest()


@cache
def _machine_ring() -> KeyRing:
    try:
        return KeyRing(_shared_key(state_folder() / "key"))
    except OSError as error:
        import logging

        logging.getLogger("dragoman.runtime").warning(
            "No key file can be kept (%s): sealed values are valid in this process alone; set %s", error, _VARIABLE
        )
        return KeyRing(os.urandom(_KEY_BYTES))


def _shared_key(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Unlike a rename, a link never replaces the key that another process wrote.
    with written_beside(path, os.urandom(_KEY_BYTES)) as fresh, suppress(FileExistsError):
        os.link(fresh, path)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key file")
    return key
