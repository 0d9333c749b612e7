"""`HttpRequest`: the head of an HTTP request for authors' functions, and the check of its sender by `auth`."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dragoman.auth.server.bearer import FORBIDDEN, UNAUTHORIZED, WELL_KNOWN, Bearer, Bearers, challenge, identity_of
from dragoman.auth.server.identity import Denial, Identity
from dragoman.runtime.callables import invoke

_CREDENTIALS = re.compile("auth|cookie|token|secret|key|password|session|signature|credential|assertion|jwt")

_IPV6_NETWORK_BYTES = 8
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


class HeaderMapping(Mapping[str, str]):
    """A mapping of headers with case-insensitive names; the values of a repeated header are joined by commas.

    `repr` masks the values of headers that may hold credentials, such as `Authorization`, `Cookie` and `X-API-Key`.
    """

    def __init__(self, lines: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in lines:
            # Some HTTP servers pass the optional white space around a value (RFC 9110) as part of the value.
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
            self._values[key] = f"{self._values[key]}, {text}" if key in self._values else text

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr({name: "***" if _CREDENTIALS.search(name) else value for name, value in self._values.items()})


class HttpRequest(Struct, frozen=True, eq=False):
    """The head of an HTTP request: the method, the path, the headers and the ASGI scope.

    Example:
        def build(request: HttpRequest) -> Server:
            return Server("mine", server_context=request.scope["user"])
    """

    method: str
    path: str
    headers: Mapping[str, str]
    """The headers; their names are case-insensitive."""
    scope: Mapping[str, Any]
    """The ASGI scope, with the values that ASGI middleware adds, such as `scope["user"]`."""

    def __repr__(self) -> str:
        # The headers and the scope are left out, because they hold credentials.
        return f"<HttpRequest {self.method} {self.path}>"

    @staticmethod
    def of(scope: Mapping[str, Any]) -> HttpRequest:
        """Return the request of an ASGI scope."""
        return HttpRequest(scope["method"], scope["path"], HeaderMapping(scope["headers"]), scope)


Found = str | Identity | None
SingleAuth = Callable[[HttpRequest], Found | Awaitable[Found]] | Bearer
Auth = SingleAuth | Sequence[Bearer]
"""Verifies the sender of a request: a `Bearer`, a list of them for several issuers, or a function of the `HttpRequest`.

The function returns an `Identity`, the name of a principal, or None for an unknown sender. An empty name is an unknown
sender too. The function raises PermissionError to refuse a known sender.
"""
_CHALLENGE = "Bearer"
_logger = logging.getLogger("dragoman.server")


def single_auth(auth: Auth | None) -> SingleAuth | None:
    """Return the object that verifies senders; several `Bearer`s become one.

    Raises:
        DefinitionError: the `Bearer`s do not fit together.
    """
    return Bearers(auth) if isinstance(auth, Sequence) else auth


async def verify(auth: SingleAuth, scope: Mapping[str, Any], path: str) -> Identity | Denial:
    """Return the identity of a request's sender, or a `Denial`; an `auth` that is a `def` runs in a thread.

    A denial is logged only if the request had credentials, because the first request of a client usually has none.

    Raises:
        Exception: an exception of the `auth` function, except a PermissionError that the function raised to refuse.
    """
    request = HttpRequest.of(scope)
    found = await _verified(auth, request, scope, path)
    if isinstance(found, Denial) and "authorization" in request.headers:
        _log(found)
    return found


def _log(denial: Denial) -> None:
    _logger.info("A request was refused with status %s: %s%s", denial.status, denial.reason, denial.shown_detail)


async def _verified(auth: SingleAuth, request: HttpRequest, scope: Mapping[str, Any], path: str) -> Identity | Denial:
    if isinstance(auth, Bearer):
        return await auth.admit(request.headers, _metadata_address(auth, scope, path))
    try:
        found = await invoke(auth, request)
    except PermissionError as error:
        # An error number means that the operating system raised the error. Its text must not reach the client.
        if error.errno is not None:
            raise
        return Denial(FORBIDDEN, f"Not permitted: {error}", _CHALLENGE)
    identity = identity_of(found)
    if identity is None:
        reason = "Authorization is required; send the header Authorization"
        return Denial(UNAUTHORIZED, reason, _CHALLENGE, "the auth function knows nobody by what was sent")
    return identity


def _metadata_address(auth: Bearer, scope: Mapping[str, Any], path: str) -> str:
    return auth.metadata_address(scope.get("root_path", ""), _path_suffix(path))


def _path_suffix(path: str) -> str:
    return f"/{path.strip('/')}".rstrip("/")


def documents_of(auth: SingleAuth | None, path: str) -> dict[str, bytes]:
    """Return the documents to serve, by path: the protected resource metadata of a `Bearer`, or nothing."""
    if not isinstance(auth, Bearer):
        return {}
    # A proxy may change the path. Clients derive the path of the metadata from the URL of the resource.
    return dict.fromkeys((WELL_KNOWN, WELL_KNOWN + _path_suffix(path), auth.metadata_path), auth.metadata)


def insufficient(
    auth: SingleAuth | None, identity: Identity, scopes: Iterable[str], scope: Mapping[str, Any], path: str
) -> Denial:
    """Log and return the denial for a sender that lacks scopes."""
    if isinstance(auth, Bearer):
        denial = auth.judge_of(identity).insufficient(scopes, _metadata_address(auth, scope, path))
    else:
        required = " ".join(sorted(scopes))
        header = challenge(error="insufficient_scope", scope=required)
        denial = Denial(FORBIDDEN, f"This takes the scopes: {required}", header)
    _log(denial)
    return denial


def holder_name(principal: str | None, address: str | None) -> str:
    """Return the name of a caller: its principal, or the address of a client without one.

    All addresses of an IPv6 /64 count together, because one client can use them all.
    """
    if principal is not None:
        return f"principal {principal}"
    import socket

    try:
        packed = socket.inet_pton(socket.AF_INET6, (address or "").partition("%")[0])
    except OSError:
        return f"address {address}"
    if packed.startswith(_IPV4_IN_IPV6):
        return f"address {socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_IN_IPV6) :])}"
    return f"network {packed[:_IPV6_NETWORK_BYTES].hex()}"
