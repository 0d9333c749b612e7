from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from dragoman import types
from dragoman.errors import (
    InvalidRequest,
)
from dragoman.protocol import eras, headers, inbound, jsonrpc
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.inbound import (
    AcceptedTypes,
    Rejection,
    SessionMessages,
    accepted_types,
    receive_post,
    reject_media_types,
)
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import V2024_11_05, V2025_03_26, V2025_11_25, V2026_07_28, VERSIONS

CAPABILITIES = types.ServerCapabilities(tools=types.ListChangedCapability(), resources=types.ResourcesCapability())
OFFER = eras.Offer.of(CAPABILITIES)
STATELESS_ONLY = eras.Offer.of(CAPABILITIES, [V2026_07_28])
NEWEST_HANDSHAKE_ONLY = eras.Offer.of(CAPABILITIES, [V2025_11_25])
WITHOUT_BATCHES = eras.Offer.of(CAPABILITIES, [V2026_07_28, V2025_11_25, V2024_11_05])

BOTH = "application/json, text/event-stream"
VERSION, METHOD, NAME = "mcp-protocol-version", "mcp-method", "mcp-name"
ENVELOPE = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}


class Post(Struct):
    """A POST that can be spoilt step by step."""

    lines: dict[str, list[str]]
    body: dict[str, Any]
    cut: bool = False

    def receive(self, offer: eras.Offer = OFFER) -> inbound.InboundPost:
        encoded = json.dumps(self.body).encode()
        return send(self.lines, encoded[:-1] if self.cut else encoded, offer)

    @property
    def meta(self) -> dict[str, Any]:
        return self.body["params"]["_meta"]  # type: ignore[no-any-return]


def send(lines: dict[str, list[str]], body: bytes, offer: eras.Offer = OFFER) -> inbound.InboundPost:
    sent = headers.read((name.encode(), value.encode("latin-1")) for name, values in lines.items() for value in values)
    return reject_media_types(sent) or receive_post(sent, body, offer)


def post(body: Any, offer: eras.Offer = OFFER, /, **sent: str | None) -> inbound.InboundPost:
    lines = {"content-type": "application/json", "accept": BOTH}
    lines |= {name.replace("_", "-"): value for name, value in sent.items() if value is not None}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return send({name: [value] for name, value in lines.items()}, raw, offer)


def message(method: str, params: Any = None, id: Any = 7, **more: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": id, "method": method, **more}
    return body if params is None else body | {"params": params}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    body = message(method, params)
    del body["id"]
    return body


def call(id: Any = 7) -> Post:
    body = message("tools/call", {"name": "add", "arguments": {"a": 1}, "_meta": dict(ENVELOPE)}, id)
    return Post(
        {
            "content-type": ["application/json"],
            "accept": [BOTH],
            VERSION: ["2026-07-28"],
            METHOD: ["tools/call"],
            NAME: ["add"],
        },
        body,
    )


def body_of(rejection: Rejection) -> Any:
    return json.loads(jsonrpc.encode_error(rejection.id, rejection.error, null_id=rejection.null_id))


def refused(outcome: inbound.InboundPost) -> tuple[int, int, Any]:
    assert isinstance(outcome, Rejection), outcome
    return outcome.status, outcome.error.code, outcome.id


IDS = [7, 0, -1, 2**60, "seven", "", "7"]


@pytest.mark.parametrize("id", IDS)
def test_a_whole_stateless_request_climbs_the_ladder(id: types.RequestId) -> None:
    whole = call(id)
    whole.meta["progressToken"] = "p"
    whole.meta[types.CLIENT_INFO] = {"name": "tester", "version": "1"}
    opened = whole.receive()
    assert isinstance(opened, eras.McpRequest)
    assert opened.id == id
    assert opened.method.name == "tools/call"
    assert opened.caller == eras.Caller(V2026_07_28, info=types.Implementation("tester", "1"))
    assert opened.progress_token == "p"
    assert json.loads(bytes(opened.params.arguments)) == {"a": 1}
    assert json.loads(bytes(opened.meta)) == whole.meta  # type: ignore[arg-type]


def wrong_content_type(spoilt: Post) -> None:
    spoilt.lines["content-type"] = ["text/plain"]


def wrong_accept(spoilt: Post) -> None:
    spoilt.lines["accept"] = ["text/html"]


def not_json(spoilt: Post) -> None:
    spoilt.cut = True


def not_json_rpc(spoilt: Post) -> None:
    spoilt.body["jsonrpc"] = "1.0"


def no_capabilities(spoilt: Post) -> None:
    del spoilt.meta[types.CLIENT_CAPABILITIES]


def repeated_header(spoilt: Post) -> None:
    spoilt.lines[METHOD] = spoilt.lines[METHOD] * 2


def other_version_header(spoilt: Post) -> None:
    spoilt.lines[VERSION] = ["2025-11-25"]


def unknown_version(spoilt: Post) -> None:
    spoilt.meta[types.PROTOCOL_VERSION] = "1999-01-01"
    spoilt.lines[VERSION] = ["1999-01-01"]


def other_method_header(spoilt: Post) -> None:
    spoilt.lines[METHOD] = ["tools/list"]


def other_name_header(spoilt: Post) -> None:
    spoilt.lines[NAME] = ["subtract"]


def method_not_offered(spoilt: Post) -> None:
    spoilt.body["method"] = "prompts/get"
    spoilt.lines[METHOD] = ["prompts/get"]


LADDER: list[tuple[Callable[[Post], None], int, int, str]] = [
    (wrong_content_type, 415, -32600, "Content-Type"),
    (wrong_accept, 406, -32600, "Accept"),
    (not_json, 400, -32700, "JSON"),
    (not_json_rpc, 400, -32600, "JSON-RPC 2.0"),
    (no_capabilities, 400, -32602, types.CLIENT_CAPABILITIES),
    (repeated_header, 400, -32020, "repeated"),
    (other_version_header, 400, -32020, "MCP-Protocol-Version"),
    (unknown_version, 400, -32022, "1999-01-01"),
    (other_method_header, 400, -32020, "Mcp-Method"),
    (other_name_header, 400, -32020, "Mcp-Name"),
    (method_not_offered, 404, -32601, "prompts/get"),
]
BEFORE_THE_ID_IS_READ = (wrong_content_type, wrong_accept, not_json)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(("spoil", "status", "code", "words"), LADDER)
def test_each_rung_has_its_status_and_code_and_echoes_the_id(
    spoil: Callable[[Post], None], status: int, code: int, words: str, id: types.RequestId
) -> None:
    spoilt = call(id)
    spoil(spoilt)
    outcome = spoilt.receive()
    echoed = None if spoil in BEFORE_THE_ID_IS_READ else id
    assert refused(outcome) == (status, code, echoed)
    assert isinstance(outcome, Rejection)
    assert words in outcome.error.message
    assert outcome.request is None or (outcome.request.id, outcome.request.method) == (id, spoilt.body["method"])
    answer = body_of(outcome)
    assert answer["error"]["code"] == code
    assert answer.get("id", None) == echoed
    assert ("id" in answer) == (echoed is not None)


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(LADDER, 2)))
def test_a_request_wrong_on_two_rungs_gets_the_earlier_error(earlier: Any, later: Any) -> None:
    spoilt = call()
    later[0](spoilt)
    earlier[0](spoilt)
    outcome = spoilt.receive()
    assert isinstance(outcome, Rejection)
    assert (outcome.status, outcome.error.code) == earlier[1:3]
    assert earlier[3] in outcome.error.message


META = {"_meta": ENVELOPE}
UNKNOWN = {"_meta": ENVELOPE | {types.PROTOCOL_VERSION: "1999-01-01"}}
HANDSHAKE_CLAIM = {"_meta": ENVELOPE | {types.PROTOCOL_VERSION: "2025-11-25"}}
NO_CAPABILITIES = {"_meta": {types.PROTOCOL_VERSION: "2026-07-28"}}
LIST = message("tools/list", META)
MODERN = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list"}

REJECTED: list[tuple[str, dict[str, str], Any, tuple[int, int, Any]]] = [
    ("no envelope, stateless header", MODERN, message("tools/list"), (400, -32602, 7)),
    ("empty meta, stateless header", MODERN, message("tools/list", {"_meta": {}}), (400, -32602, 7)),
    ("null meta, stateless header", MODERN, message("tools/list", {"_meta": None}), (400, -32602, 7)),
    ("meta is no object, stateless header", MODERN, message("tools/list", {"_meta": 5}), (400, -32602, 7)),
    ("params are an array, stateless header", MODERN, message("tools/list", [1]), (400, -32602, 7)),
    (
        "null version, stateless header",
        MODERN,
        message("tools/list", {"_meta": ENVELOPE | {types.PROTOCOL_VERSION: None}}),
        (400, -32602, 7),
    ),
    ("no capabilities", MODERN, message("tools/list", NO_CAPABILITIES, "x"), (400, -32602, "x")),
    ("no capabilities, no headers", {}, message("tools/list", NO_CAPABILITIES), (400, -32602, 7)),
    (
        "version is no text",
        MODERN,
        message("tools/list", {"_meta": ENVELOPE | {types.PROTOCOL_VERSION: 20260728}}),
        (400, -32602, 7),
    ),
    (
        "unknown log level",
        MODERN,
        message("tools/list", {"_meta": ENVELOPE | {types.LOG_LEVEL: "loud"}}),
        (400, -32602, 7),
    ),
    ("no version header", {"mcp_method": "tools/list"}, LIST, (400, -32020, 7)),
    ("empty version header", MODERN | {"mcp_protocol_version": ""}, LIST, (400, -32020, 7)),
    ("other version header", MODERN | {"mcp_protocol_version": "2025-11-25"}, LIST, (400, -32020, 7)),
    (
        "encoded version header",
        MODERN | {"mcp_protocol_version": "=?base64?MjAyNi0wNy0yOA==?="},
        LIST,
        (400, -32020, 7),
    ),
    ("unknown version, no header", {}, message("tools/list", UNKNOWN), (400, -32020, 7)),
    ("unknown version, header of a known one", MODERN, message("tools/list", UNKNOWN), (400, -32020, 7)),
    (
        "unknown version in both",
        {"mcp_protocol_version": "1999-01-01"},
        message("tools/list", UNKNOWN, "x"),
        (400, -32022, "x"),
    ),
    (
        "handshake version in the envelope",
        {"mcp_protocol_version": "2025-11-25"},
        message("tools/list", HANDSHAKE_CLAIM),
        (400, -32022, 7),
    ),
    ("no method header", {"mcp_protocol_version": "2026-07-28"}, LIST, (400, -32020, 7)),
    ("other method header", MODERN | {"mcp_method": "tools/call"}, LIST, (400, -32020, 7)),
    ("method header in other case", MODERN | {"mcp_method": "Tools/List"}, LIST, (400, -32020, 7)),
    ("encoded method header", MODERN | {"mcp_method": "=?base64?dG9vbHMvbGlzdA==?="}, LIST, (400, -32020, 7)),
    (
        "unknown version header of a handshake request",
        {"mcp_protocol_version": "1999-01-01"},
        message("ping"),
        (400, -32022, 7),
    ),
    ("empty version header of a handshake request", {"mcp_protocol_version": ""}, message("ping"), (400, -32022, 7)),
    (
        "unknown version header of a handshake notification",
        {"mcp_protocol_version": "1999-01-01"},
        notification("notifications/initialized"),
        (400, -32022, None),
    ),
    (
        "unknown version header of a response",
        {"mcp_protocol_version": "1999-01-01"},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        (400, -32022, None),
    ),
    ("stateless response", MODERN, {"jsonrpc": "2.0", "id": 7, "result": {}}, (400, -32600, None)),
    (
        "stateless error response",
        MODERN,
        {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "No"}},
        (400, -32600, None),
    ),
    ("stateless batch", MODERN, [LIST], (400, -32600, None)),
    ("batch of 2025-06-18", {"mcp_protocol_version": "2025-06-18"}, [message("ping")], (400, -32600, None)),
    ("batch of 2025-11-25", {"mcp_protocol_version": "2025-11-25"}, [message("ping")], (400, -32600, None)),
    ("batch of an unknown version", {"mcp_protocol_version": "1999-01-01"}, [message("ping")], (400, -32600, None)),
    ("batch with initialize", {}, [message("ping"), message("initialize")], (400, -32600, None)),
    ("batch with a stateless request", {}, [message("ping"), LIST], (400, -32600, None)),
    ("empty batch", {}, [], (400, -32600, None)),
    ("broken body", MODERN, b'{"jsonrpc":"2.0","id":7', (400, -32700, None)),
    ("scalar body", {}, b"5", (400, -32600, None)),
    ("null id", {}, message("ping", id=None), (400, -32600, None)),
    ("reserved method", {}, message("rpc.discover", id="x"), (400, -32600, "x")),
    ("neither method nor result", {}, {"jsonrpc": "2.0", "id": 7}, (400, -32600, 7)),
    ("malformed response", {}, {"jsonrpc": "1.0", "id": 7, "result": {}}, (400, -32600, None)),
    ("result without id", {}, {"jsonrpc": "2.0", "result": {}}, (400, -32600, None)),
]


@pytest.mark.parametrize(("sent", "body", "outcome"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED])
def test_what_is_not_served_is_refused_with_its_status_code_and_id(
    sent: dict[str, str], body: Any, outcome: tuple[int, int, Any]
) -> None:
    assert refused(post(body, **sent)) == outcome


def test_an_unsupported_version_is_answered_with_those_that_are_served() -> None:
    outcome = post(message("tools/list", UNKNOWN), mcp_protocol_version="1999-01-01")
    assert isinstance(outcome, Rejection)
    assert outcome.error.data == {"supported": [version.name for version in VERSIONS], "requested": "1999-01-01"}


def test_a_request_without_envelope_hears_what_it_lacks_and_which_versions_there_are() -> None:
    outcome = post(message("tools/list"), STATELESS_ONLY, **MODERN)
    assert isinstance(outcome, Rejection)
    assert types.PROTOCOL_VERSION in outcome.error.message
    assert "2026-07-28" in outcome.error.message


def test_a_stateless_version_that_is_not_served_is_refused_with_those_that_are() -> None:
    outcome = post(LIST, NEWEST_HANDSHAKE_ONLY, **MODERN)
    assert refused(outcome) == (400, -32022, 7)
    assert isinstance(outcome, Rejection)
    assert outcome.error.data == {"supported": ["2025-11-25"], "requested": "2026-07-28"}


@pytest.mark.parametrize("params", [{}, {"name": None}, {"name": 5}])
def test_parameters_without_a_name_and_a_request_without_its_header_are_refused_for_the_parameters(params: Any) -> None:
    outcome = post(message("tools/call", META | params), mcp_protocol_version="2026-07-28", mcp_method="tools/call")
    assert refused(outcome) == (400, -32602, 7)


def test_a_name_header_for_a_method_that_mirrors_none_is_not_looked_at() -> None:
    assert isinstance(post(LIST, **MODERN, mcp_name="anything"), eras.McpRequest)


def test_a_method_of_the_servers_own_may_mirror_a_name() -> None:
    own = Method(name="printer/ignite", result=types.Result, name_from="printer")
    offer = eras.Offer.of(CAPABILITIES, table=ProtocolTable.of(own=[own]))
    body = message("printer/ignite", META | {"printer": "third floor"})
    sent = {"mcp_protocol_version": "2026-07-28", "mcp_method": "printer/ignite"}
    assert isinstance(post(body, offer, **sent, mcp_name="third floor"), eras.McpRequest)
    assert refused(post(body, offer, **sent, mcp_name="second floor")) == (400, -32020, 7)


@pytest.mark.parametrize(
    "sent",
    [{"mcp_session_id": "anything"}, {"last_event_id": "5"}, {"mcp_param_city": "Cairo"}, {"x_other": "y"}],
)
def test_a_stateless_request_is_served_whatever_other_headers_say(sent: dict[str, str]) -> None:
    assert isinstance(post(LIST, **MODERN, **sent), eras.McpRequest)


PING = message("ping")
LEGACY_VERSIONS = [None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
@pytest.mark.parametrize(
    "body",
    [
        PING,
        message("tools/call", {"name": "add", "_meta": {"progressToken": 1}}),
        message("no/such/method"),
        message("tools/list", {"_meta": {types.CLIENT_CAPABILITIES: {}}}),
        message("tools/list", [1]),
        notification("notifications/initialized"),
        notification("notifications/cancelled", {"requestId": 3}),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "No"}},
    ],
)
def test_what_names_no_version_itself_is_left_to_its_session(version: str | None, body: Any) -> None:
    outcome = post(body, mcp_protocol_version=version, mcp_session_id="s")
    assert isinstance(outcome, SessionMessages)
    assert [type(part) for part in outcome.messages] == [type(jsonrpc.decode(json.dumps(body).encode()))]
    assert not outcome.batch
    assert not outcome.is_initialize


INITIALIZE = message(
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}},
)


@pytest.mark.parametrize("version", [*LEGACY_VERSIONS, "2026-07-28", "1999-01-01"])
@pytest.mark.parametrize("offer", [OFFER, STATELESS_ONLY, NEWEST_HANDSHAKE_ONLY])
def test_a_handshake_names_its_version_in_the_body_whatever_the_header_says(
    version: str | None, offer: eras.Offer
) -> None:
    outcome = post(INITIALIZE, offer, mcp_protocol_version=version)
    assert isinstance(outcome, SessionMessages)
    assert outcome.is_initialize


def test_a_notification_named_initialize_begins_no_session() -> None:
    outcome = post(notification("initialize"))
    assert isinstance(outcome, SessionMessages)
    assert not outcome.is_initialize


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (MODERN, notification("notifications/cancelled", {"requestId": 1})),
        (MODERN, notification("notifications/cancelled", {"requestId": 1, **META})),
        ({}, notification("notifications/cancelled", {"requestId": 1, **META})),
        ({}, notification("no/such/notification", META)),
        ({"mcp_protocol_version": "2025-11-25"}, notification("notifications/cancelled", META)),
    ],
)
def test_a_stateless_notification_needs_no_session(sent: dict[str, str], body: Any) -> None:
    outcome = post(body, **sent)
    assert isinstance(outcome, jsonrpc.Notification)
    assert outcome.method == body["method"]


@pytest.mark.parametrize("version", [None, "2025-03-26"])
def test_a_batch_is_taken_where_its_version_has_batches(version: str | None) -> None:
    body = [PING, notification("notifications/initialized"), {"jsonrpc": "2.0", "id": 1, "result": {}}, 5]
    outcome = post(body, mcp_protocol_version=version)
    assert isinstance(outcome, SessionMessages)
    assert outcome.batch
    assert not outcome.is_initialize
    assert [type(part) for part in outcome.messages] == [
        jsonrpc.Request,
        jsonrpc.Notification,
        jsonrpc.ResultResponse,
        jsonrpc.Invalid,
    ]


@pytest.mark.parametrize("version", [None, "2025-03-26"])
def test_a_batch_is_refused_where_no_served_version_has_batches(version: str | None) -> None:
    assert refused(post([PING], WITHOUT_BATCHES, mcp_protocol_version=version)) == (400, -32600, None)


@pytest.mark.parametrize("offer", [WITHOUT_BATCHES, STATELESS_ONLY, NEWEST_HANDSHAKE_ONLY])
@pytest.mark.parametrize(
    ("body", "id"),
    [(PING, 7), (notification("notifications/initialized"), None), (message("tools/list", {}, "x"), "x")],
)
def test_without_header_and_session_only_a_server_of_2025_03_26_may_guess_the_version(
    offer: eras.Offer, body: Any, id: Any
) -> None:
    assert refused(post(body, offer)) == (400, -32020, id)
    assert isinstance(post(body, offer, mcp_session_id="s"), SessionMessages)
    assert isinstance(post(body, eras.Offer.of(CAPABILITIES, [V2025_03_26])), SessionMessages)


@pytest.mark.parametrize("version", ["2025-11-25", "2024-11-05"])
def test_a_handshake_version_that_is_not_served_is_refused_with_those_that_are(version: str) -> None:
    outcome = post(PING, STATELESS_ONLY, mcp_protocol_version=version)
    assert refused(outcome) == (400, -32022, 7)
    assert isinstance(outcome, Rejection)
    assert outcome.error.data == {"supported": ["2026-07-28"], "requested": version}


def test_limits_are_those_of_the_server() -> None:
    sent = headers.McpHeaders(content_type="application/json")
    assert refused(receive_post(sent, json.dumps(PING).encode(), OFFER, jsonrpc.Limits(message_bytes=10))) == (
        400,
        -32700,
        None,
    )
    two = receive_post(sent, json.dumps([PING, PING]).encode(), OFFER, jsonrpc.Limits(batch=1))
    assert refused(two) == (400, -32600, None)


@pytest.mark.parametrize(
    ("version", "null"),
    [
        (None, True),
        ("2024-11-05", True),
        ("2025-03-26", True),
        ("2025-06-18", True),
        ("2025-11-25", False),
        ("2026-07-28", False),
        ("1999-01-01", False),
    ],
)
@pytest.mark.parametrize(
    ("body", "sent"),
    [(b"{", {}), (b"{", {"content_type": "text/plain"}), (b"{}", {"accept": "text/html"}), (b"5", {})],
)
def test_an_unknown_id_is_null_until_2025_06_18_and_left_out_since(
    version: str | None, null: bool, body: bytes, sent: dict[str, str]
) -> None:
    outcome = post(body, mcp_protocol_version=version, **sent)
    assert isinstance(outcome, Rejection)
    answer = body_of(outcome)
    assert answer["jsonrpc"] == "2.0"
    assert ("id" in answer) == null
    assert answer.get("id") is None


def test_an_unknown_id_is_left_out_unless_it_is_asked_for() -> None:
    assert "id" not in body_of(Rejection(400, InvalidRequest("No")))


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "APPLICATION/JSON",
        " application/json ",
    ],
)
def test_json_is_taken_however_it_is_spelt(content_type: str) -> None:
    assert isinstance(post(LIST, **MODERN, content_type=content_type), eras.McpRequest)


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "text/json", "application/json-rpc", "application/x-www-form-urlencoded", ";"]
)
def test_no_other_content_type_is_taken(content_type: str) -> None:
    assert refused(post(LIST, **MODERN, content_type=content_type)) == (415, -32600, None)


def test_a_missing_content_type_is_not_taken_for_json() -> None:
    assert refused(reject_media_types(headers.McpHeaders())) == (415, -32600, None)


@pytest.mark.parametrize(
    ("accept", "json_taken", "sse_taken"),
    [
        (None, True, True),
        ("", True, True),
        ("*/*", True, True),
        ("*/*;q=0.1", True, True),
        ("application/json, text/event-stream", True, True),
        ("text/event-stream,application/json", True, True),
        ("Application/JSON , TEXT/EVENT-STREAM", True, True),
        ("application/*", True, False),
        ("application/*, text/*", True, True),
        ("text/*", False, True),
        ("application/json", True, False),
        ("application/json; charset=utf-8", True, False),
        ("text/event-stream", False, True),
        ("text/html, */*;q=0.8", True, True),
        ("application/json;q=0.5, text/event-stream;q=0.9", True, True),
        ("application/json;q=0, text/event-stream", False, True),
        ("application/json;q=0.000, text/event-stream", False, True),
        ("application/json; Q = 0.0, */*", False, True),
        ("application/json;q=0, application/*", False, False),
        ("text/event-stream;q=0, */*", True, False),
        ("*/*;q=0, application/json", True, False),
        ("application/json;q=0.001", True, False),
        ("application/json;q=00", True, False),
        ("*/*;q=0", False, False),
        ("text/html", False, False),
        ("application/jsonl", False, False),
        ("image/*", False, False),
        ("json", False, False),
        ("*", False, False),
        (",", False, False),
        (";q=0", False, False),
    ],
)
def test_the_most_specific_range_of_an_accept_header_decides(
    accept: str | None, json_taken: bool, sse_taken: bool
) -> None:
    assert accepted_types(accept) == AcceptedTypes(json=json_taken, sse=sse_taken)
    sent = headers.McpHeaders("2026-07-28", accept=accept, content_type="application/json", method="tools/list")
    outcome = reject_media_types(sent) or receive_post(sent, json.dumps(LIST).encode(), OFFER)
    if json_taken or sse_taken:
        assert isinstance(outcome, eras.McpRequest)
    else:
        assert refused(outcome) == (406, -32600, None)


def test_several_accept_lines_are_one() -> None:
    whole = call()
    whole.lines["accept"] = ["text/html", "text/event-stream"]
    assert isinstance(whole.receive(), eras.McpRequest)


def test_a_malformed_meta_that_claims_nothing_is_left_to_the_session() -> None:
    body = rb'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"\u0061","_meta":{"progressToken":[]}}}'
    sent = headers.McpHeaders("2025-11-25", "a session", content_type="application/json")
    found = receive_post(sent, body, OFFER)
    assert isinstance(found, SessionMessages)
    assert found.messages == [jsonrpc.decode(body)]
