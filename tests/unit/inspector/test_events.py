"""What is pushed to the pages."""

import asyncio
import json
from functools import partial

from dragoman.inspector.events import MAX_LOGS, Events, encode


async def pushed(events, queue, count):
    async with asyncio.timeout(60):
        read = [json.loads(await queue.get()) for _ in range(count)]
    events.close()
    return read


async def test_any_traffic_is_one_event_with_its_totals():
    totals = {"last": 0, "kept": 0, "dropped": 0}
    events = Events(lambda: totals)
    with events.subscribed() as queue:
        for number in range(1, 1_000):
            totals["last"] = totals["kept"] = number
            events.push_traffic()
        events.flush()
        events.push("status")
        assert await pushed(events, queue, 2) == [
            {"event": "traffic", "last": 999, "kept": 999, "dropped": 0},
            {"event": "status"},
        ]


async def test_the_latest_progress_of_each_request_is_pushed():
    events = Events(dict)
    with events.subscribed() as queue:
        for number in range(50):
            events.push_progress("a", progress=number)
        events.push_progress("b", progress=1)
        read = await pushed(events, queue, 2)
    assert [(event["key"], event["progress"]) for event in read] == [("a", 49), ("b", 1)]


async def test_log_messages_that_are_too_many_are_counted_and_not_made():
    events, made = Events(dict), []

    def make(number):
        made.append(number)
        return {"data": number}

    with events.subscribed() as queue:
        for number in range(MAX_LOGS + 3):
            events.push_log("s1", partial(make, number))
        [read] = await pushed(events, queue, 1)
    assert (len(read["logs"]), read["logs"][0], read["leftOut"]) == (MAX_LOGS, {"server": "s1", "data": 0}, {"s1": 3})
    assert len(made) == MAX_LOGS


async def test_without_a_page_nothing_is_kept():
    events = Events(dict)
    events.push("status")
    events.push_traffic()
    with events.subscribed() as queue:
        events.flush()
        events.push("status")
        assert await pushed(events, queue, 1) == [{"event": "status"}]


def test_texts_that_are_no_unicode_and_values_that_are_no_json_become_texts():
    assert json.loads(encode({"a": ["\ud800", {"\udc00": 1}], "b": complex(1)})) == {
        "a": ["?", {"?": 1}],
        "b": "(1+0j)",
    }
