"""One connection to a Redis server: commands go out in order, and their replies come back in the same order.

`RedisConnection` is written on `hiredis` alone. The client `redis` was rejected: it gives each concurrent command a
connection of its own, retries commands that may have been applied, and subscribes again without a sign of the gap.

A connection never opens again. It ends when it is aborted, when the server closes it, or when the server is silent
after a PING. `lost` is then called once with the reason.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from hiredis import ProtocolError, Reader, ReplyError, pack_command

from dragoman.errors import StoreUnavailable
from dragoman.runtime.tasks import retrieve_exception
from dragoman.stores.redis.address import Login, RedisAddress
from dragoman.stores.redis.scripts import Script

HEALTH_SECONDS = 10.0
"""A connection that was silent for so long is asked for a sign of life."""
SENTINEL_SECONDS = 1.0
"""How long one Sentinel may take to answer, before the next one is asked."""
OLDEST_VERSION = (6, 2)

Argument = str | bytes | int
Reply = Any
"""Bytes, an integer, None, or a list of replies."""


def packed(*arguments: Argument) -> bytes:
    """Return a command as the server reads it."""
    return cast("bytes", pack_command(arguments))  # type: ignore[arg-type]


class Command:
    """A command, and the future of its reply."""

    __slots__ = ("arguments", "connection", "deadline", "outcome", "packed", "script")

    def __init__(
        self,
        arguments: tuple[Argument, ...],
        outcome: asyncio.Future[Reply],
        deadline: float,
        script: Script | None = None,
    ) -> None:
        self.arguments = arguments
        self.outcome = outcome
        self.deadline = deadline
        self.script = script
        self.connection: RedisConnection | None = None
        self.packed = packed(*arguments) if script is None else packed("EVALSHA", script.digest, *arguments)

    def with_source(self) -> None:
        """Send the source of the script instead of its digest."""
        assert self.script is not None
        self.packed = packed("EVAL", self.script.source, *self.arguments)
        self.script = None

    def fail(self, reason: str) -> None:
        """Give the caller the reason why there is no reply."""
        if not self.outcome.done():
            self.outcome.set_exception(StoreUnavailable(reason))


class RedisConnection(asyncio.Protocol):
    """One open connection.

    `name` is the address in texts. `listen` receives everything that the server sends, if it is set: a connection with
    subscriptions has no commands.
    """

    def __init__(self, name: str, lost: Callable[[str], None], silence: float) -> None:
        self.name = name
        self.sent: deque[Command] = deque()
        self.listen: Callable[[Reply], None] | None = None
        self.closed = asyncio.Event()
        self._lost = lost
        self._silence = silence
        self._reason = "closed the connection"
        self._reader = Reader()
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are not instances of asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._loop.call_later(HEALTH_SECONDS, self._check)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if exc is not None and not isinstance(exc, ConnectionError):
            self._reason = f"is lost ({exc})"
        unanswered, self.sent = self.sent, deque()
        for command in unanswered:
            command.fail(f"Redis at {self.name} {self._reason}; the change may have been made")
        self.closed.set()
        self._lost(self._reason)

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        if self._transport is not None and not self._transport.is_closing():
            self._reason = reason
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def unsent_bytes(self) -> int:
        """Return how many bytes wait to be read by the server."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, commands: list[Command]) -> None:
        """Send commands in one write."""
        if not self.is_open:
            for command in commands:
                command.fail(f"Redis at {self.name} {self._reason}")
            return
        for command in commands:
            command.connection = self
        self.sent.extend(commands)
        self.write(b"".join([command.packed for command in commands]))

    def write(self, data: bytes) -> None:
        """Send packed commands whose replies go to `listen`."""
        if self._transport is not None:
            self._transport.write(data)

    async def call(self, *arguments: Argument) -> Reply:
        """Send a command on this connection and return its reply; the caller sets a limit of time."""
        command = self._command(*arguments)
        self.send([command])
        return await command.outcome

    def _command(self, *arguments: Argument) -> Command:
        return Command(arguments, self._loop.create_future(), self._loop.time() + self._silence)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._receive(reply)
        except ProtocolError:
            self.abort("sent what is not the protocol of Redis")

    def _receive(self, reply: Reply) -> None:
        if self.listen is not None:
            self.listen(reply)
        elif self.sent:
            command = self.sent.popleft()
            if isinstance(reply, ReplyError):
                self._refuse(command, str(reply))
            elif not command.outcome.done():
                command.outcome.set_result(reply)

    def _refuse(self, command: Command, error: str) -> None:
        if command.script is not None and error.startswith("NOSCRIPT"):
            command.with_source()
            self.send([command])
            return
        command.fail(_refusal(self.name, error))
        if "READONLY" in error:  # the master has become a replica
            self.abort("is a replica now")

    def _check(self) -> None:
        """Ask a silent server for a sign of life, and abort the connection if none comes."""
        silent = self._loop.time() - self._heard_at
        if silent >= HEALTH_SECONDS + self._silence:
            self.abort(f"was silent for {silent:.0f} s")
            return
        if silent >= HEALTH_SECONDS:
            self._send_ping()
        wait = self._silence if silent >= HEALTH_SECONDS else HEALTH_SECONDS - silent
        self._timer = self._loop.call_later(wait, self._check)

    def _send_ping(self) -> None:
        ping = self._command("PING")
        ping.outcome.add_done_callback(retrieve_exception)
        if self.listen is None:
            self.send([ping])
        else:
            self.write(ping.packed)


def _refusal(name: str, error: str) -> str:
    if "OOM command not allowed" in error:
        return (
            f"Redis at {name} is full, and nothing was changed: raise its maxmemory, or delete what is not needed"
            f" ({error})"
        )
    return f"Redis at {name} refused a command: {error}"


async def connect(address: RedisAddress, lost: Callable[[str], None], silence: float) -> RedisConnection:
    """Open a connection, log in, and select the database; `silence` is how long a PING may take.

    Raises:
        StoreUnavailable, OSError: the server cannot be reached, or refuses the login.
    """
    if address.service is None:
        return await _connect_to(address, address.hosts[0] if address.hosts else None, lost, silence)
    reason = "none is named"
    for _ in address.hosts:
        try:
            async with asyncio.timeout(SENTINEL_SECONDS):
                master = await _ask_sentinel(address, silence)
                return await _connect_to(address, master, lost, silence)
        except (OSError, StoreUnavailable) as error:
            reason = str(error) or "it does not answer"
            address.rotate()  # this Sentinel may be cut off, and name a master that was replaced
    raise StoreUnavailable(f"The Sentinels at {address} name no master: {reason}")


async def _connect_to(
    address: RedisAddress, place: tuple[str, int] | None, lost: Callable[[str], None], silence: float
) -> RedisConnection:
    connection = await _open(address, place, lost, silence)
    try:
        await _greet(connection, address.login, must_be_master=address.service is not None)
        if address.database:
            await connection.call("SELECT", address.database)
    except BaseException:
        connection.abort("was not usable")
        raise
    return connection


async def _open(
    address: RedisAddress, place: tuple[str, int] | None, lost: Callable[[str], None], silence: float
) -> RedisConnection:
    loop = asyncio.get_running_loop()

    def protocol() -> RedisConnection:
        return RedisConnection(repr(address), lost, silence)

    if place is None:
        _, connection = await loop.create_unix_connection(protocol, address.path)
    else:
        _, connection = await loop.create_connection(protocol, *place, ssl=address.tls)
    return connection


async def _greet(connection: RedisConnection, login: Login, *, must_be_master: bool) -> None:
    """Log in, and refuse a server that is too old or not the master."""
    hello = await connection.call("HELLO", 2, *login.arguments(), "SETNAME", f"dragoman-{os.getpid()}")
    try:
        said: dict[bytes, bytes] = dict(zip(hello[::2], hello[1::2], strict=True))
        version, role = said[b"version"].decode(), said[b"role"]
        is_old = tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION
    except (TypeError, ValueError, KeyError, AttributeError):
        raise StoreUnavailable(f"The server at {connection.name} is not a Redis server") from None
    if is_old:
        raise StoreUnavailable(f"Redis at {connection.name} is too old: it is {version}, and must be 6.2 or later")
    if must_be_master and role != b"master":
        raise StoreUnavailable("the server that they name is not the master yet")


async def _ask_sentinel(address: RedisAddress, silence: float) -> tuple[str, int]:
    """Return the address of the master, as the first Sentinel knows it."""
    connection = await _open(address, address.hosts[0], lambda _: None, silence)
    try:
        if address.sentinel_login.password is not None:
            await connection.call("HELLO", 2, *address.sentinel_login.arguments())
        found = await connection.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", str(address.service))
    finally:
        connection.abort("is not needed any more")
    if found is None:
        raise StoreUnavailable(f"they do not know the service {address.service}")
    return found[0].decode(), int(found[1])
