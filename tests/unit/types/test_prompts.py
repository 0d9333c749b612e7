from __future__ import annotations

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.types import (
    Dropped,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    UnknownContent,
    decode,
)

encode = msgspec.json.encode


def test_an_argument_that_may_be_left_out_says_so() -> None:
    prompt = Prompt(name="a", arguments=[PromptArgument(name="b", required=False), PromptArgument(name="c")])
    assert encode(ListPromptsResult(prompts=[prompt])) == (
        b'{"prompts":[{"name":"a","arguments":[{"name":"b","required":false},{"name":"c"}]}]}'
    )


def test_the_arguments_of_a_prompt_stay_as_they_came() -> None:
    params = decode(b'{"name": "a", "arguments": {"b" : "\\u0063"}}', GetPromptRequestParams)
    assert params.arguments == Raw(b'{"b" : "\\u0063"}')
    assert encode(params) == b'{"name":"a","arguments":{"b" : "\\u0063"}}'


def test_a_retried_request_carries_its_answers_and_its_state() -> None:
    params = GetPromptRequestParams(name="a", input_responses={"b": Raw(b'{"roots":[]}')}, request_state="c")
    assert encode(params) == b'{"name":"a","inputResponses":{"b":{"roots":[]}},"requestState":"c"}'


def test_a_prompt_that_was_filled_in_is_a_list_of_messages() -> None:
    result = GetPromptResult(
        description="d", messages=[PromptMessage(role="assistant", content=TextContent(text="hi"))]
    )
    assert encode(result) == (
        b'{"messages":[{"role":"assistant","content":{"type":"text","text":"hi"}}],"description":"d"}'
    )


def test_a_message_keeps_content_of_an_unknown_type() -> None:
    data = b'{"messages":[{"role":"user","content":{"type":"video","url":"a"}}]}'
    result = decode(data, GetPromptResult)
    assert result.messages[0].content == UnknownContent({"type": "video", "url": "a"})
    assert encode(result) == data


def test_a_message_of_an_unknown_role_is_left_out() -> None:
    dropped: list[Dropped] = []
    data = b'{"messages": [{"role": "system", "content": {"type": "text", "text": "a"}}]}'
    assert decode(data, GetPromptResult, dropped).messages == []
    assert [entry.path for entry in dropped] == ["$.messages[0]"]


def test_a_prompt_gives_the_text_of_its_messages():
    image = types.ImageContent(data="", mime_type="image/png")
    contents = [types.TextContent(text="one"), image, types.TextContent(text="two")]
    result = types.GetPromptResult([types.PromptMessage("user", content) for content in contents])
    assert result.text == "one\ntwo"
