"""Token storages: in memory, in files, and in files without secrets.

A drawer is the part of a storage for one server and one client. The drawer of a `FileStorage` is one file, which only
its user can read, and which is replaced as a whole. The storage refuses a folder that other users can write, a link,
and a file that other users own or can read: other users could have written the content, or could read it.

An authorizer takes the lock of the drawer before it changes tokens, and then reads the tokens again. Another process
may have used the refresh token in the meantime, and a second use of it can revoke the whole login.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from dragoman.auth.client.contract import Drawers, TokenStorage
from dragoman.auth.client.stored_records import ClientInformation, Tokens
from dragoman.errors import AuthError, NotPrivate
from dragoman.runtime.backoff import backoff
from dragoman.runtime.callables import resolved
from dragoman.runtime.user_files import (
    WRITABLE_BY_OTHERS,
    open_private,
    private_folder,
    require_private,
    state_folder,
    written_beside,
)

LOCK_SECONDS = 330.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2
_logger = logging.getLogger("dragoman.auth")


class LoginRecords:
    """The records of one login in a storage: tokens and client registration, converted from and to plain JSON."""

    def __init__(self, storage: TokenStorage | Drawers, key: str) -> None:
        self._storage: TokenStorage = storage.drawer(key) if isinstance(storage, Drawers) else storage

    async def tokens(self) -> Tokens | None:
        """Return the stored tokens."""
        return Tokens.from_json(await resolved(self._storage.tokens()))

    async def save_tokens(self, tokens: Tokens | None) -> None:
        """Save tokens; None deletes them."""
        await resolved(self._storage.save_tokens(None if tokens is None else tokens.to_json()))

    async def client(self) -> ClientInformation | None:
        """Return the stored client registration."""
        return ClientInformation.from_json(await resolved(self._storage.client_information()))

    async def save_client(self, information: ClientInformation | None) -> None:
        """Save a client registration; None deletes it."""
        await resolved(self._storage.save_client_information(None if information is None else information.to_json()))

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a lock that keeps other processes and clients from renewing the tokens."""
        lock = getattr(self._storage, "lock", None)
        return nullcontext() if lock is None else lock()


class MemoryDrawer:
    """The records of one login in memory."""

    def __init__(self) -> None:
        self._records: dict[str, Any] = {}

    def tokens(self) -> dict[str, Any] | None:
        """Return the tokens that were saved last."""
        return self._read("tokens")

    def save_tokens(self, tokens: dict[str, Any] | None) -> None:
        """Save the tokens; None deletes them."""
        self._save("tokens", tokens)

    def client_information(self) -> dict[str, Any] | None:
        """Return the client registration that was saved last."""
        return self._read("client")

    def save_client_information(self, information: dict[str, Any] | None) -> None:
        """Save the client registration; None deletes it."""
        self._save("client", information)

    def _read(self, name: str) -> dict[str, Any] | None:
        return self._records.get(name)

    def _save(self, name: str, value: dict[str, Any] | None) -> None:
        self._records[name] = value


class MemoryStorage:
    """Keeps tokens in memory until the process ends.

    Example:
        Client(url, auth=OAuth(storage=MemoryStorage()))
    """

    def __init__(self) -> None:
        self._drawers: dict[str, MemoryDrawer] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._drawers)} logins>"

    def drawer(self, key: str) -> MemoryDrawer:
        """Return the storage of one server and client."""
        return self._drawers.setdefault(key, MemoryDrawer())


class FileStorage:
    """Keeps tokens in files that only this user can read; a lock lets one process at a time renew them.

    Example:
        Client(url, auth=OAuth(storage=FileStorage(account="ada@example.com")))

    The default of `folder` is in the user's state folder. `account` separates the logins of several people. If a file
    cannot be written, a warning is logged, and the tokens are kept until the process ends. If other users can write the
    folder, or own or read the file, its use raises an `AuthError`.
    """

    def __init__(self, folder: str | Path | None = None, *, account: str = "") -> None:
        self._folder = None if folder is None else Path(folder)
        self._account = account

    def __repr__(self) -> str:
        return f"<FileStorage in {self._folder or state_folder() / 'auth'}>"

    def drawer(self, key: str) -> FileDrawer:
        """Return the storage of one server and client."""
        name = hashlib.sha256(f"{key}\0{self._account}".encode()).hexdigest()[:32]
        return FileDrawer((self._folder or state_folder() / "auth") / f"{name}.json")


class FileDrawer(MemoryDrawer):
    """One file of a file storage; memory holds the records only if the file cannot be written."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _read(self, name: str) -> dict[str, Any] | None:
        found = self._content().get(name)
        return found if isinstance(found, dict) else None

    def _content(self) -> dict[str, Any]:
        if self._records:
            return self._records
        try:
            with _refusing_unsafe():
                require_private(self._path.parent, WRITABLE_BY_OTHERS)
                with os.fdopen(open_private(self._path, os.O_RDONLY), "rb") as file:
                    return msgspec.json.decode(file.read(), type=dict[str, Any])
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            _logger.warning("The tokens in %s cannot be read (%s) and are left out", self._path, type(error).__name__)
        return {}

    def _save(self, name: str, value: dict[str, Any] | None) -> None:
        content = {**self._content(), name: value}
        try:
            with _refusing_unsafe():
                private_folder(self._path.parent, WRITABLE_BY_OTHERS)
                encoded = msgspec.json.encode({name: value for name, value in content.items() if value is not None})
                with written_beside(self._path, encoded, lasting=True) as fresh:
                    fresh.replace(self._path)
        except OSError as error:
            if not self._records:
                _logger.warning(
                    "%s cannot be written (%s): what it holds lasts until the process ends", self._path, error
                )
            self._records = content

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep other processes and other clients from renewing the same tokens during the block.

        Raises:
            AuthError: another process holds the lock for longer than any login takes.
        """
        descriptor = self._open_lock()
        if descriptor is None:
            yield
            return
        try:
            await _acquire(descriptor, self._path)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int | None:
        try:
            import fcntl  # noqa: F401

            with _refusing_unsafe():
                private_folder(self._path.parent, WRITABLE_BY_OTHERS)
                return open_private(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        except (ImportError, OSError):
            return None


@contextmanager
def _refusing_unsafe() -> Iterator[None]:
    try:
        yield
    except NotPrivate as error:
        raise AuthError(f"The tokens are not safe from others: {error}") from None


async def _acquire(descriptor: int, path: Path) -> None:
    import fcntl

    try:
        async with asyncio.timeout(LOCK_SECONDS):
            for attempt in count():
                try:
                    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.sleep(backoff(attempt, _FIRST_PAUSE, _LONGEST_PAUSE))
    except TimeoutError:
        raise AuthError(f"Another process has been renewing the tokens in {path} for too long; end it") from None


class IssuerStorage(MemoryStorage):
    """Keeps tokens in memory, and stores in a file which authorization server the credentials belong to.

    It is for programs that can get new tokens at any time: no secret is written, and after a restart the program still
    detects that a server names another authorization server.
    """

    def drawer(self, key: str) -> MemoryDrawer:
        """Return the storage of one server and client."""
        if key not in self._drawers:
            try:
                self._drawers[key] = _IssuerDrawer(FileStorage().drawer(key))
            except RuntimeError as error:
                _logger.warning("A restart forgets which issuer the credentials belong to (%s); give issuer=", error)
        return super().drawer(key)


class _IssuerDrawer(MemoryDrawer):
    def __init__(self, file: FileDrawer) -> None:
        super().__init__()
        self._file = file

    def client_information(self) -> dict[str, Any] | None:
        return self._file.client_information()

    def save_client_information(self, information: dict[str, Any] | None) -> None:
        self._file.save_client_information(information)
