from __future__ import annotations

import itertools
import pickle

import pytest

from dragoman.errors import DefinitionError
from dragoman.protocol.versions import (
    ASSUMED_OVER_HTTP,
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    VERSIONS,
    Version,
    as_version,
    find_version,
    handshake_versions,
    newest_common,
    stateless_versions,
    version_names,
)

NAMES = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def test_every_published_version_has_a_row_and_they_stand_newest_first() -> None:
    assert [version.name for version in VERSIONS] == NAMES


@pytest.mark.parametrize(("newer", "older"), list(itertools.combinations(VERSIONS, 2)))
def test_rows_compare_by_the_date_of_their_version(newer: Version, older: Version) -> None:
    assert older < newer
    assert newer > older
    assert newer != older


@pytest.mark.parametrize("version", VERSIONS)
def test_a_row_is_found_by_its_name(version: Version) -> None:
    assert find_version(version.name) is version


@pytest.mark.parametrize("name", [None, "", "2025-11-24", "2026-07-28 ", "draft", "2026-7-28", "9999-12-31"])
def test_what_is_no_published_version_is_not_found(name: str | None) -> None:
    assert find_version(name) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_row_cannot_be_changed_and_is_itself_after_pickling(version: Version) -> None:
    with pytest.raises(AttributeError):
        version.stateless = not version.stateless  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(version)) == version
    assert hash(pickle.loads(pickle.dumps(version))) == hash(version)


def test_only_2026_07_28_is_stateless() -> None:
    assert [version for version in VERSIONS if version.stateless] == [V2026_07_28]


def test_only_2025_03_26_has_batches() -> None:
    assert [version for version in VERSIONS if version.batches] == [V2025_03_26]


def test_an_unknown_id_is_left_out_from_2025_11_25_on() -> None:
    assert [version for version in VERSIONS if version.omits_unknown_id] == [V2026_07_28, V2025_11_25]


def test_only_sessions_of_2025_11_25_prime_their_streams() -> None:
    assert [version for version in VERSIONS if version.primes_streams] == [V2025_11_25]


def test_structured_content_is_any_value_in_2026_07_28_only() -> None:
    assert [version for version in VERSIONS if version.any_structured_content] == [V2026_07_28]


@pytest.mark.parametrize(
    ("version", "code"),
    [(V2024_11_05, -32002), (V2025_03_26, -32002), (V2025_06_18, -32002), (V2025_11_25, -32002), (V2026_07_28, -32602)],
)
def test_a_missing_resource_has_a_code_of_its_own_in_the_handshake_era_only(version: Version, code: int) -> None:
    assert version.resource_not_found == code


@pytest.mark.parametrize(
    ("version", "replaced"),
    [
        (V2024_11_05, {-32020: -32600, -32021: -32603, -32022: -32602, -32042: -32603}),
        (V2025_03_26, {-32020: -32600, -32021: -32603, -32022: -32602, -32042: -32603}),
        (V2025_06_18, {-32020: -32600, -32021: -32603, -32022: -32602, -32042: -32603}),
        (V2025_11_25, {-32020: -32600, -32021: -32603, -32022: -32602}),
        (V2026_07_28, {-32002: -32602, -32042: -32603}),
    ],
)
def test_codes_that_a_version_lacks_are_replaced_by_codes_of_json_rpc(
    version: Version, replaced: dict[int, int]
) -> None:
    assert dict(version.replaced_errors) == replaced


def test_the_newest_of_each_era_and_the_one_assumed_over_http_are_named() -> None:
    assert (LATEST_STATELESS, LATEST_HANDSHAKE, ASSUMED_OVER_HTTP) == (V2026_07_28, V2025_11_25, V2025_03_26)


@pytest.mark.parametrize(
    ("versions", "handshake", "stateless"),
    [
        ([], [], []),
        ([V2024_11_05, V2026_07_28, V2025_06_18], ["2025-06-18", "2024-11-05"], ["2026-07-28"]),
        ([V2026_07_28], [], ["2026-07-28"]),
        ([V2025_03_26], ["2025-03-26"], []),
        (VERSIONS, NAMES[1:], NAMES[:1]),
        ([V2026_07_28, Version(name="2099-01-01", stateless=True)], [], ["2099-01-01", "2026-07-28"]),
    ],
)
def test_versions_are_told_apart_by_era_newest_first(
    versions: list[Version], handshake: list[str], stateless: list[str]
) -> None:
    assert [version.name for version in handshake_versions(versions)] == handshake
    assert [version.name for version in stateless_versions(versions)] == stateless
    assert [version.name for version in handshake_versions(iter(versions))] == handshake


def test_names_are_given_newest_first_whatever_the_order() -> None:
    assert version_names(reversed(VERSIONS)) == NAMES
    assert version_names([V2025_03_26, V2026_07_28]) == ["2026-07-28", "2025-03-26"]
    assert version_names([]) == []


@pytest.mark.parametrize(
    ("names", "known", "newest"),
    [
        ([], VERSIONS, None),
        (["2026-07-28"], [], None),
        (["2024-11-05", "2025-06-18", "9999-12-31"], VERSIONS, V2025_06_18),
        (["2025-06-18", "2024-11-05"], [V2024_11_05, V2025_03_26], V2024_11_05),
    ],
)
def test_the_newest_common_version_is_found(names: list[str], known: list[Version], newest: Version | None) -> None:
    assert newest_common(iter(names), iter(known)) is newest


def test_a_version_is_itself_or_has_a_name() -> None:
    assert as_version(V2025_11_25) is as_version("2025-11-25") is V2025_11_25
    with pytest.raises(DefinitionError, match="There is no protocol version '1'; there are 2026-07-28, 2025-11-25"):
        as_version("1")
