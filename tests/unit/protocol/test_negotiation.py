from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ParseError,
    ResourceNotFound,
    RpcError,
    UnsupportedVersion,
)
from dragoman.protocol.jsonrpc import ErrorResponse, ResultResponse, decode
from dragoman.protocol.negotiation import (
    Handshake,
    NoCommonVersion,
    ProbeAgain,
    Stateless,
    Verdict,
    agreed_version,
    interpret_http_probe,
    interpret_probe,
    supported_versions,
)
from dragoman.protocol.versions import (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    VERSIONS,
    Version,
    handshake_versions,
)

STATELESS_ONLY = (V2026_07_28,)
HANDSHAKE_ONLY = handshake_versions(VERSIONS)
OLDER_ONLY = (V2024_11_05, V2025_03_26)


def result(value: Any) -> ResultResponse:
    return ResultResponse(1, Raw(json.dumps(value).encode()))


def discovered(*versions: str, **more: Any) -> ResultResponse:
    return result({"supportedVersions": list(versions), "capabilities": {}, "resultType": "complete", **more})


def refusal(code: int, data: Any = UNSET, id: types.RequestId | None = 1) -> ErrorResponse:
    return ErrorResponse(id, RpcError.of(code, "No", data))


def unsupported(*versions: str) -> ErrorResponse:
    return refusal(-32022, {"supported": list(versions), "requested": "2026-07-28"})


@pytest.mark.parametrize(
    "versions",
    [
        ("2026-07-28",),
        ("2026-07-28", "2025-11-25", "2024-11-05"),
        ("2024-11-05", "2026-07-28"),
        ("9999-12-31", "2026-07-28", "draft"),
    ],
)
def test_a_discovery_with_a_common_stateless_version_settles_on_the_newest(versions: tuple[str, ...]) -> None:
    verdict = interpret_probe(discovered(*versions, instructions="Ask nicely."))
    assert isinstance(verdict, Stateless)
    assert verdict.version is V2026_07_28
    assert verdict.discovered is not None
    assert verdict.discovered.supported_versions == list(versions)
    assert verdict.discovered.instructions == "Ask nicely."


@pytest.mark.parametrize(
    ("value", "version"),
    [
        ({"supportedVersions": ["2026-07-28"], "resultType": "complete"}, V2026_07_28),
        ({"supportedVersions": ["2026-07-28"], "capabilities": 5}, V2026_07_28),
        ({"supportedVersions": ["2025-11-25", "2026-07-28"]}, V2026_07_28),
        ({"resultType": "complete"}, V2026_07_28),
        ({"resultType": "complete", "capabilities": {}}, V2026_07_28),
    ],
)
def test_a_malformed_discovery_still_shows_that_the_server_is_stateless(value: Any, version: Version) -> None:
    assert interpret_probe(result(value)) == Stateless(version, None)


def test_an_entry_of_the_supported_versions_that_is_no_name_is_overlooked() -> None:
    verdict = interpret_probe(discovered("2026-07-28", 5, None))  # type: ignore[arg-type]
    assert isinstance(verdict, Stateless)
    assert verdict.discovered is not None
    assert verdict.discovered.supported_versions == ["2026-07-28"]


@pytest.mark.parametrize(
    ("answer", "offer"),
    [
        (discovered("2025-06-18", "2025-03-26"), V2025_06_18),
        (discovered("2024-11-05"), V2024_11_05),
        (discovered(), V2025_11_25),
        (discovered("9999-12-31"), V2025_11_25),
        (result({"supportedVersions": ["2025-03-26"]}), V2025_03_26),
        (result({"supportedVersions": [], "resultType": "complete"}), V2025_11_25),
    ],
)
def test_a_discovery_without_a_common_stateless_version_leads_to_the_handshake(
    answer: ResultResponse, offer: Version
) -> None:
    assert interpret_probe(answer) == Handshake(offer)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"tools": []},
        {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}},
        {"supportedVersions": "2026-07-28"},
        {"supportedVersions": None, "resultType": None},
        [],
        None,
        "ok",
        5,
    ],
)
def test_a_result_of_another_shape_leads_to_the_handshake(value: Any) -> None:
    assert interpret_probe(result(value)) == Handshake(V2025_11_25)


def test_no_answer_at_all_leads_to_the_handshake() -> None:
    assert interpret_probe(None) == Handshake(V2025_11_25)


@pytest.mark.parametrize(
    ("versions", "spoken", "verdict"),
    [
        (("2026-07-28",), VERSIONS, ProbeAgain(V2026_07_28)),
        (("9999-12-31", "2026-07-28", "2025-11-25"), VERSIONS, ProbeAgain(V2026_07_28)),
        (("2025-11-25", "2025-06-18"), VERSIONS, Handshake(V2025_11_25)),
        (("9999-12-31", "2024-11-05"), VERSIONS, Handshake(V2024_11_05)),
        (("2026-07-28", "2025-06-18"), HANDSHAKE_ONLY, Handshake(V2025_06_18)),
        (("2025-11-25", "2025-03-26"), OLDER_ONLY, Handshake(V2025_03_26)),
    ],
)
def test_an_unsupported_version_is_corrected_inline_by_a_stateless_one_and_else_by_the_handshake(
    versions: tuple[str, ...], spoken: tuple[Version, ...], verdict: Verdict
) -> None:
    assert interpret_probe(unsupported(*versions), spoken) == verdict


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        (unsupported("9999-12-31"), VERSIONS),
        (unsupported(), VERSIONS),
        (unsupported("2025-11-25"), STATELESS_ONLY),
        (unsupported("2025-11-25"), OLDER_ONLY),
        (refusal(-32022), VERSIONS),
        (refusal(-32022, {"supported": "2026-07-28"}), VERSIONS),
        (refusal(-32022, {"supported": [5, None]}), VERSIONS),
        (refusal(-32022, ["2026-07-28"]), VERSIONS),
    ],
)
def test_without_any_common_version_the_servers_own_refusal_is_surfaced(
    answer: ErrorResponse, spoken: tuple[Version, ...]
) -> None:
    verdict = interpret_probe(answer, spoken)
    assert isinstance(verdict, NoCommonVersion)
    assert verdict.error is answer.error


def test_a_probe_is_corrected_once_even_by_the_version_it_had_and_not_twice() -> None:
    answer = unsupported("2026-07-28")
    assert interpret_probe(answer) == ProbeAgain(V2026_07_28)
    verdict = interpret_probe(answer, last=True)
    assert isinstance(verdict, NoCommonVersion)
    assert verdict.error is answer.error


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (discovered("2026-07-28"), Stateless),
        (unsupported("2025-11-25"), Handshake),
        (refusal(-32601), Handshake),
        (None, Handshake),
    ],
)
def test_the_second_probe_is_otherwise_judged_like_the_first(answer: Any, verdict: type[Verdict]) -> None:
    assert isinstance(interpret_probe(answer, last=True), verdict)


@pytest.mark.parametrize("error", [HeaderMismatch("No"), MissingCapability({"sampling": {}})])
def test_an_error_that_only_stateless_servers_give_is_surfaced(error: RpcError) -> None:
    verdict = interpret_probe(ErrorResponse(1, error))
    assert isinstance(verdict, NoCommonVersion)
    assert verdict.error is error


NOT_STATELESS = [
    MethodNotFound("Method not found"),
    InvalidParams("Received request before initialization was complete"),
    InvalidRequest("Server not initialized"),
    ParseError("No"),
    InternalError("No"),
    ResourceNotFound("note://1"),
    RpcError(-32000, "Bad Request: Server not initialized"),
    RpcError(-32001, "Session not found"),
    RpcError(-32003, "No"),
    RpcError(-32004, "No"),
    RpcError(-32042, "No"),
    RpcError(0, "No"),
]


@pytest.mark.parametrize("error", NOT_STATELESS, ids=lambda error: error.code)
@pytest.mark.parametrize("id", [1, None])
def test_any_other_error_leads_to_the_handshake_whatever_its_id(error: RpcError, id: types.RequestId | None) -> None:
    assert interpret_probe(ErrorResponse(id, error)) == Handshake(V2025_11_25)


@pytest.mark.parametrize("id", ['"id":null,', ""])
def test_an_error_that_does_not_say_which_request_it_is_about_is_an_answer_to_the_probe(id: str) -> None:
    message = decode(f'{{"jsonrpc":"2.0",{id}"error":{{"code":-32000,"message":"No"}}}}'.encode())
    assert isinstance(message, ErrorResponse)
    assert interpret_probe(message) == Handshake(V2025_11_25)


@pytest.mark.parametrize("answer", [None, refusal(-32601), result({}), discovered("2025-11-25")])
def test_the_handshake_offers_the_newest_version_that_the_client_speaks(answer: Any) -> None:
    assert interpret_probe(answer, (V2024_11_05, V2026_07_28, V2025_03_26)) == Handshake(V2025_03_26)
    assert interpret_probe(answer, iter([V2024_11_05])) == Handshake(V2024_11_05)


@pytest.mark.parametrize("answer", [None, refusal(-32601), result({}), discovered("2025-11-25")])
def test_a_stateless_client_is_told_why_it_cannot_talk_to_a_server_of_the_handshake_era(answer: Any) -> None:
    verdict = interpret_probe(answer, STATELESS_ONLY)
    assert isinstance(verdict, NoCommonVersion)
    assert isinstance(verdict.error, UnsupportedVersion)
    assert verdict.error.code == -32022
    assert verdict.error.message.endswith("this client speaks stateless versions only")


@pytest.mark.parametrize("status", [300, 301, 307, 399, 401, 403, 407, 408, 425, 429, 502, 503, 599])
@pytest.mark.parametrize(
    "message", [None, refusal(-32601), refusal(-32020), unsupported("2025-11-25"), discovered("2026-07-28")]
)
def test_credentials_redirects_haste_and_failures_say_nothing_about_the_era(status: int, message: Any) -> None:
    assert interpret_http_probe(status, message) is None


def test_an_internal_error_says_nothing_unless_its_body_is_a_json_rpc_error() -> None:
    assert interpret_http_probe(500) is None
    assert interpret_http_probe(500, discovered("2026-07-28")) is None
    assert interpret_http_probe(500, refusal(-32601)) == Handshake(V2025_11_25)
    assert interpret_http_probe(500, unsupported("2026-07-28")) == ProbeAgain(V2026_07_28)


@pytest.mark.parametrize("status", [200, 202, 299, 400, 404, 405, 406, 410, 415, 422, 499])
def test_the_body_decides_whatever_other_status_it_comes_with(status: int) -> None:
    assert isinstance(interpret_http_probe(status, discovered("2026-07-28")), Stateless)
    assert isinstance(interpret_http_probe(status, refusal(-32020)), NoCommonVersion)
    assert isinstance(interpret_http_probe(status, refusal(-32021)), NoCommonVersion)
    assert interpret_http_probe(status, unsupported("2026-07-28")) == ProbeAgain(V2026_07_28)
    assert interpret_http_probe(status, unsupported("2025-06-18")) == Handshake(V2025_06_18)
    assert interpret_http_probe(status, result({"tools": []})) == Handshake(V2025_11_25)
    for error in NOT_STATELESS:
        assert interpret_http_probe(status, ErrorResponse(None, error)) == Handshake(V2025_11_25)


@pytest.mark.parametrize("status", [200, 202, 204, 400, 404, 405, 406, 415])
def test_an_http_answer_that_is_no_json_rpc_leads_to_the_handshake(status: int) -> None:
    assert interpret_http_probe(status) == Handshake(V2025_11_25)


def test_an_http_probe_is_judged_for_what_the_client_speaks_and_corrected_once() -> None:
    assert interpret_http_probe(405, None, OLDER_ONLY) == Handshake(V2025_03_26)
    assert isinstance(interpret_http_probe(400, unsupported("2026-07-28"), last=True), NoCommonVersion)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (UNSET, []),
        (None, []),
        ([], []),
        ({}, []),
        ({"supported": None}, []),
        ({"supported": "2026-07-28"}, []),
        ({"supported": ["2026-07-28", 5, None, ["2025-11-25"], "draft"]}, ["2026-07-28", "draft"]),
    ],
)
def test_the_versions_that_an_error_names_are_read_whatever_its_data_holds(data: Any, names: list[str]) -> None:
    assert supported_versions(RpcError(-32022, "No", data)) == names


def initialized(version: str) -> types.InitializeResult:
    return types.InitializeResult(version, types.ServerCapabilities(), types.Implementation("a", "1"))


@pytest.mark.parametrize("version", HANDSHAKE_ONLY, ids=lambda version: version.name)
def test_the_server_chooses_the_version_of_a_handshake(version: Version) -> None:
    assert agreed_version(initialized(version.name)) is version


@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        ("2026-07-28", VERSIONS),
        ("1999-01-01", VERSIONS),
        ("", VERSIONS),
        ("2025-11-25", OLDER_ONLY),
        ("2025-11-25", STATELESS_ONLY),
    ],
)
def test_a_version_that_has_no_handshake_or_is_not_spoken_is_refused(version: str, spoken: tuple[Version, ...]) -> None:
    with pytest.raises(UnsupportedVersion) as raised:
        agreed_version(initialized(version), spoken)
    assert raised.value.data == {
        "supported": [known.name for known in handshake_versions(spoken)],
        "requested": version,
    }
