"""What a client says of itself in the headers of each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from dragoman.auth.client.challenges import header_values, refusal_text
from dragoman.auth.client.contract import Authorization
from dragoman.errors import AuthRequired
from dragoman.runtime.callables import invoke

HeaderValue = str | Callable[[], str | Awaitable[str]]
Headers = Mapping[str, HeaderValue] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]


class Credentials:
    """Headers that are fixed, or that functions give anew for each request.

    Example:
        Credentials({"Authorization": fetch_token})

    Raises:
        TypeError: a fixed header is no text.
    """

    def __init__(self, headers: Headers | None = None, authorization: Authorization | None = None) -> None:
        self.authorization = authorization
        """Who authorizes each request, and answers when the server asks for more."""
        self._headers = headers
        self._fixed: dict[str, str] | None = None
        if headers is None:
            self._fixed = {}
        elif isinstance(headers, Mapping) and not any(callable(value) for value in headers.values()):
            self._fixed = _spelled_once({name: _text(name, value) for name, value in headers.items()})

    @property
    def are_fixed(self) -> bool:
        """Whether every request has the same."""
        return self._fixed is not None and self.authorization is None

    async def headers(self, method: str, url: str) -> dict[str, str]:
        """Return the headers of a request that is sent now.

        Raises:
            TypeError: a function gave something that is no header.
            Exception: whatever a function, or whoever authorizes, raises.
        """
        own = await self.own_headers()
        if self.authorization is None:
            return own
        return _spelled_once({**own, **await self.authorization.headers(method, url)})

    async def own_headers(self) -> dict[str, str]:
        """Return the headers of a request that is sent now, without those that authorize it.

        Raises:
            TypeError: a function gave something that is no header.
            Exception: whatever a function raises.
        """
        if self._fixed is not None:
            return self._fixed
        given = self._headers
        if callable(given):
            found = await invoke(given, in_place=True)  # where the context variables of whoever sends are seen
            if not isinstance(found, Mapping):
                raise TypeError(f"headers= must give a mapping of names to texts, not {type(found).__name__}")
            return _spelled_once({name: _text(name, value) for name, value in found.items()})
        assert given is not None
        return _spelled_once(
            {
                name: _text(name, await invoke(value, in_place=True) if callable(value) else value)
                for name, value in given.items()
            }
        )


def auth_required(url: str, status: int, headers: Mapping[str, str], sent: Mapping[str, str]) -> AuthRequired:
    """Return the error of a server that wants other credentials, with what its challenge says."""
    challenge = ", ".join(header_values(headers, "www-authenticate")) or None
    return AuthRequired(f"{url} {refusal_text(status, headers, sent)}", status, challenge)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"The header {name} must be a text, not {type(value).__name__}")
    return value


def _spelled_once(headers: dict[str, str]) -> dict[str, str]:
    """Leave out headers that come again in another spelling."""
    last = {name.lower(): name for name in headers}
    return headers if len(last) == len(headers) else {name: headers[name] for name in last.values()}
