"""The published protocol versions, each a row of data.

There are two eras. Handshake: `initialize`, sessions, requests from server to client. Stateless: every request carries
its version and capabilities, and a server asks by returning `input_required`. Rows are ordered, so that the tables of
`methods` and `fields` can say "since"; no other module compares versions.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Version(Struct, frozen=True, order=True, kw_only=True, cache_hash=True):
    """What one protocol version does on the wire."""

    name: str
    stateless: bool = False
    batches: bool = False
    """A JSON array of messages is a message."""
    omits_unknown_id: bool = False
    """An error whose request cannot be told has no id, where earlier versions send null."""
    primes_streams: bool = False
    """SHOULD (2025-11-25): "immediately send an SSE event consisting of an event ID and an empty data field"."""
    any_structured_content: bool = False
    """Structured content may be any JSON value, where earlier versions have objects only."""
    resource_not_found: int = -32002
    replaced_errors: tuple[tuple[int, int], ...] = ()
    """Error codes that this version must not send, and what stands for them."""


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
"""What a client speaks that sends no version header: the header came with 2025-06-18."""

_BY_NAME = {version.name: version for version in VERSIONS}


def find_version(name: str | None) -> Version | None:
    """Return the version with that name, if there is one."""
    return _BY_NAME.get(name) if name is not None else None


def handshake_versions(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return those of the handshake era, newest first."""
    return tuple(sorted((version for version in versions if not version.stateless), reverse=True))


def stateless_versions(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Return those of the stateless era, newest first."""
    return tuple(sorted((version for version in versions if version.stateless), reverse=True))


def version_names(versions: Iterable[Version]) -> list[str]:
    """Return their names, newest first."""
    return [version.name for version in sorted(versions, reverse=True)]


def newest_common(names: Iterable[str], known: Iterable[Version]) -> Version | None:
    """Return the newest version that both sides have."""
    wanted = set(names)
    return max((version for version in known if version.name in wanted), default=None)
