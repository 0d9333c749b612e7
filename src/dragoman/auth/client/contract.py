"""Contracts of authorizers and token storages: what a client asks of `auth=`, and an authorizer of `storage=`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Authorization(Protocol):
    """Authorizes the requests to one server: `Client(url, auth=...)` takes any object with these methods.

    Example:
        class Fixed:
            async def headers(self, method, url):
                return {"Authorization": "Bearer " + token}

            async def challenged(self, status, headers, method, url):
                return False

            async def close(self):
                pass
    """

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request; empty while there is no token.

        Raises:
            InsecureUrl: the credentials belong to another URL, or the URL is not secure.
        """

    async def challenged(self, status: int, headers: Mapping[str, str], method: str, url: str) -> bool:
        """Get what a 401 or 403 response asks for, and tell whether the request should be sent again.

        False means that the response stands. Requests that are challenged at the same time share one attempt.

        Raises:
            AuthError: what the server asks for cannot be had.
        """

    async def close(self) -> None:
        """End what is under way."""


@runtime_checkable
class Drawers(Protocol):
    """A storage for many servers; a drawer is the storage of one of them."""

    def drawer(self, key: str, /) -> TokenStorage:
        """Return the storage of one server and client."""


class TokenStorage(Protocol):
    """Stores tokens and registration of one user at one server: plain or async methods, JSON values.

    Example:
        class InTheDatabase:
            async def tokens(self):
                return await database.get("tokens", user)
            ...

    `None` stands for no value. A storage that several processes share may also have `lock()`, an async context manager
    that is entered before tokens are renewed.
    """

    def tokens(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return the tokens that were saved last."""

    def save_tokens(self, tokens: dict[str, Any] | None) -> Awaitable[None] | None:
        """Save the tokens; None deletes them."""

    def client_information(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return the client registration that was saved last."""

    def save_client_information(self, information: dict[str, Any] | None) -> Awaitable[None] | None:
        """Save the client registration; None deletes it."""
