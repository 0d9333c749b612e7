from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from dragoman.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
    ToolExecution,
    decode,
)

encode = msgspec.json.encode


def test_a_tool_is_listed_with_its_schemas() -> None:
    tool = Tool(
        name="add",
        input_schema={"type": "object", "$defs": {"a": True}},
        output_schema={},
        annotations=ToolAnnotations(title="", read_only_hint=False, open_world_hint=True),
        execution=ToolExecution(task_support="forbidden"),
    )
    assert encode(ListToolsResult(tools=[tool])) == (
        b'{"tools":[{"name":"add","inputSchema":{"type":"object","$defs":{"a":true}},"outputSchema":{},'
        b'"annotations":{"title":"","readOnlyHint":false,"openWorldHint":true},'
        b'"execution":{"taskSupport":"forbidden"}}]}'
    )


def test_a_schema_is_kept_to_the_last_keyword() -> None:
    data = b'{"name":"a","inputSchema":{"type":"object","properties":{"b":{"default":1.0,"x-c":null}},"allOf":[false]}}'
    assert encode(decode(data, Tool)) == data


@pytest.mark.parametrize("arguments", [b'{"a" : 1.50}', b"null", b"[]"])
def test_the_arguments_of_a_call_stay_as_they_came(arguments: bytes) -> None:
    data = b'{"name":"add","arguments":' + arguments + b"}"
    params = decode(data, CallToolRequestParams)
    assert params.arguments == Raw(arguments)
    assert encode(params) == data


def test_a_call_without_arguments_has_none_set() -> None:
    assert decode(b'{"name": "add"}', CallToolRequestParams).arguments is UNSET


def test_a_retried_call_carries_its_answers_and_its_state() -> None:
    params = CallToolRequestParams(
        name="add", input_responses={"a": Raw(b"{}")}, request_state="b", task=Raw(b'{"ttl":1}')
    )
    assert encode(params) == b'{"name":"add","inputResponses":{"a":{}},"requestState":"b","task":{"ttl":1}}'


@pytest.mark.parametrize("value", [b"null", b"false", b"0", b'""', b"[]", b"{}", b'[1,1.0,{"a":null}]'])
def test_structured_content_may_be_any_value(value: bytes) -> None:
    data = b'{"content":[],"structuredContent":' + value + b"}"
    assert encode(decode(data, CallToolResult)) == data


def test_structured_content_that_is_null_differs_from_none_at_all() -> None:
    assert decode(b'{"content": [], "structuredContent": null}', CallToolResult).structured_content is None
    assert decode(b'{"content": []}', CallToolResult).structured_content is UNSET
    assert encode(CallToolResult(content=[])) == b'{"content":[]}'


def test_that_a_call_did_not_fail_is_sent_when_said() -> None:
    result = CallToolResult(content=[TextContent(text="3")], is_error=False)
    assert encode(result) == b'{"content":[{"type":"text","text":"3"}],"isError":false}'
