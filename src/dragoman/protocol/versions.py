"""The published protocol versions, each a row of data.

There are two eras. In the handshake era (2024-11-05 to 2025-11-25) a client sends `initialize`, there are sessions, and
the server sends requests to the client. In the stateless era (2026-07-28) every request carries its version and the
capabilities of the client, and a server asks for input by returning `input_required`. Rows are ordered by date. Only
the tables in `methods`, `fields` and `extensions` compare versions; other modules read the fields of a row.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.errors import DefinitionError


class Version(Struct, frozen=True, order=True, kw_only=True, cache_hash=True):
    """The behaviour of one protocol version on the wire."""

    name: str
    stateless: bool = False
    """Each request carries its version, capabilities and log level: there are no handshake and no session."""
    asks_in_results: bool = False
    """A server asks by `input_required` results; in other versions it sends requests, and clients send responses."""
    listens: bool = False
    """`subscriptions/listen` replaces the standalone stream and `resources/subscribe`."""
    has_cache_hints: bool = False
    mirrors_headers: bool = False
    """Over HTTP, headers repeat the method and parts of the params."""
    cancels_by_closing: bool = False
    """Over HTTP, closing a response cancels the request; in other versions a client can resume the response."""
    batches: bool = False
    """A JSON array of messages is a valid message."""
    omits_unknown_id: bool = False
    """An error response to a request whose id is unknown has no id; in other versions its id is null."""
    primes_streams: bool = False
    """SHOULD (2025-11-25): "immediately send an SSE event consisting of an event ID and an empty data field"."""
    any_structured_content: bool = False
    """Structured content may be any JSON value; in other versions it is an object."""
    resource_not_found: int = -32002
    replaced_errors: tuple[tuple[int, int], ...] = ()
    """Error codes that this version does not define, and the codes that replace them."""


_HANDSHAKE_REPLACES = ((-32020, -32600), (-32021, -32603), (-32022, -32602))
_NO_URL_ELICITATION = (-32042, -32603)

V2024_11_05 = Version(name="2024-11-05", replaced_errors=(*_HANDSHAKE_REPLACES, _NO_URL_ELICITATION))
V2025_03_26 = Version(name="2025-03-26", batches=True, replaced_errors=V2024_11_05.replaced_errors)
V2025_06_18 = Version(name="2025-06-18", replaced_errors=V2024_11_05.replaced_errors)
V2025_11_25 = Version(
    name="2025-11-25", omits_unknown_id=True, primes_streams=True, replaced_errors=_HANDSHAKE_REPLACES
)
V2026_07_28 = Version(
    name="2026-07-28",
    stateless=True,
    asks_in_results=True,
    listens=True,
    has_cache_hints=True,
    mirrors_headers=True,
    cancels_by_closing=True,
    omits_unknown_id=True,
    any_structured_content=True,
    resource_not_found=-32602,
    # MUST NOT (2026-07-28): "emit -32002 or -32042".
    replaced_errors=((-32002, -32602), _NO_URL_ELICITATION),
)

VERSIONS: tuple[Version, ...] = (V2026_07_28, V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05)
"""Every version, newest first."""

LATEST_STATELESS = V2026_07_28
LATEST_HANDSHAKE = V2025_11_25
ASSUMED_OVER_HTTP = V2025_03_26
"""The version of a client that sends no MCP-Protocol-Version header, which exists since 2025-06-18."""

_BY_NAME = {version.name: version for version in VERSIONS}


def find_version(name: str | None) -> Version | None:
    """Return the version with that name, if there is one."""
    return _BY_NAME.get(name) if name is not None else None


def as_version(given: Version | str) -> Version:
    """Return a version that is given by itself or by its name.

    Raises:
        DefinitionError: there is no version of that name.
    """
    if isinstance(given, Version):
        return given
    if given not in _BY_NAME:
        raise DefinitionError(f"There is no protocol version {given!r}; there are {', '.join(version_names(VERSIONS))}")
    return _BY_NAME[given]


def handshake_versions(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return the versions of the handshake era, newest first."""
    return tuple(sorted((version for version in versions if not version.stateless), reverse=True))


def stateless_versions(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return the versions of the stateless era, newest first."""
    return tuple(sorted((version for version in versions if version.stateless), reverse=True))


def version_names(versions: Iterable[Version]) -> list[str]:
    """Return the names of versions, newest first."""
    return [version.name for version in sorted(versions, reverse=True)]


def newest_common(names: Iterable[str], known: Iterable[Version]) -> Version | None:
    """Return the newest known version among the names, None if there is none."""
    named = set(names)
    return max((version for version in known if version.name in named), default=None)
