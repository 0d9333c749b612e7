"""Servers that ask the model of a chat."""

import asyncio

import pytest

from chat.provider import Provider, Say
from dragoman import AsyncChat, AsyncClient, Chat, Client, Context, types
from dragoman.chat import Message, ToolCall, Usage
from dragoman.client import SamplingRequest
from dragoman.errors import DragomanError
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import PLACES, call, reach
from scenarios.chat_server import Town

WRITE = {"topic": "Hello sea"}


@pytest.mark.covers("LSA-07", "LSA-08", "CHAT-20")
@pytest.mark.parametrize(("over", "era"), PLACES)
def test_the_model_of_a_chat_answers_a_server_with_the_limits_that_it_sets(over, era):
    model = ScriptedModel("Waves and caves.", name="poet")
    chat = Chat(model, temperature=0.9)
    with reach(over) as target, Client(target, mode=era, on_sampling=chat.sampler()) as client:
        assert client.call_tool("write", WRITE).text == "poet wrote Waves and caves."
    [asked] = model.requests
    assert [(message.role, message.text) for message in asked.messages] == [("system", "Rhyme."), ("user", "Hello sea")]
    assert (asked.options.max_tokens, asked.options.temperature) == (7, 0.25)
    assert asked.tools == []
    assert chat.usage == Usage(3, 3)
    assert chat.messages == []


async def test_a_server_asks_the_model_that_is_calling_it(era):
    model = ScriptedModel(call("write", topic="Rain"), "Pain.", "It wrote about pain.")
    chat = AsyncChat(model)
    async with AsyncClient(Town().server, mode=era, on_sampling=chat.sampler()) as client:
        reply = await chat.with_tools(client).ask("Let it write")
    assert reply.tool_results[0].text == "scripted wrote Pain."
    assert str(reply) == "It wrote about pain."
    assert reply.usage == chat.usage


@pytest.mark.covers("LSA-04")
def test_a_guard_keeps_requests_from_the_model(era):
    model = ScriptedModel("Waves.")
    sampler = Chat(model).sampler(guard=lambda sample: "Hello" in sample.message)
    with Client(Town().server, mode=era, on_sampling=sampler) as client:
        with pytest.raises(DragomanError, match="Sampling request was rejected"):
            client.call_tool("write", {"topic": "Goodbye"})
        assert model.requests == []
        assert client.call_tool("write", WRITE).text == "scripted wrote Waves."


@pytest.mark.covers("LSA-11")
def test_a_guard_sees_what_the_server_hides_in_the_system_prompt(era):
    model = ScriptedModel("Waves.")
    sampler = Chat(model).sampler(guard=lambda sample: "Rhyme" not in sample.message)
    with (
        Client(Town().server, mode=era, on_sampling=sampler) as client,
        pytest.raises(DragomanError, match="Sampling request was rejected"),
    ):
        client.call_tool("write", WRITE)
    assert model.requests == []


@pytest.mark.covers("LSA-12")
@pytest.mark.parametrize(("own", "spent"), [(3, 3), (7, 7), (100, 7), (None, 7)])
def test_a_server_cannot_ask_for_more_tokens_than_the_chat_may_spend(own, spent):
    model = ScriptedModel("Waves.")
    with Client(Town().server, on_sampling=Chat(model, max_tokens=own).sampler()) as client:
        client.call_tool("write", WRITE)
    assert model.requests[0].options.max_tokens == spent


@pytest.mark.covers("LSA-12")
async def test_the_model_of_a_chat_is_asked_by_few_servers_at_a_time():
    running, most = 0, 0

    class Slow(ScriptedModel):
        async def generate(self, messages, tools, options):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            async for delta in super().generate(messages, tools, options):
                yield delta
            running -= 1

    sampler = AsyncChat(Slow(*["Waves."] * 20)).sampler(max_concurrent=2)
    asked = SamplingRequest(messages=[types.SamplingMessage("user", types.TextContent("Explain"))], max_tokens=5)
    await asyncio.gather(*(sampler.answer(asked) for _ in range(20)))
    assert most == 2


@pytest.mark.covers("LSA-02")
def test_another_model_is_preferred_by_itself_or_by_its_name():
    own, poet = ScriptedModel(name="own"), ScriptedModel("Waves.", "Caves.", name="poet")
    chat = Chat(own)
    sampler = chat.sampler(preferred_model=poet)
    chat.with_model(ScriptedModel(name="another"))
    with Client(Town().server, on_sampling=sampler) as client:
        assert client.call_tool("write", WRITE).text == "poet wrote Waves."
    with Client(Town().server, on_sampling=Chat(poet).sampler(preferred_model=lambda wishes: "poet")) as client:
        assert client.call_tool("write", WRITE).text == "poet wrote Caves."
    assert own.requests == []


@pytest.mark.covers("LSA-03")
def test_a_preferred_model_that_cannot_be_had_is_an_error_for_the_server(caplog):
    sampler = Chat(ScriptedModel()).sampler(preferred_model="nobody")
    with (
        Client(Town().server, on_sampling=sampler) as client,
        pytest.raises(DragomanError, match="Error executing sampling request"),
    ):
        client.call_tool("write", WRITE)
    assert "does not name a provider" in caplog.text


def test_a_preferred_model_by_name_is_of_the_same_provider_and_asked_over_its_connection():
    with Provider(Say("Waves."), Say("Caves.")) as provider:
        chat = Chat("openai:large", base_url=provider.openai_url, api_key="sk-of-this-test")
        with chat, Client(Town().server, on_sampling=chat.sampler(preferred_model="small")) as client:
            assert client.call_tool("write", WRITE).text == "openai:small wrote Waves."
            client.call_tool("write", WRITE)
        assert [asked.body["model"] for asked in provider.asked] == ["small", "small"]
        assert provider.asked[0].body["messages"][0] == {"role": "system", "content": "Rhyme."}
        assert chat.usage == Usage(14, 6)


async def test_tools_of_a_sampling_request_reach_the_model_and_its_calls_the_server():
    model = ScriptedModel([ToolCall("2", "look-up", {"word": "sea"})])
    sampler = AsyncChat(model).sampler(tools=True)
    assert sampler.capability().tools == {}
    request = SamplingRequest(
        messages=[
            types.SamplingMessage("user", types.TextContent("Explain")),
            types.SamplingMessage("assistant", [types.ToolUseContent(id="1", name="look up", input={"word": "a"})]),
            types.SamplingMessage("user", [types.ToolResultContent(tool_use_id="1", content=[types.TextContent("b")])]),
        ],
        max_tokens=5,
        tools=[types.Tool(name="look up", input_schema={"type": "object"})],
        tool_choice=types.ToolChoice(mode="required"),
        stop_sequences=["END"],
    )
    result = await sampler.answer(request)
    [asked] = model.requests
    assert [tool.name for tool in asked.tools] == ["look-up"]
    assert (asked.options.tool_choice, asked.options.stop) == ("required", ["END"])
    assert asked.messages[1] == Message("assistant", [], [ToolCall("1", "look-up", {"word": "a"})])
    assert (asked.messages[2].role, asked.messages[2].tool_call_id, asked.messages[2].text) == ("tool", "1", "b")
    assert result.stop_reason == "toolUse"
    assert result.content == [types.ToolUseContent(id="2", name="look up", input={"word": "sea"})]


def test_why_a_model_stopped_is_told_in_the_words_of_the_protocol():
    with Provider(Say("Waves", finish="length")) as provider:
        chat = Chat("openai:x", base_url=provider.openai_url, api_key="sk-of-this-test")
        reasons = []
        town = Town()

        @town.server.tool
        async def reason(ctx: Context) -> str:
            reasons.append((await ctx.sample("x", max_tokens=1)).stop_reason)
            return "told"

        with chat, Client(town.server, on_sampling=chat.sampler()) as client:
            client.call_tool("reason")
    assert reasons == ["maxTokens"]
