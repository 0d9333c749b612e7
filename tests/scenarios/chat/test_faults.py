"""What goes wrong in a conversation: each has a clear outcome, and the conversation goes on."""

import asyncio
import sys

import pytest

from chat.provider import Fail, Provider, Say
from dragoman import AsyncChat, AsyncClient, Chat, Client, Server, types
from dragoman.chat import AnyLlm, Delta, Policy, ToolCall, ToolCallDelta, Usage
from dragoman.client.bound import AsyncBoundTool
from dragoman.errors import DragomanError, ModelError
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, PLACES, SERVER, assert_valid, call, give_up, happened, reach

KEY = "sk-of-this-test"
PASSING = """
import os, signal
from dragoman import Server

server = Server("passing")

@server.tool
def leave() -> str:
    os.remove(__file__)
    os.kill(os.getpid(), signal.SIGKILL)

server.run()
"""


def goes_on(chat):
    """See that a conversation is what providers take, and that the next question is answered."""
    assert_valid(chat.messages)
    assert str(chat.with_model(ScriptedModel("Fine.")).ask("How are you?")) == "Fine."
    assert_valid(chat.messages)


async def goes_on_async(chat):
    assert str(await chat.with_model(ScriptedModel("Fine.")).ask("How are you?")) == "Fine."
    assert_valid(chat.messages)


@pytest.mark.covers("CHAT-21")
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (call("wether", city="Oslo"), "Error: There is no tool 'wether'; there are: weather, demolish"),
        (ToolCall("1", "weather", None, "{city: Oslo"), "Error: The arguments are no JSON object: {city: Oslo"),
        (ToolCall("1", "weather", None, '["Oslo"]'), 'Error: The arguments are no JSON object: ["Oslo"]'),
        (ToolCall("1", "weather", None, '"Oslo"'), 'Error: The arguments are no JSON object: "Oslo"'),
        (ToolCall("1", "weather", None, '{"city": "Os'), "Error: The arguments are no JSON object"),
        (ToolCall("1", "weather", None, "[" * 100_000), "Error: The arguments are no JSON object: [[["),
    ],
)
def test_what_a_model_wrote_wrongly_is_told_to_it(town, wanted, told):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(wanted, "Sorry.")).with_tools(client)
        reply = chat.ask("Go")
        assert str(reply) == "Sorry."
        assert reply.tool_results[0].is_error
        assert reply.tool_results[0].text.startswith(told)
        assert reply.tool_results[0].result is None
        goes_on(chat)
    assert town.called == []


@pytest.mark.covers("CHAT-21")
def test_arguments_that_the_server_refuses_are_told_to_the_model_and_no_arguments_are_none(town):
    wanted = [call("weather", town="Oslo"), ToolCall("1", "picture", None, "")]
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(wanted, "Sorry.")).with_tools(client)
        refused, pictured = chat.ask("Go").tool_results
        assert (refused.is_error, "city" in refused.text, pictured.is_error) == (True, True, False)
        goes_on(chat)


@pytest.mark.covers("CHAT-04")
def test_a_name_in_another_alphabet_and_an_id_that_comes_twice_do_not_spoil_the_conversation(town):
    wanted = [ToolCall("", "functions.wether!", {}), ToolCall("x", "picture", {}), ToolCall("x", "picture", {})]
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(wanted, [ToolCall("x", "", {})], "Sorry.")).with_tools(client)
        results = chat.ask("Go").tool_results
        assert [result.is_error for result in results] == [True, False, False, True]
        assert results[0].call.name == "functions-wether-"
        assert len({result.call.id for result in results}) == 4
        assert all(result.call.id for result in results)
        goes_on(chat)


@pytest.mark.covers("CHAT-22")
def test_a_server_that_dies_in_the_middle_of_a_call_is_told_and_comes_back(era):
    with Client([sys.executable, str(SERVER)], mode=era) as client:
        wanted = [call("die"), call("weather", city="Oslo")]
        model = ScriptedModel(call("die"), call("weather", city="Oslo"), "It is cold.")
        chat = Chat(model).with_tools(client)
        died, weather = chat.ask("Go").tool_results
        assert died.is_error
        assert "ServerCrashed" in died.text
        assert weather.text == '{"city":"Oslo","celsius":4.0}'
        goes_on(chat)
        chat.with_model(ScriptedModel(wanted, "Both gone.")).ask("Both at once")
        goes_on(chat)


@pytest.mark.covers("CHAT-11", "CHAT-22")
def test_a_server_that_is_gone_for_good_does_not_end_the_conversation(tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.client.connect.reconnect.backoff", lambda *_: 0)
    program = tmp_path / "passing.py"
    program.write_text(PASSING)
    with Client([sys.executable, str(program)], connect_timeout=3) as client:
        chat = Chat(ScriptedModel(call("leave"), call("leave"), "It is gone.")).with_tools(client)
        reply = chat.ask("Go")
        assert str(reply) == "It is gone."
        assert [result.is_error for result in reply.tool_results] == [True, True]
        goes_on(chat)


@pytest.mark.covers("CHAT-23")
@pytest.mark.parametrize("error", [ModelError("busy", 429), ValueError("odd"), RuntimeError])
def test_a_model_that_fails_leaves_what_was_said_and_may_be_asked_again(town, error):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), error, "Wear a coat.")).with_tools(client)
        with pytest.raises(error if isinstance(error, type) else type(error)):
            chat.ask("What to wear?")
        assert [message.role for message in chat.messages] == ["user", "assistant", "tool"]
        assert_valid(chat.messages)
        assert str(chat.ask()) == "Wear a coat."
        goes_on(chat)
    assert town.called == ["Oslo"]


class Breaking:
    """A model that breaks off in the middle of its answer."""

    name = "breaking"

    def __init__(self):
        self.is_closed = False

    async def generate(self, messages, tools, options):
        try:
            yield Delta("Wear a", usage=Usage(5, 2))
            yield Delta(tool_calls=(ToolCallDelta(0, "1", "weather", '{"ci'),))
            raise ModelError("cut off")
        finally:
            self.is_closed = True


@pytest.mark.covers("CHAT-23")
def test_an_answer_that_is_cut_off_is_shown_but_not_kept(town):
    with Client(town.server) as client:
        model = Breaking()
        chat = Chat(model).with_tools(client)
        shown = []
        with pytest.raises(ModelError, match="cut off"):
            shown.extend(chunk.text for chunk in chat.stream("What to wear?"))
        assert shown == ["Wear a"]
        assert model.is_closed
        assert [message.role for message in chat.messages] == ["user"]
        assert chat.usage == Usage(5, 2)
        goes_on(chat)


@pytest.mark.covers("CHAT-23")
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_provider_that_refuses_fails_or_breaks_off_is_named_and_the_conversation_goes_on(town, kind):
    odd = "no json" if kind == "openai" else "{}"  # Anthropic's own package lets nothing else through
    calls = [("c1", "weather", '{"city": "Oslo"}'), ("c2", "nothing.here", odd)]
    refusals = [Fail(429, "slow down"), Fail(500, "oops"), Say("Wear a", cut_after=3)]
    with Provider(Say("Let me see.", calls), *refusals, Say("Wear it.")) as provider, Client(town.server) as client:
        address = provider.openai_url if kind == "openai" else provider.anthropic_url
        model = AnyLlm(f"{kind}:test", base_url=address, api_key=KEY, retries=0)
        chat = Chat(model).with_tools(client)
        with pytest.raises(ModelError) as caught:
            chat.ask("What to wear?")
        assert caught.value.status == 429
        assert_valid(chat.messages)
        with pytest.raises(ModelError) as caught:
            chat.ask()
        assert caught.value.status == 500
        with pytest.raises(ModelError, match="cut off"):
            chat.ask()
        # What is sent each time is what the provider's own rules allow; the stand-in checks them.
        assert str(chat.ask()) == "Wear it."
        assert_valid(chat.messages)
        chat._drive(lambda _: model.aclose())


@pytest.mark.covers("CHAT-04", "CHAT-24")
@pytest.mark.parametrize(("over", "era"), PLACES)
async def test_a_turn_that_is_given_up_in_the_middle_of_a_call_leaves_a_conversation_that_goes_on(over, era):
    started = asyncio.Event()
    with reach(over) as target:
        async with AsyncClient(target, mode=era, on_progress=lambda *_: started.set()) as client:
            wanted = [call("weather", city="Oslo"), call("wait"), call("wait")]
            chat = AsyncChat(ScriptedModel(wanted)).with_tools(client)
            turn = asyncio.create_task(chat.ask("Go"))
            await asyncio.wait_for(started.wait(), DEADLINE)
            await give_up(turn)
            texts = [message.text for message in chat.messages if message.role == "tool"]
            assert texts[1:] == ["Error: The call was given up, and may have been carried out or not"] * 2
            await goes_on_async(chat)


@pytest.mark.covers("CHAT-24")
async def test_a_server_is_told_that_a_call_is_given_up(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        chat = AsyncChat(ScriptedModel(call("wait"))).with_tools(client)
        turn = asyncio.create_task(chat.ask("Go"))
        await happened(town.started)
        await give_up(turn)
        await happened(town.given_up)
        await goes_on_async(chat)


async def test_a_turn_that_is_given_up_while_a_rule_is_asked_leaves_a_conversation_that_goes_on(town):
    asked = asyncio.Event()

    async def rule(tool, arguments):
        asked.set()
        await asyncio.Event().wait()

    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel(call("weather", city="Oslo")), policy=Policy(deny=rule)).with_tools(client)
        turn = asyncio.create_task(chat.step("Go"))
        await asyncio.wait_for(asked.wait(), DEADLINE)
        await give_up(turn)
        await goes_on_async(chat)
    assert town.called == []


def test_a_tool_that_takes_too_long_is_told_to_the_model(town):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("wait"), "Too slow."), tool_timeout=0.2).with_tools(client)
        [result] = chat.ask("Go").tool_results
        assert result.text.startswith("Error: Timeout")
        assert town.given_up.wait(DEADLINE)
        goes_on(chat)


def test_a_server_that_never_was_there_is_raised_and_the_chat_goes_on():
    client = Client("no-such-program-anywhere")
    chat = Chat(ScriptedModel()).with_tools(client)
    with pytest.raises(DragomanError, match="no-such-program-anywhere"):
        chat.ask("Go")
    assert_valid(chat.messages)


async def test_a_second_turn_is_refused_while_the_first_goes_on(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel(call("wait"))).with_tools(client)
        turn = asyncio.create_task(chat.ask("Go"))
        await happened(town.started)
        with pytest.raises(DragomanError, match="A turn of this chat still runs"):
            await chat.ask("And this?")
        turn.cancel()
        # Whoever comes while the first is given up waits for its end.
        await goes_on_async(chat)
        assert turn.cancelled()


async def test_something_unforeseen_in_a_call_is_logged_and_told_to_the_model(caplog):
    class Odd:
        async def tools(self):
            async with AsyncClient(Server("x")) as client:

                class Broken(AsyncBoundTool):
                    async def call(self, /, arguments=None, **options):
                        raise ZeroDivisionError("odd")

                return [Broken(client, types.Tool(name="odd", input_schema={"type": "object"}))]

    chat = AsyncChat(ScriptedModel([call("odd"), call("odd")], "Odd.")).with_tools(Odd())
    reply = await chat.ask("Go")
    assert [result.text for result in reply.tool_results] == ["Error: ZeroDivisionError: odd"] * 2
    await goes_on_async(chat)
    assert "A call of the tool odd failed" in caplog.text


@pytest.mark.covers("CHAT-22")
def test_every_call_that_a_dead_server_was_working_on_is_told_to_the_model():
    with Client([sys.executable, str(SERVER)]) as client:
        chat = Chat(ScriptedModel([call("wait"), call("die")], "Gone.")).with_tools(client)
        results = chat.ask("Go").tool_results
        assert all("ServerCrashed" in result.text for result in results)
        goes_on(chat)
