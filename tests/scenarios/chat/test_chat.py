"""A chat and real servers: tools, results, resources, templates, prompts, attachments, usage, observers."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from base64 import b64encode
from contextlib import nullcontext

import pytest

from chat.provider import Provider, Say
from dragoman import AsyncChat, AsyncClient, Chat, Client, ModelError, NotFound
from dragoman.chat import ChatOptions, Media, Message, Text, Usage
from dragoman.errors import RoundLimit
from dragoman.runtime.portal import portal
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, PLACES, assert_valid, call, give_up, reach
from scenarios.chat_server import PIXEL

PICTURE = b64encode(PIXEL).decode()


@pytest.mark.covers("CHAT-01", "LMT-14")
@pytest.mark.parametrize(("over", "era"), PLACES)
def test_a_model_uses_the_tools_resources_and_prompts_of_a_server(over, era):
    model = ScriptedModel(call("weather", city="Oslo"), "Wear a coat.")
    with reach(over) as target, Client(target, mode=era) as client:
        chat = Chat(model).with_instructions("Be brief.").with_tools(*client.tools())
        chat.with_resource(client.resource("charter"))
        chat.with_resource(client.resource_template("house"), arguments={"name": "Main", "number": 7})
        chat.with_prompt(client.prompt("greet"), arguments={"name": "Jo"})
        reply = chat.ask("What should I wear in Oslo?")
    assert str(reply) == reply.text == "Wear a coat."
    assert [one.name for one in reply.tool_calls] == ["weather"]
    assert reply.tool_results[0].text == '{"city":"Oslo","celsius":4.0}'
    assert reply.tool_results[0].result.structured == {"city": "Oslo", "celsius": 4.0}
    roles = ["system", "user", "user", "user", "assistant", "user", "user", "assistant", "tool", "assistant"]
    assert [message.role for message in chat.messages] == roles
    assert reply.messages == chat.messages[1:]
    assert_valid(chat.messages)
    asked = model.requests[0]
    assert asked.messages[1].text == "charter: The law of the town.\n\nAll may enter."
    assert asked.messages[2].text == "house (street://Main/7): Who lives there.\n\nJo lives at Main 7"
    assert {"weather", "wait", "picture"} <= {tool.name for tool in asked.tools}


async def test_the_asynchronous_chat_does_the_same(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        chat = AsyncChat(ScriptedModel(call("weather", city="Oslo"), "Wear a coat.", "A thick one."))
        reply = await chat.with_tools(client).ask("What should I wear?")
        assert str(reply) == "Wear a coat."
        assert str(await chat.ask("Which?")) == "A thick one."
        assert [message.role for message in chat.messages] == [
            "user", "assistant", "tool", "assistant", "user", "assistant",
        ]  # fmt: skip


@pytest.mark.covers("CHAT-02")
async def test_the_calls_of_one_answer_are_made_at_the_same_time(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        calls = [call("meet", name=name, others=2) for name in ("Ann", "Bob", "Cy")]
        chat = AsyncChat(ScriptedModel(calls, "They met.")).with_tools(client)
        async with asyncio.timeout(60):  # none of them returns before all have come
            reply = await chat.ask("Let them meet")
        assert [result.text for result in reply.tool_results] == ["Ann met 2", "Bob met 2", "Cy met 2"]
        assert_valid(chat.messages)


@pytest.mark.covers("LMT-05")
async def test_what_a_tool_says_went_wrong_is_told_to_the_model(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        model = ScriptedModel(call("fail", reason="The bridge is closed"), "We swim.")
        chat = AsyncChat(model).with_tools(client)
        reply = await chat.ask("Cross the river")
        [result] = reply.tool_results
        assert result.is_error
        assert result.text == "The bridge is closed"
        assert result.result.is_error
        assert model.requests[1].messages[-1].is_error


@pytest.mark.covers("LMT-06", "LMT-07")
async def test_media_links_and_embedded_resources_reach_the_model(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        model = ScriptedModel([call("picture"), call("read"), call("weather", city="Rome")], "I see.")
        await AsyncChat(model).with_tools(client).ask("Look")
        picture, book, weather = model.requests[1].messages[-3:]
        assert picture.content == [Text("The town,\nfrom above:"), Media(PICTURE, "image/png")]
        assert book.text == "Once upon a time\n[second](book:///2): The second book"
        assert weather.text == '{"city":"Rome","celsius":4.0}'


@pytest.mark.covers("CHAT-05")
async def test_a_result_over_the_budget_is_cut_for_the_model_and_whole_for_the_program(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel(call("archive", size=5000), "Much."), max_result_characters=100)
        [result] = (await chat.with_tools(client).ask("Read")).tool_results
        assert "4901 of 5001 characters were left out" in result.text
        assert result.text.endswith("z")
        assert len(result.result.text) == 5001
        chat = AsyncChat(ScriptedModel(call("archive", size=90_000), "Much."), max_result_characters=None)
        [result] = (await chat.with_tools(client).ask("Read")).tool_results
        assert len(result.text) == 90_001


@pytest.mark.covers("LMR-02", "LMR-07")
async def test_resources_and_templates_are_shown_to_the_model(town):
    async with AsyncClient(town.server) as client:
        model = ScriptedModel("Seen.")
        chat = AsyncChat(model).with_resources(await client.resource("charter"), await client.resource("seal"))
        chat.with_resource_template(await client.resource_template("house"), {"name": "Main", "number": 1})
        await chat.ask("What is this?")
        charter, seal, house, question = model.requests[0].messages
        assert charter.role == seal.role == house.role == "user"
        assert seal.content == [Text("seal"), Media(PICTURE, "image/png", "town://seal")]
        assert house.text.endswith("Jo lives at Main 1")
        assert question.text == "What is this?"


@pytest.mark.covers("LMR-02")
async def test_a_resource_or_template_adds_itself_to_a_chat(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel("Seen."))
        assert (await client.resource("charter")).include(chat) is chat
        (await client.resource_template("house")).include(chat, name="Main", number=1)
        await chat.ask("What is this?")
        texts = [message.text for message in chat.messages]
        assert texts[:2] == [
            "charter: The law of the town.\n\nAll may enter.",
            "house (street://Main/1): Who lives there.\n\nJo lives at Main 1",
        ]


@pytest.mark.covers("LMR-02", "CHAT-12")
def test_a_resource_of_a_blocking_client_adds_itself_to_a_blocking_chat(town):
    with Client(town.server) as client:
        chat = client.resource("charter").include(Chat(ScriptedModel("Seen.")))
        client.resource_template("house").include(chat, name="Main", number=1).ask("What is this?")
        assert [message.text.partition("\n\n")[2] for message in chat.messages[:2]] == [
            "All may enter.",
            "Jo lives at Main 1",
        ]
        with pytest.raises(TypeError, match="is blocking; use a Chat"):
            client.resource("charter").include(AsyncChat(ScriptedModel()))


@pytest.mark.covers("CHAT-31")
def test_a_chat_shows_its_model_and_how_many_messages_and_tools_it_has(town):
    chat = Chat("openai:gpt-4.1", api_key="sk-of-this-test", base_url="http://jo:secret@127.0.0.1:9/v1")
    assert repr(chat) == "<Chat 'openai:gpt-4.1': 0 messages, 0 tools>"
    with Client(town.server) as client:
        weather = client.tool("weather")
        chat = Chat(ScriptedModel("Fine.")).with_instructions("The code is 1234.").with_tools(weather)
        assert repr(chat) == "<Chat 'scripted': 1 message, tools not listed yet>"
        chat.ask("Hello")
        assert repr(chat) == "<Chat 'scripted': 3 messages, 1 tool>"
        assert repr(chat.with_tools(client)) == "<Chat 'scripted': 3 messages, tools not listed yet>"
    assert repr(AsyncChat(ScriptedModel())) == "<AsyncChat 'scripted': 0 messages, 0 tools>"


@pytest.mark.covers("LMP-02")
async def test_a_prompt_is_asked_or_added(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        model = ScriptedModel("Good morning, Jo!", "And a good evening.")
        chat = AsyncChat(model)
        reply = await chat.ask_prompt(await client.prompt("greet"), arguments={"name": "Jo"})
        assert str(reply) == "Good morning, Jo!"
        assert [(message.role, message.text) for message in model.requests[0].messages] == [
            ("user", "I am Jo."),
            ("assistant", "Welcome!"),
            ("user", "Now greet me properly."),
        ]
        chat.with_prompt(await client.prompt("greet"), arguments={"name": "Ann"})
        assert str(await chat.ask("Go on")) == "And a good evening."
        assert [message.text for message in model.requests[1].messages[-4:]][0::3] == ["I am Ann.", "Go on"]


@pytest.mark.covers("LCP-01")
def test_arguments_of_prompts_and_templates_are_completed_before_they_are_used(town):
    with Client(town.server) as client:
        greet, house = client.prompt("greet"), client.resource_template("house")
        assert greet.complete("name", "Jo").values == ["Jo", "Joan"]
        street = house.complete("name", "Ma").values[1]
        chat = Chat(ScriptedModel("Hello")).with_resource_template(house, {"name": street, "number": 2})
        assert "Jo lives at Market 2" in chat.ask_prompt(greet, {"name": "Joan"}).messages[0].text


@pytest.mark.covers("CHAT-03")
async def test_a_prompt_or_resource_that_cannot_be_had_is_raised_once_and_the_chat_goes_on(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel("Fine."))
        with pytest.raises(TypeError, match="needs the argument 'name'"):
            await chat.ask_prompt(await client.prompt("greet"), {})
        chat.with_resource(await client.resource_template("house"), {"number": 1})
        with pytest.raises(TypeError, match="needs the argument 'name'"):
            await chat.ask("Who lives there?")
        assert chat.messages == []
        assert str(await chat.ask("Hello")) == "Fine."


async def test_what_is_no_resource_or_prompt_is_refused_at_once(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel())
        with pytest.raises(TypeError, match="is not a resource or resource template of an AsyncClient"):
            chat.with_resource("town://charter")
        with pytest.raises(TypeError, match="is not a prompt of an AsyncClient"):
            chat.with_prompt("greet")
        with pytest.raises(TypeError, match="takes no arguments; a resource template does"):
            chat.with_resource(await client.resource("charter"), {"a": 1})


@pytest.mark.covers("CHAT-12")
def test_resources_and_prompts_of_the_other_kind_of_client_are_refused(town):
    with Client(town.server) as client:
        for method, given in (("with_resource", client.resource("charter")), ("with_prompt", client.prompt("greet"))):
            with pytest.raises(TypeError, match="is blocking; use a Chat, or take it from an AsyncClient"):
                getattr(AsyncChat(ScriptedModel()), method)(given)
            with pytest.raises(TypeError, match="take it from a Client, or use AsyncChat"):
                getattr(Chat(ScriptedModel()), method)(given.asynchronous)


@pytest.mark.covers("CHAT-06")
def test_files_are_attached_to_a_question(tmp_path):
    (tmp_path / "notes.txt").write_text("Buy tea")
    (tmp_path / "photo.png").write_bytes(PIXEL)
    model = ScriptedModel("Tea.", "A town.")
    chat = Chat(model)
    chat.ask("What to buy?", attachments=[tmp_path / "notes.txt", str(tmp_path / "photo.png")])
    assert model.requests[0].messages[0].content == [
        Text("What to buy?"),
        Text("\n\nnotes.txt:\n\nBuy tea"),
        Media(PICTURE, "image/png", "photo.png"),
    ]
    chat.ask("And this?", attachments=tmp_path / "photo.png")
    assert model.requests[1].messages[-1].content[1:] == [Media(PICTURE, "image/png", "photo.png")]


def test_an_attachment_that_cannot_be_read_changes_nothing(tmp_path):
    chat = Chat(ScriptedModel("Fine."))
    with pytest.raises(FileNotFoundError):
        chat.ask("See", attachments=[tmp_path / "absent.png"])
    assert chat.messages == []
    assert str(chat.ask("Hello")) == "Fine."


@pytest.mark.covers("CHAT-13")
def test_usage_is_counted_for_each_turn_and_for_the_whole_conversation(town):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Wear a coat.", "Yes.")).with_tools(client)
        first = chat.ask("one two three")
        assert first.usage == Usage(3 + 4, 1 + 3)
        second = chat.ask("Sure?")
        assert second.usage.output_tokens == 1
        assert chat.usage == first.usage + second.usage
        assert chat.usage.total_tokens == chat.usage.input_tokens + chat.usage.output_tokens


@pytest.mark.covers("CHAT-14")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_observers_are_told_of_calls_results_and_messages(town, kind):
    told = []

    def observer(name):
        async def asynchronous(what):
            told.append((name, type(what).__name__))

        return asynchronous if kind == "async" else lambda what: told.append((name, type(what).__name__))

    with Client(town.server) as client:
        chat = Chat(
            ScriptedModel(call("weather", city="Oslo"), "Wear a coat."),
            on_tool_call=observer("call"),
            on_tool_result=observer("result"),
            on_message=observer("message"),
        )
        chat.with_tools(client).ask("What to wear?")
    assert told == [
        ("message", "Message"),
        ("message", "Message"),
        ("call", "ToolCall"),
        ("message", "Message"),
        ("result", "ChatToolResult"),
        ("message", "Message"),
    ]


@pytest.mark.covers("CHAT-14")
def test_observers_that_fail_harm_nothing(town, caplog):
    def fails(what):
        raise RuntimeError(f"no {what}")

    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Wear a coat.")).with_tools(client)
        chat.on_tool_call = chat.on_tool_result = chat.on_message = fails
        assert str(chat.ask("What to wear?")) == "Wear a coat."
    assert caplog.text.count("An observer of the conversation failed") == 6


@pytest.mark.covers("CHAT-14")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_observer_that_is_slow_delays_neither_the_model_nor_the_calls(town, kind):
    model = ScriptedModel(call("weather", city="Oslo"), "Wear a coat.")
    answered, told = threading.Event(), []

    def slow(message):
        # The first message is told only after the model has given its last answer.
        assert answered.wait(DEADLINE)
        told.append(message)

    async def slow_async(message):
        await asyncio.to_thread(slow, message)

    def stream(chat):
        for chunk in chat.stream("What to wear?"):
            if chunk.text and not answered.is_set():
                assert told == []
                answered.set()
            yield chunk.text

    with Client(town.server) as client:
        chat = Chat(model, on_message=slow if kind == "plain" else slow_async).with_tools(client)
        assert "".join(stream(chat)) == "Wear a coat."
    # The turn ends when all were told.
    assert told == chat.messages


@pytest.mark.covers("CHAT-14")
@pytest.mark.parametrize("error", [ModelError("busy", 429), None])
def test_observers_were_told_of_everything_when_a_turn_ends(town, error):
    told = []

    async def slow(message):
        await asyncio.sleep(0.01)
        told.append(message)

    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), error or "Fine."), on_message=slow).with_tools(client)
        with pytest.raises(ModelError) if error else nullcontext():
            chat.ask("Go")
        assert told == chat.messages
        chat.with_model(ScriptedModel("Fine."))
        chat.step("And now?")
        assert told == chat.messages


@pytest.mark.covers("CHAT-14")
async def test_an_observer_that_begins_another_turn_is_refused_and_does_not_hang(town, caplog):
    async def again(message):
        await chat.ask("Again")

    chat = AsyncChat(ScriptedModel("Fine."), on_message=again)
    async with asyncio.timeout(DEADLINE):
        await chat.ask("Hello")
    assert caplog.text.count("A turn of this chat still runs") == 2


@pytest.mark.covers("CHAT-14", "CHAT-24")
async def test_who_gives_a_turn_up_does_not_wait_for_its_observers_and_they_are_told(town):
    told, release = [], asyncio.Event()

    async def slow(message):
        await release.wait()
        told.append(message)

    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel(call("wait"), "Fine."), on_message=slow).with_tools(client)
        turn = asyncio.create_task(chat.ask("Go"))
        assert await asyncio.to_thread(town.started.wait, DEADLINE)
        await give_up(turn)
        assert told == []
        release.set()
        await chat.ask("And now?")
        assert told == chat.messages


@pytest.mark.covers("CHAT-15")
async def test_a_model_that_calls_tools_for_ever_is_stopped_and_the_conversation_goes_on(town):
    async with AsyncClient(town.server) as client:
        again = [call("weather", city="Oslo")] * 3
        chat = AsyncChat(ScriptedModel(*again, "At last."), max_rounds=3).with_tools(client)
        with pytest.raises(RoundLimit, match="in 3 rounds"):
            await chat.ask("What to wear?")
        assert_valid(chat.messages)
        assert len(town.called) == 3
        assert str(await chat.ask()) == "At last."


@pytest.mark.covers("LCA-03")
async def test_a_tool_that_came_in_the_middle_of_a_turn_can_be_called_in_it(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        model = ScriptedModel(call("build", name="museum"), call("museum"), "Visited.")
        chat = AsyncChat(model).with_tools(client)
        await client.tools()
        reply = await chat.ask("Build and visit")
        # A change is told on its own way, and may come after the result.
        if reply.tool_results[1].is_error:
            chat.with_model(ScriptedModel(call("museum"), "Visited."))
            reply = await chat.ask("Try again")
        assert reply.tool_results[-1].text == "in museum"


def test_instructions_are_replaced_and_come_first():
    model = ScriptedModel("a", "b")
    chat = Chat(model).with_instructions("Be brief.")
    chat.ask("x")
    chat.with_instructions("Be long.").ask("y")
    texts = [[message.text for message in asked.messages] for asked in model.requests]
    assert texts == [["Be brief.", "x"], ["Be long.", "x", "a", "y"]]


@pytest.mark.covers("CHAT-16")
def test_another_model_and_temperature_go_on_with_the_conversation():
    first, second = ScriptedModel("one"), ScriptedModel("two")
    chat = Chat(first, temperature=0.5, max_tokens=10, extra={"seed": 1})
    chat.ask("x")
    chat.with_model(second).with_temperature(0.1).ask("y")
    assert (first.requests[0].options.temperature, first.requests[0].options.max_tokens) == (0.5, 10)
    assert first.requests[0].options.extra == {"seed": 1}
    assert second.requests[0].options.temperature == 0.1
    assert [message.text for message in second.requests[0].messages] == ["x", "one", "y"]


@pytest.mark.covers("CHAT-17")
def test_a_conversation_is_kept_and_taken_up_again(town):
    import msgspec

    with Client(town.server) as client:
        chat = Chat(ScriptedModel(call("picture"), "Nice.")).with_tools(client)
        chat.ask("Show me")
        kept = msgspec.json.encode(chat.messages)
        model = ScriptedModel("Still nice.")
        chat = Chat(model)
        chat.messages = msgspec.json.decode(kept, type=list[Message])
        assert str(chat.ask("And now?")) == "Still nice."
        assert [message.role for message in model.requests[0].messages] == [
            "user", "assistant", "tool", "assistant", "user",
        ]  # fmt: skip


@pytest.mark.covers("CHAT-04")
def test_a_conversation_that_was_kept_in_the_middle_of_a_call_is_made_whole():
    model = ScriptedModel("Then not.")
    chat = Chat(model)
    chat.messages += [
        Message.user("Go"),
        Message.assistant("", [call("one"), call("two")]),
        Message("tool", [Text("1")], tool_call_id="id-one"),
        Message.user("Hello?"),
    ]
    chat.ask("Well?")
    assert_valid(chat.messages)
    assert model.requests[0].messages[3].text == "Error: The call was given up before it was made"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"temprature": 1}, "did you mean 'temperature'"),
        ({"reasoning_effort": "low"}, "extra="),
        ({"max_rounds": 0}, "max_rounds must be more than 0"),
        ({"max_rounds": 2.5}, "max_rounds must be an integer"),
        ({"on_approval": 3}, "on_approval must be a function"),
        ({"on_message": "x"}, "on_message must be a function"),
        ({"policy": "*"}, "policy must be a Policy"),
        ({"tool_timeout": -1}, "tool_timeout must be more than 0"),
        ({"base_url": "http://x"}, "base_url can be given only"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, error):
    for face in (Chat, AsyncChat):
        with pytest.raises((TypeError, ValueError), match=error):
            face(ScriptedModel(), **options)


def test_options_that_are_none_are_as_if_they_were_not_given():
    given = dict.fromkeys(ChatOptions.__annotations__)
    assert str(Chat(ScriptedModel("Fine."), **given).ask("Hello")) == "Fine."


def test_a_name_that_nobody_has_is_not_found(town):
    with Client(town.server) as client, pytest.raises(NotFound):
        Chat(ScriptedModel()).with_tools(client.tool("nothing"))


def test_a_model_that_has_nothing_to_say_says_so():
    with pytest.raises(ModelError, match="script of scripted is over"):
        Chat(ScriptedModel()).ask("Hello")


@pytest.mark.covers("CHAT-29")
def test_a_chat_closes_what_it_opened_to_its_provider_and_opens_it_anew():
    with Provider(*[Say("Fine.")] * 4) as provider:
        where = {"base_url": provider.openai_url, "api_key": "sk-of-this-test"}
        with Chat("openai:test", **where) as chat:
            assert str(chat.ask("How are you?")) == "Fine."
        assert str(chat.ask("And now?")) == "Fine."
        chat.close()

        async def talk():
            async with AsyncChat("openai:test", **where) as chat:
                assert str(await chat.ask("How are you?")) == "Fine."

        asyncio.run(talk())
        chat = Chat("openai:test", **where)
        chat.ask("Hello")
        models = chat._twin._models
        del chat
        gc.collect()
        assert closed(models), "what nobody refers to any more is not closed"


def closed(models):
    """Whether the connections of models are closed before the deadline."""
    ends = time.monotonic() + DEADLINE
    while any(model._providers for model in models._created) and time.monotonic() < ends:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), portal().loop).result(DEADLINE)
    return not any(model._providers for model in models._created)


def test_a_model_that_was_given_is_left_open_for_whoever_gave_it():
    class Closing(ScriptedModel):
        closed = False

        async def aclose(self):
            self.closed = True

    model = Closing("Fine.")
    with Chat(model) as chat:
        chat.ask("Hello")
    assert not model.closed


def test_the_blocking_chat_shows_several_resources_and_its_observers(town):
    with Client(town.server) as client:
        chat = Chat(ScriptedModel("Seen."), on_tool_call=print, on_tool_result=repr, on_message=str)
        chat.with_resources(client.resource("charter"), client.resource("seal"))
        assert len(chat.ask("What is this?").messages) == 4
        assert (chat.on_tool_call, chat.on_tool_result, chat.on_message) == (print, repr, str)


def test_a_program_that_closes_nothing_ends_without_complaints():
    program = """
from dragoman import Chat
chat = Chat("openai:test", base_url=__import__("sys").argv[1], api_key="sk-of-this-test")
print(chat.ask("How are you?"))
"""
    with Provider(Say("Fine.")) as provider:
        command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program]
        ended = subprocess.run([*command, provider.openai_url], capture_output=True, text=True, timeout=2 * DEADLINE)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("Fine.\n", "", 0)
