"""`RedisChannels`: the channels of one event loop, which share one connection to Redis.

Redis keeps no message for a connection that is lost. So each listener is called with None when the connection is lost,
and again when its channel is subscribed anew: what it heard of may be incomplete, and it must read the state again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hiredis import ReplyError

from dragoman.errors import StoreUnavailable
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.connection import RedisConnection, Reply, packed
from dragoman.stores.redis.reconnect import Reconnector

Heard = Callable[[bytes | None], None]
"""Called with each message of a channel, and with None if messages may have been missed."""

_logger = logging.getLogger("dragoman.stores")


class _Channel:
    def __init__(self) -> None:
        self.listeners: list[Heard] = []
        self.subscribed = asyncio.Event()
        self.had_gap = False


class RedisChannels:
    """The channels of one event loop."""

    def __init__(self, address: RedisAddress, limit: float) -> None:
        self._limit = limit
        self._channels: dict[bytes, _Channel] = {}
        self._reconnector = Reconnector(
            address,
            limit,
            is_needed=lambda: bool(self._channels),
            opened=self._subscribe_all,
            failed=lambda _: self._lost(),
        )

    def add(self, channel: bytes, heard: Heard) -> None:
        """Call a listener with the messages of a channel, as soon as the server sends them."""
        if channel not in self._channels:
            self._channels[channel] = _Channel()
            self._send("SUBSCRIBE", channel)
        self._channels[channel].listeners.append(heard)
        self._reconnector.open()

    async def subscribed(self, channel: bytes) -> None:
        """Wait until the server sends the messages of a channel that was added.

        Raises:
            StoreUnavailable: the server cannot be reached now; the channel is subscribed when it can.
        """
        if channel not in self._channels:
            raise StoreUnavailable("The store was closed")
        subscribed = self._channels[channel].subscribed
        if subscribed.is_set():
            return
        self._reconnector.open()
        try:
            async with asyncio.timeout(0 if self._reconnector.is_away else self._limit):
                await subscribed.wait()
        except TimeoutError:
            raise StoreUnavailable(self._reconnector.reason) from None

    def count(self, channel: bytes) -> int:
        """Return how many listeners a channel has."""
        return len(self._channels[channel].listeners) if channel in self._channels else 0

    def remove(self, channel: bytes, heard: Heard) -> None:
        """Stop calling a listener."""
        found = self._channels.get(channel)
        if found is not None and heard in found.listeners:
            found.listeners.remove(heard)
            if not found.listeners:
                del self._channels[channel]
                self._send("UNSUBSCRIBE", channel)

    async def close(self) -> None:
        """Close the connection; the listeners are called a last time, with None."""
        closed, self._channels = self._channels, {}
        await self._reconnector.close()
        for channel in closed.values():
            self._call(channel, None)

    def _send(self, command: str, channel: bytes) -> None:
        if self._reconnector.connection is not None:
            self._reconnector.connection.write(packed(command, channel))

    def _subscribe_all(self, connection: RedisConnection) -> None:
        connection.listen = self._receive
        if self._channels:
            connection.write(packed("SUBSCRIBE", *self._channels))

    def _receive(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            self._reconnector.reason = f"Redis refuses a subscription: {reply}"
            _logger.error("Redis refuses a subscription: %s", reply)
            return
        kind, name = reply[0], reply[1]
        channel = self._channels.get(name)
        if channel is None:
            return
        if kind == b"message":
            self._call(channel, reply[2])
        elif kind == b"subscribe":
            channel.subscribed.set()
            if channel.had_gap:
                channel.had_gap = False
                self._call(channel, None)

    def _lost(self) -> None:
        for channel in list(self._channels.values()):
            if channel.subscribed.is_set():
                channel.subscribed.clear()
                channel.had_gap = True
                self._call(channel, None)

    def _call(self, channel: _Channel, message: bytes | None) -> None:
        for heard in list(channel.listeners):
            try:
                heard(message)
            except Exception:
                _logger.exception("A message of another process could not be handled")
