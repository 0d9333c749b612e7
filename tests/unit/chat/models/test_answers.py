"""An answer that is put together from its pieces."""

import asyncio

import pytest

from dragoman.chat.messages import Delta, ToolCall, ToolCallDelta, Usage
from dragoman.chat.models.answers import ModelAnswer, closing


def gather(*deltas):
    answer = ModelAnswer()
    for delta in deltas:
        answer.add(delta)
    return answer


def test_text_usage_and_the_last_reason_are_answer():
    answer = gather(Delta("Wear "), Delta("a coat", usage=Usage(3, 1)), Delta(usage=Usage(0, 2), finish_reason="stop"))
    assert answer.text == "Wear a coat"
    assert answer.usage == Usage(3, 3)
    assert answer.finish_reason == "stop"
    assert answer.calls() == []


def test_calls_are_put_together_by_their_numbers_and_come_in_their_order():
    answer = gather(
        Delta(tool_calls=(ToolCallDelta(1, "b", "second"), ToolCallDelta(0, "a", "first", '{"x"'))),
        Delta(tool_calls=(ToolCallDelta(0, arguments=": 1}"),)),
    )
    assert answer.calls() == [
        ToolCall("a", "first", {"x": 1}, '{"x": 1}'),
        ToolCall("b", "second", {}, ""),
    ]


@pytest.mark.parametrize("raw", ["{", "[]", "1", "null", "nonsense", "[" * 100_000, '{"a": "\udc80"}'])
def test_what_is_no_object_is_no_arguments(raw):
    [wanted] = gather(Delta(tool_calls=(ToolCallDelta(0, "a", "go", raw),))).calls()
    assert (wanted.arguments, wanted.raw) == (None, raw)


@pytest.mark.parametrize("raw", ["", " ", "\n", "{}", " {} "])
def test_nothing_is_no_arguments_at_all(raw):
    [wanted] = gather(Delta(tool_calls=(ToolCallDelta(0, "a", "go", raw),))).calls()
    assert wanted.arguments == {}


@pytest.mark.covers("CHAT-04")
def test_ids_are_given_where_they_are_missing_or_taken():
    pieces = [ToolCallDelta(number, id, "go") for number, id in enumerate(["a", "a", None, "", "taken"])]
    ids = [wanted.id for wanted in gather(Delta(tool_calls=tuple(pieces))).calls({"taken"})]
    assert ids[0] == "a"
    assert len(set(ids)) == 5
    assert "taken" not in ids
    assert all(id.startswith("call_") for id in ids[1:])


@pytest.mark.parametrize(
    ("name", "safe"), [("go", "go"), ("functions.go", "functions-go"), ("", "tool"), ("a b", "a-b")]
)
def test_names_are_in_the_alphabet_of_all_providers(name, safe):
    [wanted] = gather(Delta(tool_calls=(ToolCallDelta(0, "a", name),))).calls()
    assert wanted.name == safe


def test_an_answer_is_closed_when_it_is_left_if_it_can_be():
    closed = []

    async def answer():
        try:
            yield Delta("a")
            yield Delta("b")
        finally:
            closed.append(True)

    class Bare:
        def __aiter__(self):
            return self

        async def __anext__(self):
            return Delta("a")

    async def take():
        for deltas in (answer(), Bare()):
            async with closing(deltas) as pieces:
                assert (await anext(pieces)).text == "a"

    asyncio.run(take())
    assert closed == [True]


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [
        ("stop", "endTurn"),
        ("end_turn", "endTurn"),
        ("length", "maxTokens"),
        ("MAX_TOKENS", "maxTokens"),
        ("stop_sequence", "stopSequence"),
        ("content_filter", "refusal"),
        ("tool_calls", "toolUse"),
        ("cosmic_rays", "other"),
        (None, None),
    ],
)
def test_stop_reasons_have_the_same_name_for_every_provider(finish_reason, stop_reason):
    assert gather(Delta("Hi", finish_reason=finish_reason)).stop_reason == stop_reason


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"), [("stop", "toolUse"), (None, "toolUse"), ("length", "maxTokens")]
)
def test_stop_reason_of_an_answer_with_calls(finish_reason, stop_reason):
    calls = (ToolCallDelta(0, "a", "go", "{"),)
    assert gather(Delta(tool_calls=calls, finish_reason=finish_reason)).stop_reason == stop_reason
