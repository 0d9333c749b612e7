"""`Pipeline`: the commands of one event loop, which share one connection to Redis.

The commands of one turn of the loop leave in one write. A command that was not sent waits for the connection. A command
that was sent is never sent again, because it may have been applied. Each command has a limit of time, after which its
caller gets a `StoreUnavailable`. If a sent command exceeds it, the connection is given up: the server is paused, or the
network has swallowed the command, and later commands must not queue behind it.

The alternative, a connection for each concurrent command, costs a system call for each command and a number of
connections that nobody can foresee.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from dragoman.errors import StoreUnavailable
from dragoman.stores.redis.address import RedisAddress
from dragoman.stores.redis.connection import Argument, Command, RedisConnection, Reply
from dragoman.stores.redis.reconnect import Reconnector
from dragoman.stores.redis.scripts import Script

MAX_WAITING = 10_000
"""Commands without a reply; further ones are refused."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
GRACE_SECONDS = 0.1
"""A loop that was blocked reads the replies that have arrived before it counts a command as late."""


class Pipeline:
    """The commands of one event loop."""

    def __init__(self, address: RedisAddress, limit: float, replicas: int = 0) -> None:
        self._address = address
        self._limit = limit
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[Command] = deque()
        self._unsent_bytes = 0
        self._is_flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_late = False
        self._reconnector = Reconnector(
            address,
            limit,
            is_needed=lambda: bool(self._unsent),
            opened=lambda _: self._flush(),
            failed=self._fail,
        )

    def send(
        self, *arguments: Argument, script: Script | None = None, limit: float | None = None
    ) -> asyncio.Future[Reply]:
        """Send a command at the end of this turn of the loop, and return the future of its reply."""
        return self._submit(arguments, script, limit).outcome

    def _submit(self, arguments: tuple[Argument, ...], script: Script | None, limit: float | None = None) -> Command:
        deadline = self._loop.time() + (self._limit if limit is None else limit)
        command = Command(arguments, self._loop.create_future(), deadline, script)
        connection = self._reconnector.connection
        if connection is None and self._reconnector.is_away:
            command.fail(self._reconnector.reason)
        elif self._is_full(connection):
            command.fail(f"Redis at {self._address} is too slow: too many commands wait for it")
        else:
            self._unsent.append(command)
            self._unsent_bytes += len(command.packed)
            if not self._is_flushing:
                self._is_flushing = True
                self._loop.call_soon(self._flush)
            if self._timer is None:
                self._timer = self._loop.call_at(deadline, self._expire)
        return command

    async def call(self, *arguments: Argument, script: Script | None = None, limit: float | None = None) -> Reply:
        """Send a command and return its reply.

        Raises:
            StoreUnavailable: the server cannot be reached, does not answer in time, or refuses the command.
        """
        return await self.send(*arguments, script=script, limit=limit)

    async def change(self, script: Script, *arguments: Argument) -> Reply:
        """Run a script that changes something, and wait for the replicas that must have the change.

        Raises:
            StoreUnavailable: as in `call`, or too few replicas have the change.
        """
        command = self._submit(arguments, script)
        reply = await command.outcome
        if self._replicas and reply:
            await self._wait_for_replicas(command)
        return reply

    async def _wait_for_replicas(self, changed: Command) -> None:
        """Wait on the connection that made the change: another one may lead to a server that has not heard of it."""
        assert changed.connection is not None
        copies = 0
        with suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(self._limit):
                copies = await changed.connection.call("WAIT", self._replicas, int(self._limit * 500))
        if copies < self._replicas:
            raise StoreUnavailable(
                f"Redis at {self._address} made the change, but {copies} of {self._replicas} replicas are known to have"
                f" it: it may be lost; check the replicas, or ask for fewer"
            )

    def drop(self) -> None:
        """Give up the connection, because nobody waits for the command that blocks it, or it is not needed."""
        self._reconnector.drop()

    async def close(self) -> None:
        """Fail the commands that wait, and close the connection."""
        self._fail_unsent("The store was closed")
        await self._reconnector.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_full(self, connection: RedisConnection | None) -> bool:
        sent, in_buffer = (0, 0) if connection is None else (len(connection.sent), connection.unsent_bytes())
        return len(self._unsent) + sent >= MAX_WAITING or self._unsent_bytes + in_buffer > MAX_UNSENT_BYTES

    def _flush(self) -> None:
        self._is_flushing = False
        connection = self._reconnector.connection
        if connection is None or not connection.is_open:
            self._reconnector.open()
        elif self._unsent:
            batch = [command for command in self._unsent if not command.outcome.done()]
            self._unsent.clear()
            self._unsent_bytes = 0
            if batch:
                connection.send(batch)

    def _fail(self, reason: str) -> None:
        if self._reconnector.is_away:
            self._fail_unsent(reason)

    def _fail_unsent(self, reason: str) -> None:
        failed, self._unsent, self._unsent_bytes = self._unsent, deque(), 0
        for command in failed:
            command.fail(reason)

    def _expire(self) -> None:
        """Fail the commands whose time is over, and set the timer for the next one."""
        now = self._loop.time()
        while self._unsent and self._unsent[0].deadline <= now:
            command = self._unsent.popleft()
            self._unsent_bytes -= len(command.packed)
            command.fail(self._reconnector.reason)
        connection = self._reconnector.connection
        deadlines = [self._unsent[0].deadline] if self._unsent else []
        if connection is not None and connection.sent:
            was_late, self._is_late = self._is_late, connection.sent[0].deadline <= now
            if was_late and self._is_late:
                connection.abort(f"did not answer within {self._limit:g} s")
                self._is_late = False
            deadlines.append(now + GRACE_SECONDS if self._is_late else connection.sent[0].deadline)
        self._timer = self._loop.call_at(max(min(deadlines), now), self._expire) if deadlines else None
