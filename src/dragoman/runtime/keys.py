"""The keys that seal what leaves the server and comes back.

Those that the author gives, or the environment (`DRAGOMAN_SECRET`), or a key file in the user's state folder that the
processes of one machine share. Where no file can be written, a key of this process alone, with one warning.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from dragoman.protocol.tokens import KeyRing
from dragoman.runtime.private import written_beside

_VARIABLE = "DRAGOMAN_SECRET"
_KEY_BYTES = 32

Secret = str | bytes | Iterable[str | bytes] | None


def key_ring(secret: Secret = None) -> KeyRing:
    """Return the ring for a secret; of several, the first seals and all open."""
    given = os.environ.get(_VARIABLE) if secret is None else secret
    if not given:
        return _machine_ring()
    secrets = [given] if isinstance(given, str | bytes) else list(given)
    return KeyRing(*(_key(one) for one in secrets))


def _key(secret: str | bytes) -> bytes:
    """Return a key of full length, whatever the length of the secret."""
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


def state_folder() -> Path:
    """Return where this user's programs keep what they share."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dragoman"


def _shared_key(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A link never replaces a key that another process wrote.
    with written_beside(path, os.urandom(_KEY_BYTES)) as fresh, suppress(FileExistsError):
        os.link(fresh, path)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key file")
    return key
