"""Models of real providers' packages, asked over real connections."""

import asyncio
import base64
import json
import pickle
import traceback

import pytest

from chat.provider import Fail, Provider, Say
from dragoman import AsyncClient, Server, ToolError
from dragoman.chat import AsyncChat
from dragoman.chat.messages import Media, Message, ModelOptions, ToolCall, ToolSpec, Usage
from dragoman.chat.models.any_llm import AnyLlm
from dragoman.chat.models.selection import resolve_model
from dragoman.errors import ModelError

DEADLINE = 60
KEY = "sk-very-secret-0123456789"
PIXEL = base64.b64encode(b"\x89PNG not much of an image").decode()
FORECAST = ToolSpec(
    "forecast",
    "Weather for a city.",
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "oneOf": [
            {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]},
            {"properties": {"place": {"$ref": "#/definitions/Place"}}, "required": ["place"]},
        ],
        "definitions": {"Place": {"type": "object", "properties": {"inside": {"$ref": "#/definitions/Place"}}}},
    },
)
ALL = ("openai", "anthropic")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def model_of(provider, kind, **options):
    address = provider.openai_url if kind == "openai" else provider.anthropic_url
    return AnyLlm(f"{kind}:test", base_url=address, api_key=KEY, **options)


def run(talk):
    return asyncio.run(asyncio.wait_for(talk, DEADLINE))


async def take(model, messages, tools=(), options=None):
    """Every piece of an answer."""
    try:
        return [delta async for delta in model.generate(messages, tools, options or ModelOptions())]
    finally:
        await model.aclose()


def ask(model, *messages, tools=(), options=None):
    return run(take(model, messages or [Message.user("Hello")], tools, options))


def calls_of(deltas):
    calls = {}
    for piece in (piece for delta in deltas for piece in delta.tool_calls):
        id, name, arguments = calls.get(piece.index, (None, None, ""))
        calls[piece.index] = (id or piece.id, name or piece.name, arguments + piece.arguments)
    return calls


@pytest.mark.covers("LSTM-01")
@pytest.mark.parametrize("kind", ALL)
def test_an_answer_comes_in_pieces_and_ends_with_its_reason_and_its_usage(kind):
    with Provider(Say("Wear a coat in Oslo.", usage=(11, 5))) as provider:
        deltas = ask(model_of(provider, kind), Message.system("Be brief."), Message.user("What to wear?"))
    assert "".join(delta.text for delta in deltas) == "Wear a coat in Oslo."
    assert len([delta for delta in deltas if delta.text]) > 2
    assert [delta.usage for delta in deltas if delta.usage] == [Usage(11, 5)]
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["stop"]


@pytest.mark.parametrize("kind", ALL)
def test_reply_and_step_say_why_the_answer_ended(kind):
    cut = "max_tokens" if kind == "anthropic" else "length"

    async def stop_reasons(model):
        chat = AsyncChat(model)
        reasons = [(await chat.ask("What to wear?")).stop_reason, (await chat.ask()).stop_reason]
        reasons.append((await chat.step("Bye")).stop_reason)
        await model.aclose()
        return reasons

    with Provider(Say("Wear a", finish=cut), Say("a coat."), Say("Bye.")) as provider:
        assert run(stop_reasons(model_of(provider, kind))) == ["maxTokens", "endTurn", "endTurn"]


@pytest.mark.parametrize("kind", ALL)
def test_calls_are_put_together_from_their_pieces(kind):
    calls = [("c1", "forecast", '{"city": "Oslo"}'), ("c2", "forecast", '{"city": "Rome", "days": 2}')]
    with Provider(Say("Let me see.", calls)) as provider:
        deltas = ask(model_of(provider, kind), tools=[FORECAST])
    assert calls_of(deltas) == dict(enumerate(calls))
    assert deltas[-1].finish_reason == "tool_calls"


def test_calls_that_come_whole_and_all_with_one_number_are_told_apart():
    calls = [("c1", "forecast", '{"city": "Oslo"}'), ("c2", "forecast", '{"city": "Rome"}')]
    with Provider(Say(calls=calls, whole_calls=True)) as provider:
        assert calls_of(ask(model_of(provider, "openai"), tools=[FORECAST])) == dict(enumerate(calls))


def test_a_provider_that_does_not_stream_is_heard_all_the_same():
    calls = [("c1", "forecast", '{"city": "Oslo"}')]
    for kind in ALL:
        with Provider(Say("Look:", calls)) as provider:
            deltas = ask(model_of(provider, kind, stream=False), tools=[FORECAST])
        assert "".join(delta.text for delta in deltas) == "Look:"
        assert calls_of(deltas) == dict(enumerate(calls))
        assert deltas[-1].usage == Usage(7, 3)


def test_a_conversation_with_tools_and_media_is_taken_by_openai():
    sound = Media(base64.b64encode(b"RIFF").decode(), "audio/wav")
    paper = Media(base64.b64encode(b"%PDF").decode(), "application/pdf", "a.pdf")
    conversation = [
        Message.system("Be brief."),
        Message.user("See:", Media(PIXEL, "image/png"), sound, paper),
        Message.assistant("I look.", [ToolCall("c1", "look", {"a": 1}), ToolCall("c2", "look", None, "{oops")]),
        Message("tool", [Media(PIXEL, "image/png")], tool_call_id="c1"),
        Message("tool", Message.user("no").content, tool_call_id="c2", is_error=True),
        Message.user("And?"),
    ]
    with Provider(Say("Fine.")) as provider:
        ask(model_of(provider, "openai"), *conversation, tools=[FORECAST])
        [asked] = provider.asked
    roles = [message["role"] for message in asked.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "user"]
    parts = [part["type"] for part in asked.body["messages"][1]["content"]]
    assert parts == ["text", "image_url", "input_audio", "file"]
    assert asked.body["messages"][5]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{PIXEL}"},
    }
    assert [call["function"]["arguments"] for call in asked.body["messages"][2]["tool_calls"]] == ['{"a":1}', "{}"]
    assert asked.headers["Authorization"] == f"Bearer {KEY}"


def test_a_conversation_with_tools_and_media_is_taken_by_anthropic():
    conversation = [
        Message.system("Be brief."),
        Message.user("See:", Media(PIXEL, "image/png"), Media("UklGRg==", "audio/wav", "a.wav")),
        Message.assistant("", [ToolCall("c1", "look", {"a": 1})]),
        Message("tool", [*Message.user("here").content, Media(PIXEL, "image/png")], tool_call_id="c1"),
    ]
    with Provider(Say("Fine.")) as provider:
        ask(model_of(provider, "anthropic"), *conversation, tools=[FORECAST])
        [asked] = provider.asked
    assert asked.body["system"] == "Be brief."
    first, assistant, result, shown = asked.body["messages"]
    assert [block["type"] for block in first["content"]] == ["text", "image", "text"]
    assert "a.wav of type audio/wav cannot be shown" in first["content"][2]["text"]
    assert assistant["content"] == [{"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}]
    assert result["content"][0]["tool_use_id"] == "c1"
    assert shown["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert asked.body["max_tokens"] > 0


@pytest.mark.parametrize("kind", ALL)
def test_tools_are_said_in_the_dialect_of_the_provider(kind):
    with Provider(Say("Fine.")) as provider:
        ask(model_of(provider, kind), tools=[FORECAST], options=ModelOptions(tool_choice="required"))
        [asked] = provider.asked
    [tool] = asked.body["tools"]
    schema = tool["function"]["parameters"] if kind == "openai" else tool["input_schema"]
    assert schema["type"] == "object"
    assert schema["properties"].keys() == {"city", "days", "place"}
    assert asked.body["tool_choice"] == ("required" if kind == "openai" else asked.body["tool_choice"])


def test_options_of_the_model_and_of_the_request_reach_the_provider():
    options = ModelOptions(temperature=0.1, max_tokens=99, stop=["END"], extra={"seed": 4})
    with Provider(Say("Fine."), Say("Fine.")) as provider:
        ask(model_of(provider, "openai", temperature=0.9, user="jo"), options=options)
        ask(model_of(provider, "openai", strict=True), tools=[FORECAST])
    first, second = (asked.body for asked in provider.asked)
    assert (first["temperature"], first["max_completion_tokens"], first["stop"]) == (0.1, 99, ["END"])
    assert (first["seed"], first["user"]) == (4, "jo")
    assert "tools" not in first
    assert second["tools"][0]["function"]["strict"] is True


def test_an_endpoint_that_speaks_as_openai_does_needs_no_key_and_no_known_name():
    with Provider(Say("Hello."), Say("Hello.")) as provider:
        for name in ("house:ours", "openai:ours"):
            model = resolve_model(name, base_url=provider.openai_url, api_key=None)
            assert "".join(delta.text for delta in ask(model)) == "Hello."
    assert [asked.body["model"] for asked in provider.asked] == ["ours", "ours"]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_may_pass_is_tried_again(kind, status):
    with Provider(Fail(status, headers={"retry-after": "0"}), Fail(503), Say("There.")) as provider:
        assert "".join(delta.text for delta in ask(model_of(provider, kind))) == "There."
    assert len(provider.asked) == 3


@pytest.mark.parametrize("kind", ALL)
def test_trying_again_has_an_end_and_the_error_tells_how_long_to_wait(kind):
    failures = [Fail(429, "Too fast", headers={"retry-after": "0.01"})] * 5
    with Provider(*failures) as provider, pytest.raises(ModelError, match="answered 429: Too fast") as caught:
        ask(model_of(provider, kind, retries=1))
    assert len(provider.asked) == 2
    assert (caught.value.status, caught.value.retry_after) == (429, 0.01)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status) == (str(caught.value), 429)


@pytest.mark.parametrize(
    "failure",
    [
        Fail(400, "Bad schema"),
        Fail(404, "No such model"),
        Fail(429, "You have no money left", code="insufficient_quota"),
        Fail(429, "Come tomorrow", headers={"retry-after": "86400"}),
    ],
)
def test_what_will_not_pass_is_not_tried_again(failure):
    with Provider(failure) as provider, pytest.raises(ModelError, match=failure.message):
        ask(model_of(provider, "openai"))
    assert len(provider.asked) == 1


@pytest.mark.parametrize("kind", ALL)
def test_an_error_holds_no_key(kind):
    leak = Fail(401, f"Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}")
    with Provider(leak) as provider, pytest.raises(ModelError, match="check api_key") as caught:
        ask(model_of(provider, kind))
    told = "".join(traceback.format_exception(caught.value))
    assert "very-secret" not in told
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert KEY not in repr(model_of(provider, kind))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("how", [{"cut_after": 4}, {"ends_early": True}])
def test_a_stream_that_is_cut_in_the_middle_says_so_and_is_not_tried_again(kind, how):
    async def talk(model):
        answer = model.generate([Message.user("Hello")], [], ModelOptions())
        heard = (await anext(answer)).text
        with pytest.raises(ModelError, match="cut off in the middle of its answer"):
            heard += "".join([delta.text async for delta in answer])
        await model.aclose()
        return heard

    text = "A long story about the weather in Oslo."
    with Provider(Say(text, **how), Say("Never asked.")) as provider:
        heard = run(talk(model_of(provider, kind)))
    assert text.startswith(heard)
    assert heard
    assert len(provider.asked) == 1


@pytest.mark.parametrize("kind", ALL)
def test_a_stream_that_is_cut_before_its_first_piece_is_tried_again(kind):
    with Provider(Say("Lost.", cut_after=1), Say("Found.")) as provider:
        assert "".join(delta.text for delta in ask(model_of(provider, kind))) == "Found."


def test_an_overload_that_is_told_in_the_stream_is_tried_again_before_the_first_piece_only():
    with Provider(Say("Lost.", overloaded_after=1), Say("Found.")) as provider:
        assert "".join(delta.text for delta in ask(model_of(provider, "anthropic"))) == "Found."
    with Provider(Say("Half of it.", overloaded_after=4)) as provider, pytest.raises(ModelError, match="Overloaded"):
        ask(model_of(provider, "anthropic"))


def test_a_provider_that_cannot_be_reached_is_named():
    with Provider() as provider:
        address = provider.openai_url
    with pytest.raises(ModelError, match=f"cannot be asked at {address}") as caught:
        ask(AnyLlm("openai:test", base_url=address, api_key=KEY, retries=0))
    assert caught.value.status is None


@pytest.mark.parametrize("kind", ALL)
def test_an_answer_that_is_given_up_lets_go_of_its_connection(kind):
    async def talk(provider, model):
        answer = model.generate([Message.user("Hello")], [], ModelOptions())
        assert (await anext(answer)).text
        await answer.aclose()
        assert await asyncio.to_thread(provider.released.wait, DEADLINE)
        await model.aclose()

    with Provider(Say("Once upon a time", never_ends=True)) as provider:
        run(talk(provider, model_of(provider, kind)))


@pytest.mark.parametrize("kind", ALL)
def test_one_model_serves_several_event_loops_and_several_askers_at_once(kind):
    async def talk(model):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(take_open(model))
        await model.aclose()

    async def take_open(model):
        return [delta async for delta in model.generate([Message.user("Hello")], [], ModelOptions())]

    with Provider(*[Say("Hi.")] * 6) as provider:
        model = model_of(provider, kind)
        run(talk(model))
        run(talk(model))
    assert len(provider.asked) == 6


def test_the_thoughts_that_a_provider_signed_are_shown_to_it_again():
    calls = [("c1", "forecast", '{"city": "Oslo"}')]

    async def talk(model):
        first = [delta async for delta in model.generate([Message.user("Hello")], [FORECAST], ModelOptions())]
        [(id, name, arguments)] = calls_of(first).values()
        conversation = [
            Message.user("Hello"),
            Message.assistant("", [ToolCall(id, name, json.loads(arguments))]),
            Message("tool", Message.user("cold").content, tool_call_id=id),
        ]
        await take(model, conversation, [FORECAST])

    with Provider(Say(calls=calls, thoughts="I should look."), Say("Cold.")) as provider:
        run(talk(model_of(provider, "anthropic", reasoning_effort="low")))
    assistant = provider.asked[1].body["messages"][1]
    assert assistant["content"][0] == {"type": "thinking", "thinking": "I should look.", "signature": "signed"}


def test_a_model_without_a_key_says_where_it_is_looked_for():
    with pytest.raises(ModelError, match="set ANTHROPIC_API_KEY"):
        ask(AnyLlm("anthropic:test"))


def test_an_unknown_provider_says_how_an_endpoint_is_named():
    with pytest.raises(ModelError, match="give base_url"):
        ask(AnyLlm("nobody:test"))


def test_a_provider_whose_package_is_missing_names_it():
    with pytest.raises(ModelError, match="any-llm-sdk"):
        ask(AnyLlm("cohere:test", api_key=KEY))


@pytest.mark.covers("LMT-10")
@pytest.mark.parametrize(
    ("kind", "written", "strict"),
    [
        ("openai", '{"city": "Oslo", "days": "2", "tags": "[\\"a\\"]"}', False),
        ("anthropic", '{"city": "Oslo", "days": "2", "tags": "[\\"a\\"]"}', False),
        ("openai", '{"city": "Oslo", "days": null, "tags": null}', True),
    ],
)
def test_a_chat_gives_a_server_the_arguments_that_a_model_meant(kind, written, strict):
    server = Server("weather")
    asked = []

    @server.tool
    def forecast(city: str, days: int = 3, tags: list[str] | None = None) -> str:
        asked.append((city, days, tags))
        return "cold"

    async def talk(model):
        async with AsyncClient(server) as client:
            reply = await AsyncChat(model).with_tools(client).ask("What to wear?")
        await model.aclose()
        return str(reply)

    with Provider(Say("Let me see.", [("c1", "forecast", written)]), Say("A coat.")) as provider:
        assert run(talk(model_of(provider, kind, strict=strict))) == "A coat."
    assert asked == [("Oslo", 3, None) if strict else ("Oslo", 2, ["a"])]
    told = provider.asked[1].body["messages"][-1]["content"]
    assert told == "cold" if kind == "openai" else told[0]["content"] == "cold"


@pytest.mark.covers("LMT-05")
@pytest.mark.parametrize("kind", ALL)
def test_a_provider_is_told_in_its_own_way_that_a_call_failed(kind):
    server = Server("river")

    @server.tool
    def cross(by: str) -> str:
        if by == "bridge":
            raise ToolError("The bridge is closed")
        return f"by {by}"

    async def talk(model):
        async with AsyncClient(server) as client:
            await AsyncChat(model).with_tools(client).ask("Cross the river")
        await model.aclose()

    calls = [("c1", "cross", '{"by": "bridge"}'), ("c2", "cross", '{"by": "boat"}'), ("c3", "swim", "{}")]
    with Provider(Say("Let me try.", calls), Say("By boat.")) as provider:
        run(talk(model_of(provider, kind)))
    last = provider.asked[1].body["messages"]
    missing = "Error: There is no tool 'swim'; there are: cross"
    if kind == "openai":
        assert [message["content"] for message in last[-3:]] == ["Error: The bridge is closed", "by boat", missing]
        assert last[-3].keys() == {"role", "tool_call_id", "content"}
    else:
        assert last[-1] == {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "The bridge is closed", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c2", "content": "by boat"},
                {"type": "tool_result", "tool_use_id": "c3", "content": missing, "is_error": True},
            ],
        }
