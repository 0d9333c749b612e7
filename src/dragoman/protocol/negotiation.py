"""How a client finds out which era and version a server speaks.

The probe is `server/discover`. What it gets is judged here; time-outs, crashes and HTTP troubles are facts that the
transport reports. An error that no stateless server gives means the handshake; an error that only a stateless server
gives does not; and 5xx, refused connections and missing credentials say nothing about the era. The one exception is 500
with a JSON-RPC error: some servers of the handshake era answer a method that they do not know so.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import HeaderMismatch, MissingCapability, RpcError, UnsupportedVersion, ValidationError
from dragoman.protocol.jsonrpc import ErrorResponse, ResultResponse
from dragoman.protocol.versions import VERSIONS, Version, common, find_version, handshake_versions, stateless_versions
from dragoman.types import decode


class Stateless(Struct, frozen=True):
    """The server is stateless and speaks this version."""

    version: Version
    discovered: types.DiscoverResult | None = None


class Handshake(Struct, frozen=True):
    """The server wants `initialize`; offer it this version."""

    version: Version


class Again(Struct, frozen=True):
    """The server is stateless; probe once more with this version."""

    version: Version


class NoCommonVersion(Struct, frozen=True):
    """The two sides have no version in common, or the server said what is wrong."""

    error: RpcError


Verdict = Stateless | Handshake | Again | NoCommonVersion

_STATELESS_ERRORS = (HeaderMismatch, MissingCapability)


def judge(
    answer: ResultResponse | ErrorResponse | None, spoken: Iterable[Version] = VERSIONS, *, last: bool = False
) -> Verdict:
    """Return what the answer to a probe means; None is a probe that was not answered with a JSON-RPC message.

    `last` says that the probe was the second, so that the verdict is never to probe again.

    Example:
        judge(None)  # Handshake(...): the child died or the time ran out
    """
    known = tuple(spoken)
    if isinstance(answer, ResultResponse):
        return _judge_result(answer, known)
    if answer is None:
        return _fall_back(known, "The server does not answer server/discover")
    if isinstance(answer.error, UnsupportedVersion):
        return _judge_unsupported(answer.error, known, last=last)
    if isinstance(answer.error, _STATELESS_ERRORS):
        return NoCommonVersion(answer.error)
    return _fall_back(known, f"The server does not know server/discover: {answer.error.message}")


def _judge_result(answer: ResultResponse, known: tuple[Version, ...]) -> Verdict:
    try:
        discovered = decode(answer.result, types.DiscoverResult)
        supported = discovered.supported_versions
    except ValidationError:
        discovered = None
        supported = _read_signs(answer.result)
    version = common(supported, stateless_versions(known))
    if version is not None:
        return Stateless(version, discovered)
    offered = common(supported, handshake_versions(known))
    return Handshake(offered) if offered else _fall_back(known, "The server names no version that this client speaks")


class _Signs(types.Result):
    supported_versions: list[str] | None = None


def _read_signs(result: Raw) -> list[str]:
    """Return the versions that a malformed answer gives away: a result type, at least, is a sign of stateless ones."""
    try:
        signs = decode(result, _Signs)
    except ValidationError:
        return []
    if signs.supported_versions is None and signs.result_type is not None:
        return [version.name for version in stateless_versions(VERSIONS)]
    return signs.supported_versions or []


def _judge_unsupported(error: UnsupportedVersion, known: tuple[Version, ...], *, last: bool) -> Verdict:
    supported = supported_versions(error)
    version = common(supported, stateless_versions(known))
    if version is not None:
        return NoCommonVersion(error) if last else Again(version)
    offered = common(supported, handshake_versions(known))
    return NoCommonVersion(error) if offered is None else Handshake(offered)


def supported_versions(error: RpcError) -> list[str]:
    """Return the versions that an UnsupportedVersion error names, whatever else its data holds."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    return [name for name in supported if isinstance(name, str)] if isinstance(supported, list) else []


def _fall_back(known: tuple[Version, ...], reason: str) -> Verdict:
    candidates = handshake_versions(known)
    if not candidates:
        message = f"{reason}, and this client speaks stateless versions only"
        return NoCommonVersion(RpcError.of(UnsupportedVersion.CODE, message))
    return Handshake(candidates[0])


_INTERNAL_ERROR = 500
_SAYS_NOTHING = frozenset({401, 403, 407, 408, 425, 429})


def judge_http(
    status: int,
    message: ResultResponse | ErrorResponse | None = None,
    spoken: Iterable[Version] = VERSIONS,
    *,
    last: bool = False,
) -> Verdict | None:
    """Return what the status and the message of an HTTP answer to a probe mean; None if nothing about the era.

    Credentials, redirects, haste and 5xx say nothing, whatever the body says. Otherwise the body decides and not the
    status, because servers of the handshake era answer unknown methods with 200 as well as with 400, 404 and 500.
    """
    is_answer = status == _INTERNAL_ERROR and isinstance(message, ErrorResponse)
    if status in _SAYS_NOTHING or 300 <= status < 400 or (status >= 500 and not is_answer):
        return None
    return judge(message, spoken, last=last)


def agreed(result: types.InitializeResult, spoken: Iterable[Version] = VERSIONS) -> Version:
    """Return the version of a handshake, as the server chose it.

    Raises:
        UnsupportedVersion: the server chose a version that has no handshake or that this client does not speak.
    """
    candidates = handshake_versions(spoken)
    version = find_version(result.protocol_version)
    if version not in candidates or version is None:
        raise UnsupportedVersion(result.protocol_version, [candidate.name for candidate in candidates])
    return version
