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

from dragoman.errors import DefinitionError
from dragoman.protocol.tokens import KeyRing
from dragoman.runtime.user_files import state_folder, written_beside

_VARIABLE = "DRAGOMAN_SECRET"
_KEY_BYTES = 32
MIN_SECRET_BYTES = 16
"""Whoever guesses a secret can forge request states and session ids."""

Secret = str | bytes | Iterable[str | bytes] | None


def key_ring(secret: Secret = None) -> KeyRing:
    """Return the key ring for a secret; of several secrets, the first seals and all can open.

    Raises:
        DefinitionError: a secret, or that of the environment, is empty, too short, or neither text nor bytes.
    """
    secrets = checked_secrets(secret)
    return KeyRing(*(_key(each) for each in secrets)) if secrets else _machine_ring()


def checked_secrets(secret: Secret) -> tuple[bytes, ...]:
    """Return the secrets of the author or of the environment; none if neither gives any.

    Raises:
        DefinitionError: a secret is empty, too short, or neither text nor bytes.
    """
    if secret is None:
        variable = os.environ.get(_VARIABLE)
        return () if variable is None else (_checked(variable, _VARIABLE),)
    if isinstance(secret, str | bytes):
        return (_checked(secret, "secret"),)
    several: object = secret
    secrets = tuple(_checked(each, "Each secret") for each in several) if isinstance(several, Iterable) else ()
    if not secrets:
        raise DefinitionError("secret must be text, bytes, or a list of them such as [new, old]")
    return secrets


def _checked(secret: object, name: str) -> bytes:
    if not isinstance(secret, str | bytes):
        raise DefinitionError(f"{name} must be text or bytes, not an object of type {type(secret).__name__}")
    encoded = secret.encode() if isinstance(secret, str) else secret
    length = len(encoded.strip()) if isinstance(secret, str) else len(encoded)
    if length < MIN_SECRET_BYTES:
        raise DefinitionError(
            f"{name} is too short: it has {length} bytes and needs at least {MIN_SECRET_BYTES}, better 32 random"
            " ones, such as those of `openssl rand -hex 32`. To replace a secret without losing sessions, give both:"
            " Server(secret=[new, old])"
        )
    return encoded


def _key(secret: bytes) -> bytes:
    return hashlib.sha256(b"dragoman key\0" + secret).digest()


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
