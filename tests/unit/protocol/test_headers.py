from __future__ import annotations

import enum
import uuid
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.errors import DefinitionError, HeaderMismatch, ValidationError
from dragoman.protocol import headers
from dragoman.protocol.headers import HeaderPlan, McpHeaders, decode_value, encode_value
from dragoman.protocol.jsonrpc import Request
from dragoman.protocol.methods import METHODS, Method
from dragoman.types import CallToolRequestParams

LARGEST = 2**53 - 1

ENCODED = [
    # The examples of the specification.
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    # The edge cases of SEP-2243.
    (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
    ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
    (" us-west1 ", "=?base64?IHVzLXdlc3QxIA==?="),
    ("us west 1", "us west 1"),
    (True, "true"),
    (False, "false"),
    (42, "42"),
    (-7, "-7"),
    ("日本語", "=?base64?5pel5pys6Kqe?="),
    ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
    ("\tindented", "=?base64?CWluZGVudGVk?="),
    ("", ""),
    ("file:///path/to/file%20name.txt", "file:///path/to/file%20name.txt"),
    ("https://example.com/resource?id=123", "https://example.com/resource?id=123"),
    # Every class of character at its borders.
    ("trailing\t", "=?base64?dHJhaWxpbmcJ?="),
    ("a\tb", "=?base64?YQli?="),
    (" ", "=?base64?IA==?="),
    ("\t", "=?base64?CQ==?="),
    ("a\x00b", "=?base64?YQBi?="),
    ("\x1f", "=?base64?Hw==?="),
    ("!~", "!~"),
    ("\x7f", "=?base64?fw==?="),
    ("\x80", "=?base64?woA=?="),
    ("é", "=?base64?w6k=?="),
    ("\N{NO-BREAK SPACE}a", "=?base64?wqBh?="),
    ("\N{GRINNING FACE}", "=?base64?8J+YgA==?="),
    # What looks like the sentinel, and what does not.
    ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
    ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
    ("SGVsbG8=?=", "SGVsbG8=?="),
    ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
    ("a =?base64?SGVsbG8=?=", "a =?base64?SGVsbG8=?="),
    ("=?utf-8?q?x?=", "=?utf-8?q?x?="),
    ("true", "true"),
    (0, "0"),
    (LARGEST, "9007199254740991"),
    (-LARGEST, "-9007199254740991"),
]


@pytest.mark.covers("BEY-04")
@pytest.mark.parametrize(("value", "text"), ENCODED)
def test_a_value_is_encoded_as_the_specification_says(value: headers.Mirrored, text: str) -> None:
    assert encode_value(value) == text


@pytest.mark.parametrize(("value", "text"), [row for row in ENCODED if isinstance(row[0], str)])
def test_an_encoded_value_is_decoded_to_itself(value: str, text: str) -> None:
    assert decode_value("Mcp-Name", text) == value


@given(st.text())
def test_any_text_survives_as_a_header_of_printable_ascii(value: str) -> None:
    text = encode_value(value)
    assert text.isascii()
    assert text == text.strip()
    assert not text or text.isprintable()
    assert decode_value("Mcp-Name", text) == value


@pytest.mark.covers("BEY-06")
@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, 10**30, 10**5000], ids=lambda value: value.bit_length())
def test_an_integer_that_not_every_peer_reads_exactly_is_not_sent(value: int) -> None:
    with pytest.raises(ValidationError, match="integers up to 9007199254740991"):
        encode_value(value)


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"])
def test_text_that_is_not_unicode_is_not_sent(value: str) -> None:
    with pytest.raises(ValidationError, match="cannot be sent in a header"):
        encode_value(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),
        ("=?base64??=", ""),
        ("=?base64?SGVsbG8=?= ", "Hello"),
        ("\t =?base64?SGVsbG8=?=\t", "Hello"),
        ("=?base64?IHBhZGRlZCA=?=", " padded "),
        ("  plain \t", "plain"),
        ("", ""),
        (" \t ", ""),
        ("a\tb", "a\tb"),
        ("a  b", "a  b"),
        ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="),
    ],
)
def test_a_header_says_its_text_or_what_the_sentinel_wraps(text: str, value: str) -> None:
    assert decode_value("Mcp-Name", text) == value


@pytest.mark.parametrize(
    "text",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVs\tbG8=?=",
        "=?base64?=SGVsbG8?=",
        "=?base64?SGVs=bG8=?=",
        "=?base64?A?=",
        "=?base64?_-__?=",
        "=?base64?/w==?=",
        "=?base64?7aCA?=",
        "=?base64?????=",
    ],
)
def test_broken_base64_or_unicode_in_the_sentinel_is_refused(text: str) -> None:
    with pytest.raises(HeaderMismatch, match=r"Mcp-Param-Region is not valid base64 of UTF-8") as refusal:
        decode_value("Mcp-Param-Region", text)
    assert refusal.value.code == -32020


@pytest.mark.parametrize(
    "text", ["é", "世界", "a\nb", "a\r\nX: y", "\x00", "a\x1fb", "\x7f", "\xa0", "a\x0b", "\ud800"]
)
def test_characters_that_no_header_may_carry_are_refused(text: str) -> None:
    with pytest.raises(HeaderMismatch, match="Mcp-Name has invalid characters"):
        decode_value("Mcp-Name", text)
    with pytest.raises(HeaderMismatch, match="Mcp-Method has invalid characters"):
        headers.check_mirror("Mcp-Method", text, text)


def test_the_headers_of_a_request_are_read_by_meaning() -> None:
    lines = [
        (b"host", b"localhost"),
        (b"accept", b"application/json"),
        (b"content-type", b"application/json; charset=utf-8"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", b"forecast"),
        (b"mcp-session-id", b"abc"),
        (b"last-event-id", b"7"),
        (b"mcp-param-region", b"us-west1"),
        (b"mcp-param-x-y", b""),
        (b"mcp-unknown", b"1"),
        (b"mcp-unknown", b"2"),
        (b"x-mcp-param-region", b"3"),
    ]
    assert headers.read(lines) == McpHeaders(
        protocol_version="2026-07-28",
        session_id="abc",
        last_event_id="7",
        accept="application/json",
        content_type="application/json; charset=utf-8",
        method="tools/call",
        name="forecast",
        params={"region": "us-west1", "x-y": ""},
    )


def test_a_request_without_headers_says_nothing() -> None:
    assert headers.read([]) == McpHeaders()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"forecast", "forecast"),
        (b"  forecast  ", "forecast"),
        (b"\tforecast \t", "forecast"),
        (b"two words", "two words"),
        (b"", ""),
        (b" \t", ""),
        (b"\x0bforecast", "\x0bforecast"),
        (b"\xa0forecast\xa0", "\xa0forecast\xa0"),
        (b"caf\xc3\xa9", "caf\xc3\xa9"),
        (b"\xff\x00", "\xff\x00"),
    ],
)
def test_optional_white_space_around_a_value_is_no_part_of_it(sent: bytes, expected: str) -> None:
    read = headers.read([(b"mcp-name", sent), (b"mcp-param-a", sent)])
    assert (read.name, read.params) == (expected, {"a": expected})


@pytest.mark.parametrize(
    "name",
    ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "mcp-param-region", "mcp-param-"],
)
@pytest.mark.parametrize("second", [b"a", b"b", b""])
def test_a_repeated_header_of_the_protocol_is_refused(name: str, second: bytes) -> None:
    repeated = headers.read([(name.encode(), b"a"), (b"host", b"x"), (name.encode(), second)])
    assert str(headers.version_mismatch(repeated, "a")) == f"The header {name} is repeated; send it once"


def test_lines_of_accept_are_one_list_and_other_headers_keep_their_first_line() -> None:
    read = headers.read(
        [
            (b"accept", b"application/json "),
            (b"content-type", b"application/json"),
            (b"last-event-id", b"1"),
            (b"accept", b" text/event-stream"),
            (b"content-type", b"text/plain"),
            (b"last-event-id", b"2"),
        ]
    )
    assert read.accept == "application/json, text/event-stream"
    assert (read.content_type, read.last_event_id) == ("application/json", "1")
    assert read.repeated is None


@pytest.mark.parametrize("sent", [None, "", "2025-11-25", "=?base64?MjAyNi0wNy0yOA==?="])
def test_a_version_header_that_says_otherwise_than_the_body_is_named_with_both(sent: str | None) -> None:
    mismatch = headers.version_mismatch(McpHeaders(protocol_version=sent), "2026-07-28")
    assert str(mismatch) == f"The header MCP-Protocol-Version must be '2026-07-28', as in the body; it is {sent!r}"


CALL, LIST = (next(row for row in METHODS if row.name == name) for name in ("tools/call", "tools/list"))


@pytest.mark.covers("BEY-03")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        (None, b"{}", None),
        (None, b"{}", "not looked at"),
        (LIST, b"{}", "not looked at"),
        (CALL, b'{"name":"forecast"}', "forecast"),
        (CALL, b'{"name":"forecast","arguments":5}', "=?base64?Zm9yZWNhc3Q=?="),
        (CALL, b"{}", None),
        (CALL, b'{"name":5}', None),
    ],
)
def test_headers_that_mirror_a_request_say_what_its_body_says(
    method: Method | None, params: bytes, name: str | None
) -> None:
    headers.check_request(McpHeaders(method="m", name=name), Request(1, "m", Raw(params)), method, None)


@pytest.mark.covers("BEY-03", "BEY-04")
@pytest.mark.parametrize(
    ("sent", "params", "said"),
    [
        (McpHeaders(name="forecast"), b'{"name":"forecast"}', "The header Mcp-Method must be 'tools/call'"),
        (McpHeaders(method="tools/list", name="forecast"), b'{"name":"forecast"}', "as in the body; it is 'tools/"),
        (McpHeaders(method="tools/call"), b'{"name":"forecast"}', "The header Mcp-Name is missing"),
        (McpHeaders(method="tools/call", name="other"), b'{"name":"forecast"}', "Mcp-Name does not match"),
        (McpHeaders(method="tools/call", name="x"), b"{}", "Mcp-Name was sent, but the body has no name"),
        (McpHeaders(method="tools/call", name="x"), b'{"name":5}', "Mcp-Name was sent, but the body has no name"),
    ],
)
def test_headers_that_mirror_a_request_otherwise_than_its_body_are_refused(
    sent: McpHeaders, params: bytes, said: str
) -> None:
    with pytest.raises(HeaderMismatch, match=said):
        headers.check_request(sent, Request(1, "tools/call", Raw(params)), CALL, None)


@pytest.mark.parametrize("name", ["forecast", "=?base64?Zm9yZWNhc3Q=?="])
def test_the_name_is_taken_from_the_parameters_where_they_were_decoded(name: str) -> None:
    sent, message = McpHeaders(method="tools/call", name=name), Request(1, "tools/call", Raw(b"not read"))
    headers.check_request(sent, message, CALL, CallToolRequestParams("forecast"))
    with pytest.raises(HeaderMismatch, match="Mcp-Name does not match"):
        headers.check_request(sent, message, CALL, CallToolRequestParams("other"))


@pytest.mark.parametrize(
    ("header", "sent", "expected"),
    [
        ("Mcp-Method", "tools/call", "tools/call"),
        ("Mcp-Method", " tools/call\t", "tools/call"),
        ("MCP-Protocol-Version", "2026-07-28", "2026-07-28"),
        ("Mcp-Name", "forecast", "forecast"),
        ("Mcp-Name", "=?base64?Zm9yZWNhc3Q=?=", "forecast"),
        ("Mcp-Name", "=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"),
        ("Mcp-Name", "", ""),
        ("Mcp-Param-A", "=?base64??=", ""),
        ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?=", "=?base64?dG9vbHMvY2FsbA==?="),
    ],
)
def test_a_header_that_mirrors_the_body_passes(header: str, sent: str, expected: str) -> None:
    headers.check_mirror(header, sent, expected)


@pytest.mark.parametrize(
    ("header", "sent", "expected"),
    [
        ("Mcp-Method", "TOOLS/CALL", "tools/call"),
        ("Mcp-Method", "", "tools/call"),
        ("Mcp-Method", "tools/list", "tools/call"),
        ("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?=", "tools/call"),
        ("MCP-Protocol-Version", "=?base64?MjAyNi0wNy0yOA==?=", "2026-07-28"),
        ("MCP-Protocol-Version", "2025-11-25", "2026-07-28"),
        ("Mcp-Name", "foo", "bar"),
        ("Mcp-Name", "foo", "foo "),
        ("Mcp-Name", "=?base64?literal?=", "=?base64?literal?="),
        ("Mcp-Name", "=?BASE64?Zm9yZWNhc3Q=?=", "forecast"),
    ],
)
def test_a_header_that_says_something_else_than_the_body_is_refused(header: str, sent: str, expected: str) -> None:
    with pytest.raises(HeaderMismatch, match=f"The header {header} (does not match|is not valid base64)") as refusal:
        headers.check_mirror(header, sent, expected)
    assert refusal.value.code == -32020


def test_a_missing_header_is_refused_and_named() -> None:
    with pytest.raises(HeaderMismatch, match="The header Mcp-Name is missing; it mirrors 'forecast'"):
        headers.check_mirror("Mcp-Name", None, "forecast")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, {}),
        ("forecast", {"Mcp-Name": "forecast"}),
        ("", {"Mcp-Name": ""}),
        ("prévision", {"Mcp-Name": "=?base64?cHLDqXZpc2lvbg==?="}),
    ],
)
def test_a_client_sends_version_method_and_name(name: str | None, expected: dict[str, str]) -> None:
    assert headers.build("2026-07-28", "tools/call", name) == {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        **expected,
    }


@pytest.mark.parametrize("method", ["a\r\nX-Evil: 1", "é", " a", "a\t", "\ud800"])
def test_a_method_that_no_header_can_carry_is_not_sent(method: str) -> None:
    with pytest.raises(ValidationError, match="name it in printable ASCII"):
        headers.build("2026-07-28", method)


def test_a_name_that_no_header_can_carry_is_not_sent() -> None:
    with pytest.raises(ValidationError, match="cannot be sent in a header"):
        headers.build("2026-07-28", "resources/read", "file:///\udcff")


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def plan(**annotated: tuple[str, str]) -> HeaderPlan:
    """A plan by property name: the type and the annotation of each."""
    return HeaderPlan.of(
        schema(**{name: {"type": kind, "x-mcp-header": header} for name, (kind, header) in annotated.items()})
    )


@pytest.mark.parametrize(
    "input_schema",
    [{}, {"type": "object"}, schema(), schema(a={"type": "string"}), schema(a=True), {"properties": []}],
)
def test_a_schema_without_annotations_has_an_empty_plan(input_schema: Any) -> None:
    empty = HeaderPlan.of(input_schema)
    assert empty == HeaderPlan()
    assert empty.build({"a": "x"}) == {}
    empty.check({"a": "x"}, {"a": "anything", "b": ""})


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_strings_integers_and_booleans_can_be_mirrored(kind: str) -> None:
    (param,) = plan(region=(kind, "Region")).params
    assert (param.header, param.key, param.path, param.integer) == ("Region", "region", ("region",), kind == "integer")


@pytest.mark.parametrize(
    "kind",
    [
        "number",
        "array",
        "object",
        "null",
        "String",
        None,
        1,
        {},
        [],
        ["null"],
        ["string"],
        ["string", "null"],
        ["string", "integer"],
        [{}],
        [["string"]],
    ],
    ids=repr,
)
def test_no_other_type_can_be_mirrored(kind: Any) -> None:
    with pytest.raises(DefinitionError, match=r"x-mcp-header of a\.b needs the type string, integer or boolean"):
        HeaderPlan.of(schema(a=schema(b={"type": kind, "x-mcp-header": "B"})))


def test_a_property_without_a_type_cannot_be_mirrored() -> None:
    with pytest.raises(DefinitionError, match="needs the type string, integer or boolean"):
        HeaderPlan.of(schema(a={"enum": ["x"], "x-mcp-header": "A"}))


@pytest.mark.parametrize("name", ["Region", "x", "Method", "!#$%&'*+-.^_`|~0aZ", "1", "A" * 300])
def test_every_http_token_can_be_an_annotation(name: str) -> None:
    assert plan(a=("string", name)).build({"a": "x"}) == {f"Mcp-Param-{name}": "x"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "My Region",
        "Region:Primary",
        "Région",
        "Region\t1",
        "Region\r\nX",
        "Region\n",
        "\x00",
        "\x7f",
        "a/b",
        "a(b)",
        'a"b',
        "a@b",
        "a,b",
        "a;b",
        "a=b",
        "a{b}",
        "a[b]",
        "a\\b",
        "a?b",
        "\u212a",
        "\ud800",
        None,
        True,
        7,
        ["Region"],
        {"name": "Region"},
    ],
    ids=ascii,
)
def test_nothing_else_can_be_an_annotation(name: Any) -> None:
    with pytest.raises(DefinitionError, match="x-mcp-header of a must be an HTTP token"):
        HeaderPlan.of(schema(a={"type": "string", "x-mcp-header": name}))


@pytest.mark.parametrize("second", ["Region", "REGION", "region", "rEGION"])
@pytest.mark.parametrize("nested", [False, True])
def test_an_annotation_can_be_used_once_whatever_its_case(second: str, *, nested: bool) -> None:
    other = {"type": "string", "x-mcp-header": second}
    with pytest.raises(DefinitionError, match="is used twice; header names ignore case"):
        HeaderPlan.of(schema(a={"type": "string", "x-mcp-header": "Region"}, b=schema(c=other) if nested else other))


@pytest.mark.covers("BEY-05")
def test_an_annotation_may_be_nested_in_properties() -> None:
    leaf = {"type": "string", "x-mcp-header": "Leaf"}
    nested = HeaderPlan.of(schema(a=schema(b=schema(c=leaf), d={"type": "integer", "x-mcp-header": "D"})))
    assert nested.build({"a": {"b": {"c": "x"}, "d": 1}}) == {"Mcp-Param-Leaf": "x", "Mcp-Param-D": "1"}


ANNOTATED = {"type": "string", "x-mcp-header": "Region"}

UNREACHABLE = [
    {"items": ANNOTATED},
    {"items": [ANNOTATED]},
    {"prefixItems": [ANNOTATED]},
    {"contains": ANNOTATED},
    {"unevaluatedItems": ANNOTATED},
    {"additionalItems": ANNOTATED},
    {"anyOf": [{}, ANNOTATED]},
    {"oneOf": [ANNOTATED]},
    {"allOf": [{"properties": {"b": ANNOTATED}}]},
    {"not": ANNOTATED},
    {"if": ANNOTATED},
    {"then": schema(b=ANNOTATED)},
    {"else": ANNOTATED},
    {"$defs": {"b": ANNOTATED}},
    {"definitions": {"b": ANNOTATED}},
    {"$defs": {"x-mcp-header": ANNOTATED}},
    {"additionalProperties": ANNOTATED},
    {"unevaluatedProperties": ANNOTATED},
    {"patternProperties": {"^b": ANNOTATED}},
    {"propertyNames": ANNOTATED},
    {"dependentSchemas": {"b": ANNOTATED}},
    {"dependencies": {"b": ANNOTATED}},
    {"contentSchema": ANNOTATED},
    {"x-vendor": ANNOTATED},
    {"items": schema(default=ANNOTATED)},
    {"items": schema(enum=ANNOTATED)},
    {"items": {"type": "string", "x-mcp-header": 7}},
    {"items": {"type": "string", "x-mcp-header": None}},
    {"$defs": {"b": {"x-mcp-header": {"type": "string"}}}},
    {"properties": [ANNOTATED]},
]


@pytest.mark.covers("BEY-05")
@pytest.mark.parametrize("unreachable", UNREACHABLE, ids=repr)
@pytest.mark.parametrize("nested", [False, True])
def test_an_annotation_that_properties_alone_do_not_reach_is_refused(
    unreachable: dict[str, Any], *, nested: bool
) -> None:
    with pytest.raises(DefinitionError, match="must be on what `properties` alone reach"):
        HeaderPlan.of(schema(a=unreachable) if nested else unreachable)


def test_an_annotation_on_the_arguments_as_a_whole_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'Region' must be on what `properties` alone reach"):
        HeaderPlan.of({**schema(), "x-mcp-header": "Region"})


@pytest.mark.parametrize(
    "innocent",
    [
        {"properties": {"x-mcp-header": {"type": "string"}}},
        {"properties": {"a": schema(**{"x-mcp-header": {"type": "string"}})}},
        {"items": schema(**{"x-mcp-header": {"type": "string"}})},
        {"anyOf": [schema(**{"x-mcp-header": {"type": "object"}})]},
        {"$defs": {"x-mcp-header": {"type": "string"}}},
        {"definitions": {"x-mcp-header": {"type": "string"}}},
        {"patternProperties": {"x-mcp-header": {}}},
        {"dependentSchemas": {"x-mcp-header": {}}},
        {"dependentRequired": {"x-mcp-header": ["a"]}},
        {"dependencies": {"x-mcp-header": ["a"]}},
        {"required": ["x-mcp-header"]},
        {"const": ANNOTATED},
        {"enum": [ANNOTATED]},
        {"default": {"x-mcp-header": "Region"}},
        {"examples": [ANNOTATED]},
        {"properties": {"a": {"type": "string", "default": ANNOTATED}}},
    ],
    ids=repr,
)
def test_a_value_or_a_property_of_that_name_is_no_annotation(innocent: dict[str, Any]) -> None:
    assert HeaderPlan.of(innocent) == HeaderPlan()


def test_a_property_named_like_the_annotation_can_be_annotated() -> None:
    named = HeaderPlan.of(schema(**{"x-mcp-header": ANNOTATED, "default": {"type": "integer", "x-mcp-header": "D"}}))
    assert named.build({"x-mcp-header": "x", "default": 1}) == {"Mcp-Param-Region": "x", "Mcp-Param-D": "1"}


@pytest.mark.parametrize("keyword", ["properties", "items", "anyOf"])
def test_a_schema_without_a_bottom_is_refused(keyword: str) -> None:
    deep: dict[str, Any] = dict(ANNOTATED)
    for _ in range(20_000):
        deep = {keyword: {"a": deep} if keyword == "properties" else [deep]}
    with pytest.raises(DefinitionError, match="nested too deeply"):
        HeaderPlan.of(deep)
    endless: dict[str, Any] = {}
    endless[keyword] = {"a": endless, "b": endless}
    with pytest.raises(DefinitionError, match="nested too deeply"):
        HeaderPlan.of(endless)


def test_a_schema_as_deep_as_a_message_may_be_is_compiled() -> None:
    deep: dict[str, Any] = dict(ANNOTATED)
    for _ in range(128):
        deep = schema(a=deep)
    (param,) = HeaderPlan.of(deep).params
    assert param.path == ("a",) * 128


class Color(str, enum.Enum):  # noqa: UP042 - str() of a member is not its value
    RED = "red"


class Plain(enum.Enum):
    BLUE = "blue"


class Level(enum.IntEnum):
    HIGH = 3


MIRRORED = plan(text=("string", "Text"), count=("integer", "Count"), flag=("boolean", "Flag"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {}),
        ({"text": None, "count": None, "flag": None}, {}),
        ({"other": "x"}, {}),
        (
            {"text": "a", "count": 1, "flag": True},
            {"Mcp-Param-Text": "a", "Mcp-Param-Count": "1", "Mcp-Param-Flag": "true"},
        ),
        ({"text": ""}, {"Mcp-Param-Text": ""}),
        ({"text": "é"}, {"Mcp-Param-Text": "=?base64?w6k=?="}),
        ({"count": 0, "flag": False}, {"Mcp-Param-Count": "0", "Mcp-Param-Flag": "false"}),
        ({"count": 42.0}, {"Mcp-Param-Count": "42"}),
        ({"count": 42.5}, {}),
        ({"count": "42"}, {"Mcp-Param-Count": "42"}),
        ({"text": 42.0}, {}),
        ({"text": ["a"], "count": {"a": 1}}, {}),
        ({"text": Color.RED, "count": Level.HIGH}, {"Mcp-Param-Text": "red", "Mcp-Param-Count": "3"}),
        ({"text": Plain.BLUE}, {"Mcp-Param-Text": "blue"}),
        ({"text": uuid.UUID(int=1)}, {"Mcp-Param-Text": "00000000-0000-0000-0000-000000000001"}),
        (MappingProxyType({"text": "a"}), {"Mcp-Param-Text": "a"}),
    ],
    ids=repr,
)
def test_a_client_sends_a_header_for_each_annotated_argument(arguments: Any, expected: dict[str, str]) -> None:
    assert MIRRORED.build(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [{"count": LARGEST + 1}, {"count": 1e300}, {"text": "\ud800"}, {"text": "a", "other": Plain}],
    ids=repr,
)
def test_arguments_that_cannot_be_mirrored_or_sent_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MIRRORED.build(arguments)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "text": st.text() | st.none(),
            "count": st.integers(-LARGEST, LARGEST) | st.none(),
            "flag": st.booleans() | st.none(),
        },
    )
)
def test_what_a_client_sends_a_server_accepts(arguments: dict[str, Any]) -> None:
    sent = headers.read([(name.lower().encode(), value.encode()) for name, value in MIRRORED.build(arguments).items()])
    MIRRORED.check(arguments, sent.params)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, {}),
        ({"text": None}, {}),
        ({"text": "a"}, {"text": "a"}),
        ({"text": "a"}, {"text": " a\t"}),
        ({"text": "a"}, {"text": "=?base64?YQ==?="}),
        ({"text": ""}, {"text": ""}),
        ({"text": ""}, {"text": "=?base64??="}),
        ({"text": "42.0"}, {"text": "42.0"}),
        ({"flag": True}, {"flag": "true"}),
        ({"flag": False}, {"flag": "false"}),
        ({"count": 42}, {"count": "42"}),
        ({"count": 42}, {"count": "42.0"}),
        ({"count": 42}, {"count": "42.000"}),
        ({"count": 42}, {"count": "=?base64?NDI=?="}),
        ({"count": 42}, {"count": "=?base64?NDIuMA==?="}),
        ({"count": 42.0}, {"count": "42"}),
        ({"count": 42.0}, {"count": "42.0"}),
        ({"count": -7}, {"count": "-7.0"}),
        ({"count": 0}, {"count": "-0"}),
        ({"count": 42}, {"count": "042"}),
        ({"count": LARGEST}, {"count": "9007199254740991.0"}),
        ({"count": 10**30}, {"count": "1" + "0" * 30}),
        ({"count": "many"}, {"count": "many"}),
        ({"count": True}, {"count": "true"}),
        ({"text": ["a"]}, {}),
        ({"count": 42.5}, {}),
        ({"text": "a"}, {"text": "a", "unknown": "\x00 anything"}),
    ],
    ids=repr,
)
def test_headers_that_mirror_the_arguments_pass(arguments: dict[str, Any], sent: dict[str, str]) -> None:
    MIRRORED.check(arguments, sent)


@pytest.mark.covers("BEY-06")
@pytest.mark.parametrize(
    ("arguments", "sent", "reason"),
    [
        ({"text": "a"}, {}, "Mcp-Param-Text is missing; it mirrors 'a'"),
        ({"text": ""}, {}, "Mcp-Param-Text is missing"),
        ({"count": 0}, {}, "Mcp-Param-Count is missing"),
        ({"flag": False}, {}, "Mcp-Param-Flag is missing"),
        ({}, {"text": "a"}, "Mcp-Param-Text was sent, but the body has nothing that it mirrors"),
        ({}, {"text": ""}, "Mcp-Param-Text was sent"),
        ({"text": None}, {"text": "null"}, "Mcp-Param-Text was sent"),
        ({"count": None}, {"count": "0"}, "Mcp-Param-Count was sent"),
        ({"text": ["a"]}, {"text": "a"}, "Mcp-Param-Text was sent"),
        ({"count": 42.5}, {"count": "42"}, "Mcp-Param-Count was sent"),
        ({"text": "a"}, {"text": "b"}, "Mcp-Param-Text does not match the body, which says 'a'"),
        ({"text": "a"}, {"text": "A"}, "Mcp-Param-Text does not match"),
        ({"text": "42"}, {"text": "42.0"}, "Mcp-Param-Text does not match"),
        ({"text": 42}, {"text": "42.0"}, "Mcp-Param-Text does not match"),
        ({"text": "Hello"}, {"text": "=?base64?SGVsbG8?="}, "Mcp-Param-Text is not valid base64"),
        ({"text": "é"}, {"text": "é"}, "Mcp-Param-Text has invalid characters"),
        ({"count": 42}, {"count": "4\x002"}, "Mcp-Param-Count has invalid characters"),
        ({"count": 42}, {"count": "=?base64?NDI?="}, "Mcp-Param-Count is not valid base64"),
        ({"flag": True}, {"flag": "True"}, "Mcp-Param-Flag does not match"),
        ({"flag": True}, {"flag": "1"}, "Mcp-Param-Flag does not match"),
        ({"count": 42}, {"count": "43"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "42.5"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "42."}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "4.2e1"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "0x2a"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "+42"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "4_2"}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "=?base64?2aTZog==?="}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": ""}, "Mcp-Param-Count does not match"),
        ({"count": 42}, {"count": "9" * 100_000}, "Mcp-Param-Count does not match"),
        ({"count": 10**30}, {"count": "1" + "0" * 29 + "1"}, "Mcp-Param-Count does not match"),
        ({"count": True}, {"count": "1"}, "Mcp-Param-Count does not match the body, which says 'true'"),
        ({"count": False}, {"count": "0.0"}, "Mcp-Param-Count does not match"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_headers_that_do_not_mirror_the_arguments_are_refused(
    arguments: dict[str, Any], sent: dict[str, str], reason: str
) -> None:
    with pytest.raises(HeaderMismatch, match=reason) as refusal:
        MIRRORED.check(arguments, sent)
    assert refusal.value.code == -32020


@pytest.mark.parametrize(
    "arguments",
    [{}, {"a": None}, {"a": "text"}, {"a": []}, {"a": {}}, {"a": {"b": None}}, {"a": [{"b": "x"}]}],
    ids=repr,
)
def test_a_nested_value_that_is_not_there_needs_no_header(arguments: dict[str, Any]) -> None:
    nested = HeaderPlan.of(schema(a=schema(b=ANNOTATED)))
    assert nested.build(arguments) == {}
    nested.check(arguments, {})
    with pytest.raises(HeaderMismatch, match="Mcp-Param-Region was sent"):
        nested.check(arguments, {"region": "x"})


def test_header_names_ignore_case_from_the_schema_to_the_wire() -> None:
    shouting = plan(a=("string", "REGION"))
    assert shouting.build({"a": "x"}) == {"Mcp-Param-REGION": "x"}
    shouting.check({"a": "x"}, headers.read([(b"mcp-param-region", b"x")]).params)
