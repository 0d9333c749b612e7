from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman import types
from dragoman.errors import DefinitionError, InvalidParams
from dragoman.protocol.extensions import CORE, ExtensionRow, ProtocolTable, check_extension_id, extended, merge_settings
from dragoman.protocol.methods import METHODS, Method
from dragoman.protocol.subscriptions import CORE_FIELDS, Subscription, SubscriptionField, honoured_filter
from dragoman.protocol.versions import (
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Version,
)
from dragoman.types.wire import Wire

ID = "com.example/prices"
PATH = ("extensions", ID)


class GetPriceParams(types.Params):
    item: str


class Quoting(Wire):
    max_price: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)


class Priced(Wire):
    price: int | None = None


GET = Method(name="prices/get", params=GetPriceParams, result=types.Result, name_from="item", repeatable=True)
WATCH = SubscriptionField(name="price_items", method="notifications/prices")
ROW = ExtensionRow(
    id=ID,
    since=V2025_11_25,
    methods=(GET, Method(name="notifications/prices", sender=("server",))),
    params={"tools/call": Quoting},
    entries={"tools/list": Priced},
    result_types={"quote": ("tools/call",)},
    subscriptions=(WATCH,),
)
TABLE = ProtocolTable.of([ROW])


def method(table: ProtocolTable, name: str, version: Version = V2026_07_28) -> Method:
    return next(row for row in table.methods if row.name == name and row.exists_in(version))


@pytest.mark.parametrize("id", ["com.example/a", "example/a", "io.modelcontextprotocol/ui", "a-b.c1/x.y_z-1"])
def test_an_id_is_a_name_behind_a_prefix(id: str) -> None:
    assert check_extension_id(id) == id


@pytest.mark.parametrize(
    "id", ["", "prices", "/prices", "com.example/", "1com/a", "com-/a", "com..example/a", "com.example/-a", "a/b/c", 5]
)
def test_another_id_is_refused_with_an_example(id: Any) -> None:
    with pytest.raises(DefinitionError, match=r"such as 'com\.example/prices'"):
        check_extension_id(id)


def test_a_row_with_such_an_id_is_refused() -> None:
    with pytest.raises(DefinitionError, match="prefix"):
        ExtensionRow(id="prices")


@pytest.mark.parametrize("result_type", ["complete", "input_required"])
def test_a_row_takes_no_result_type_of_the_core(result_type: str) -> None:
    with pytest.raises(DefinitionError, match=result_type):
        ExtensionRow(id=ID, result_types={result_type: ("tools/call",)})


def test_a_row_takes_no_method_of_the_core() -> None:
    with pytest.raises(DefinitionError, match="'tools/call' belongs to the protocol itself"):
        ExtensionRow(id=ID, methods=(Method(name="tools/call"),))


@pytest.mark.parametrize(
    ("version", "exists"),
    [(V2024_11_05, False), (V2025_06_18, False), (V2025_11_25, True), (V2026_07_28, True)],
)
def test_an_extension_exists_from_its_version_on(version: Version, exists: bool) -> None:
    assert ROW.exists_in(version) is exists
    assert TABLE.exists("prices/get", version) is exists


def test_an_extension_may_end_with_a_version() -> None:
    row = ExtensionRow(id=ID, since=V2025_06_18, until=V2025_11_25)
    assert [row.exists_in(one) for one in (V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28)] == [
        False,
        True,
        True,
        False,
    ]


def test_versions_may_be_given_by_their_names() -> None:
    row = ExtensionRow(id=ID, since="2025-11-25", until="2026-07-28", methods=(Method(name="a", since="2026-07-28"),))
    assert (row.since, row.until) == (V2025_11_25, V2026_07_28)
    assert [(one.since, one.until) for one in row.joined_methods()] == [(V2026_07_28, V2026_07_28)]
    with pytest.raises(DefinitionError, match="There is no protocol version '2025-11-26'; there are 2026-07-28, "):
        ExtensionRow(id=ID, since="2025-11-26")


@pytest.mark.parametrize(
    ("own", "of_the_row", "expected"),
    [
        (None, None, None),
        (V2025_11_25, None, V2025_11_25),
        (None, V2025_11_25, V2025_11_25),
        (V2025_06_18, V2025_11_25, V2025_06_18),
    ],
)
def test_a_method_ends_with_its_extension(
    own: Version | None, of_the_row: Version | None, expected: Version | None
) -> None:
    row = ExtensionRow(id=ID, until=of_the_row, methods=(Method(name="prices/get", until=own),))
    assert [one.until for one in row.joined_methods()] == [expected]


def test_a_method_needs_the_declaration_of_both_sides() -> None:
    found = method(TABLE, "prices/get")
    assert (found.capability, found.declared, found.since) == (PATH, PATH, V2025_11_25)


def test_where_clients_declare_nothing_only_the_declaration_of_the_server_counts() -> None:
    told = Method(name="notifications/prices", sender=("server",))
    row = ExtensionRow(id=ID, one_sided=True, methods=(GET, told), subscriptions=(WATCH,))
    table = ProtocolTable.of([row])
    asked, heard = method(table, "prices/get"), method(table, told.name)
    assert (asked.capability, asked.declared) == (PATH, ())
    assert (heard.capability, heard.declared) == ((), PATH)
    assert (table.subscription_fields()[-1].capability, table.subscription_fields()[-1].declared) == (PATH, ())
    assert table.declarable({ID: {}}, V2026_07_28) == {ID: {}}


def test_an_extension_may_be_declared_elsewhere() -> None:
    row = ExtensionRow(id=ID, capability=("tasks",), methods=(GET,))
    assert method(ProtocolTable.of([row]), "prices/get").capability == ("tasks",)


def test_the_core_says_what_its_methods_are() -> None:
    assert CORE.named_by == {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    assert CORE.progressing == {"tools/call", "prompts/get", "resources/read"}
    requests = {row.name for row in METHODS if "client" in row.sender and not row.is_notification}
    assert CORE.repeatable == requests - {"tools/call"}


def test_a_method_of_an_extension_joins_the_core() -> None:
    assert TABLE.named_by["prices/get"] == "item"
    assert "prices/get" in TABLE.repeatable
    assert "prices/get" not in TABLE.progressing


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("notifications/elicitation/complete", V2025_11_25, True),
        ("notifications/elicitation/complete", V2025_06_18, False),
        ("notifications/elicitation/complete", V2026_07_28, False),
        ("tools/call", V2026_07_28, True),
        ("tools/cell", V2026_07_28, False),
    ],
)
def test_a_method_exists_where_the_table_says_so(name: str, version: Version, expected: bool) -> None:
    assert CORE.exists(name, version) is expected


def test_two_extensions_with_one_method_are_refused() -> None:
    with pytest.raises(DefinitionError, match="'prices/get' is added by two"):
        ProtocolTable.of([ROW, ExtensionRow(id="com.example/other", methods=(GET,))])


def test_two_extensions_with_one_kind_of_subscription_are_refused() -> None:
    with pytest.raises(DefinitionError, match="'price_items' is added by two"):
        ProtocolTable.of([ROW, ExtensionRow(id="com.example/other", subscriptions=(WATCH,))])


def test_parameters_are_added_to_a_method_of_the_core() -> None:
    params = method(TABLE, "tools/call").decode_params(b'{"name":"buy","maxPrice":5}')
    assert isinstance(params, types.CallToolRequestParams)
    assert (params.name, params.max_price, params.tags) == ("buy", 5, [])  # type: ignore[attr-defined]


def test_a_method_to_which_nothing_is_added_is_that_of_the_core() -> None:
    assert method(TABLE, "prompts/get") is method(CORE, "prompts/get")
    assert method(CORE, "subscriptions/listen").params is types.SubscriptionsListenRequestParams


def test_entries_of_a_list_have_the_fields_of_the_extension_where_it_exists() -> None:
    kind = TABLE.entry_type("tools/list", V2026_07_28)
    entry = msgspec.json.decode(b'{"name":"buy","inputSchema":{},"price":3}', type=kind)
    assert isinstance(entry, types.Tool)
    assert entry.price == 3  # type: ignore[attr-defined]
    assert TABLE.entry_type("tools/list", V2025_06_18) is types.Tool
    assert TABLE.entry_type("prompts/list", V2026_07_28) is types.Prompt


def test_the_same_additions_make_the_same_type() -> None:
    assert extended(types.Tool, Priced) is extended(types.Tool, Priced)


def test_a_field_that_exists_may_be_set_with_its_own_type_and_with_no_other() -> None:
    class Again(Wire):
        title: str | None = None
        execution: types.ToolExecution | None = None
        meta: types.Json | None = msgspec.field(default=None, name="_meta")

    class Other(Wire):
        title: int | None = None

    assert extended(types.Tool, Again).__struct_encode_fields__ == types.Tool.__struct_encode_fields__
    with pytest.raises(DefinitionError, match="Tool has a field 'title' already"):
        extended(types.Tool, Other)


def test_two_extensions_with_one_field_are_refused() -> None:
    class AlsoPriced(Wire):
        price: int | None = None

    with pytest.raises(DefinitionError, match="Tool has a field 'price' already"):
        extended(types.Tool, Priced, AlsoPriced)


class Tasked(Wire):
    task: types.TaskMetadata | None = None


def test_a_field_that_the_core_leaves_encoded_is_decoded_by_one_extension() -> None:
    kind = extended(types.CallToolRequestParams, Tasked)
    decoded = msgspec.json.decode(b'{"name":"a","task":{"ttl":5}}', type=kind)
    assert decoded.task == types.TaskMetadata(ttl=5)  # type: ignore[comparison-overlap]
    with pytest.raises(DefinitionError, match="CallToolRequestParams has a field 'task' already"):
        extended(
            types.CallToolRequestParams,
            Tasked,
            Quoting,
            type("Retasked", (Wire,), {"task": None, "__annotations__": {"task": "str | None"}}),
        )


def test_parameters_are_added_in_the_versions_of_the_row_alone() -> None:
    table = ProtocolTable.of([ExtensionRow(id=ID, since=V2025_11_25, until=V2025_11_25, params={"tools/call": Tasked})])
    malformed = b'{"name":"a","task":5}'
    for version in (V2024_11_05, V2025_06_18, V2026_07_28):
        assert method(table, "tools/call", version).decode_params(malformed).task == Raw(b"5")
    with pytest.raises(InvalidParams):
        method(table, "tools/call", V2025_11_25).decode_params(malformed)
    ranges = [(row.since, row.until) for row in table.methods if row.name == "tools/call"]
    assert ranges == [(V2024_11_05, V2025_06_18), (V2025_11_25, V2025_11_25), (V2026_07_28, V2026_07_28)]


def test_fields_of_entries_are_checked_when_the_tables_are_joined() -> None:
    class Other(Wire):
        title: int | None = None

    with pytest.raises(DefinitionError, match="Tool has a field 'title' already"):
        ProtocolTable.of([ExtensionRow(id=ID, entries={"tools/list": Other})])
    other = ExtensionRow(id="com.example/other", entries={"tools/list": type("P2", (Priced,), {})})
    with pytest.raises(DefinitionError, match="Tool has a field 'price' already"):
        ProtocolTable.of([ROW, other])
    for name in ("tools/call", "tools/cell", "notifications/progress"):
        with pytest.raises(DefinitionError, match=f"{name}' is no list of the protocol"):
            ProtocolTable.of([ExtensionRow(id=ID, entries={name: Priced})])


def test_pages_of_a_list_have_entries_with_the_fields_of_the_extension() -> None:
    page = msgspec.json.decode(
        b'{"tools":[{"name":"a","inputSchema":{},"price":3}]}', type=TABLE.page_type("tools/list", V2026_07_28)
    )
    assert isinstance(page, types.ListToolsResult)
    assert page.tools[0].price == 3  # type: ignore[attr-defined]
    assert TABLE.page_type("tools/list", V2025_06_18) is types.ListToolsResult
    assert TABLE.page_type("prompts/list", V2026_07_28) is types.ListPromptsResult


def test_a_field_that_is_added_is_optional() -> None:
    class Needed(Wire):
        price: int

    with pytest.raises(DefinitionError, match="'price' that is added to Tool must have a default"):
        extended(types.Tool, Needed)


@pytest.mark.parametrize(
    ("name", "result_type", "version", "found"),
    [
        ("tools/call", "quote", V2026_07_28, ROW),
        ("tools/call", "quote", V2025_06_18, None),
        ("prompts/get", "quote", V2026_07_28, None),
        ("tools/call", "task", V2026_07_28, None),
    ],
)
def test_a_result_type_leads_to_its_extension(
    name: str, result_type: str, version: Version, found: ExtensionRow | None
) -> None:
    assert TABLE.answering(name, result_type, version) is found


def test_an_extension_is_declared_in_its_versions_and_one_without_a_row_in_all() -> None:
    given = {ID: {"a": 1}, "com.example/other": {}}
    assert TABLE.declarable(given, V2026_07_28) == given
    assert TABLE.declarable(given, V2025_06_18) == {"com.example/other": {}}


def test_an_alias_is_declared_where_its_extension_is() -> None:
    table = ProtocolTable.of([ExtensionRow(id="io.modelcontextprotocol/ui", since=V2025_06_18)])
    given: dict[str, types.Json] = {"io.modelcontextprotocol/apps": {}}
    assert table.declarable(given, V2025_03_26) == {}
    assert table.declarable(given, V2025_06_18) == given


GENERATIONS = (
    ExtensionRow(id=ID, capability=("tasks",), since=V2025_11_25, until=V2025_11_25, methods=(GET,)),
    ExtensionRow(id=ID, since=V2026_07_28, methods=(GET,)),
)


def test_one_id_with_two_rows_is_declared_under_its_id_only_where_the_row_has_no_other_path() -> None:
    table = ProtocolTable.of(GENERATIONS)
    declared = [bool(table.declarable({ID: {}}, one)) for one in (V2025_06_18, V2025_11_25, V2026_07_28)]
    assert declared == [False, False, True]


def test_generations_share_the_name_of_a_method_which_each_declares_in_its_own_way() -> None:
    first, second = [row for row in ProtocolTable.of(GENERATIONS).methods if row.name == "prices/get"]
    assert (first.capability, first.declared, first.until) == (("tasks",), (), V2025_11_25)
    assert (second.capability, second.declared, second.since) == (PATH, PATH, V2026_07_28)


def test_generations_may_add_the_same_parameters() -> None:
    rows = [msgspec.structs.replace(row, params={"tools/call": Quoting}) for row in GENERATIONS]
    for version in (V2025_11_25, V2026_07_28):
        params = method(ProtocolTable.of(rows), "tools/call", version).decode_params(b'{"name":"a","maxPrice":3}')
        assert params.max_price == 3


def test_methods_of_ones_own_need_no_declaration() -> None:
    own = Method(name="acme/add", result=types.Result)
    assert method(ProtocolTable.of([ROW], [own]), "acme/add") is own
    with pytest.raises(DefinitionError, match=r"'prices/get' is added by two extensions"):
        ProtocolTable.of([ROW], [GET])


def test_settings_are_merged_object_by_object_and_an_alias_is_its_extension() -> None:
    apps, ui = "io.modelcontextprotocol/apps", "io.modelcontextprotocol/ui"
    below = {apps: {"mimeTypes": ["a"], "deep": {"a": 1, "b": {}}}, "com.example/x": {}}
    over = {ui: {"mimeTypes": ["b"], "deep": {"b": 2, "c": {"d": 3}}}}
    merged = merge_settings(None, below, over)
    assert merged == {ui: {"mimeTypes": ["b"], "deep": {"a": 1, "b": 2, "c": {"d": 3}}}, "com.example/x": {}}
    assert below[apps] == {"mimeTypes": ["a"], "deep": {"a": 1, "b": {}}}


def test_a_subscription_of_an_extension_is_read_honoured_and_served() -> None:
    fields = TABLE.subscription_fields()
    assert (fields[-1].capability, fields[-1].declared) == (PATH, PATH)
    assert fields[: len(CORE_FIELDS)] == CORE_FIELDS
    params = method(TABLE, "subscriptions/listen").decode_params(b'{"notifications":{"priceItems":["tea"]}}')
    capabilities = types.ServerCapabilities(extensions={ID: {}})
    honoured = honoured_filter(params.notifications, capabilities, fields)
    subscription = Subscription(1, honoured, fields)
    assert msgspec.json.decode(subscription.acknowledgement())["params"]["notifications"] == {"priceItems": ["tea"]}
    assert subscription.enqueue("notifications/prices", "tea", {"item": "tea", "price": 3})
    assert subscription.enqueue("notifications/prices", "tea", {"item": "tea", "price": 4})
    assert not subscription.enqueue("notifications/prices", "salt", {"item": "salt"})
    (message,) = subscription.drain()
    assert msgspec.json.decode(message)["params"]["price"] == 4


def test_a_subscription_of_an_extension_that_the_server_did_not_declare_is_not_honoured() -> None:
    params = method(TABLE, "subscriptions/listen").decode_params(b'{"notifications":{"priceItems":true}}')
    honoured = honoured_filter(params.notifications, types.ServerCapabilities(), TABLE.subscription_fields())
    assert msgspec.json.encode(honoured) == b"{}"


def test_a_row_declares_where_uris_appear_in_its_own_methods_and_in_those_of_the_core() -> None:
    own = Method(name="prices/get", result=types.Result, uris=("seller.uri",))
    row = ExtensionRow(id="com.example/prices", methods=(own,), uris={"tools/call": ("_meta.prices",)})
    table = ProtocolTable.of([row])
    assert table.uris("prices/get") == ("seller.uri",)
    assert table.uris("tools/call") == ("content[].uri", "content[].resource.uri", "_meta.prices")
    assert table.uris("tools/list") == ()
