from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
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
    UrlElicitationRequired,
    ValidationError,
)
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.eras import Caller, Offer
from dragoman.protocol.extensions import ExtensionRow, ProtocolTable
from dragoman.protocol.headers import McpHeaders
from dragoman.protocol.methods import Method
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

HANDSHAKE = handshake_versions(VERSIONS)
CAPABILITIES = types.ServerCapabilities(
    tools=types.ListChangedCapability(list_changed=True), resources=types.ResourcesCapability(), logging={}
)
OFFER = Offer.of(CAPABILITIES)
NAMES = [version.name for version in VERSIONS]
INFO = types.Implementation("tester", "1.0", title="Tester", icons=[types.Icon("https://example.org/i.png")])
SERVER_INFO = Raw(b'{"name":"tester","version":"1.0"}')
ENVELOPE = {types.PROTOCOL_VERSION: "2026-07-28", types.CLIENT_CAPABILITIES: {}}


def request(method: str, params: Any = None, id: types.RequestId = 7) -> jsonrpc.Request:
    encoded = jsonrpc.NO_PARAMS if params is None else Raw(json.dumps(params).encode())
    return jsonrpc.Request(id, method, encoded)


def stateless(method: str, params: types.Json | None = None, **meta: Any) -> jsonrpc.Request:
    return request(method, {**(params or {}), "_meta": {**ENVELOPE, **meta}})


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


SESSION = Caller(V2025_06_18, types.ClientCapabilities(roots=types.RootsCapability()), INFO, "error")


def test_a_request_with_an_envelope_brings_its_own_caller() -> None:
    message = stateless(
        "tools/call",
        {"name": "add"},
        progressToken="p",
        **{
            types.CLIENT_CAPABILITIES: {"elicitation": {"url": {}}, "unheard": {"of": 1}},
            types.CLIENT_INFO: {"name": "tester", "version": "1"},
            types.LOG_LEVEL: "debug",
        },
    )
    opened = eras.open(message, OFFER)
    assert opened.id == 7
    assert opened.method.name == "tools/call"
    assert opened.params.name == "add"
    assert opened.raw_params is message.params
    assert opened.progress_token == "p"
    assert opened.caller == Caller(
        V2026_07_28,
        types.ClientCapabilities(elicitation=types.ElicitationCapability(url={})),
        types.Implementation("tester", "1"),
        "debug",
    )
    assert msgspec.json.decode(opened.meta)["progressToken"] == "p"  # type: ignore[arg-type]


def test_a_request_without_an_envelope_comes_from_its_session() -> None:
    opened = eras.open(request("ping", {"_meta": {"progressToken": 0}}), OFFER, SESSION)
    assert opened.caller is SESSION
    assert opened.progress_token == 0
    assert bytes(opened.meta) == b'{"progressToken": 0}'  # type: ignore[arg-type]


@pytest.mark.parametrize("params", [None, {}, {"cursor": "1"}, {"_meta": None}])
def test_a_request_without_meta_has_none(params: Any) -> None:
    opened = eras.open(request("tools/list", params), OFFER, SESSION)
    assert (opened.meta, opened.progress_token) == (UNSET, None)


def test_the_era_is_decided_by_each_message_and_never_remembered() -> None:
    messages = [stateless("tools/list"), request("ping"), stateless("tools/list"), request("tools/list")]
    versions = [eras.open(message, OFFER, SESSION).caller.version for message in messages]
    assert versions == [V2026_07_28, V2025_06_18, V2026_07_28, V2025_06_18]


def test_a_stateless_request_takes_nothing_from_the_session_around_it() -> None:
    assert eras.open(stateless("tools/list"), OFFER, SESSION).caller == Caller(V2026_07_28)


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (VERSIONS, V2025_11_25),
        ([V2026_07_28, V2024_11_05, V2025_03_26], V2025_03_26),
        ([V2025_06_18], V2025_06_18),
    ],
)
def test_an_unintroduced_caller_is_served_the_newest_handshake_version_with_no_capabilities(
    served: list[Version], version: Version
) -> None:
    opened = eras.open(request("tools/list"), Offer.of(CAPABILITIES, served))
    assert opened.caller == Caller(version)
    assert opened.caller.capabilities == types.ClientCapabilities()


@pytest.mark.parametrize("method", ["tools/list", "initialize", "ping", "no/such/method"])
def test_a_stateless_server_tells_an_unintroduced_caller_what_to_send(method: str) -> None:
    with pytest.raises(InvalidParams, match=rf"{types.PROTOCOL_VERSION}.*2026-07-28"):
        eras.open(request(method), Offer.of(CAPABILITIES, [V2026_07_28]))


def test_a_session_of_a_version_that_is_served_no_more_finds_no_method() -> None:
    with pytest.raises(MethodNotFound):
        eras.open(request("tools/list"), Offer.of(CAPABILITIES, [V2025_11_25]), SESSION)


FITTING: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "x", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
    "logging/setLevel": {"level": "info"},
    "tools/call": {"name": "add"},
    "resources/read": {"uri": "file:///x"},
    "subscriptions/listen": {"notifications": {}},
}


@pytest.mark.parametrize(
    ("method", "served_by"),
    [
        ("initialize", HANDSHAKE),
        ("ping", HANDSHAKE),
        ("logging/setLevel", HANDSHAKE),
        ("tools/list", VERSIONS),
        ("tools/call", VERSIONS),
        ("resources/read", VERSIONS),
        ("server/discover", VERSIONS),
        ("subscriptions/listen", [V2026_07_28]),
        ("resources/subscribe", []),
        ("prompts/list", []),
        ("completion/complete", []),
        ("sampling/createMessage", []),
        ("notifications/cancelled", []),
        ("notifications/initialized", []),
        ("tools/List", []),
        ("", []),
    ],
)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_a_method_is_found_where_its_version_has_it_and_its_capability_is_offered(
    method: str, served_by: list[Version], version: Version
) -> None:
    fitting = FITTING.get(method, {})
    message = stateless(method, fitting) if version.stateless else request(method, fitting)
    session = None if version.stateless else Caller(version)
    if version in served_by:
        assert eras.open(message, OFFER, session).method.name == method
        if fitting:
            with pytest.raises(InvalidParams):
                eras.open(stateless(method) if version.stateless else request(method), OFFER, session)
    else:
        with pytest.raises(MethodNotFound) as refusal:
            eras.open(message, OFFER, session)
        assert refusal.value.message == f"Method not found: {method}"
        assert refusal.value.data == {"method": method}


@pytest.mark.parametrize("session", [None, SESSION], ids=["without a session", "in a session"])
def test_a_bare_discovery_is_served_as_the_newest_stateless_version_to_a_client_without_capabilities(
    session: Caller | None,
) -> None:
    opened = eras.open(request("server/discover"), OFFER, session)
    assert opened.caller == Caller(V2026_07_28)


def test_a_bare_discovery_is_not_found_where_no_stateless_version_is_served() -> None:
    with pytest.raises(MethodNotFound):
        eras.open(request("server/discover"), Offer.of(CAPABILITIES, HANDSHAKE))


def test_an_offer_lists_its_versions_newest_first_and_knows_methods_of_the_servers_own() -> None:
    own = Method(name="printer/ignite", result=types.Result, name_from="printer", capability=("experimental", "fire"))
    offer = Offer.of(CAPABILITIES, iter([V2024_11_05, V2026_07_28]), ProtocolTable.of(own=iter([own])))
    assert offer.versions == (V2026_07_28, V2024_11_05)
    assert set(offer.methods) == {"2026-07-28", "2024-11-05"}
    mirrored = {name: method.name_from for name, method in offer.client_methods.items() if method.name_from}
    assert mirrored == {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "printer/ignite": "printer",
    }
    assert "notifications/cancelled" not in offer.client_methods
    with pytest.raises(MethodNotFound):
        offer.find("printer/ignite", Caller(V2026_07_28))
    burning = Offer.of(types.ServerCapabilities(experimental={"fire": {}}), table=ProtocolTable.of(own=[own]))
    assert burning.find("printer/ignite", Caller(V2024_11_05)) is own


@pytest.mark.parametrize(
    "meta",
    [
        [],
        "text",
        {"progressToken": 1.5},
        {"progressToken": {}},
        {"traceparent": 5},
        {types.PROTOCOL_VERSION: 5},
        {types.PROTOCOL_VERSION: "2026-07-28"},
        {types.PROTOCOL_VERSION: "1999-01-01"},
        ENVELOPE | {types.CLIENT_CAPABILITIES: None},
        ENVELOPE | {types.CLIENT_CAPABILITIES: []},
        ENVELOPE | {types.CLIENT_CAPABILITIES: {"roots": 5}},
        ENVELOPE | {types.CLIENT_INFO: {"name": "without a version"}},
        ENVELOPE | {types.LOG_LEVEL: "loud"},
        ENVELOPE | {types.PROTOCOL_VERSION: "1999-01-01", types.LOG_LEVEL: "loud"},
    ],
)
def test_a_malformed_or_incomplete_envelope_is_invalid_whatever_the_version(meta: Any) -> None:
    with pytest.raises(InvalidParams) as refusal:
        eras.open(request("tools/list", {"_meta": meta}), OFFER)
    assert refusal.value.code == -32602


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b"5",
        b'{"_meta":{"progressToken":"\\ud800"}}',
        b'{"_meta":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"name":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_parameters_whose_meta_cannot_be_read_are_invalid(params: bytes) -> None:
    with pytest.raises(InvalidParams):
        eras.open(jsonrpc.Request(1, "tools/list", Raw(params)), OFFER)


def test_a_missing_envelope_key_is_named_with_the_versions_that_are_served() -> None:
    with pytest.raises(InvalidParams, match=f"lacks '{types.CLIENT_CAPABILITIES}'.*2026-07-28.*2024-11-05"):
        eras.stateless_caller(types.RequestMeta(protocol_version="2026-07-28"), OFFER)
    with pytest.raises(InvalidParams, match=f"lacks '{types.PROTOCOL_VERSION}'"):
        eras.stateless_caller(types.RequestMeta(client_capabilities=types.ClientCapabilities()), OFFER)


@pytest.mark.parametrize(
    ("claimed", "served"),
    [
        ("1999-01-01", VERSIONS),
        ("9999-12-31", VERSIONS),
        ("", VERSIONS),
        ("2025-11-25", VERSIONS),
        ("2024-11-05", VERSIONS),
        ("2026-07-28", [V2025_06_18, V2025_11_25]),
    ],
)
def test_only_a_served_stateless_version_is_served_without_a_handshake(claimed: str, served: list[Version]) -> None:
    with pytest.raises(UnsupportedVersion) as refusal:
        eras.open(stateless("tools/list", **{types.PROTOCOL_VERSION: claimed}), Offer.of(CAPABILITIES, served), SESSION)
    names = [version.name for version in VERSIONS if version in served]
    assert refusal.value.code == -32022
    assert refusal.value.data == {"supported": names, "requested": claimed}


KNOWN = Caller(V2025_06_18, info=types.Implementation("known", "1"))


@pytest.mark.parametrize(
    ("message", "session", "version", "name"),
    [
        (request("no/such/method", {"a": 1}), None, "2025-11-25", None),
        (request("tools/call", {"name": 5}), KNOWN, "2025-06-18", "known"),
        (request("tools/call", {"_meta": 5}), KNOWN, "2025-06-18", "known"),
        (stateless("no/such/method"), KNOWN, "2026-07-28", "known"),
        (stateless("no/such/method", **{types.CLIENT_INFO: {"name": "a", "version": "1"}}), None, "2026-07-28", "a"),
        (stateless("tools/list", **{types.PROTOCOL_VERSION: "1999-01-01"}), None, "2026-07-28", None),
    ],
)
def test_what_can_be_told_of_a_request_that_is_refused_is_told(
    message: jsonrpc.Request, session: Caller | None, version: str, name: str | None
) -> None:
    told = eras.refused_request(message, OFFER, session)
    assert (told.id, told.method.name, told.raw_params) == (message.id, message.method, message.params)
    assert told.caller.version.name == version
    assert (None if told.caller.info is None else told.caller.info.name) == name
    assert (told.params is None) == (message.method != "tools/list")


def test_a_refused_request_has_a_caller_whatever_the_server_serves() -> None:
    message = stateless("tools/list")
    assert eras.refused_request(message, Offer.of(CAPABILITIES, [V2025_06_18])).caller.version == V2025_06_18
    bare = request("tools/list")
    assert eras.refused_request(bare, Offer.of(CAPABILITIES, [V2026_07_28])).caller.version == V2026_07_28


def test_the_version_is_judged_before_the_method() -> None:
    with pytest.raises(UnsupportedVersion):
        eras.open(stateless("no/such/method", **{types.PROTOCOL_VERSION: "1999-01-01"}), OFFER)


MIRRORED = McpHeaders(protocol_version="2026-07-28", method="tools/call", name="add")


def test_the_headers_of_a_stateless_request_stand_between_its_version_and_its_method() -> None:
    message = stateless("tools/call", {"name": "add"})
    assert eras.open(message, OFFER, headers=MIRRORED).params.name == "add"
    assert eras.open(message, OFFER, already_read=eras.read_params(message, OFFER), headers=MIRRORED).caller == Caller(
        V2026_07_28
    )
    with pytest.raises(InvalidParams, match="_meta lacks"):
        eras.open(request("tools/call", {"name": "add"}), OFFER, SESSION, headers=McpHeaders())
    with pytest.raises(HeaderMismatch, match="MCP-Protocol-Version"):
        eras.open(stateless("no/such/method", **{types.PROTOCOL_VERSION: "1999-01-01"}), OFFER, headers=MIRRORED)
    with pytest.raises(HeaderMismatch, match="Mcp-Method"):
        eras.open(stateless("no/such/method"), OFFER, headers=MIRRORED)
    with pytest.raises(HeaderMismatch, match="Mcp-Name"):
        eras.open(stateless("tools/call", {"name": "other", "arguments": 5}), OFFER, headers=MIRRORED)


@pytest.mark.parametrize(
    ("params", "claims"),
    [
        (b"{}", False),
        (b'{"_meta":{}}', False),
        (b'{"_meta":null}', False),
        (b'{"_meta":5}', False),
        (b"[]", False),
        (b'{"_meta":{"progressToken":1}}', False),
        (b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}', False),
        (b'{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}', False),
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}', False),
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}', True),
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2024-11-05"}}', True),
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":""}}', True),
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":5,"progressToken":[]}}', True),
        (b'{"_meta":' + b"[" * 20_000 + b"]" * 20_000 + b"}", False),
    ],
)
def test_a_message_claims_to_be_stateless_by_naming_a_version_whatever_else_is_wrong(
    params: bytes, claims: bool
) -> None:
    assert eras.claims_stateless(jsonrpc.Request(1, "tools/list", Raw(params))) is claims
    assert eras.claims_stateless(jsonrpc.Notification("notifications/cancelled", Raw(params))) is claims


def test_a_version_that_is_null_is_none_in_both_ways_to_look_at_it() -> None:
    message = request("tools/list", {"_meta": {types.PROTOCOL_VERSION: None}})
    assert not eras.claims_stateless(message)
    assert eras.open(message, OFFER, SESSION).caller is SESSION


RESULTS: list[types.Result] = [
    types.Result(),
    types.CallToolResult([types.TextContent("3")]),
    types.CompleteResult(types.Completion(["a"])),
    types.GetPromptResult([]),
    types.ReadResourceResult([]),
    types.ListToolsResult([]),
    types.ListPromptsResult([]),
    types.ListResourcesResult([]),
    types.ListResourceTemplatesResult([]),
]
STATELESS_RESULTS = [
    types.DiscoverResult(["2026-07-28"], types.ServerCapabilities()),
    types.InputRequiredResult(request_state="s"),
    types.SubscriptionsListenResult(),
]


@pytest.mark.parametrize("result", [*RESULTS, *STATELESS_RESULTS], ids=lambda result: type(result).__name__)
def test_a_stateless_result_has_a_type_a_name_and_if_cacheable_a_lifetime(result: types.Result) -> None:
    sealed = wire(eras.seal(result, V2026_07_28, SERVER_INFO))
    expected = wire(result) | {"_meta": {types.SERVER_INFO: {"name": "tester", "version": "1.0"}}}
    expected["resultType"] = "input_required" if isinstance(result, types.InputRequiredResult) else "complete"
    if isinstance(result, types.CacheableResult):
        expected |= {"ttlMs": 0, "cacheScope": "private"}
    assert sealed == expected


@pytest.mark.parametrize("version", HANDSHAKE, ids=lambda version: version.name)
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_handshake_result_has_none_of_these(result: types.Result, version: Version) -> None:
    assert eras.seal(result, version, SERVER_INFO) is result
    stamped = eras.seal(msgspec.structs.replace(result, result_type="complete"), version, SERVER_INFO)
    assert stamped == result


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_sealing_leaves_the_result_itself_as_it_was(result: types.Result) -> None:
    before = wire(result)
    for version in VERSIONS:
        eras.seal(result, version, SERVER_INFO)
    assert wire(result) == before


def test_what_the_author_said_of_a_result_stands() -> None:
    result = types.ListToolsResult([], ttl_ms=9000, cache_scope="public", meta={"a": 1, types.SERVER_INFO: "mine"})
    assert wire(eras.seal(result, V2026_07_28, SERVER_INFO)) == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 9000,
        "cacheScope": "public",
        "_meta": {"a": 1, types.SERVER_INFO: "mine"},
    }
    extension = types.Result(result_type="com.example/later")
    assert wire(eras.seal(extension, V2026_07_28)) == {"resultType": "com.example/later"}


def test_a_server_may_keep_its_name_to_itself() -> None:
    assert wire(eras.seal(types.Result(), V2026_07_28)) == {"resultType": "complete"}


@dataclasses.dataclass
class Fire:
    floor: int


class Flood(msgspec.Struct):
    floor: int
    depth: float = 1.5


@pytest.mark.parametrize(
    ("value", "sealed"),
    [
        ({"floor": 3}, {"floor": 3, "resultType": "complete"}),
        ({"resultType": "later"}, {"resultType": "later"}),
        ({}, {"resultType": "complete"}),
        (Fire(3), {"floor": 3, "resultType": "complete"}),
        (Flood(3), {"floor": 3, "depth": 1.5, "resultType": "complete"}),
        (types.Result(meta={"a": 1}), {"_meta": {"a": 1}, "resultType": "complete"}),
        (types.Result(result_type="later"), {"resultType": "later"}),
        (Raw(b'{"floor":3}'), {"floor": 3, "resultType": "complete"}),
        (Raw(b"[3]"), {"result": [3], "resultType": "complete"}),
        (None, {"result": None, "resultType": "complete"}),
        (False, {"result": False, "resultType": "complete"}),
        (5, {"result": 5, "resultType": "complete"}),
        ("text", {"result": "text", "resultType": "complete"}),
        ("{text}", {"result": "{text}", "resultType": "complete"}),
        ([{"a": 1}], {"result": [{"a": 1}], "resultType": "complete"}),
        ((1, 2), {"result": [1, 2], "resultType": "complete"}),
    ],
)
def test_the_result_of_a_servers_own_method_is_an_object_in_the_stateless_era_only(value: Any, sealed: Any) -> None:
    assert wire(eras.seal_value(value, V2026_07_28)) == sealed
    for version in HANDSHAKE:
        assert eras.seal_value(value, version, SERVER_INFO) is value


def test_the_result_of_a_servers_own_method_bears_the_servers_name() -> None:
    named = {types.SERVER_INFO: {"name": "tester", "version": "1.0"}}
    own = {"_meta": {"a": 1}}
    assert wire(eras.seal_value(5, V2026_07_28, SERVER_INFO))["_meta"] == named
    assert wire(eras.seal_value({"_meta": None}, V2026_07_28, SERVER_INFO))["_meta"] == named
    assert wire(eras.seal_value(types.Result(meta={"a": 1}), V2026_07_28, SERVER_INFO))["_meta"] == {"a": 1, **named}
    assert wire(eras.seal_value(own, V2026_07_28, SERVER_INFO))["_meta"] == {"a": 1, **named}
    assert own == {"_meta": {"a": 1}}


@pytest.mark.parametrize("value", [object(), "\ud800", [lambda: 1]])
def test_what_cannot_be_json_is_said_to_be_so(value: Any) -> None:
    with pytest.raises(ValidationError, match="JSON"):
        eras.seal_value(value, V2026_07_28)


ERRORS: list[tuple[RpcError, list[int]]] = [
    (ParseError("no"), [-32700] * 5),
    (InvalidRequest("no"), [-32600] * 5),
    (MethodNotFound("no"), [-32601] * 5),
    (InvalidParams("no"), [-32602] * 5),
    (InternalError("no"), [-32603] * 5),
    (RpcError(-31999, "The printer is on fire", {"floor": 3}), [-31999] * 5),
    (ResourceNotFound("note://1"), [-32602, -32002, -32002, -32002, -32002]),
    (RpcError.of(-32002, "Resource not found", {"uri": "note://1"}), [-32602, -32002, -32002, -32002, -32002]),
    (RpcError(-32002, "Resource not found"), [-32602, -32002, -32002, -32002, -32002]),
    (UrlElicitationRequired([{"url": "a:b"}]), [-32603, -32042, -32603, -32603, -32603]),
    (HeaderMismatch("no"), [-32020, -32600, -32600, -32600, -32600]),
    (MissingCapability({"sampling": {}}), [-32021, -32603, -32603, -32603, -32603]),
    (UnsupportedVersion("1999-01-01", NAMES), [-32022, -32602, -32602, -32602, -32602]),
]


@pytest.mark.parametrize(("error", "codes"), ERRORS, ids=[f"{type(error).__name__}{error.code}" for error, _ in ERRORS])
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_an_error_has_the_code_that_a_version_knows_it_by(error: RpcError, codes: list[int], version: Version) -> None:
    sealed = eras.seal_error(error, version)
    code = codes[VERSIONS.index(version)]
    assert (sealed.code, sealed.message, sealed.data) == (code, error.message, error.data)
    assert (sealed is error) == (code == error.code)


@pytest.mark.parametrize("instructions", [None, "Ask nicely."])
def test_discovery_names_every_served_version_and_is_sealed_like_any_result(instructions: str | None) -> None:
    offer = Offer.of(CAPABILITIES, [V2025_03_26, V2026_07_28])
    sealed = wire(eras.seal(eras.discover(offer, CAPABILITIES, instructions), V2026_07_28, SERVER_INFO))
    assert sealed.pop("instructions", None) == instructions
    assert sealed == {
        "supportedVersions": ["2026-07-28", "2025-03-26"],
        "capabilities": {"tools": {"listChanged": True}, "resources": {}, "logging": {}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {types.SERVER_INFO: {"name": "tester", "version": "1.0"}},
    }


@pytest.mark.parametrize(
    ("requested", "served", "agreed"),
    [
        *((version.name, VERSIONS, version) for version in HANDSHAKE),
        ("2026-07-28", VERSIONS, V2025_11_25),
        ("1999-01-01", VERSIONS, V2025_11_25),
        ("9999-12-31", VERSIONS, V2025_11_25),
        ("", VERSIONS, V2025_11_25),
        ("2025-11-25", (V2025_06_18,), V2025_06_18),
        ("2024-11-05", (V2025_06_18,), V2025_06_18),
        ("2025-06-18", (V2026_07_28, V2024_11_05, V2025_03_26), V2025_03_26),
        ("2026-07-28", (V2026_07_28, V2024_11_05), V2024_11_05),
    ],
)
def test_a_handshake_gives_the_version_asked_for_or_else_the_newest_that_has_one(
    requested: str, served: tuple[Version, ...], agreed: Version
) -> None:
    assert eras.negotiate(requested, served) is agreed


@pytest.mark.parametrize("requested", ["2025-11-25", "2026-07-28"])
def test_a_stateless_server_refuses_a_handshake_and_names_its_versions(requested: str) -> None:
    with pytest.raises(UnsupportedVersion, match="2026-07-28") as refusal:
        eras.negotiate(requested, (V2026_07_28,))
    assert refusal.value.data == {"supported": ["2026-07-28"], "requested": requested}


def introduce(version: str, capabilities: types.ClientCapabilities) -> tuple[types.InitializeResult, Caller]:
    params = types.InitializeRequestParams(version, capabilities, INFO)
    offered = types.ServerCapabilities(completions={}, tasks={}, extensions={"a/b": {}})
    return eras.initialize(params, OFFER, offered, INFO, "Ask nicely.")


@pytest.mark.parametrize("version", HANDSHAKE, ids=lambda version: version.name)
def test_a_handshake_answers_with_what_the_version_carries(version: Version) -> None:
    result, caller = introduce(version.name, types.ClientCapabilities())
    answer = wire(result)
    assert answer["protocolVersion"] == version.name
    assert answer["instructions"] == "Ask nicely."
    assert (
        set(answer["capabilities"])
        == {
            V2024_11_05: set(),
            V2025_03_26: {"completions"},
            V2025_06_18: {"completions", "extensions"},
            V2025_11_25: {"completions", "tasks", "extensions"},
        }[version]
    )
    assert (
        set(answer["serverInfo"])
        == {"name", "version"}
        | {
            V2024_11_05: set(),
            V2025_03_26: set(),
            V2025_06_18: {"title"},
            V2025_11_25: {"title", "icons"},
        }[version]
    )
    assert "_meta" not in answer
    assert "resultType" not in answer
    assert caller == Caller(version, types.ClientCapabilities(), INFO)


DECLARED = types.ClientCapabilities(
    sampling=types.SamplingCapability(tools={}, context={}),
    elicitation=types.ElicitationCapability(url={}),
    roots=types.RootsCapability(list_changed=True),
    tasks={},
    extensions={"com.example/ui": {}},
    experimental={"fire": {}},
)


@pytest.mark.parametrize(
    ("version", "usable"),
    [
        (
            "2024-11-05",
            {"sampling": {}, "roots": {"listChanged": True}, "experimental": {"fire": {}}},
        ),
        (
            "2025-06-18",
            {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}, "experimental": {"fire": {}}},
        ),
        (
            "2025-11-25",
            {
                "sampling": {"tools": {}, "context": {}},
                "elicitation": {"url": {}},
                "roots": {"listChanged": True},
                "tasks": {},
                "experimental": {"fire": {}},
            },
        ),
    ],
)
def test_a_session_knows_the_client_as_far_as_the_agreed_version_goes_and_by_its_extensions(
    version: str, usable: types.Json
) -> None:
    _, caller = introduce(version, DECLARED)
    assert wire(caller.capabilities) == usable | {"extensions": {"com.example/ui": {}}}


def test_a_result_with_fields_of_every_version_is_sealed_without_a_copy() -> None:
    result = types.CallToolResult([types.TextContent("a")], structured_content={"a": 1})
    for version in (V2025_06_18, V2025_11_25):
        assert eras.seal(result, version, Raw(b"{}")) is result


PRICES = "com.example/prices"


class GetPriceParams(types.Params):
    item: str


class GetOldPriceParams(types.Params):
    old_item: str


def price(params: type[types.Params], **options: Any) -> Method:
    return Method(name="prices/get", params=params, result=types.Result, **options)


PRICED = Offer.of(
    types.ServerCapabilities(tasks={}, extensions={PRICES: {}}),
    table=ProtocolTable.of(
        [
            ExtensionRow(id=PRICES, until=V2025_06_18, methods=(price(GetOldPriceParams, name_from="old_item"),)),
            ExtensionRow(id=PRICES, since=V2026_07_28, methods=(price(GetPriceParams, name_from="item"),)),
        ]
    ),
)
DECLARING = types.ClientCapabilities(extensions={PRICES: {"currency": "EUR"}})


@pytest.mark.parametrize("params", [{"item": "tea"}, {"nonsense": 1}])
def test_a_client_that_did_not_declare_an_extension_is_refused_before_its_parameters_are_read(params: Any) -> None:
    with pytest.raises(MissingCapability) as refused:
        eras.open(stateless("prices/get", params), PRICED)
    assert refused.value.data == {"requiredCapabilities": {"extensions": {PRICES: {}}}}
    with pytest.raises(RpcError) as replaced:
        eras.open(request("prices/get", params), PRICED, Caller(V2025_06_18))
    assert (replaced.value.code, replaced.value.data) == (-32603, refused.value.data)


def test_a_client_that_declared_it_is_served_as_its_version_has_the_method() -> None:
    declared = {types.CLIENT_CAPABILITIES: {"extensions": {PRICES: {"currency": "EUR"}}}}
    opened = eras.open(stateless("prices/get", {"item": "tea"}, **declared), PRICED)
    assert (opened.params.item, opened.caller.extension(PRICES)) == ("tea", {"currency": "EUR"})
    old = eras.open(request("prices/get", {"oldItem": "tea"}), PRICED, Caller(V2025_06_18, DECLARING))
    assert (type(old.params), old.params.old_item) == (GetOldPriceParams, "tea")
    with pytest.raises(MethodNotFound):
        eras.open(request("prices/get", {"item": "tea"}), PRICED, Caller(V2025_11_25, DECLARING))


def test_the_name_of_a_request_is_the_parameter_that_its_version_mirrors() -> None:
    sent = McpHeaders("2026-07-28", method="prices/get", name="salt")
    declared = {types.CLIENT_CAPABILITIES: {"extensions": {PRICES: {}}}}
    with pytest.raises(HeaderMismatch, match="Mcp-Name"):
        eras.open(stateless("prices/get", {"item": "tea"}, **declared), PRICED, headers=sent)


@pytest.mark.parametrize(
    ("version", "told"), [("2025-06-18", {PRICES, "com.example/x"}), ("2025-11-25", {"com.example/x"})]
)
def test_an_extension_is_declared_and_known_in_the_versions_that_it_has(version: str, told: set[str]) -> None:
    both: dict[str, types.Json] = {PRICES: {}, "com.example/x": {}}
    params = types.InitializeRequestParams(version, types.ClientCapabilities(extensions=both), INFO)
    result, caller = eras.initialize(params, PRICED, types.ServerCapabilities(extensions=both), INFO)
    assert result.capabilities.extensions is not None
    assert result.capabilities.extensions.keys() == told
    assert caller.capabilities.extensions is not None
    assert caller.capabilities.extensions.keys() == told


def test_extensions_that_a_version_lacks_leave_nothing_behind() -> None:
    params = types.InitializeRequestParams("2025-11-25", types.ClientCapabilities(), INFO)
    result, _ = eras.initialize(params, PRICED, types.ServerCapabilities(extensions={PRICES: {}}), INFO)
    assert result.capabilities.extensions is None
    assert eras.discover(PRICED, types.ServerCapabilities(extensions={PRICES: {}})).capabilities.extensions == {
        PRICES: {}
    }
