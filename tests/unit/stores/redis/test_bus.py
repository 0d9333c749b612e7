"""The bus on Redis: who replies, who does not, and how long that takes."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis import bus as buses
from redis_proxy import proxied
from redis_store import fresh, until

SOON = 0.9 * buses.REPLY_SECONDS
"""Less than the time that a missing reply takes."""

MEMBER = """
import asyncio, sys
from dragoman.stores import Redis

async def main():
    bus = Redis(sys.argv[1]).bus(sys.argv[2])
    await bus.open(lambda message: message.upper())
    print(bus.name, flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


class Member:
    """A bus in a process of its own."""

    def __init__(self, url: str, group: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, url, group], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    async def joined(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.to_thread(self.process.stdout.readline)).decode().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def members():
    """Make members, and end them."""
    made: list[Member] = []
    yield lambda *args: made.append(Member(*args)) or made[-1]
    for member in made:
        member.end()


async def timed_publish(bus: buses.RedisBus, message: bytes, to: str | None = None) -> tuple[list[bytes], float]:
    began = time.monotonic()
    return await bus.publish(message, to), time.monotonic() - began


async def test_a_stopped_process_delays_one_message_and_a_killed_one_none(redis_server, members, caplog):
    group, store = fresh(), Redis(redis_server.url)
    stopped, healthy = members(redis_server.url, group), members(redis_server.url, group)
    await stopped.joined()
    await healthy.joined()
    bus = store.bus(group)
    await bus.open(lambda _: b"")
    assert sorted(await bus.publish(b"hello")) == [b"HELLO", b"HELLO"]
    os.kill(stopped.process.pid, signal.SIGSTOP)
    replies, first = await timed_publish(bus, b"one")
    assert (replies, first >= buses.REPLY_SECONDS * 0.9) == ([b"ONE"], True)
    replies, second = await timed_publish(bus, b"two")
    assert (replies, second < SOON) == ([b"TWO"], True)
    joining = members(redis_server.url, group)
    await joining.joined()
    assert await bus.publish(b"three") == [b"THREE", b"THREE"]
    os.kill(stopped.process.pid, signal.SIGCONT)
    await until(lambda: bus._silent == 0)
    replies, again = await timed_publish(bus, b"four")
    assert (len(replies), again < SOON) == (3, True)
    healthy.end()
    await until(lambda: redis_gone(redis_server, healthy.process.pid))
    replies, last = await timed_publish(bus, b"five")
    assert (len(replies), last < SOON) == (2, True)
    assert caplog.text.count("did not reply") == 1
    await store.close()


async def test_a_stopped_process_that_is_addressed_is_waited_for_within_the_bound(redis_server, members):
    group, store = fresh(), Redis(redis_server.url)
    member = members(redis_server.url, group)
    name = await member.joined()
    bus = store.bus(group)
    await bus.open(lambda _: b"")
    assert await bus.publish(b"hello", name) == [b"HELLO"]
    os.kill(member.process.pid, signal.SIGSTOP)
    replies, waited = await timed_publish(bus, b"hello", name)
    assert (replies, waited < buses.REPLY_SECONDS + 5) == ([], True)
    member.end()
    await until(lambda: redis_gone(redis_server, member.process.pid))
    replies, waited = await timed_publish(bus, b"hello", name)
    assert (replies, waited < SOON) == ([], True)
    await store.close()


def redis_gone(server, process: int) -> bool:
    return f"name=dragoman-{process} ".encode() not in server.command("CLIENT", "LIST")


async def test_a_receiver_that_raises_replies_with_nothing(redis_server, caplog):
    group, one, other = fresh(), Redis(redis_server.url), Redis(redis_server.url)
    sender, receiver = one.bus(group), other.bus(group)

    def fail(message: bytes) -> bytes:
        raise ValueError("not understood")

    await sender.open(lambda _: b"")
    await receiver.open(fail)
    assert await sender.publish(b"message") == [b""]
    assert "not understood" in caplog.text
    for store in (one, other):
        await store.close()


async def test_a_message_that_is_too_large_is_not_sent(redis_server, monkeypatch, caplog):
    monkeypatch.setattr(buses, "MAX_MESSAGE_BYTES", 10)
    store, heard = Redis(redis_server.url), []
    group = fresh()
    sender, receiver = store.bus(group), store.bus(group)
    for bus in (sender, receiver):
        await bus.open(lambda message: heard.append(message) or b"")
    assert await sender.publish(b"x" * 11) == []
    assert await sender.publish(b"x" * 10) == [b""]
    assert heard == [b"x" * 10]
    assert "too large" in caplog.text
    await store.close()


async def test_a_bus_joins_again_after_its_connection_was_lost(redis_server):
    group, other = fresh(), Redis(redis_server.url)
    async with proxied(redis_server) as proxy:
        store = Redis(proxy.url, timeout=2.0)
        bus, peer = store.bus(group), other.bus(group)
        await bus.open(lambda message: message + b" heard")
        await peer.open(lambda message: message + b" replied")
        link = store._link()
        for _ in range(3):
            proxy.cut()
            await until(lambda: not any(part._reconnector.connection for part in (link.commands, link.channels)))
            replies = await bus.publish(b"message")
            assert replies == [b"message replied"]
            assert await peer.publish(b"back") == [b"back heard"]
        await bus.close()
        await store.close()
    await other.close()


async def test_a_connection_that_is_lost_while_replies_are_awaited_ends_the_waiting(redis_server, members):
    group = fresh()
    member = members(redis_server.url, group)
    await member.joined()
    async with proxied(redis_server) as proxy:
        store = Redis(proxy.url, timeout=2.0)
        bus = store.bus(group)
        await bus.open(lambda _: b"")
        os.kill(member.process.pid, signal.SIGSTOP)
        publishing = asyncio.ensure_future(timed_publish(bus, b"message"))
        await until(lambda: any(replies.missing for replies in bus._awaiting.values()))
        proxy.cut()
        replies, waited = await publishing
        assert (replies, waited < SOON) == ([], True)
        await store.close()


async def test_a_bus_that_opens_while_the_server_is_away_says_so_and_joins_later(redis_server):
    group, other = fresh(), Redis(redis_server.url)
    peer = other.bus(group)
    await peer.open(lambda _: b"peer")
    async with proxied(redis_server) as proxy:
        proxy.refuses = True
        store = Redis(proxy.url, timeout=0.2)
        bus = store.bus(group)
        with pytest.raises(StoreUnavailable):
            await bus.open(lambda _: b"late")
        with pytest.raises(StoreUnavailable):
            await bus.publish(b"message")
        proxy.refuses = False
        async with asyncio.timeout(60):
            while await peer.publish(b"who is there?") != [b"late"]:
                pass
        assert await bus.publish(b"message") == [b"peer"]
        await store.close()
    await other.close()
