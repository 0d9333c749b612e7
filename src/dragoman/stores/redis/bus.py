"""The `Bus` of the store `Redis`: a channel for the group, and a channel for each process, which gets the replies.

PUBLISH returns how many connections receive a message. The sender waits for as many replies, and counts itself when its
own message comes back. If several buses of a group share a connection, the reply of each counts for a part of it.

A process that is stopped, or whose machine is gone, still counts as a receiver for a while. So after a time-out the
sender remembers how many did not reply, and which did. It then waits for those that did, until the numbers change.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.runtime.tasks import retrieve_exception

if TYPE_CHECKING:
    from dragoman.stores.redis.link import RedisLink

REPLY_SECONDS = 1.0
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Redis closes the connection of a subscriber for which much more than this is waiting."""
MAX_NUMBER = 2**32 - 1
_HEAD = struct.Struct("!BHI16s")
_TO_ALL, _TO_ONE, _REPLY = range(3)

_logger = logging.getLogger("dragoman.stores")


class RedisBus:
    """The bus of one process to the others of a group."""

    def __init__(self, link: Callable[[], RedisLink], prefix: str) -> None:
        self.name = os.urandom(8).hex()
        self._get_link = link
        self._link: RedisLink | None = None
        self._group = prefix.encode()
        self._own = self._group + self.name.encode()
        self._last_number = 0
        self._awaiting: dict[int, _Replies] = {}
        self._responsive: set[bytes] = set()
        self._silent = 0.0
        self._receive: Callable[[bytes], bytes] = lambda _: b""

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group.

        Raises:
            StoreUnavailable: the server cannot be reached now; the bus joins when it can.
        """
        self._receive = receive
        self._link = link = self._get_link()
        for channel in (self._own, self._group):
            link.channels.add(channel, self._heard)
        await link.channels.subscribed(self._group)

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to one, and return the replies that come in time.

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        link = self._link
        if link is None:
            return []
        if len(message) > MAX_MESSAGE_BYTES:
            _logger.warning("A message of %d bytes is too large for the other workers", len(message))
            return []
        await link.channels.subscribed(self._group)
        self._last_number = number = self._last_number % MAX_NUMBER + 1
        self._awaiting[number] = replies = _Replies()
        channel, kind = (self._group, _TO_ALL) if to is None else (self._group + to.encode(), _TO_ONE)
        try:
            replies.expect(await link.commands.call("PUBLISH", channel, self._frame(kind, 0, number, message)))
            await self._wait(replies, is_for_all=to is None)
        finally:
            del self._awaiting[number]
        return [reply for name, (_, reply) in replies.received.items() if name != self.name.encode()]

    async def _wait(self, replies: _Replies, *, is_for_all: bool) -> None:
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                while replies.missing and not (is_for_all and self._only_silent_are_missing(replies)):
                    replies.changed.clear()
                    await replies.changed.wait()
        except TimeoutError:
            _logger.warning("%g workers did not reply within %g s", replies.missing, REPLY_SECONDS)
        if is_for_all and not self._only_silent_are_missing(replies):
            self._silent, self._responsive = replies.missing, set(replies.received)

    def _only_silent_are_missing(self, replies: _Replies) -> bool:
        return 0 < replies.missing <= self._silent and self._responsive <= replies.received.keys()

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.channels.remove(self._group, self._heard)
            link.channels.remove(self._own, self._heard)

    def _frame(self, kind: int, sharing: int, number: int, body: bytes) -> bytes:
        return _HEAD.pack(kind, sharing, number, self.name.encode()) + body

    def _heard(self, frame: bytes | None) -> None:
        if frame is None:  # replies may have been missed, and nobody waits for them
            for replies in self._awaiting.values():
                replies.expect(0)
            return
        if self._link is None:
            return
        kind, sharing, number, sender = _HEAD.unpack_from(frame)
        body = frame[_HEAD.size :]
        if kind != _REPLY:
            sharing = max(1, self._link.channels.count(self._group)) if kind == _TO_ALL else 1
        if kind == _REPLY or sender == self.name.encode():
            self._take_reply(number, sender, sharing, body)
        else:
            self._reply(self._link, sharing, number, sender, body)

    def _take_reply(self, number: int, sender: bytes, sharing: int, body: bytes) -> None:
        replies = self._awaiting.get(number)
        if replies is not None:
            replies.add(sender, sharing, body)
        elif sender not in self._responsive and self._silent:
            self._silent -= 1
            self._responsive.add(sender)

    def _reply(self, link: RedisLink, sharing: int, number: int, sender: bytes, message: bytes) -> None:
        reply = b""
        try:
            reply = self._receive(message)
        except Exception:
            _logger.exception("A message of the worker %s could not be taken", sender.decode())
        sent = link.commands.send("PUBLISH", self._group + sender, self._frame(_REPLY, sharing, number, reply))
        sent.add_done_callback(retrieve_exception)


class _Replies:
    """The replies to one message by the names of their senders, each with the number of buses on its connection."""

    def __init__(self) -> None:
        self.received: dict[bytes, tuple[int, bytes]] = {}
        self.changed = asyncio.Event()
        self._expected = 0

    @property
    def missing(self) -> float:
        return max(0, self._expected - round(sum(1 / sharing for sharing, _ in self.received.values()), 6))

    def expect(self, count: int) -> None:
        self._expected = count
        self.changed.set()

    def add(self, sender: bytes, sharing: int, reply: bytes) -> None:
        self.received[sender] = sharing, reply
        self.changed.set()
