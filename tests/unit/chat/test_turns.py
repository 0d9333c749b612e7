"""One turn at a time."""

import asyncio

import pytest

from dragoman.chat.turns import Turns
from dragoman.errors import DragomanError
from scenarios.http_peer import scenario


@scenario
async def test_turns_follow_each_other():
    turns, had = Turns(), 0
    for _ in range(2):
        async with turns.begin():
            had += 1
    assert had == 2


@scenario
async def test_a_turn_that_fails_makes_way():
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        async with turns.begin():
            raise ZeroDivisionError
    async with turns.begin():
        pass


@pytest.mark.covers("CHAT-26")
@scenario
async def test_a_turn_within_a_turn_is_refused_and_leaves_the_first_alone():
    turns = Turns()
    async with turns.begin() as turn:
        for _ in range(2):
            with pytest.raises(DragomanError, match="still runs"):
                async with turns.begin():
                    pass
        assert not turn.ended.is_set()
    assert turn.ended.is_set()


@scenario
async def test_a_turn_that_is_given_up_is_waited_for():
    turns, began, finish = Turns(), asyncio.Event(), asyncio.Event()

    async def first():
        async with turns.begin():
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                await finish.wait()

    async def second():
        async with turns.begin():
            assert task.cancelling()
            return "second"

    task = asyncio.create_task(first())
    await began.wait()
    task.cancel()
    waiting = asyncio.create_task(second())
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    finish.set()
    assert await asyncio.wait_for(waiting, 10) == "second"


def test_a_turn_whose_loop_is_gone_is_in_nobodys_way():
    turns = Turns()

    kept = []

    async def hold():
        context = turns.begin()
        kept.append(context)
        await context.__aenter__()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(hold())
    loop.close()

    async def talk():
        async with turns.begin():
            return "talked"

    assert asyncio.run(talk()) == "talked"
