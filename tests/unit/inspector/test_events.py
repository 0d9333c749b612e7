"""What is pushed to the pages."""

import asyncio
import json

from dragoman.inspector.events import MAX_LOGS, MAX_ROWS, Events, encode
from dragoman.inspector.traffic.rows import Row


def row(number):
    return Row(number, 0.0, "s1", "client", "message", 1)


async def pushed(events, subscriber, count):
    found = subscriber.events()
    async with asyncio.timeout(60):
        read = [json.loads(await anext(found)) for _ in range(count)]
    await found.aclose()
    events.close()
    return read


async def test_rows_come_together_and_those_that_are_too_many_are_counted():
    events = Events(lambda: {"last": 1, "kept": 1, "dropped": 0})
    with events.subscribed() as subscriber:
        for number in range(MAX_ROWS + 7):
            events.push_row(row(number))
        [batch] = await pushed(events, subscriber, 1)
    assert (len(batch["rows"]), batch["skipped"], batch["kept"]) == (MAX_ROWS, 7, 1)


async def test_the_latest_progress_of_each_request_is_pushed():
    events = Events(dict)
    with events.subscribed() as subscriber:
        for number in range(50):
            events.push_progress("a", progress=number)
        events.push_progress("b", progress=1)
        read = await pushed(events, subscriber, 2)
    assert [(event["key"], event["progress"]) for event in read] == [("a", 49), ("b", 1)]


async def test_log_messages_that_are_too_many_are_counted():
    events = Events(dict)
    with events.subscribed() as subscriber:
        for number in range(MAX_LOGS + 3):
            events.push_log(data=number)
        read = await pushed(events, subscriber, MAX_LOGS + 1)
    assert read[-1] == {"event": "notice", "server": None, "kind": "sampled", "detail": "3 log messages are not shown"}


async def test_without_a_page_nothing_is_kept():
    events = Events(dict)
    events.push("status")
    events.push_row(row(1))
    with events.subscribed() as subscriber:
        events.flush()
        events.push("status")
        assert await pushed(events, subscriber, 1) == [{"event": "status"}]


def test_texts_that_are_no_unicode_and_values_that_are_no_json_become_texts():
    assert json.loads(encode({"a": ["\ud800", {"\udc00": 1}], "b": complex(1)})) == {
        "a": ["?", {"?": 1}],
        "b": "(1+0j)",
    }
