from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ImageContent,
    ListRootsResult,
    ModelHint,
    ModelPreferences,
    Root,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolUseContent,
    UnknownContent,
    decode,
)

encode = msgspec.json.encode


def test_everything_that_a_model_may_be_asked_is_kept() -> None:
    params = CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text="hi"))],
        max_tokens=0,
        system_prompt="",
        model_preferences=ModelPreferences(hints=[ModelHint(name="a"), ModelHint()], cost_priority=1),
        include_context="thisServer",
        temperature=0,
        stop_sequences=[],
        metadata={"b": None},
        tools=[Tool(name="c", input_schema={"type": "object"})],
        tool_choice=ToolChoice(mode="none"),
        task=Raw(b"{}"),
    )
    assert encode(params) == (
        b'{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":0,"systemPrompt":"",'
        b'"modelPreferences":{"hints":[{"name":"a"},{}],"costPriority":1},"includeContext":"thisServer",'
        b'"temperature":0,"stopSequences":[],"metadata":{"b":null},'
        b'"tools":[{"name":"c","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"none"},"task":{}}'
    )
    assert decode(encode(params), CreateMessageRequestParams) == params


@pytest.mark.parametrize("kind", [SamplingMessage, CreateMessageResult])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"type":"text","text":"a"}', TextContent(text="a")),
        (b"[]", []),
        (
            b'[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"b","input":{}}]',
            [TextContent(text="a"), ToolUseContent(id="1", name="b", input={})],
        ),
        (b'{"type":"video","url":"a"}', UnknownContent({"type": "video", "url": "a"})),
        (
            b'[{"type":"video","url":"a"},{"type":"text","text":"a"}]',
            [UnknownContent({"type": "video", "url": "a"}), TextContent(text="a")],
        ),
        (b'{"type":"resource","resource":{}}', UnknownContent({"type": "resource", "resource": {}})),
    ],
)
def test_a_message_holds_one_block_or_a_list_of_them(
    kind: type[SamplingMessage | CreateMessageResult], content: bytes, expected: object
) -> None:
    data = b'{"role":"assistant","content":' + content + b',"model":"m"}'
    message = decode(data, kind)
    assert message.content == expected
    assert encode(message).startswith(b'{"role":"assistant","content":' + content)


def test_what_a_model_said_names_the_model_and_why_it_stopped() -> None:
    result = CreateMessageResult(role="assistant", content=TextContent(text="a"), model="m", stop_reason="endTurn")
    assert encode(result) == (
        b'{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"endTurn"}'
    )


def test_the_meta_of_a_question_outlives_content_of_an_unknown_type() -> None:
    data = (
        b'{"_meta": {"progressToken" : 1}, "maxTokens": 1,'
        b' "messages": [{"role": "user", "content": {"type": "video", "url": "a"}}]}'
    )
    params = decode(data, CreateMessageRequestParams)
    assert params.meta == Raw(b'{"progressToken" : 1}')
    assert params.messages[0].content == UnknownContent({"type": "video", "url": "a"})


def test_a_root_is_listed_by_its_uri() -> None:
    result = ListRootsResult(roots=[Root(uri="file:///a", name="", meta={"b": 1}), Root(uri="file:///c")])
    assert encode(result) == b'{"roots":[{"uri":"file:///a","name":"","_meta":{"b":1}},{"uri":"file:///c"}]}'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (TextContent("one"), "one"),
        ([TextContent("one"), ImageContent("", "image/png"), TextContent("two")], "one\ntwo"),
        (ImageContent("", "image/png"), ""),
        ([], ""),
    ],
)
def test_the_text_of_an_answer_leaves_its_other_content_out(content: Any, text: str) -> None:
    assert CreateMessageResult("assistant", content, "model").text == text
