"""Headers and authorization of a client's HTTP requests."""

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
    """The headers and the authorization of a client's HTTP requests; functions may return headers for each request.

    Example:
        Credentials({"Authorization": fetch_token})

    Raises:
        TypeError: the value of a fixed header is not a text.
    """

    def __init__(self, headers: Headers | None = None, authorization: Authorization | None = None) -> None:
        self.authorization = authorization
        """Adds headers to each request, and answers the challenges of the server."""
        self._headers = headers
        self._fixed: dict[str, str] | None = None
        if not callable(headers) and not any(map(callable, (headers or {}).values())):
            self._fixed = _header_texts(headers or {})

    @classmethod
    def of(cls, headers: Any, auth: Any) -> Credentials:
        """Return credentials from the options `headers` and `auth`.

        `auth` is a bearer token, a function that returns one, or an `Authorization`.

        Raises:
            TypeError: `auth` has another type.
        """
        if auth is None or isinstance(auth, Authorization):
            return cls(headers, auth)
        if isinstance(auth, str) and (headers is None or isinstance(headers, Mapping)):
            return cls({**(headers or {}), "Authorization": f"Bearer {auth.removeprefix('Bearer ')}"})
        if not isinstance(auth, str) and not callable(auth):
            raise TypeError(
                f"auth must be a bearer token, a function that returns one, or an object of dragoman.auth such as"
                f" OAuth(), not {type(auth).__name__}"
            )
        others, token = cls(headers), cls({"Authorization": auth})

        async def with_token() -> dict[str, str]:
            bearer = (await token.own_headers())["Authorization"]
            return {**await others.own_headers(), "Authorization": f"Bearer {bearer}"}

        return cls(with_token)

    @property
    def are_fixed(self) -> bool:
        """Whether every request has the same headers."""
        return self._fixed is not None and self.authorization is None

    async def headers(self, method: str, url: str) -> dict[str, str]:
        """Return the headers of a request that is sent now.

        Raises:
            TypeError: a function returned another type than a text or a mapping of texts.
            Exception: a function or the authorization raised it.
        """
        own = await self.own_headers()
        if self.authorization is None:
            return own
        return _without_duplicates({**own, **await self.authorization.headers(method, url)})

    async def own_headers(self) -> dict[str, str]:
        """Return the headers of a request that is sent now, without those of the authorization.

        Raises:
            TypeError: a function returned another type than a text or a mapping of texts.
            Exception: a function raised it.
        """
        if self._fixed is not None:
            return self._fixed
        headers = self._headers
        # Functions are called in place: they see the context variables of the task that sends the request.
        if not callable(headers):
            assert headers is not None
            return _header_texts(
                {
                    name: await invoke(value, in_place=True) if callable(value) else value
                    for name, value in headers.items()
                }
            )
        returned = await invoke(headers, in_place=True)
        if not isinstance(returned, Mapping):
            raise TypeError(f"headers= must give a mapping of names to texts, not {type(returned).__name__}")
        return _header_texts(returned)


def auth_required(url: str, status: int, headers: Mapping[str, str], sent: Mapping[str, str]) -> AuthRequired:
    """Return the error for a server that requires other credentials, with the server's challenge."""
    challenge = ", ".join(header_values(headers, "www-authenticate")) or None
    return AuthRequired(f"{url} {refusal_text(status, headers, sent)}", status, challenge)


def _header_texts(headers: Mapping[str, Any]) -> dict[str, str]:
    for name, value in headers.items():
        if not isinstance(value, str):
            raise TypeError(f"The header {name} must be a text, not {type(value).__name__}")
    return _without_duplicates(dict(headers))


def _without_duplicates(headers: dict[str, str]) -> dict[str, str]:
    """Keep the last spelling of each header name."""
    last = {name.lower(): name for name in headers}
    return headers if len(last) == len(headers) else {name: headers[name] for name in last.values()}
