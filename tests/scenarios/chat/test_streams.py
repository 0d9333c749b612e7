"""Turns that are read piece by piece: to their end, left early, cut, interrupted, from threads and loops."""

import asyncio
import gc
import os
import threading
import time
import urllib.request

import pytest

from chat.provider import Provider, Say
from dragoman import AsyncChat, AsyncClient, Chat, Client
from dragoman.chat import Delta, Message
from dragoman.errors import DragomanError
from dragoman.runtime.portal import portal
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, assert_valid, call, happened
from scenarios.client_programs import run
from scenarios.scripted_server import served


class Talkative:
    """A model that says many words, and notes how far it got."""

    name = "talkative"

    def __init__(self, words):
        self.words = words
        self.said = 0
        self.closed = threading.Event()

    async def generate(self, messages, tools, options):
        try:
            for _ in range(self.words):
                self.said += 1
                yield Delta("word ")
                await asyncio.sleep(0)
        finally:
            self.closed.set()


def shape(chunks):
    """What kinds of chunks there were, each run of a kind once."""
    kinds = []
    for chunk in chunks:
        kind = "text" if chunk.text else "calls" if chunk.tool_calls else "results" if chunk.tool_results else "end"
        if kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds


@pytest.mark.covers("LSTM-01")
def test_text_calls_and_results_come_as_they_happen(town, era):
    with Client(town.server, mode=era) as client:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Wear a thick coat.")).with_tools(client)
        chunks = list(chat.stream("What to wear?"))
        assert shape(chunks) == ["calls", "results", "text", "end"]
        assert chunks[0].tool_calls[0].name == "weather"
        assert [chunk.stop_reason for chunk in chunks if chunk.stop_reason] == ["toolUse", "endTurn"]
        assert (chunks[0].stop_reason, chunks[-1].stop_reason) == ("toolUse", "endTurn")
        assert chunks[1].tool_results[0].text == '{"city":"Oslo","celsius":4.0}'
        assert "".join(chunk.text for chunk in chunks) == "Wear a thick coat."
        assert len(chunks) > 4
        assert str(chat.messages[-1]) == "Wear a thick coat."


async def test_the_asynchronous_stream_gives_the_same(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        chat = AsyncChat(ScriptedModel(call("weather", city="Oslo"), "Wear a thick coat.")).with_tools(client)
        chunks = [chunk async for chunk in chat.stream("What to wear?")]
        assert shape(chunks) == ["calls", "results", "text", "end"]


def test_nothing_is_lost_of_a_stream_that_is_longer_than_what_may_be_ahead():
    chat = Chat(Talkative(1000))
    assert sum(1 for chunk in chat.stream("Talk")) == 1000
    assert chat.messages[-1].text == "word " * 1000


@pytest.mark.covers("CHAT-25")
def test_a_model_does_not_run_far_ahead_of_whoever_reads():
    model = Talkative(100_000)
    stream = Chat(model).stream("Talk")
    next(stream)
    settled = asyncio.run_coroutine_threadsafe(turns_of_the_loop(1000), portal().loop)
    settled.result(DEADLINE)
    assert model.said <= 110
    stream.close()
    assert model.closed.is_set()


async def turns_of_the_loop(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.covers("CHAT-25")
def test_the_end_comes_also_when_as_much_is_ahead_as_may_be():
    for words in (99, 100, 101, 102):
        model = Talkative(words)
        stream = Chat(model).stream("Talk")
        next(stream)
        asyncio.run_coroutine_threadsafe(turns_of_the_loop(500), portal().loop).result(DEADLINE)
        assert sum(1 for chunk in stream) == words - 1
        assert model.closed.is_set()


@pytest.mark.covers("CHAT-25")
def test_streams_need_no_threads_of_their_own():
    before = {thread.name for thread in threading.enumerate()}
    streams = [Chat(Talkative(100_000)).stream("Talk") for _ in range(20)]
    for stream in streams:
        next(stream)
    assert {thread.name for thread in threading.enumerate()} - before <= {"dragoman portal", "dragoman-worker"}
    for stream in streams:
        stream.close()


@pytest.mark.covers("CHAT-24")
@pytest.mark.parametrize("way", ["close", "break", "raise"])
def test_a_stream_that_is_left_early_gives_up_the_call_and_tells_the_server(town, era, way):
    with Client(town.server, mode=era) as client:
        chat = Chat(ScriptedModel(call("wait"), "Fine.")).with_tools(client)
        leave(chat.stream("Go"), town, way)
        assert town.given_up.wait(DEADLINE)
        assert chat.messages[-1].text == "Error: The call was given up, and may have been carried out or not"
        assert_valid(chat.messages)
        assert str(chat.ask("And now?")) == "Fine."


def leave(stream, town, way):
    if way == "close":
        next(stream)
        assert town.started.wait(DEADLINE)
        stream.close()
    elif way == "break":
        for _ in stream:
            assert town.started.wait(DEADLINE)
            break
        del stream
        gc.collect()
    else:
        next(stream)
        assert town.started.wait(DEADLINE)
        with pytest.raises(ZeroDivisionError):
            stream.throw(ZeroDivisionError)


@pytest.mark.covers("CHAT-24")
async def test_an_asynchronous_stream_that_is_left_is_closed_before_the_next_turn(town, era):
    async with AsyncClient(town.server, mode=era) as client:
        chat = AsyncChat(ScriptedModel("Many words of text", call("picture"), "Fine.")).with_tools(client)
        async for _ in chat.stream("Go"):
            break
        async for chunk in chat.stream("Go on"):
            if chunk.tool_calls:
                break
        assert str(await chat.ask("And now?")) == "Fine."
        assert_valid(chat.messages)
        assert chat.messages[-3].text == "Error: The call was given up before it was made"


async def test_an_asynchronous_stream_that_nobody_reads_on_is_named_as_what_is_in_the_way(town):
    chat = AsyncChat(ScriptedModel("Many words of text", "Fine."))
    stream = chat.stream("Go")
    await anext(stream)
    with pytest.raises(DragomanError, match="read or close its stream"):
        await chat.ask("And now?")
    await stream.aclose()
    assert str(await chat.ask("And now?")) == "Fine."


async def test_a_stream_is_given_up_with_the_task_that_reads_it(town):
    async with AsyncClient(town.server) as client:
        chat = AsyncChat(ScriptedModel(call("wait"), "Fine.")).with_tools(client)

        async def read():
            async for _ in chat.stream("Go"):
                pass

        reading = asyncio.create_task(read())
        await happened(town.started)
        reading.cancel()
        assert str(await chat.ask("And now?")) == "Fine."
        await happened(town.given_up)
        with pytest.raises(asyncio.CancelledError):
            await reading


def test_a_stream_that_was_never_read_asks_nothing():
    model = ScriptedModel("Fine.")
    chat = Chat(model)
    chat.stream("Go").close()
    del chat
    assert model.requests == []


@pytest.mark.covers("CHAT-30")
async def test_a_blocking_chat_works_where_a_loop_runs_as_in_a_notebook(town, era):
    with Client(town.server, mode=era) as client, Provider(Say("Hello.")) as provider:
        chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Wear a coat.", "Yes.", "Bye."), on_message=str)
        chat.with_tools(client).with_resource(client.resource("charter"))
        assert str(chat.ask("What to wear?")) == "Wear a coat."
        assert "".join(chunk.text for chunk in chat.stream("Sure?")) == "Yes."
        assert chat.step("Bye").is_last
        where = {"base_url": provider.openai_url, "api_key": "sk-of-this-test"}
        with Chat("openai:test", **where) as other:
            assert str(other.ask("Hello")) == "Hello."
    await asyncio.sleep(0)  # the loop of the caller goes on


@pytest.mark.covers("CHAT-30")
@pytest.mark.parametrize("way", ["ask", "stream"])
def test_a_blocking_chat_in_the_loop_that_would_serve_it_says_what_to_use_instead(way):
    chat = Chat(ScriptedModel("Fine."))

    async def nested():
        chat.ask("Go") if way == "ask" else next(chat.stream("Go"))

    with pytest.raises(DragomanError, match="would wait for itself; await its asynchronous twin there"):
        portal().run(nested())
    assert chat.messages == []


def in_threads(count, function):
    failures = []

    def guarded(number):
        try:
            function(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not [thread for thread in threads if thread.is_alive()]
    return failures


@pytest.mark.covers("CHAT-26")
def test_threads_talk_at_the_same_time_with_a_chat_each_and_one_client(town):
    def talk(number):
        model = ScriptedModel(call("weather", city=str(number)), f"{number} is cold.")
        chat = Chat(model).with_tools(client)
        text = "".join(chunk.text for chunk in chat.stream("Go")) if number % 2 else str(chat.ask("Go"))
        assert text == f"{number} is cold."
        assert_valid(chat.messages)

    with Client(town.server) as client:
        assert in_threads(10, talk) == []
    assert sorted(town.called) == sorted(str(number) for number in range(10))


@pytest.mark.covers("CHAT-26")
def test_threads_that_share_one_chat_are_refused_or_answered_and_spoil_nothing(town):
    def talk(number):
        chat.ask(str(number))

    with Client(town.server) as client:
        answers = [answer for _ in range(20) for answer in (call("weather", city="Oslo"), "Cold.")]
        chat = Chat(ScriptedModel(*answers)).with_tools(client)
        failures = in_threads(10, talk)
        assert all(isinstance(error, DragomanError) for error in failures)
        assert len(failures) < 10
        assert_valid(chat.messages)
        assert sum(message.role == "user" for message in chat.messages) == 10 - len(failures)


@pytest.mark.covers("CHAT-24")
@pytest.mark.parametrize("way", ["ask", "stream"])
@pytest.mark.parametrize("over", ["memory", "stdio"])
def test_an_interrupted_turn_is_given_up_and_the_next_one_works(over, way):
    lines = run(
        f"""
        from dragoman import Chat
        from dragoman.chat import ToolCall
        from dragoman.testing import ScriptedModel

        started = threading.Event()
        threading.Thread(target=lambda: (started.wait(30), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
        with Client(target, on_progress=lambda *_: started.set()) as client:
            chat = Chat(ScriptedModel(ToolCall("1", "wait", {{"name": "Jo"}}), "Fine.")).with_tools(client)
            try:
                {'chat.ask("Go")' if way == "ask" else 'list(chat.stream("Go"))'}
            except KeyboardInterrupt:
                print("interrupted")
            print([message.role for message in chat.messages])
            print(chat.ask("And now?"))
            print([message.role for message in chat.messages])
            print(client.call_tool("given_up").structured)
        """,
        over,
    )
    before, roles = "['user', 'assistant', 'tool']", "['user', 'assistant', 'tool', 'user', 'assistant']"
    assert lines == ["interrupted", before, "Fine.", roles, "['Jo']"]


def test_a_client_that_only_the_chat_holds_stays(town):
    chat = Chat(ScriptedModel(call("weather", city="Oslo"), "Cold.")).with_tools(Client(town.server))
    gc.collect()
    assert str(chat.ask("Go")) == "Cold."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_chat_that_was_made_before_a_fork_works_in_the_child():
    lines = run(
        """
        from dragoman import Chat
        from dragoman.chat import ToolCall
        from dragoman.testing import ScriptedModel

        client = Client(target)
        wanted = [ToolCall("1", "process", {})]
        chat = Chat(ScriptedModel(wanted, "one", wanted, "two")).with_tools(client)
        mine = chat.ask("Go").tool_results[0].text
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, chat.ask("Go").tool_results[0].text.encode())
            client.stop()
            os._exit(0)
        os.waitpid(child, 0)
        theirs = os.read(reading, 100).decode()
        print(mine != theirs and theirs.isdigit())
        print(chat.ask("Go").tool_results[0].text == mine)
        client.stop()
        """,
        "stdio",
    )
    assert lines == ["True", "True"]


def test_waiting_for_a_stream_that_is_left_has_a_bound(monkeypatch):
    class Stubborn:
        name = "stubborn"

        async def generate(self, messages, tools, options):
            try:
                yield Delta("word")
                await asyncio.Event().wait()
            finally:
                await asyncio.wait_for(released.wait(), DEADLINE)

    async def make():
        return asyncio.Event()

    monkeypatch.setattr("dragoman.chat.blocking.CLOSING_SECONDS", 0.05)
    released = asyncio.run_coroutine_threadsafe(make(), portal().loop).result(DEADLINE)
    chat = Chat(Stubborn())
    stream = chat.stream("Go")
    next(stream)
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < DEADLINE / 2
    portal().loop.call_soon_threadsafe(released.set)
    assert str(chat.with_model(ScriptedModel("Fine.")).ask("And now?")) == "Fine."


@pytest.mark.covers("LSTM-02")
def test_a_turn_is_streamed_into_an_answer_of_a_web_application_and_given_up_with_it(town):
    from starlette.applications import Starlette
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    async def ask(request):
        async def text():
            async with AsyncClient(town.server) as client:
                wanted = call("wait") if request.query_params["q"] == "wait" else call("weather", city="Oslo")
                chat = AsyncChat(ScriptedModel(Message.assistant("I look. ", [wanted]), "Cold.")).with_tools(client)
                async for chunk in chat.stream("Go"):
                    yield chunk.text

        return StreamingResponse(text())

    with served(Starlette(routes=[Route("/mcp", ask)])) as url:
        with urllib.request.urlopen(f"{url}?q=look", timeout=DEADLINE) as answer:
            assert answer.read() == b"I look. Cold."
        with urllib.request.urlopen(f"{url}?q=wait", timeout=DEADLINE) as answer:
            assert answer.read(1) == b"I"
            assert town.started.wait(DEADLINE)
        assert town.given_up.wait(DEADLINE)
