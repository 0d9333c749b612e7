import asyncio

import pytest

from dragoman.chat.messages import Delta, Media, Message, ModelOptions, ToolCall, ToolSpec, Usage
from dragoman.errors import ModelError
from dragoman.testing import ScriptedModel

DEADLINE = 60
HELLO = [Message.user("Hello there")]


def ask(model, messages=HELLO, tools=(), options=None):
    async def talk():
        return [delta async for delta in model.generate(messages, tools, options or ModelOptions())]

    return asyncio.run(asyncio.wait_for(talk(), DEADLINE))


def calls_of(deltas):
    calls = {}
    for piece in (piece for delta in deltas for piece in delta.tool_calls):
        id, name, arguments = calls.get(piece.index, (None, None, ""))
        calls[piece.index] = (id or piece.id, name or piece.name, arguments + piece.arguments)
    return list(calls.values())


def test_texts_come_in_order_and_in_small_pieces():
    model = ScriptedModel("Wear a warm coat.", "Bye.")
    first = ask(model)
    assert "".join(delta.text for delta in first) == "Wear a warm coat."
    assert max(len(delta.text) for delta in first) == 5
    assert first[-1] == Delta(usage=Usage(2, 4), finish_reason="stop")
    assert "".join(delta.text for delta in ask(model)) == "Bye."


@pytest.mark.covers("LSTM-01")
def test_calls_come_one_or_several_and_in_pieces():
    one, other = ToolCall("1", "forecast", {"city": "Oslo"}), ToolCall("2", "broken", None, "{oops")
    model = ScriptedModel(one, [one, other], Message.assistant("Look:", [other]))
    assert calls_of(ask(model)) == [("1", "forecast", '{"city":"Oslo"}')]
    deltas = ask(model)
    assert calls_of(deltas) == [("1", "forecast", '{"city":"Oslo"}'), ("2", "broken", "{oops")]
    assert deltas[-1].finish_reason == "tool_calls"
    assert "".join(delta.text for delta in ask(model)) == "Look:"


def test_functions_answer_what_they_see():
    async def later(messages, tools):
        return f"{tools[0].name}!"

    model = ScriptedModel(lambda messages, tools: messages[-1].text.upper(), later)
    assert "".join(delta.text for delta in ask(model)) == "HELLO THERE"
    assert "".join(delta.text for delta in ask(model, tools=[ToolSpec("look", "", {})])) == "look!"


def test_exceptions_are_raised():
    model = ScriptedModel(ModelError("busy", 429), KeyError)
    with pytest.raises(ModelError, match="busy"):
        ask(model)
    with pytest.raises(KeyError):
        ask(model)


def test_what_was_asked_is_kept_as_it_was_then():
    model = ScriptedModel("a", "b")
    messages = [Message.user("one", Media("AAAA", "image/png"))]
    options = ModelOptions(temperature=0.5)
    ask(model, messages, [ToolSpec("look", "", {})], options)
    messages[0].content.clear()
    messages.append(Message.user("two"))
    ask(model, messages)
    assert [len(request.messages) for request in model.requests] == [1, 2]
    assert model.requests[0].messages[0].text == "one"
    assert model.requests[0].tools[0].name == "look"
    assert model.requests[0].options is options


def test_a_script_that_is_over_says_so():
    model = ScriptedModel("a", name="short")
    ask(model)
    with pytest.raises(ModelError, match=r"The script of short is over: it has 1 answers.*'Hello there'"):
        ask(model)
    assert len(model.requests) == 2
    with pytest.raises(ModelError, match="nothing"):
        ask(ScriptedModel(), [])


def test_what_is_no_answer_is_refused():
    with pytest.raises(TypeError, match="3 is not an answer"):
        ask(ScriptedModel(lambda messages, tools: 3))
