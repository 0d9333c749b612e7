"""The channels of a loop: messages, gaps, and listeners that leave."""

import asyncio
import logging

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.subscriptions import Subscriptions
from redis_proxy import proxied
from redis_server import RedisServer, free_port
from redis_store import fresh, until


def publish(server: RedisServer, channel: str, message: str) -> object:
    return redis_store.call(server, "PUBLISH", channel, message)


async def test_listeners_hear_the_messages_of_their_channel(redis_server):
    subscriptions = Subscriptions(RedisAddress(redis_server.url), 2.0)
    one, other = fresh(), fresh()
    heard: list[tuple[str, bytes | None]] = []

    def first(message: bytes | None) -> None:
        heard.append(("first", message))

    def second(message: bytes | None) -> None:
        heard.append(("second", message))

    def third(message: bytes | None) -> None:
        heard.append(("third", message))

    for channel, listener in ((one, first), (one, second), (other, third)):
        subscriptions.add(channel.encode(), listener)
        await subscriptions.subscribed(channel.encode())
    assert publish(redis_server, one, "1") == 1
    assert publish(redis_server, other, "2") == 1
    await until(lambda: len(heard) == 3)
    assert heard == [("first", b"1"), ("second", b"1"), ("third", b"2")]
    subscriptions.remove(one.encode(), first)
    subscriptions.remove(one.encode(), first)
    assert publish(redis_server, one, "3") == 1
    await until(lambda: len(heard) == 4)
    assert heard[3] == ("second", b"3")
    subscriptions.remove(one.encode(), second)
    await until(lambda: publish(redis_server, one, "4") == 0)
    await subscriptions.close()
    assert heard[4:] == [("third", None)]
    with pytest.raises(StoreUnavailable, match="closed"):
        await subscriptions.subscribed(other.encode())


async def test_a_gap_is_told_when_it_begins_and_when_it_ends(redis_server, caplog):
    caplog.set_level(logging.INFO)
    channel, heard = fresh(), []
    async with proxied(redis_server) as proxy:
        subscriptions = Subscriptions(RedisAddress(proxy.url), 2.0)
        subscriptions.add(channel.encode(), heard.append)
        await subscriptions.subscribed(channel.encode())
        proxy.refuses = True
        proxy.cut()
        await until(lambda: heard == [None])
        assert publish(redis_server, channel, "lost") == 0
        proxy.refuses = False
        await subscriptions.subscribed(channel.encode())
        await until(lambda: heard == [None, None])
        assert publish(redis_server, channel, "heard") == 1
        await until(lambda: heard == [None, None, b"heard"])
        await subscriptions.close()
    assert ["closed the connection; trying again" in record.message for record in caplog.records].count(True) == 1
    assert caplog.records[-1].message.endswith("is back")


async def test_a_listener_that_raises_keeps_no_other_from_hearing(redis_server, caplog):
    subscriptions, channel, heard = Subscriptions(RedisAddress(redis_server.url), 2.0), fresh(), []

    def fail(message: bytes | None) -> None:
        raise ValueError("not understood")

    subscriptions.add(channel.encode(), fail)
    subscriptions.add(channel.encode(), heard.append)
    await subscriptions.subscribed(channel.encode())
    publish(redis_server, channel, "message")
    await until(lambda: heard == [b"message"])
    assert "not understood" in caplog.text
    subscriptions.remove(channel.encode(), fail)
    await subscriptions.close()


async def test_a_server_that_is_away_is_an_error_within_the_limit_and_the_channel_is_subscribed_later(tmp_path):
    port = free_port()
    subscriptions, heard = Subscriptions(RedisAddress(f"redis://127.0.0.1:{port}"), 0.2), []
    subscriptions.add(b"channel", heard.append)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await subscriptions.subscribed(b"channel")
    server = RedisServer(tmp_path, port=port)
    await asyncio.to_thread(server.start)
    await until(lambda: publish(server, "channel", "message") == 1)
    await until(lambda: heard == [b"message"])
    await subscriptions.close()
    server.kill()


async def test_a_refused_subscription_names_the_reason(tmp_path):
    with RedisServer(tmp_path) as server:
        redis_store.call(server, "ACL", "SETUSER", "shop", "on", ">secret", "~*", "resetchannels", "+@all")
        store = Redis(server.url.replace("//", "//shop:secret@"), timeout=0.3)
        with pytest.raises(StoreUnavailable, match="refuses a subscription: NOPERM"):
            await store.bus("group").open(lambda _: b"")
        await store.close()
