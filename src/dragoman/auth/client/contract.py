"""The contracts of `auth=` and `storage=`: the methods that a client and an authorizer call."""

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
        """Obtain the credentials that a 401 or 403 response requires, and tell whether to send the request again.

        If it returns False, the client raises the error of the response. Concurrent challenges may share one login.

        Raises:
            AuthError: the required credentials cannot be obtained.
        """

    async def close(self) -> None:
        """End the work that is under way, such as a login."""


@runtime_checkable
class Drawers(Protocol):
    """A storage for many servers; a drawer is the storage of one server and one client."""

    def drawer(self, key: str, /) -> TokenStorage:
        """Return the storage of one server and client."""


class TokenStorage(Protocol):
    """Stores the tokens and the client registration of one user at one server; methods are plain or async.

    Example:
        class InTheDatabase:
            async def tokens(self):
                return await database.get("tokens", user)
            ...

    Values are JSON, and `None` stands for no value. A storage that several processes share may also have `lock()`, an
    async context manager that is entered before tokens are renewed.
    """

    def tokens(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return the tokens that were saved last."""

    def save_tokens(self, tokens: dict[str, Any] | None) -> Awaitable[None] | None:
        """Save the tokens; None deletes them."""

    def client_information(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return the client registration that was saved last."""

    def save_client_information(self, information: dict[str, Any] | None) -> Awaitable[None] | None:
        """Save the client registration; None deletes it."""
