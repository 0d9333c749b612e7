"""Conversations in the format of chat completions, and answers from its chunks."""

import base64
from types import SimpleNamespace

import pytest

from dragoman.chat.messages import Delta, Media, Message, ToolCall, ToolCallDelta, ToolSpec, Usage
from dragoman.chat.models.completions import CompletionReader, ProviderExtras, completion_messages, completion_tools


def chunk(text=None, calls=None, finish=None, usage=None, **more):
    delta = SimpleNamespace(content=text, tool_calls=calls, **more)
    return SimpleNamespace(choices=[SimpleNamespace(delta=delta, finish_reason=finish)], usage=usage)


def piece(index=None, id=None, name=None, arguments=None, **more):
    return SimpleNamespace(index=index, id=id, function=SimpleNamespace(name=name, arguments=arguments), **more)


def heard(*chunks):
    answer = CompletionReader()
    return [delta for one in chunks for delta in answer.receive(one)] + list(answer.end())


def pieces(*chunks):
    return [call for delta in heard(*chunks) for call in delta.tool_calls]


def test_calls_are_numbered_from_nought_whatever_their_provider_counts():
    calls = pieces(
        chunk(calls=[piece(1, "a", "first", "")]),
        chunk(calls=[piece(1, arguments="{}")]),
        chunk(calls=[piece(3, "b", "second", "{"), piece(3, arguments="}")]),
        chunk(finish="tool_calls"),
    )
    assert calls == [
        ToolCallDelta(0, "a", "first"),
        ToolCallDelta(0, arguments="{}"),
        ToolCallDelta(1, "b", "second", "{"),
        ToolCallDelta(1, arguments="}"),
    ]


def test_calls_without_numbers_or_ids_are_told_apart_by_their_names():
    calls = pieces(chunk(calls=[piece(name="first", arguments="{}"), piece(name="second", arguments="{}")]))
    assert [(call.index, call.name, call.arguments) for call in calls] == [(0, "first", "{}"), (1, "second", "{}")]
    assert calls[0].id
    assert calls[0].id != calls[1].id


def test_an_id_and_a_name_that_are_repeated_begin_no_other_call():
    repeated = [chunk(calls=[piece(0, "a", "first", part)]) for part in ("{", "}")]
    assert pieces(*repeated) == [ToolCallDelta(0, "a", "first", "{"), ToolCallDelta(0, arguments="}")]


def test_a_call_is_told_when_its_name_is_known():
    calls = pieces(chunk(calls=[piece(0, "a", None, "{")]), chunk(calls=[piece(0, None, "first", "}")]))
    assert calls == [ToolCallDelta(0, "a", "first", "{}")]
    assert pieces(chunk(calls=[piece(0, "a", None, "{}")])) == [ToolCallDelta(0, "a", "", "{}")]


def test_usage_is_told_once_though_every_chunk_counts():
    counts = [SimpleNamespace(prompt_tokens=4, completion_tokens=number) for number in (1, 2)]
    deltas = heard(chunk("a", usage=counts[0]), chunk("b", finish="stop", usage=counts[1]))
    assert deltas == [Delta("a"), Delta("b"), Delta(usage=Usage(4, 2), finish_reason="stop")]


def test_a_refusal_is_told_as_text():
    assert heard(chunk(refusal="I will not."))[0] == Delta("I will not.")


def test_what_a_provider_wants_to_hear_again_stands_in_its_messages():
    answer = CompletionReader()
    extra = {"google": {"thought_signature": "s"}}
    list(answer.receive(chunk(calls=[piece(0, "a", "look", "{}", extra_content=extra)])))
    memories = answer.extras()
    assert memories == {"a": ProviderExtras({}, {"extra_content": extra})}
    [message] = completion_messages([Message.assistant("", [ToolCall("a", "look", {})])], "gemini", memories)
    assert message["tool_calls"][0]["extra_content"] == extra


def part_of(media, provider="openai"):
    [message] = completion_messages([Message.user("See", media)], provider, {})
    return message["content"][1]


@pytest.mark.parametrize("mime_type", ["text/csv", "application/json", "image/svg+xml", "text/plain; charset=utf-8"])
def test_what_is_text_is_shown_as_text(mime_type):
    media = Media(base64.b64encode("größe".encode()).decode(), mime_type, "a.txt")
    assert part_of(media) == {"type": "text", "text": "a.txt:\ngröße"}


@pytest.mark.parametrize(
    ("media", "provider"),
    [
        (Media("AAAA", "video/mp4"), "openai"),
        (Media("AAAA", "audio/flac"), "openai"),
        (Media("AAAA", "audio/wav"), "anthropic"),
        (Media("//79", "text/plain"), "openai"),
        (Media("no base64", "application/json"), "openai"),
    ],
)
def test_what_a_provider_would_refuse_is_told_instead_of_sent(media, provider):
    assert "cannot be shown to this model" in part_of(media, provider)["text"]


def test_an_empty_answer_of_the_model_is_not_sent_back():
    messages = [Message.user("a"), Message.assistant(""), Message.user("b")]
    assert [message["content"] for message in completion_messages(messages, "openai", {})] == ["a", "b"]


def test_an_image_in_what_a_model_said_is_named_only():
    message = Message("assistant", [*Message.user("Here: ").content, Media("AAAA", "image/png")])
    assert completion_messages([message], "openai", {}) == [{"role": "assistant", "content": "Here: [image/png]"}]


def test_a_result_of_nothing_is_still_a_result():
    [message] = completion_messages([Message("tool", tool_call_id="a")], "openai", {})
    assert message == {"role": "tool", "tool_call_id": "a", "content": "(nothing)"}


def test_gemini_gets_the_whole_of_a_nested_schema():
    schema = {
        "type": "object",
        "properties": {
            "where": {"type": "object", "properties": {"x": {"type": ["string", "null"], "enum": ["a", None]}}},
            "many": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}},
        },
    }
    [tool] = completion_tools([ToolSpec("look", "", schema)], "gemini")
    parameters = tool["function"]["parameters"]
    assert parameters["$defs"] == {}
    assert parameters["properties"]["where"]["properties"]["x"] == {"type": ["string", "null"], "enum": ["a", None]}
    assert parameters["properties"]["many"]["items"] == {
        "anyOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]
    }


def test_providers_that_only_follow_openai_get_no_references():
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    told = {
        provider: completion_tools([ToolSpec("look", "", schema)], provider)[0]["function"]["parameters"]
        for provider in ("openai", "anthropic", "ollama", "house")
    }
    assert told["openai"] == told["anthropic"] == schema
    assert told["ollama"] == told["house"] == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_only_openai_has_its_descriptions_cut():
    tool = ToolSpec("look", "x" * 2000, {"type": "object"})
    lengths = {
        provider: len(completion_tools([tool], provider)[0]["function"]["description"])
        for provider in ("openai", "anthropic", "gemini", "ollama")
    }
    assert lengths == {"openai": 1024, "anthropic": 2000, "gemini": 2000, "ollama": 2000}


@pytest.mark.covers("LMT-05")
@pytest.mark.parametrize(
    ("provider", "text", "told"),
    [
        ("openai", "closed", "Error: closed"),
        ("openai", "Error: closed", "Error: closed"),
        ("openai", "", "Error: (nothing)"),
        ("bedrock", '{"reason": 1}', 'Error: {"reason": 1}'),
        ("mistral", "closed", "Error: closed"),
        ("gemini", "closed", '{"error":"closed"}'),
        ("vertexai", '{"reason": 1}', '{"error":"{\\"reason\\": 1}"}'),
    ],
)
def test_a_failed_call_is_told_in_the_text_where_the_api_has_no_field_for_it(provider, text, told):
    result = Message("tool", Message.user(text).content, tool_call_id="c1", is_error=True)
    assert completion_messages([result], provider, {}) == [{"role": "tool", "tool_call_id": "c1", "content": told}]
