"""Version negotiation of a client: the verdict on the answer to a `server/discover` probe.

A client that does not know the era of a server sends `server/discover` first. The answers mean:

- a result, or an error that only stateless servers send: the server is stateless;
- any other JSON-RPC error, a time-out or a crash of the child: the server expects `initialize`;
- a refused connection, missing credentials, a redirect or a status of 5xx: the era stays unknown. The one
  exception is 500 with a JSON-RPC error, which some servers of the handshake era send for an unknown method.

The connection reports time-outs, crashes and HTTP statuses; this module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import HeaderMismatch, MissingCapability, RpcError, UnsupportedVersion, ValidationError
from dragoman.protocol.jsonrpc import ErrorResponse, ResultResponse
from dragoman.protocol.versions import (
    VERSIONS,
    Version,
    find_version,
    handshake_versions,
    newest_common,
    stateless_versions,
    version_names,
)
from dragoman.types import decode


class Stateless(Struct, frozen=True):
    """The server is stateless and has this version."""

    version: Version
    discovered: types.DiscoverResult | None = None


class Handshake(Struct, frozen=True):
    """The server expects `initialize`; request this version."""

    version: Version


class ProbeAgain(Struct, frozen=True):
    """The server is stateless but lacks the version of the probe; probe again with this version."""

    version: Version


class NoCommonVersion(Struct, frozen=True):
    """The two sides have no version in common, or the server refused the probe for another reason."""

    error: RpcError


Verdict = Stateless | Handshake | ProbeAgain | NoCommonVersion

_STATELESS_ERRORS = (HeaderMismatch, MissingCapability)


def interpret_probe(
    answer: ResultResponse | ErrorResponse | None, spoken: Iterable[Version] = VERSIONS, *, last: bool = False
) -> Verdict:
    """Return the verdict on the answer to a probe. `answer` is None if the probe got no JSON-RPC answer.

    `spoken` are the versions of this client. After the `last` probe the verdict is never `ProbeAgain`.

    Example:
        interpret_probe(None)  # Handshake(...): the child exited, or the time ran out
    """
    known = tuple(spoken)
    if isinstance(answer, ResultResponse):
        return _interpret_result(answer, known)
    if answer is None:
        return _fall_back(known, "The server does not answer server/discover")
    if isinstance(answer.error, UnsupportedVersion):
        return _interpret_unsupported(answer.error, known, last=last)
    if isinstance(answer.error, _STATELESS_ERRORS):
        return NoCommonVersion(answer.error)
    return _fall_back(known, f"The server does not know server/discover: {answer.error.message}")


def _interpret_result(answer: ResultResponse, known: tuple[Version, ...]) -> Verdict:
    try:
        discovered = decode(answer.result, types.DiscoverResult)
        supported = discovered.supported_versions
    except ValidationError:
        discovered = None
        supported = _supported_versions_of_malformed(answer.result)
    version = newest_common(supported, stateless_versions(known))
    if version is not None:
        return Stateless(version, discovered)
    offered = newest_common(supported, handshake_versions(known))
    return Handshake(offered) if offered else _fall_back(known, "The server names no version that this client speaks")


class _MalformedDiscoverResult(types.Result):
    supported_versions: list[str] | None = None


def _supported_versions_of_malformed(result: Raw) -> list[str]:
    """Return the versions that a malformed result names; a `resultType` alone means every stateless version."""
    try:
        partial = decode(result, _MalformedDiscoverResult)
    except ValidationError:
        return []
    if partial.supported_versions is None and partial.result_type is not None:
        return version_names(stateless_versions(VERSIONS))
    return partial.supported_versions or []


def _interpret_unsupported(error: UnsupportedVersion, known: tuple[Version, ...], *, last: bool) -> Verdict:
    supported = supported_versions(error)
    version = newest_common(supported, stateless_versions(known))
    if version is not None:
        return NoCommonVersion(error) if last else ProbeAgain(version)
    offered = newest_common(supported, handshake_versions(known))
    return NoCommonVersion(error) if offered is None else Handshake(offered)


def supported_versions(error: RpcError) -> list[str]:
    """Return the versions that the data of an UnsupportedVersion error names."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return [name for name in supported if isinstance(name, str)] if isinstance(supported, list) else []


def _fall_back(known: tuple[Version, ...], reason: str) -> Verdict:
    candidates = handshake_versions(known)
    if not candidates:
        message = f"{reason}, and this client speaks stateless versions only"
        return NoCommonVersion(RpcError.of(UnsupportedVersion.CODE, message))
    return Handshake(candidates[0])


_INTERNAL_ERROR = 500
_WITHOUT_VERDICT = frozenset({401, 403, 407, 408, 425, 429})


def interpret_http_probe(
    status: int,
    message: ResultResponse | ErrorResponse | None = None,
    spoken: Iterable[Version] = VERSIONS,
    *,
    last: bool = False,
) -> Verdict | None:
    """Return the verdict on an HTTP response to a probe, None if the era stays unknown.

    A status for missing credentials, a redirect, a rate limit or 5xx gives None. For other statuses the body decides,
    because servers of the handshake era answer an unknown method with 200, 400, 404 or 500.
    """
    is_answer = status == _INTERNAL_ERROR and isinstance(message, ErrorResponse)
    if status in _WITHOUT_VERDICT or 300 <= status < 400 or (status >= 500 and not is_answer):
        return None
    return interpret_probe(message, spoken, last=last)


def agreed_version(result: types.InitializeResult, spoken: Iterable[Version] = VERSIONS) -> Version:
    """Return the version that the server chose in the handshake.

    Raises:
        UnsupportedVersion: the version has no handshake, or this client does not have it.
    """
    candidates = handshake_versions(spoken)
    version = find_version(result.protocol_version)
    if version not in candidates or version is None:
        raise UnsupportedVersion(result.protocol_version, version_names(candidates))
    return version
