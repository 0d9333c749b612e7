"""What an HTTP request says before its body, for the author's functions that decide by it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from dragoman.auth.server.bearer import FORBIDDEN, UNAUTHORIZED, WELL_KNOWN, Bearer, challenge, identity_of
from dragoman.auth.server.identity import Denial, Identity
from dragoman.runtime.callables import invoke


class HeaderMapping(Mapping[str, str]):
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

    def __repr__(self) -> str:
        # Neither headers nor scope: both hold credentials.
        return f"<HttpRequest {self.method} {self.path}>"

    @staticmethod
    def of(scope: Mapping[str, Any]) -> HttpRequest:
        """Return the request of an ASGI scope."""
        return HttpRequest(scope["method"], scope["path"], HeaderMapping(scope["headers"]), scope)


Found = str | Identity | None
Auth = Callable[[HttpRequest], Found | Awaitable[Found]] | Bearer
"""Tells who sends a request: a `Bearer`, or a function of the request.

The function returns an `Identity`, the name of a principal, or None for nobody known; its PermissionError refuses whom
it knows.
"""
_CHALLENGE = "Bearer"
_logger = logging.getLogger("dragoman.server")


async def verify(auth: Auth, scope: Mapping[str, Any], path: str) -> Identity | Denial:
    """Return who sends a request, or why it is refused; a plain function is called in a thread.

    A refusal is logged, unless the request names nobody: that is how every client begins.

    Raises:
        Exception: whatever the function raises.
    """
    request = HttpRequest.of(scope)
    found = await _verified(auth, request, scope, path)
    if isinstance(found, Denial) and "authorization" in request.headers:
        _log(found)
    return found


def _log(denial: Denial) -> None:
    detail = f" ({denial.detail})" if denial.detail else ""
    _logger.info("A request was refused with status %s: %s%s", denial.status, denial.reason, detail)


async def _verified(auth: Auth, request: HttpRequest, scope: Mapping[str, Any], path: str) -> Identity | Denial:
    if isinstance(auth, Bearer):
        return await auth.admit(request.headers, _metadata_address(auth, scope, path))
    try:
        found = await invoke(auth, request)
    except PermissionError as error:
        # One that the system raised is a failure of the check, and its text is not for clients.
        if error.errno is not None:
            raise
        return Denial(FORBIDDEN, f"Not permitted: {error}", _CHALLENGE)
    identity = identity_of(found)
    if identity is None:
        reason = "Authorization is required; send the header Authorization"
        return Denial(UNAUTHORIZED, reason, _CHALLENGE, "the auth function knows nobody by what was sent")
    return identity


def _metadata_address(auth: Bearer, scope: Mapping[str, Any], path: str) -> str:
    return auth.metadata_address(scope.get("root_path", ""), _appended(path))


def _appended(path: str) -> str:
    return f"/{path.strip('/')}".rstrip("/")


def documents_of(auth: Auth | None, path: str) -> dict[str, bytes]:
    """Return what is served beside a server whose door is a `Bearer`: the metadata that names who issues tokens."""
    if not isinstance(auth, Bearer):
        return {}
    # A proxy may serve another path than we do, but its clients look where the resource says.
    return dict.fromkeys((WELL_KNOWN, WELL_KNOWN + _appended(path), auth.metadata_path), auth.metadata)


def insufficient(auth: Auth | None, scopes: Iterable[str], scope: Mapping[str, Any], path: str) -> Denial:
    """Return the refusal of somebody who may not do what takes these scopes, and log it."""
    if isinstance(auth, Bearer):
        denial = auth.insufficient(scopes, _metadata_address(auth, scope, path))
    else:
        wanted = " ".join(sorted(scopes))
        said = challenge(error="insufficient_scope", scope=wanted)
        denial = Denial(FORBIDDEN, f"This takes the scopes: {wanted}", said)
    _log(denial)
    return denial
