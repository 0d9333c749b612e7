from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams, MissingCapability
from dragoman.protocol.methods import METHODS, Method, Side, declares, offered, require_declared
from dragoman.protocol.versions import V2025_06_18, V2025_11_25, VERSIONS, Version

ALL = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
HANDSHAKE = ALL[:4]
STATELESS = ALL[4:]

EVERYTHING_SERVED = types.ServerCapabilities(
    tools=types.ListChangedCapability(),
    prompts=types.ListChangedCapability(),
    resources=types.ResourcesCapability(subscribe=True),
    completions={},
    logging={},
)
EVERYTHING_DECLARED = types.ClientCapabilities(
    sampling=types.SamplingCapability(),
    elicitation=types.ElicitationCapability(),
    roots=types.RootsCapability(),
)

EXISTENCE: list[tuple[Side, str, tuple[str, ...]]] = [
    ("client", "initialize", HANDSHAKE),
    ("client", "ping", HANDSHAKE),
    ("client", "logging/setLevel", HANDSHAKE),
    ("client", "resources/subscribe", HANDSHAKE),
    ("client", "resources/unsubscribe", HANDSHAKE),
    ("client", "tools/list", ALL),
    ("client", "tools/call", ALL),
    ("client", "prompts/list", ALL),
    ("client", "prompts/get", ALL),
    ("client", "resources/list", ALL),
    ("client", "resources/templates/list", ALL),
    ("client", "resources/read", ALL),
    ("client", "completion/complete", ALL),
    ("client", "server/discover", STATELESS),
    ("client", "subscriptions/listen", STATELESS),
    ("client", "notifications/initialized", HANDSHAKE),
    ("client", "notifications/roots/list_changed", HANDSHAKE),
    ("client", "notifications/progress", HANDSHAKE),
    ("client", "notifications/cancelled", ALL),
    ("server", "ping", HANDSHAKE),
    ("server", "sampling/createMessage", HANDSHAKE),
    ("server", "roots/list", HANDSHAKE),
    ("server", "elicitation/create", ("2025-06-18", "2025-11-25")),
    ("server", "notifications/cancelled", ALL),
    ("server", "notifications/progress", ALL),
    ("server", "notifications/message", ALL),
    ("server", "notifications/resources/updated", ALL),
    ("server", "notifications/tools/list_changed", ALL),
    ("server", "notifications/prompts/list_changed", ALL),
    ("server", "notifications/resources/list_changed", ALL),
    ("server", "notifications/elicitation/complete", ("2025-11-25",)),
    ("server", "notifications/subscriptions/acknowledged", STATELESS),
]


def table(version: Version, sender: Side, capabilities: Any = None) -> dict[str, Method]:
    everything = EVERYTHING_SERVED if sender == "client" else EVERYTHING_DECLARED
    return dict(offered(METHODS, version, sender, everything if capabilities is None else capabilities))


def find(name: str) -> Method:
    return next(method for method in METHODS if method.name == name)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_version_has_the_methods_that_the_specification_lists_and_no_other(version: Version, sender: Side) -> None:
    listed = {name for side, name, versions in EXISTENCE if side == sender and version.name in versions}
    assert set(table(version, sender)) == listed


def test_stateless_servers_send_no_requests_and_stateless_clients_one_notification() -> None:
    stateless = VERSIONS[0]
    assert not [name for name, method in table(stateless, "server").items() if not method.is_notification]
    assert [name for name, method in table(stateless, "client").items() if method.is_notification] == [
        "notifications/cancelled"
    ]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_what_begins_with_notifications_is_one_and_the_rest_are_requests(method: Method) -> None:
    assert method.is_notification == method.name.startswith("notifications/")


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_notification_takes_no_answer_no_name_and_no_capability(method: Method) -> None:
    if method.is_notification:
        assert (method.name_from, method.input_required, method.capability) == (None, False, ())


@pytest.mark.parametrize(
    ("name", "parameter"), [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]
)
def test_three_methods_mirror_a_name_and_may_want_input(name: str, parameter: str) -> None:
    assert find(name).name_from == parameter
    assert find(name).input_required
    assert parameter in {field.encode_name for field in msgspec.structs.fields(find(name).params)}


def test_no_other_method_mirrors_a_name_or_wants_input() -> None:
    assert {method.name for method in METHODS if method.name_from} == {"tools/call", "prompts/get", "resources/read"}
    assert {method.name for method in METHODS if method.input_required} == {
        "tools/call",
        "prompts/get",
        "resources/read",
    }


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ("tools", {"tools/list", "tools/call"}),
        ("prompts", {"prompts/list", "prompts/get"}),
        (
            "resources",
            {
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "resources/subscribe",
                "resources/unsubscribe",
            },
        ),
        ("completions", {"completion/complete"}),
        ("logging", {"logging/setLevel"}),
    ],
)
def test_methods_whose_capability_a_server_lacks_are_not_offered(capability: str, names: set[str]) -> None:
    lacking = msgspec.structs.replace(EVERYTHING_SERVED, **{capability: None})
    for version in VERSIONS:
        whole = set(table(version, "client"))
        assert whole - set(table(version, "client", lacking)) == names & whole


@pytest.mark.parametrize("subscribe", [None, False])
def test_subscribing_needs_more_than_resources(subscribe: bool | None) -> None:
    capabilities = types.ServerCapabilities(resources=types.ResourcesCapability(subscribe=subscribe))
    methods = table(VERSIONS[1], "client", capabilities)
    assert "resources/read" in methods
    assert "resources/subscribe" not in methods
    assert "resources/unsubscribe" not in methods


@pytest.mark.parametrize(
    ("capability", "name"),
    [("sampling", "sampling/createMessage"), ("elicitation", "elicitation/create"), ("roots", "roots/list")],
)
def test_a_server_may_ask_only_what_the_client_declared(capability: str, name: str) -> None:
    lacking = msgspec.structs.replace(EVERYTHING_DECLARED, **{capability: None})
    assert set(table(VERSIONS[1], "server")) - set(table(VERSIONS[1], "server", lacking)) == {name}


def test_a_method_that_a_server_adds_is_offered_like_the_others() -> None:
    added = Method(name="printer/ignite", result=types.Result, capability=("experimental", "printer"))
    silent = offered([*METHODS, added], VERSIONS[0], "client", EVERYTHING_SERVED)
    declaring = types.ServerCapabilities(experimental={"printer": {}})
    assert "printer/ignite" not in silent
    assert offered([*METHODS, added], VERSIONS[0], "client", declaring)["printer/ignite"] is added


@pytest.mark.parametrize(
    ("capabilities", "path", "declared"),
    [
        (types.ServerCapabilities(), (), True),
        (types.ServerCapabilities(), ("tools",), False),
        (types.ServerCapabilities(tools=types.ListChangedCapability()), ("tools",), True),
        (types.ServerCapabilities(tools=types.ListChangedCapability()), ("tools", "list_changed"), False),
        (
            types.ServerCapabilities(tools=types.ListChangedCapability(list_changed=False)),
            ("tools", "list_changed"),
            False,
        ),
        (
            types.ServerCapabilities(tools=types.ListChangedCapability(list_changed=True)),
            ("tools", "list_changed"),
            True,
        ),
        (types.ServerCapabilities(logging={}), ("logging",), True),
        (types.ServerCapabilities(logging={}), ("logging", "levels"), False),
        (types.ServerCapabilities(), ("no such capability",), False),
        (types.ClientCapabilities(extensions={"com.example/ui": {}}), ("extensions", "com.example/ui"), True),
        (types.ClientCapabilities(extensions={"com.example/ui": {}}), ("extensions", "com.example/io"), False),
        ({"elicitation": {"url": {}}}, ("elicitation", "url"), True),
        ({"elicitation": {"url": None}}, ("elicitation", "url"), False),
        ({"roots": {"listChanged": False}}, ("roots", "listChanged"), False),
    ],
)
def test_a_capability_is_declared_when_it_is_there_and_not_false(
    capabilities: Any, path: tuple[str, ...], declared: bool
) -> None:
    assert declares(capabilities, path) is declared


def test_parameters_are_decoded_into_the_type_of_the_method() -> None:
    params = find("tools/call").decode_params(Raw(b'{"name":"add","arguments":{"a":1},"unheard":true}'))
    assert isinstance(params, types.CallToolRequestParams)
    assert params.name == "add"
    assert bytes(params.arguments) == b'{"a":1}'  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_parameters_that_are_no_object_are_invalid_for_every_method(method: Method) -> None:
    for params in (b"[]", b"5", b'"name"', b"null"):
        with pytest.raises(InvalidParams, match=method.name):
            method.decode_params(params)


@pytest.mark.parametrize(
    ("name", "params", "complaint"),
    [
        ("tools/call", b"{}", "missing required field `name`"),
        ("tools/call", b'{"name":5}', r"\$\.name"),
        ("prompts/get", b'{"name":null}', r"\$\.name"),
        ("resources/read", b'{"uri":["file:///"]}', r"\$\.uri"),
        ("tools/list", b'{"cursor":1}', r"\$\.cursor"),
        ("logging/setLevel", b'{"level":"loud"}', r"\$\.level"),
        ("completion/complete", b'{"ref":{"type":"ref/poem"},"argument":{"name":"a","value":"b"}}', "ref/poem"),
        ("tools/call", b'{"name":"\xff"}', "Invalid parameters"),
        ("tools/call", b'{"name":"\\ud800"}', "Invalid parameters"),
        ("tools/call", b'{"name":', "truncated"),
        ("tools/call", b'{"_meta":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "recursion"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_the_method_and_the_place(
    name: str, params: bytes, complaint: str
) -> None:
    with pytest.raises(InvalidParams, match=complaint) as refusal:
        find(name).decode_params(params)
    assert refusal.value.message.startswith(f"Invalid parameters for {name}: ")
    assert refusal.value.code == -32602


def test_an_empty_cursor_is_a_cursor_and_a_missing_one_is_none() -> None:
    assert find("tools/list").decode_params(b'{"cursor":""}').cursor == ""
    assert find("tools/list").decode_params(b"{}").cursor is None


def test_an_extension_is_declared_under_its_id_or_its_alias() -> None:
    declared = types.ClientCapabilities(extensions={"io.modelcontextprotocol/apps": {}})
    assert declares(declared, ("extensions", "io.modelcontextprotocol/ui"))
    assert not declares(declared, ("extensions", "com.example/a"))


def test_what_a_client_must_declare_is_named_where_it_did_not() -> None:
    require_declared(types.ClientCapabilities(roots=types.RootsCapability()), ("roots",))
    require_declared(types.ClientCapabilities(), ())
    with pytest.raises(MissingCapability) as refused:
        require_declared(types.ClientCapabilities(), ("extensions", "com.example/a"))
    assert refused.value.data == {"requiredCapabilities": {"extensions": {"com.example/a": {}}}}


def test_versions_of_a_method_may_be_given_by_their_names() -> None:
    row = Method(name="a", since="2025-06-18", until="2025-11-25")
    assert (row.since, row.until) == (V2025_06_18, V2025_11_25)
    with pytest.raises(DefinitionError, match="There is no protocol version 'next'"):
        Method(name="a", until="next")
