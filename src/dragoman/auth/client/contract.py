"""What a link over HTTP asks of whoever authorizes its requests, and what authorizers ask of a storage."""

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
        """Return the headers of a request that is sent now; empty when nothing is known yet.

        Raises:
            InsecureUrl: the address is not the one that these credentials are for, or not a safe one.
        """

    async def challenged(self, status: int, headers: Mapping[str, str], method: str, url: str) -> bool:
        """Get what a 401 or 403 asks for, and tell whether the request should be sent again.

        False says that the answer stands. However many requests are challenged at once, one of them acts for all.

        Raises:
            AuthError: what the server asks for cannot be had.
        """

    async def close(self) -> None:
        """End what is under way."""


@runtime_checkable
class Drawers(Protocol):
    """Keeps what must outlive a process for many servers."""

    def drawer(self, key: str, /) -> TokenStorage:
        """Return the storage of one server."""


class TokenStorage(Protocol):
    """Keeps what must outlive a process, for one user and one server: plain or async methods, values of JSON.

    Example:
        class InTheDatabase:
            async def tokens(self):
                return await database.get("tokens", user)
            ...

    `None` says that there is nothing, or that what is there is to be forgotten. A storage that several processes share
    may also have `lock()`, an async context manager that is entered before tokens are renewed.
    """

    def tokens(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return what was last saved as tokens."""

    def save_tokens(self, tokens: dict[str, Any] | None) -> Awaitable[None] | None:
        """Keep the tokens."""

    def client_information(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return what was last saved about the client's registration."""

    def save_client_information(self, information: dict[str, Any] | None) -> Awaitable[None] | None:
        """Keep what the authorization server knows the client by."""
