"""What an HTTP request says before its body, for the author's functions that decide by it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from dragoman.config import is_async
from dragoman.runtime.offload import offload


class RequestHeaders(Mapping[str, str]):
    """Headers by name, in whatever case; one that is repeated has its values joined by commas."""

    def __init__(self, lines: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in lines:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self._values[key] = f"{self._values[key]}, {text}" if key in self._values else text

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class HttpRequest(Struct, frozen=True, eq=False):
    """What a request says before its body.

    Example:
        def build(request: HttpRequest) -> Server:
            return Server("mine", server_context=request.scope["user"])
    """

    method: str
    path: str
    headers: Mapping[str, str]
    """By name, in whatever case."""
    scope: Mapping[str, Any]
    """The ASGI scope, in which middleware leaves what it found out: `scope["user"]`, `scope["session"]`."""

    @staticmethod
    def of(scope: Mapping[str, Any]) -> HttpRequest:
        """Return the request of an ASGI scope."""
        return HttpRequest(scope["method"], scope["path"], RequestHeaders(scope["headers"]), scope)


Auth = Callable[[HttpRequest], str | Awaitable[str | None] | None]
"""Tells who sends a request: a name, or None for nobody known; PermissionError refuses whom it knows."""


async def verify(auth: Auth, scope: Mapping[str, Any]) -> str | None:
    """Return who sends a request; a plain function is called in a thread."""
    request = HttpRequest.of(scope)
    found = auth(request) if is_async(auth) else await offload(auth, request)
    return await found if isawaitable(found) else found
