"""The records that match, kept up to date."""

import asyncio
import gc

from dragoman.inspector.traffic.filter import Filter
from dragoman.inspector.traffic.matching import SLICE, MatchingRecords
from dragoman.inspector.traffic.rows import Traffic, TrafficRecord


def add(traffic, *names, server="s1"):
    for name in names:
        traffic.add(server, "client", "text", str(name).encode(), {"a": []}, name="matched")


async def numbers(found):
    await found.update()
    return found.numbers


async def test_records_are_added_as_they_come_and_compared_once():
    traffic, compared = Traffic(), []

    class Noted(Filter):
        def matches(self, record):
            compared.append(record.row.number)
            return super().matches(record)

    found = MatchingRecords(traffic, Noted("a"))
    add(traffic, "a", "b", "a")
    assert await numbers(found) == [1, 3]
    add(traffic, "a")
    assert await numbers(found) == [1, 3, 4]
    assert compared == [1, 2, 3, 4]
    assert [found.place(number) for number in (1, 2, 3, 5)] == [0, 1, 1, 3]


async def test_records_of_one_server_are_found_with_and_without_a_filter():
    traffic = Traffic()
    add(traffic, "a", "b")
    add(traffic, "a", "b", server="s2")
    assert await numbers(MatchingRecords(traffic, Filter(), "s2")) == [3, 4]
    assert await numbers(MatchingRecords(traffic, Filter("b"), "s2")) == [4]
    assert await numbers(MatchingRecords(traffic, Filter())) == [1, 2, 3, 4]


async def test_records_that_the_traffic_drops_are_forgotten():
    traffic = Traffic(max_records=3)
    found = MatchingRecords(traffic, Filter())
    add(traffic, *"abc")
    assert await numbers(found) == [1, 2, 3]
    add(traffic, *"de")
    assert await numbers(found) == [3, 4, 5]
    traffic.clear()
    assert await numbers(found) == []
    add(traffic, "f")
    assert await numbers(found) == [6]


async def test_a_query_that_nobody_asks_again_keeps_no_dropped_record():
    traffic = Traffic(max_records=3)
    found = MatchingRecords(traffic, Filter())
    add(traffic, *"abc")
    await found.update()
    add(traffic, *"defg")
    gc.collect()
    ours = [one for one in gc.get_objects() if isinstance(one, TrafficRecord) and one.name == "matched"]
    assert sorted(record.row.number for record in ours) == [5, 6, 7]
    assert found.numbers == [1, 2, 3]


async def test_the_records_of_one_server_that_are_cleared_are_forgotten():
    traffic = Traffic()
    found = MatchingRecords(traffic, Filter())
    for place in ("s1", "s2", "s1", "s2"):
        add(traffic, "a", server=place)
    assert await numbers(found) == [1, 2, 3, 4]
    traffic.clear("s1")
    assert await numbers(found) == [2, 4]


async def test_many_records_let_other_work_go_on_and_two_pages_may_ask_at_once():
    traffic, turns = Traffic(), []
    found = MatchingRecords(traffic, Filter("a"))
    add(traffic, *("a" * (3 * SLICE)))

    async def other():
        while len(found.numbers) < 3 * SLICE:
            turns.append(len(found.numbers))
            await asyncio.sleep(0)

    await asyncio.gather(found.update(), other(), found.update())
    assert found.numbers == list(range(1, 3 * SLICE + 1))
    assert turns
