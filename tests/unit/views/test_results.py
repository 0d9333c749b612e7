import asyncio

import msgspec
import pytest

from dragoman import ToolError, View, types
from dragoman.views.results import reshaped_result

REPOSITORIES = {"items": [{"full_name": "a/b"}, {"full_name": "c/d"}], "total": 2}


def reshaped(view, result, schema=None, context=None):
    found = asyncio.run(reshaped_result("find", view, result, context, schema))
    return (
        msgspec.to_builtins(found)
        if found.structured_content is msgspec.UNSET
        else msgspec.json.decode(msgspec.json.encode(found))
    )


def test_a_view_picks_from_structured_content():
    result = types.CallToolResult([types.TextContent("old")], REPOSITORIES, meta={"a": 1})
    found = reshaped(View(pick="items[].full_name"), result)
    assert found["content"] == [{"type": "text", "text": '["a/b","c/d"]'}]
    assert found["structuredContent"] == {"result": ["a/b", "c/d"]}
    assert found["_meta"] == {"a": 1, "fastmcp": {"wrap_result": True}}


def test_a_view_picks_from_json_in_the_only_text():
    result = types.CallToolResult([types.TextContent(msgspec.json.encode(REPOSITORIES).decode())])
    assert reshaped(View(pick="{count: total}"), result)["structuredContent"] == {"count": 2}


def test_a_picked_text_is_the_content_itself():
    found = reshaped(View(pick="items[0].full_name"), types.CallToolResult([], REPOSITORIES))
    assert found["content"] == [{"type": "text", "text": "a/b"}]


@pytest.mark.parametrize(
    ("schema", "meta"),
    [({"type": "object", "x-dragoman-wrapped": True}, None), (None, {"fastmcp": {"wrap_result": True}})],
)
def test_a_wrapped_value_is_picked_from_as_authors_see_it(schema, meta):
    result = types.CallToolResult([], {"result": [{"id": 1}]}, meta=meta)
    assert reshaped(View(pick="[0]"), result, schema)["structuredContent"] == {"id": 1}
    assert "_meta" not in reshaped(View(pick="[0]"), result, schema)


def test_an_error_stays_as_it_is():
    result = types.CallToolResult([types.TextContent("no")], is_error=True)
    assert asyncio.run(reshaped_result("find", View(pick="a"), result, None, None)) is result


@pytest.mark.parametrize(
    "content", [[], [types.TextContent("plain")], [types.TextContent("1"), types.TextContent("2")]]
)
def test_a_result_without_data_to_pick_from_is_an_error(content):
    with pytest.raises(ToolError, match="it has neither structured content nor JSON as its text"):
        reshaped(View(pick="a"), types.CallToolResult(content))


def test_a_failing_expression_does_not_show_the_value():
    with pytest.raises(ToolError) as caught:
        reshaped(View(pick="length(a)"), types.CallToolResult([], {"a": 4711}))
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_returns_another_result_or_a_value(is_async):
    def plain(result, context):
        return {"total": result.structured_content["total"] + context}

    async def later(result, context):
        return plain(result, context)

    found = reshaped(View(result=later if is_async else plain), types.CallToolResult([], REPOSITORIES), context=1)
    assert found["structuredContent"] == {"total": 3}
    whole = types.CallToolResult([types.TextContent("mine")])
    assert reshaped(View(result=lambda *_: whole), types.CallToolResult([]))["content"][0]["text"] == "mine"
