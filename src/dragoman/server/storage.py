"""`Storage`: the store that the processes of a server share, and the keys that seal what is in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, DefinitionError

if TYPE_CHECKING:
    from dragoman.protocol.tokens import KeyRing
    from dragoman.runtime.keys import Secret
    from dragoman.stores import Store

_STORE_METHODS = ("bus", "log", "state", "tasks", "now", "close")


class Storage:
    """The store and the keys of one server; without a store of the author, the engine is `Local`.

    Example:
        storage = Storage(secret="a secret of sixteen characters")
        storage.store.state("carts")

    Raises:
        DefinitionError: the store is not a store, `state_key` is not a function, or the secret is too short.
    """

    def __init__(
        self, engine: Store | None = None, secret: Secret = None, state_key: Callable[..., str] | None = None
    ) -> None:
        lacking = [name for name in _STORE_METHODS if not callable(getattr(engine, name, None))]
        if engine is not None and (lacking or not hasattr(engine, "reach") or isinstance(engine, type)):
            raise DefinitionError(f"store must be a store, such as dragoman.stores.Local(), not {engine!r}")
        if state_key is not None and not callable(state_key):
            raise DefinitionError(f"state_key must be a function of the Context that returns a text, not {state_key!r}")
        self._engine = engine
        self._secret = None if secret is None else _checked(secret)
        self._lock = Lock()
        self.state_key = state_key
        """Says whose `ctx.user_state` a request uses; None: the principal."""

    @cached_property
    def key_ring(self) -> KeyRing:
        """The keys that seal request states and session ids."""
        from dragoman.runtime.keys import key_ring

        return key_ring(self._secret)

    @cached_property
    def store(self) -> Store:
        """The store; the engine that the author gave sees no plain text.

        Raises:
            ConfigError: the store reaches other machines, and the server has no secret.
        """
        self.require_shared_secret()
        from dragoman.stores import Local
        from dragoman.stores.sealed import SealedStore

        with self._lock:
            return SealedStore(Local() if self._engine is None else self._engine, self.key_ring)

    def require_shared_secret(self) -> None:
        """Refuse a store that reaches other machines if the keys of the server are in a file of this machine.

        Raises:
            ConfigError: there is no secret.
        """
        if self._engine is not None and self._engine.reach == "network" and not _checked(self._secret):
            raise ConfigError(
                "A store that other machines share needs a secret that they share too: set DRAGOMAN_SECRET to the same"
                " value on every machine, or give the Server a secret"
            )

    async def close(self) -> None:
        """Close the store, if the server used it; a store that was never used needs no keys."""
        if "store" in vars(self):
            await self.store.close()


def _checked(secret: Any) -> Any:
    from dragoman.runtime.keys import checked_secrets

    return checked_secrets(secret)
