from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.errors import ValidationError
from dragoman.types import (
    CallToolResult,
    CompleteRequestParams,
    CreateMessageRequestParams,
    Dropped,
    GetPromptResult,
    InputRequiredResult,
    ListResourcesResult,
    ListRootsResult,
    ListToolsResult,
    LoggingMessageNotificationParams,
    PromptMessage,
    ResourceLink,
    Root,
    SamplingMessage,
    ServerCapabilities,
    Task,
    TextContent,
    Tool,
    ToolResultContent,
    UnknownContent,
    decode,
)
from dragoman.types.decoding import decoders

encode = msgspec.json.encode

HUGE_INTEGER = b"1" * 5000
DEEP = b"[" * 100_000 + b"]" * 100_000


def refused(data: bytes | Raw, kind: Any) -> ValidationError:
    with pytest.raises(ValidationError) as found:
        decode(data, kind)
    return found.value


class TestWhatFits:
    def test_it_becomes_its_type(self) -> None:
        assert decode(b'{"uri": "file:///a"}', Root) == Root(uri="file:///a")

    def test_it_may_be_a_slice_of_a_message(self) -> None:
        assert decode(Raw(b'{"uri": "file:///a"}'), Root) == Root(uri="file:///a")

    def test_nothing_is_dropped(self) -> None:
        dropped: list[Dropped] = []
        decode(b'{"tools": [{"name": "a", "inputSchema": {}}]}', ListToolsResult, dropped)
        assert dropped == []

    def test_one_decoder_serves_a_type(self) -> None:
        assert decoders[Root] is decoders[Root]


class TestUnknownContent:
    @pytest.mark.parametrize(
        "block",
        [
            b'{"type":"video","url":"a","nested":{"b":[1,1.0,null,false]},"mime_type":""}',
            b'{"url":"a"}',
            b'{"type":null}',
            b'{"type":["text"],"text":"a"}',
            b"{}",
        ],
        ids=["a new type", "no type", "null type", "a list as type", "empty"],
    )
    def test_a_block_of_no_known_type_is_kept_and_sent_on_as_it_came(self, block: bytes) -> None:
        data = b'{"content":[' + block + b"]}"
        dropped: list[Dropped] = []
        result = decode(data, CallToolResult, dropped)
        assert type(result.content[0]) is UnknownContent
        assert encode(result) == data
        assert dropped == []

    @pytest.mark.parametrize(
        "block",
        [
            b'{"type":"text"}',
            b'{"type":"text","text":5}',
            b'{"type":"image","data":"a"}',
            b'{"type":"resource","resource":{"text":"a"}}',
            b'{"type":"text","text":"a","annotations":{"priority":"high"}}',
        ],
    )
    def test_a_malformed_block_of_a_known_type_is_kept_too(self, block: bytes) -> None:
        data = b'{"content":[' + block + b"]}"
        result = decode(data, CallToolResult)
        assert type(result.content[0]) is UnknownContent
        assert encode(result) == data

    def test_the_other_blocks_are_what_they_are(self) -> None:
        data = b'{"content": [{"type": "text", "text": "a"}, {"type": "video"}, {"type": "text", "text": "b"}]}'
        assert decode(data, CallToolResult).content == [
            TextContent(text="a"),
            UnknownContent({"type": "video"}),
            TextContent(text="b"),
        ]

    def test_a_block_of_a_type_that_is_not_wanted_here_is_unknown(self) -> None:
        data = b'{"role": "user", "content": {"type": "resource_link", "uri": "a", "name": "b"}}'
        assert type(decode(data, SamplingMessage).content) is UnknownContent

    def test_it_may_stand_alone_in_a_message(self) -> None:
        message = decode(b'{"role": "user", "content": {"type": "video"}}', PromptMessage)
        assert message.content == UnknownContent({"type": "video"})

    def test_it_may_stand_alone_or_in_a_list_in_sampling(self) -> None:
        alone = decode(b'{"role": "user", "content": {"type": "video"}}', SamplingMessage)
        listed = decode(b'{"role": "user", "content": [{"type": "video"}]}', SamplingMessage)
        assert (alone.content, listed.content) == (
            UnknownContent({"type": "video"}),
            [UnknownContent({"type": "video"})],
        )

    def test_it_may_stand_in_a_block_of_a_known_type(self) -> None:
        data = b'{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"video"}]}]}'
        assert decode(data, SamplingMessage).content == [
            ToolResultContent(tool_use_id="1", content=[UnknownContent({"type": "video"})])
        ]

    def test_a_block_kept_whole_has_lost_nothing(self) -> None:
        dropped: list[Dropped] = []
        data = b'{"role":"user","content":{"type":"tool_result","content":[5]}}'
        assert encode(decode(data, SamplingMessage, dropped)) == data
        assert dropped == []

    def test_what_stays_encoded_beside_it_stays_as_it_came(self) -> None:
        data = b'{"_meta": {"a" : 1.50}, "maxTokens": 1, "messages": [{"role": "user", "content": {"type": "video"}}]}'
        assert decode(data, CreateMessageRequestParams).meta == Raw(b'{"a" : 1.50}')

    def test_it_may_stand_in_what_a_server_asks(self) -> None:
        data = (
            b'{"inputRequests":{"a":{"method":"sampling/createMessage","params":'
            b'{"messages":[{"role":"user","content":{"type":"video"}}],"maxTokens":1}}}}'
        )
        assert encode(decode(data, InputRequiredResult)) == data

    def test_a_block_with_a_number_that_nothing_can_hold_is_left_out(self) -> None:
        dropped: list[Dropped] = []
        data = b'{"content": [{"type": "video", "frames": ' + HUGE_INTEGER + b'}, {"type": "text", "text": "a"}]}'
        assert decode(data, CallToolResult, dropped).content == [TextContent(text="a")]
        assert [entry.path for entry in dropped] == ["$.content[0]"]


class TestListEntries:
    def test_a_malformed_entry_is_left_out_and_named(self) -> None:
        dropped: list[Dropped] = []
        data = b'{"tools": [{"name": "a", "inputSchema": {}}, {"name": 5}, {"name": "c", "inputSchema": {}}]}'
        page = decode(data, ListToolsResult, dropped)
        assert [tool.name for tool in page.tools] == ["a", "c"]
        assert dropped == [Dropped("$.tools[1]", "Expected `str`, got `int` at $.tools[1].name", {"name": 5})]

    def test_the_rest_of_the_page_is_kept(self) -> None:
        data = b'{"tools":[{}],"nextCursor":"a","ttlMs":5,"_meta":{"b":1}}'
        assert encode(decode(data, ListToolsResult)) == b'{"tools":[],"_meta":{"b":1},"ttlMs":5,"nextCursor":"a"}'

    def test_a_missing_field_is_named(self) -> None:
        dropped: list[Dropped] = []
        decode(b'{"tools": [{"name": "a"}]}', ListToolsResult, dropped)
        assert dropped[0].reason == "Object missing required field at $.tools[0].inputSchema"

    @pytest.mark.parametrize("entry", [b"5", b"null", b'"a"', b"[]", b"true"])
    def test_an_entry_of_another_type_is_left_out(self, entry: bytes) -> None:
        dropped: list[Dropped] = []
        assert decode(b'{"tools": [' + entry + b"]}", ListToolsResult, dropped).tools == []
        assert dropped[0].entry == msgspec.json.decode(entry)

    @pytest.mark.parametrize("entry", [b"5", b"null", b'"a"', b"[]"])
    def test_a_block_that_is_no_object_is_left_out(self, entry: bytes) -> None:
        dropped: list[Dropped] = []
        assert decode(b'{"content": [' + entry + b"]}", CallToolResult, dropped).content == []
        assert [lost.path for lost in dropped] == ["$.content[0]"]

    def test_a_bad_icon_loses_the_icon_and_not_the_tool(self) -> None:
        dropped: list[Dropped] = []
        data = b'{"tools": [{"name": "a", "inputSchema": {}, "icons": [{"src": 5}, {"src": "b"}]}]}'
        tool = decode(data, ListToolsResult, dropped).tools[0]
        assert encode(tool) == b'{"name":"a","icons":[{"src":"b"}],"inputSchema":{}}'
        assert dropped == [
            Dropped("$.tools[0].icons[0]", "Expected `str`, got `int` at $.tools[0].icons[0].src", {"src": 5})
        ]

    def test_a_bad_icon_loses_the_icon_and_not_the_link(self) -> None:
        dropped: list[Dropped] = []
        data = b'{"content": [{"type": "resource_link", "uri": "a:b", "name": "c", "icons": [{}]}]}'
        assert decode(data, CallToolResult, dropped).content == [ResourceLink(uri="a:b", name="c", icons=[])]
        assert [entry.path for entry in dropped] == ["$.content[0].icons[0]"]

    def test_an_entry_that_is_lost_with_its_parts_is_named_once(self) -> None:
        dropped: list[Dropped] = []
        decode(b'{"tools": [{"icons": [{}], "inputSchema": 5, "name": "a"}]}', ListToolsResult, dropped)
        assert [entry.path for entry in dropped] == ["$.tools[0]"]

    def test_an_unknown_role_loses_the_role_and_not_the_block(self) -> None:
        data = b'{"content": [{"type": "text", "text": "a", "annotations": {"audience": ["user", "robot"]}}]}'
        assert encode(decode(data, CallToolResult)) == (
            b'{"content":[{"type":"text","text":"a","annotations":{"audience":["user"]}}]}'
        )

    def test_an_entry_with_a_number_that_nothing_can_hold_is_left_out_as_it_came(self) -> None:
        dropped: list[Dropped] = []
        huge = b'{"uri": "a", "name": "b", "size": ' + HUGE_INTEGER + b"}"
        page = decode(b'{"resources": [' + huge + b', {"uri": "c", "name": "d"}]}', ListResourcesResult, dropped)
        assert [resource.name for resource in page.resources] == ["d"]
        assert dropped == [
            Dropped("$.resources[0]", "Integer value out of range at $.resources[0].size", Raw(huge)),
        ]

    def test_nobody_needs_to_ask_for_what_was_dropped(self) -> None:
        assert decode(b'{"roots": [5]}', ListRootsResult).roots == []


class TestWhatDoesNotFit:
    @pytest.mark.parametrize("data", [b"5", b"[]", b"null", b'"a"'])
    def test_what_is_no_object_is_refused(self, data: bytes) -> None:
        assert refused(data, Root).path == "$"

    @pytest.mark.parametrize("value", [b"{}", b"5", b"null"])
    def test_what_is_no_list_is_refused(self, value: bytes) -> None:
        assert refused(b'{"tools": ' + value + b"}", ListToolsResult).path == "$.tools"

    def test_a_missing_field_is_named(self) -> None:
        error = refused(b'{"name": "a"}', Root)
        assert (str(error), error.path) == ("Object missing required field at $.uri", "$.uri")

    def test_a_nested_missing_field_is_named(self) -> None:
        error = refused(
            b'{"ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "b"}}', CompleteRequestParams
        )
        assert (str(error), error.path) == ("Object missing required field at $.argument.value", "$.argument.value")

    @pytest.mark.parametrize(
        ("reference", "path"),
        [
            (b'{"type": "ref/tool", "name": "a"}', "$.ref.type"),
            (b'{"type": "ref/prompt", "uri": "a"}', "$.ref.name"),
            (b'{"name": "a"}', "$.ref"),
            (b"5", "$.ref"),
        ],
    )
    def test_a_reference_is_not_repaired(self, reference: bytes, path: str) -> None:
        data = b'{"ref": ' + reference + b', "argument": {"name": "b", "value": "c"}}'
        assert refused(data, CompleteRequestParams).path == path

    def test_a_block_asked_for_by_name_must_be_of_its_type(self) -> None:
        error = refused(b'{"type": "image", "text": "a"}', TextContent)
        assert (str(error), error.path) == ("Invalid enum value 'image' at $.type", "$.type")

    @pytest.mark.parametrize("capability", [b"true", b"[]", b'{"listChanged": "yes"}'])
    def test_a_value_that_may_be_absent_must_fit_when_it_is_there(self, capability: bytes) -> None:
        assert refused(b'{"tools": ' + capability + b"}", ServerCapabilities).path.startswith("$.tools")

    def test_a_value_in_a_map_must_fit(self) -> None:
        error = refused(b'{"extensions": {"a": {}, "b": 5}}', ServerCapabilities)
        assert (str(error), error.path) == ('Expected `object`, got `int` at $.extensions["b"]', '$.extensions["b"]')

    def test_a_map_must_be_an_object(self) -> None:
        assert refused(b'{"extensions": []}', ServerCapabilities).path == "$.extensions"

    def test_null_is_as_good_as_absent(self) -> None:
        assert decode(b'{"tools": null, "extensions": null}', ServerCapabilities) == ServerCapabilities()

    def test_a_number_that_nothing_can_hold_is_refused_where_it_stands(self) -> None:
        task = b'{"taskId": "a", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": %s}' % HUGE_INTEGER
        assert refused(task, Task).path == "$.ttl"
        log = b'{"level": "info", "data": ' + HUGE_INTEGER + b"}"
        assert refused(log, LoggingMessageNotificationParams).path == "$.data"

    def test_an_integer_beyond_64_bits_is_kept(self) -> None:
        data = b'{"level":"info","data":123456789012345678901234567890}'
        assert encode(decode(data, LoggingMessageNotificationParams)) == data


class TestWhatIsNotJson:
    @pytest.mark.parametrize("data", [b"", b"{", b"{]", b'{"uri": "a"} x', b"\xff", b"NaN", b'{"uri": "\\ud800"}'])
    def test_it_is_refused(self, data: bytes) -> None:
        assert refused(data, Root).path == "$"

    def test_it_is_refused_after_a_misfit_too(self) -> None:
        assert "malformed" in str(refused(b'{"roots": [5],, }', ListRootsResult))

    def test_text_that_is_not_utf8_is_refused_where_it_is_read(self) -> None:
        assert str(refused(b'{"roots": [{"uri": "\xff"}]}', ListRootsResult)) == "The JSON is not valid UTF-8"
        assert str(refused(b'{"roots": [5, {"uri": "\xff"}]}', ListRootsResult)) == "The JSON is not valid UTF-8"

    def test_text_that_is_not_utf8_does_no_harm_where_it_is_skipped(self) -> None:
        dropped: list[Dropped] = []
        assert decode(b'{"roots": [], "other": "\xff"}', ListRootsResult, dropped).roots == []
        assert dropped == []

    def test_an_entry_that_is_not_utf8_is_dropped_as_it_came(self) -> None:
        dropped: list[Dropped] = []
        assert decode(b'{"roots": [{"uri": 5, "other": "\xff"}]}', ListRootsResult, dropped).roots == []
        assert dropped[0].entry == Raw(b'{"uri": 5, "other": "\xff"}')

    @pytest.mark.parametrize(
        "data",
        [
            b'{"_meta": {"a": ' + DEEP + b'}, "roots": []}',
            b'{"roots": [], "other": ' + DEEP + b"}",
            b'{"roots": [5], "other": ' + DEEP + b"}",
        ],
        ids=["read", "skipped", "after a misfit"],
    )
    def test_deep_nesting_is_refused(self, data: bytes) -> None:
        assert str(refused(data, ListRootsResult)) == "The JSON is nested too deeply"

    def test_the_message_of_the_parser_is_not_chained(self) -> None:
        assert refused(b"{", Root).__cause__ is None


def test_a_tool_and_a_message_can_be_decoded_on_their_own() -> None:
    assert decode(b'{"name": "a", "inputSchema": {}, "icons": [5]}', Tool).icons == []
    assert decode(b'{"messages": [{"role": "robot"}]}', GetPromptResult).messages == []
