"""What one process keeps for itself."""

import asyncio

from dragoman.stores import Memory, memory
from dragoman.stores.memory import MemoryLog, MemoryState


def after(log: MemoryLog, sequence: int) -> bytes:
    return asyncio.run(log.after(sequence))


def test_a_log_gives_what_comes_after_a_number():
    log = MemoryLog()
    for number in range(1, 5):
        log.append(number, b"%d" % number)
    assert after(log, 0) == b"1234"
    assert after(log, 2) == b"34"
    assert after(log, 4) == b""
    assert after(log, 99) == b""


def test_a_log_is_bounded_by_its_number_of_events():
    log = MemoryLog(max_events=3)
    for number in range(10):
        log.append(number, b"%d" % number)
    assert after(log, -1) == b"789"


def test_a_log_is_bounded_by_its_bytes_and_keeps_the_newest_whatever_its_size():
    log = MemoryLog(max_bytes=10)
    for number, event in enumerate([b"aaaa", b"bbbb", b"cc"], 1):
        log.append(number, event)
    assert after(log, 0) == b"aaaabbbbcc"
    log.append(4, b"d")
    assert after(log, 0) == b"bbbbccd"
    log.append(5, b"e" * 1000)
    assert after(log, 0) == b"e" * 1000
    log.append(6, b"f")
    assert after(log, 0) == b"f"


def test_nobody_else_is_on_the_bus_of_one_process():
    async def use() -> None:
        store = Memory()
        one, other = store.bus("group"), store.bus("group")
        heard: list[bytes] = []
        await one.open(lambda message: heard.append(message) or b"reply")
        await other.open(lambda message: heard.append(message) or b"reply")
        assert await one.publish(b"hello") == []
        assert await one.publish(b"hello", other.name) == []
        assert not heard
        assert one.name != other.name
        await one.close()
        await one.close()
        await other.close()

    asyncio.run(use())


def test_each_stream_has_a_log_of_its_own():
    store = Memory()
    one, other = store.event_log("one"), store.event_log("other")
    one.append(1, b"event")
    assert after(other, 0) == b""


def test_values_expire_and_the_oldest_gives_way(monkeypatch):
    monkeypatch.setattr(memory, "MAX_VALUES", 2)
    now = 0.0
    state = MemoryState(clock=lambda: now)

    async def use() -> None:
        nonlocal now
        await state.set("a", b"1", ttl=10)
        await state.set("b", b"2", ttl=20)
        assert [await state.get(key) for key in "abc"] == [b"1", b"2", None]
        await state.set("a", b"3", ttl=10)
        await state.set("c", b"4", ttl=10)
        assert [await state.get(key) for key in "abc"] == [b"3", None, b"4"]
        now = 10.0
        assert [await state.get(key) for key in "abc"] == [None, None, None]

    asyncio.run(use())


def test_each_namespace_of_a_store_has_its_values():
    store = Memory()
    assert store.state("one") is store.state("one")
    assert store.state("one") is not store.state("other")
