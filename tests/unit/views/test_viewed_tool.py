import asyncio
import json

import pytest
from msgspec import Raw

from dragoman import Argument, View, types
from dragoman.views import ViewedTool

SEARCH = types.Tool(
    name="search",
    title="Search",
    description="Searches.",
    input_schema={"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}},
    annotations=types.ToolAnnotations(read_only_hint=False, open_world_hint=True),
    meta={"a": 1},
)


def test_definition_keeps_every_field_that_a_view_does_not_name():
    shown = ViewedTool(SEARCH, [View(name="find", annotations={"readOnlyHint": True}, meta={"b": 2})]).shown
    assert (shown.name, shown.title, shown.description) == ("find", "Search", "Searches.")
    assert shown.input_schema is SEARCH.input_schema
    assert shown.annotations == types.ToolAnnotations(read_only_hint=True, open_world_hint=True)
    assert shown.meta == {"a": 1, "b": 2}
    assert ViewedTool(SEARCH, []).shown is SEARCH


def test_views_compose():
    first = View(name="find", arguments={"q": Argument(name="query"), "n": Argument(default=5)}, pick="items")
    second = View(arguments={"query": Argument(name="words"), "n": Argument(fixed=7)}, pick="[0]", confirm="Really?")
    tool = ViewedTool(SEARCH, [first, second])
    assert tool.findings == []
    assert tool.shown.input_schema["properties"].keys() == {"words"}
    assert json.loads(bytes(asyncio.run(tool.arguments({"words": "x"}, None)))) == {"q": "x", "n": 7}
    result = asyncio.run(tool.result(types.CallToolResult([], {"items": [{"id": 3}]}), None))
    assert bytes(result.structured_content) == b'{"id":3}'
    assert tool.question(b"{}") == "Really?"
    assert tool.reshapes_results


def test_without_arguments_in_a_view_those_of_a_client_pass_as_bytes():
    raw = Raw(b'{ "q" : 1.0, "q": 2 }')
    assert asyncio.run(ViewedTool(SEARCH, [View(name="find")]).arguments(raw, None)) == raw
    assert not ViewedTool(SEARCH, [View(name="find")]).reshapes_results


def test_the_question_names_the_tool_and_the_arguments_as_the_client_sees_them():
    tool = ViewedTool(SEARCH, [View(name="find", confirm=True)])
    assert tool.question(b'{"q":"x"}') == 'Call the tool \'find\' with {"q":"x"}?'
    assert len(tool.question(b"x" * 100_000)) < 1100
    assert ViewedTool(SEARCH, [View(name="find")]).question(b"{}") is None


def test_a_tool_that_a_view_does_not_match_is_not_reshaped_further():
    tool = ViewedTool(SEARCH, [View(arguments={"x": Argument(name="y")}), View(name="z")])
    assert [str(finding) for finding in tool.findings] == [
        "The view of 'search' does not match: the tool has no argument 'x'; it has q, n"
    ]


@pytest.mark.parametrize("depth", [100, 5000])
def test_a_schema_that_is_nested_too_deeply_is_found(depth):
    schema = {"type": "object", "properties": {"q": {}}}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"q": {}}, "allOf": [schema]}
    tool = ViewedTool(types.Tool(name="deep", input_schema=schema), [View(arguments={"q": Argument(name="x")})])
    assert tool.findings or depth < 1000
