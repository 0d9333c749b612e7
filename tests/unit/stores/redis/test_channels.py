"""The channels of a loop: messages, gaps, and listeners that leave."""

import asyncio
import logging

import pytest

import redis_store
from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.channels import RedisChannels
from ports import free_port
from redis_proxy import proxied
from redis_server import RedisServer
from redis_store import fresh, until


def publish(server: RedisServer, channel: str, message: str) -> object:
    return redis_store.call(server, "PUBLISH", channel, message)


async def test_listeners_hear_the_messages_of_their_channel(redis_server):
    channels = RedisChannels(RedisAddress(redis_server.url), 2.0)
    one, other = fresh(), fresh()
    heard: list[tuple[str, bytes | None]] = []

    def first(message: bytes | None) -> None:
        heard.append(("first", message))

    def second(message: bytes | None) -> None:
        heard.append(("second", message))

    def third(message: bytes | None) -> None:
        heard.append(("third", message))

    for channel, listener in ((one, first), (one, second), (other, third)):
        channels.add(channel.encode(), listener)
        await channels.subscribed(channel.encode())
    assert publish(redis_server, one, "1") == 1
    assert publish(redis_server, other, "2") == 1
    await until(lambda: len(heard) == 3)
    assert heard == [("first", b"1"), ("second", b"1"), ("third", b"2")]
    channels.remove(one.encode(), first)
    channels.remove(one.encode(), first)
    assert publish(redis_server, one, "3") == 1
    await until(lambda: len(heard) == 4)
    assert heard[3] == ("second", b"3")
    channels.remove(one.encode(), second)
    await until(lambda: publish(redis_server, one, "4") == 0)
    await channels.close()
    assert heard[4:] == [("third", None)]
    with pytest.raises(StoreUnavailable, match="closed"):
        await channels.subscribed(other.encode())


async def test_a_gap_is_told_when_it_begins_and_when_it_ends(redis_server, caplog):
    caplog.set_level(logging.INFO)
    channel, heard = fresh(), []
    async with proxied(redis_server) as proxy:
        channels = RedisChannels(RedisAddress(proxy.url), 2.0)
        channels.add(channel.encode(), heard.append)
        await channels.subscribed(channel.encode())
        proxy.refuses = True
        proxy.cut()
        await until(lambda: heard == [None])
        assert publish(redis_server, channel, "lost") == 0
        proxy.refuses = False
        await channels.subscribed(channel.encode())
        await until(lambda: heard == [None, None])
        assert publish(redis_server, channel, "heard") == 1
        await until(lambda: heard == [None, None, b"heard"])
        await channels.close()
    assert ["closed the connection; trying again" in record.message for record in caplog.records].count(True) == 1
    assert caplog.records[-1].message.endswith("is back")


async def test_a_listener_that_raises_keeps_no_other_from_hearing(redis_server, caplog):
    channels, channel, heard = RedisChannels(RedisAddress(redis_server.url), 2.0), fresh(), []

    def fail(message: bytes | None) -> None:
        raise ValueError("not understood")

    channels.add(channel.encode(), fail)
    channels.add(channel.encode(), heard.append)
    await channels.subscribed(channel.encode())
    publish(redis_server, channel, "message")
    await until(lambda: heard == [b"message"])
    assert "not understood" in caplog.text
    channels.remove(channel.encode(), fail)
    await channels.close()


async def test_a_server_that_is_away_is_an_error_within_the_limit_and_the_channel_is_subscribed_later(tmp_path):
    port = free_port()
    channels, heard = RedisChannels(RedisAddress(f"redis://127.0.0.1:{port}"), 0.2), []
    channels.add(b"channel", heard.append)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await channels.subscribed(b"channel")
    server = RedisServer(tmp_path, port=port)
    await asyncio.to_thread(server.start)
    await until(lambda: publish(server, "channel", "message") == 1)
    await until(lambda: heard == [b"message"])
    await channels.close()
    server.kill()


async def test_a_refused_subscription_names_the_reason(tmp_path):
    with RedisServer(tmp_path) as server:
        redis_store.call(server, "ACL", "SETUSER", "shop", "on", ">secret", "~*", "resetchannels", "+@all")
        store = Redis(server.url.replace("//", "//shop:secret@"), timeout=0.3)
        with pytest.raises(StoreUnavailable, match="refuses a subscription: NOPERM"):
            await store.bus("group").open(lambda _: b"")
        await store.close()
