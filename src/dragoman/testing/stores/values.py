"""What `check_store` checks of values."""

from __future__ import annotations

import asyncio

from dragoman.stores.contract import State
from dragoman.stores.limits import Share, StoreLimits
from dragoman.testing.stores.probe import INVALID_SECONDS, Probe, fresh, increment, is_full, is_invalid

WRITERS = 20
INCREMENTS = 1000


async def _values(probe: Probe) -> None:
    one, other = probe.states()
    assert await one.get("key") is None, "a key that was never set must have no value"
    value = bytes(range(256))
    first = await one.set("key", value)
    assert first > 0, f"a revision must be above 0, which stands for no value: {first}"
    found = await other.get("key")
    assert found is not None, "every handle must see a value that was set"
    assert found.value == value, "a value must come back byte for byte"
    assert found.revision == first, "get() must return the revision that set() returned"
    second = await other.set("key", b"")
    assert second > first, f"revisions of a key must ascend: {first}, then {second}"
    found = await one.get("key")
    assert found == (b"", second), f"a later value must replace the earlier one, also an empty one: {found}"
    assert await one.delete("key") is True, "delete() of a value must return True"
    assert await other.get("key") is None, "a deleted value must be gone for every handle"
    assert await other.delete("key") is False, "delete() of a key without a value must return False"


async def _namespaces(probe: Probe) -> None:
    one, other = probe.one.state(fresh("values")), probe.one.state(fresh("values"))
    await one.set("key", b"one")
    assert await other.get("key") is None, "a value must be in one namespace only"
    await other.set("key", b"other")
    await other.delete("key")
    found = await one.get("key")
    assert found is not None, "delete() must leave other namespaces alone"
    assert found.value == b"one", "set() must leave other namespaces alone"


async def _comparing(probe: Probe) -> None:
    one, other = probe.states()
    assert await one.compare_and_set("key", b"x", 1) is None, "compare_and_set() must refuse a revision of no value"
    first = await one.compare_and_set("key", b"1", 0)
    assert first, "compare_and_set() with the revision 0 must set a key without a value"
    assert await other.compare_and_set("key", b"x", 0) is None, (
        "compare_and_set() with 0 must refuse a key with a value"
    )
    second = await other.compare_and_set("key", b"2", first)
    assert second is not None, "compare_and_set() with the newest revision must set the value"
    assert second > first, f"compare_and_set() must give a higher revision: {first}, then {second}"
    assert await one.compare_and_set("key", b"x", first) is None, "compare_and_set() must refuse an old revision"
    assert await one.get("key") == (b"2", second), "a refused compare_and_set() must change nothing"
    await one.delete("key")
    assert await one.compare_and_set("key", b"x", second) is None, "compare_and_set() must refuse a deleted value"
    third = await one.set("key", b"2")
    assert third > second, f"a revision must never be used again, also after delete(): {second}, then {third}"
    assert await other.compare_and_set("key", b"x", second) is None, "an old revision must stay refused after delete()"


async def _counting(probe: Probe) -> None:
    states = probe.states()
    each = INCREMENTS // WRITERS
    await asyncio.wait_for(
        asyncio.gather(*(increment(states[writer % 2], "counter", each) for writer in range(WRITERS))),
        10 * probe.timeout,
    )
    found = await states[0].get("counter")
    counted = 0 if found is None else int(found.value)
    assert counted == INCREMENTS, f"{INCREMENTS} increments by {WRITERS} writers must count {INCREMENTS}, not {counted}"


async def _value_expiry(probe: Probe) -> None:
    (one, other), ttl = probe.states(), probe.ttl
    began = await probe.one.now()
    before = await one.set("short", b"x", ttl=ttl)
    await one.set("long", b"x", ttl=3600)
    await one.set("kept", b"x", ttl=ttl)
    await other.set("kept", b"x")

    async def is_gone() -> bool:
        return await other.get("short") is None

    await probe.until(f"a value with a ttl of {ttl:g} seconds must expire", is_gone)
    lived = await probe.one.now() - began
    assert lived >= ttl, f"a value with a ttl of {ttl:g} seconds must live so long; it expired after {lived:g} seconds"
    assert await other.get("long"), "a value must live until its own ttl is over"
    assert await other.get("kept"), "a value that is set without a ttl must stay, also if it had one before"
    assert await one.delete("short") is False, "delete() of an expired value must return False"
    assert await one.compare_and_set("short", b"x", before) is None, "compare_and_set() must refuse an expired value"
    after = await one.compare_and_set("short", b"y", 0, ttl=3600)
    assert after, "an expired key must count as a key without a value"
    assert after > before, f"a revision must never be used again, also after the value expired: {before}, then {after}"


async def _value_bytes(probe: Probe) -> None:
    group, half = fresh("group"), bytes(5000)
    limits = StoreLimits(state_bytes=16_000, state_bytes_per_caller=8_000)

    def values(account: str | None) -> State:
        return probe.one.state(fresh("values"), share=Share(group, account), limits=limits)

    ann, began = values("ann"), await probe.one.now()
    revision = await ann.set("1", half, ttl=probe.ttl)
    refused = await is_full(ann.set("2", half)), await is_full(values("ann").set("1", half))
    larger = await is_full(ann.compare_and_set("1", 2 * half, revision))
    await probe.require_alive(began)
    assert refused[0], "set() beyond the bytes of its account must raise StoreFull"
    assert refused[1], "an account must have its bytes in all namespaces of a group together"
    assert larger, "compare_and_set() beyond the bytes of its account must raise StoreFull"

    async def has_room() -> bool:
        return not await is_full(ann.set("2", half))

    await probe.until("an expired value must not count among the bytes", has_room)
    assert not await is_full(ann.set("2", half[1:])), "set() that adds no bytes must succeed"
    ben = values("ben")
    assert not await is_full(ben.set("1", half)), "the limits of one account must leave others alone"
    assert not await is_full(values(None).set("1", half)), "values without an account must count for their group only"
    assert await is_full(values("carl").set("1", half)), "set() beyond the bytes of the group must raise StoreFull"
    assert await is_full(values(None).set("1", half)), "set() beyond the bytes of the group must raise StoreFull"
    await ben.delete("1")
    assert not await is_full(values("carl").set("1", half)), "a deleted value must not count among the bytes"
    alone = probe.one.state(fresh("values"), limits=limits)
    for key in ("1", "2", "3", "4"):
        assert not await is_full(alone.set(key, half)), "only the number of values without a share must be limited"


async def _invalid_ttl_of_values(probe: Probe) -> None:
    state = probe.one.state(fresh("values"))
    kept = await state.set("kept", b"kept")
    for ttl in INVALID_SECONDS:
        assert await is_invalid(state.set("new", b"x", ttl=ttl)), f"set() must refuse a ttl of {ttl!r}"
        assert await is_invalid(state.compare_and_set("kept", b"x", kept, ttl=ttl)), (
            f"compare_and_set() must refuse a ttl of {ttl!r}"
        )
    assert await state.get("new") is None, "a refused ttl must leave no value"
    assert await state.get("kept") == (b"kept", kept), "a refused ttl must change no value"


async def _value_bounds(probe: Probe) -> None:
    namespace = fresh("values")
    one, other = (store.state(namespace, max_values=3) for store in (probe.one, probe.other))
    await one.set("1", b"")
    began = await probe.one.now()
    await other.set("2", b"", ttl=probe.ttl)
    last = await one.set("3", b"")
    refused = await is_full(other.set("4", b"")), await is_full(other.compare_and_set("4", b"", 0))
    await probe.require_alive(began)
    assert refused[0], "set() of a new key in a full namespace must raise StoreFull"
    assert refused[1], "compare_and_set() of a new key in a full namespace must raise StoreFull"
    assert not await is_full(other.set("1", b"x")), "a full namespace must let the values that it has be set"
    assert await other.compare_and_set("3", b"x", last), "a full namespace must let the values that it has be compared"

    async def has_room() -> bool:
        return not await is_full(one.set("4", b"x"))

    await probe.until("an expired value must not count among the values of a namespace", has_room)
    await one.delete("1")
    assert not await is_full(one.set("5", b"")), "a deleted value must not count among the values of a namespace"
    assert not await is_full(probe.one.state(fresh("values"), max_values=3).set("1", b"")), "max_values is by namespace"


VALUE_CHECKS = (
    _values,
    _namespaces,
    _comparing,
    _counting,
    _value_expiry,
    _value_bounds,
    _value_bytes,
    _invalid_ttl_of_values,
)
