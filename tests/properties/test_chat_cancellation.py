"""Wherever a turn is given up, what is left of it is a conversation that providers take and that goes on."""

import asyncio

import pytest

from dragoman import AsyncChat, AsyncClient
from dragoman.chat import Policy
from dragoman.testing import ScriptedModel
from scenarios.chat_checks import DEADLINE, assert_valid, call
from scenarios.chat_server import Town

CALLS = [call("weather", city="Oslo"), call("fail", reason="x"), call("nothing"), call("picture")]
MOST_MOMENTS = 2000


async def after(moments):
    for _ in range(moments):
        await asyncio.sleep(0)


def chat_with(client, observed):
    async def observe(what):
        observed.append(what)
        await asyncio.sleep(0)

    async def rule(tool, arguments):
        await asyncio.sleep(0)
        return False

    async def approve(approval):
        await asyncio.sleep(0)
        return True

    model = ScriptedModel("Hello.", CALLS, CALLS[:2], "Done.")
    policy = Policy(deny=rule, ask=["weather"])
    chat = AsyncChat(model, policy=policy, on_approval=approve, on_tool_call=observe, on_message=observe)
    return chat.with_tools(client).with_instructions("Be brief.")


async def goes_on(chat):
    assert str(await chat.with_model(ScriptedModel("Fine.")).ask("And now?")) == "Fine."
    assert_valid(chat.messages)
    assert chat.pending_tool_calls == []


async def give_up(client, moments):
    """Give a turn up after some turns of the loop, and return whether it had ended before."""
    observed = []
    chat = chat_with(client, observed)
    await chat.ask("Hello?")
    turn = asyncio.create_task(chat.ask("Go"))
    await after(moments)
    had_ended = turn.done()
    turn.cancel()
    if moments % 2:  # what is left is seen at once, or by whoever asks next while it is given up
        await asyncio.wait([turn])
        assert turn.cancelled() is not had_ended
        assert_valid(chat.messages)
    await goes_on(chat)
    told = [message for message in observed if hasattr(message, "role")]
    assert told == [message for message in chat.messages if message.role != "system"]
    await asyncio.wait([turn])
    return had_ended


async def leave(client, chunks):
    """Leave a stream after some chunks, and return whether it was at its end."""
    chat = chat_with(client, [])
    await chat.ask("Hello?")
    stream = chat.stream("Go")
    for _ in range(chunks):
        if await anext(stream, None) is None:
            return True
    await stream.aclose()
    assert_valid(chat.messages)
    await goes_on(chat)
    return False


async def until_the_end(attempt):
    async with AsyncClient(Town().server) as client:
        for moments in range(MOST_MOMENTS):
            if await attempt(client, moments):
                return moments
    raise AssertionError("The turn never came to its end")


@pytest.mark.covers("CHAT-04")
def test_a_turn_can_be_given_up_at_every_moment():
    assert asyncio.run(asyncio.wait_for(until_the_end(give_up), 4 * DEADLINE)) > 20


@pytest.mark.covers("CHAT-04")
def test_a_stream_can_be_left_at_every_chunk():
    assert asyncio.run(asyncio.wait_for(until_the_end(leave), 4 * DEADLINE)) > 5
