"""What `check_store` checks of buses."""

from __future__ import annotations

import asyncio
import os

from dragoman.stores.contract import Bus
from dragoman.testing.stores.probe import LARGE, Probe, fresh


async def _bus_life(probe: Probe) -> None:
    unopened = probe.one.bus(fresh("group"))
    await probe.within("close() of a bus that was not opened", unopened.close())
    group = fresh("group")
    one, other = probe.one.bus(group), probe.other.bus(group)
    assert one.name != other.name, "each bus must have a name of its own"
    assert one.name.isalnum(), f"the name of a bus must have letters and digits only, not {one.name!r}"
    member = _Member(one)
    await probe.within("open()", one.open(member.receive))
    assert await probe.within("publish()", one.publish(b"alone")) == [], (
        "publish() without others must return no replies"
    )
    assert await probe.within("publish()", one.publish(b"self", one.name)) == [], "a sender must not reply to itself"
    assert not member.heard, "a sender must not receive its own messages"
    await probe.within("close()", one.close())
    await probe.within("close() once more", one.close())
    assert await probe.within("publish() after close()", one.publish(b"late")) == [], "a closed bus must reach nobody"


class _Member:
    """A bus and what it heard; it replies with its name."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.name = bus.name.encode()
        self.heard: list[bytes] = []

    def receive(self, message: bytes) -> bytes:
        self.heard.append(message)
        return self.name


async def _bus_messages(probe: Probe) -> None:
    if probe.one.reach == "process":
        return
    group = fresh("group")
    members = [_Member(store.bus(group)) for store in (probe.one, probe.other, probe.other)]
    members.append(_Member(probe.one.bus(fresh("group"))))
    for member in members:
        await probe.within("open()", member.bus.open(member.receive))
    try:
        await _exchange(probe, *members)
    finally:
        for member in members:
            await probe.within("close()", member.bus.close())
            await probe.within("close() once more", member.bus.close())


async def _exchange(probe: Probe, one: _Member, two: _Member, three: _Member, stranger: _Member) -> None:
    publish = one.bus.publish
    replies = await probe.within("publish()", publish(b"all"))
    everyone = sorted([two.name, three.name])
    assert sorted(replies) == everyone, f"publish() must return the reply of every other process: {replies}"
    assert two.heard == three.heard == [b"all"], "a message must reach every other process of the group once"
    assert not one.heard, "a sender must not receive its own messages"
    replies = await probe.within("publish()", publish(b"one", two.bus.name))
    assert replies == [two.name], f"publish(to=) must return the reply of that process: {replies}"
    assert three.heard == [b"all"], "publish(to=) must reach that process alone"
    assert await probe.within("publish()", publish(b"none", "nobody")) == [], "publish(to=) must reach no other process"
    large = os.urandom(LARGE)
    await probe.within("publish()", two.bus.publish(large))
    assert one.heard == [large], f"a message of {LARGE} bytes must arrive whole"
    await probe.within("publish()", asyncio.gather(*(publish(b"%d" % number) for number in range(100))))
    expected = [b"%d" % number for number in range(100)]
    assert three.heard[-100:] == expected, "the messages of a sender must arrive in the order of publishing"
    assert not stranger.heard, "a message must stay in its group"
    await probe.within("close()", three.bus.close())
    replies = await probe.within("publish()", publish(b"left"))
    assert replies == [two.name], f"a process that left the group must not be reached: {replies}"


BUS_CHECKS = (_bus_life, _bus_messages)
