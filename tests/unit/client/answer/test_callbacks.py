"""How many calls of a handler run at a time."""

import asyncio
import contextvars
import threading

import pytest

from dragoman.client.answer.callbacks import HandlerSlots
from scenarios.http_peer import DEADLINE, scenario


async def hold(slots, until, entered):
    async with slots.acquire():
        entered.append(until)
        await until.wait()


async def some_turns():
    for _ in range(10):
        await asyncio.sleep(0)


@scenario
async def test_slots_are_given_in_the_order_in_which_they_are_asked_for():
    slots, entered = HandlerSlots(2), []
    ends = [asyncio.Event() for _ in range(5)]
    holding = [asyncio.create_task(hold(slots, end, entered)) for end in ends]
    for number, end in enumerate(ends):
        await some_turns()
        assert entered == ends[: number + 2]
        end.set()
    await asyncio.wait_for(asyncio.gather(*holding), DEADLINE)


@scenario
async def test_who_is_cancelled_while_waiting_takes_no_place():
    slots, entered = HandlerSlots(1), []
    ends = [asyncio.Event() for _ in range(4)]
    first, second, third, fourth = (asyncio.create_task(hold(slots, end, entered)) for end in ends)
    await some_turns()
    second.cancel()
    await some_turns()
    ends[0].set()
    await first
    third.cancel()  # the place is on its way to it
    await some_turns()
    assert entered == [ends[0], ends[3]]
    assert second.cancelled()
    assert third.cancelled()
    ends[3].set()
    await asyncio.wait_for(fourth, DEADLINE)
    async with asyncio.timeout(DEADLINE), slots.acquire():
        pass


@pytest.mark.covers("CSR-15")
@scenario
async def test_a_plain_function_keeps_its_place_until_it_returns():
    slots, running, ends = HandlerSlots(1), threading.Event(), threading.Event()

    def work():
        running.set()
        ends.wait(DEADLINE)

    async def one():
        async with slots.acquire() as slot:
            await slot.call(work)

    given_up = asyncio.create_task(one())
    assert await asyncio.to_thread(running.wait, DEADLINE)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    following, entered = asyncio.Event(), []
    next_one = asyncio.create_task(hold(slots, following, entered))
    await some_turns()
    assert entered == []
    ends.set()
    following.set()
    await asyncio.wait_for(next_one, DEADLINE)
    assert entered == [following]


def test_slots_are_shared_by_event_loops():
    slots, most, running, lock = HandlerSlots(2), 0, 0, threading.Lock()

    async def one():
        nonlocal most, running
        async with slots.acquire():
            with lock:
                running += 1
                most = max(most, running)
            await asyncio.sleep(0.001)
            with lock:
                running -= 1

    async def many():
        await asyncio.wait_for(asyncio.gather(*(one() for _ in range(20))), DEADLINE)

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 2


async def test_handler_with_a_slot_does_not_wait_for_another_one():
    slots = HandlerSlots(1)
    async with asyncio.timeout(10), slots.acquire(), slots.acquire():
        waiting = asyncio.create_task(_acquired(slots), context=contextvars.Context())
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 10)


async def _acquired(slots: HandlerSlots) -> None:
    async with slots.acquire():
        pass
