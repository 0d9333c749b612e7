"""Conversations are made whole: every call has its result."""

import asyncio

import pytest

from dragoman.chat.messages import Message, Text, ToolCall
from dragoman.chat.tool_calls import NOT_MADE, CallProgress, settle
from scenarios.chat_checks import assert_valid
from scenarios.http_peer import scenario

USER = Message.user("Go")


def wants(*ids):
    return Message.assistant("", [ToolCall(id, "go", {}) for id in ids])


def result(id):
    return Message("tool", [Text("done")], tool_call_id=id)


@pytest.mark.covers("CHAT-04")
@pytest.mark.parametrize(
    ("messages", "missing"),
    [
        ([], 0),
        ([USER, wants("a"), result("a"), Message.assistant("Done.")], 0),
        ([USER, wants("a")], 1),
        ([USER, wants("a", "b"), result("b")], 1),
        ([USER, wants("a", "b"), USER, wants("c"), result("c"), USER], 2),
        ([wants("a"), wants("b"), wants("c")], 3),
    ],
)
def test_what_has_no_result_gets_one_where_it_belongs(messages, missing):
    kept = list(messages)
    added = settle(kept)
    assert len(added) == missing
    assert all(message.is_error and message.text == f"Error: {NOT_MADE}" for message in added)
    assert [message for message in kept if not any(message is one for one in added)] == messages
    assert_valid(kept)
    assert settle(kept) == []


async def reports(tasks):
    return [progress async for progress in CallProgress().until_ended(tasks)]


@scenario
async def test_whoever_is_cancelled_waits_until_all_are_given_up():
    ended = []

    async def work(number):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    waiting = asyncio.create_task(reports(tasks))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert sorted(ended) == [0, 1, 2]
    assert all(task.cancelled() for task in tasks)


@scenario
async def test_nothing_to_wait_for_is_no_wait():
    async with asyncio.timeout(60) as clock:
        assert await reports([]) == []
    assert not clock.expired()
