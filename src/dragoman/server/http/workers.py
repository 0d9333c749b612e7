"""The processes that serve one server together, and what they tell each other.

A request runs in the process that it came to, and so do its stream and what it asks of its client. But the client's
next message may come to another process, which then knows whom it concerns: an answer names the process that asked,
and everything else about a session goes to all of them. A process that meets a session for the first time asks the
others what they remember of it. Changes and log messages for all clients go to all processes too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.protocol.jsonrpc import encode
from dragoman.stores import Bus, Memory, Store
from dragoman.stores.memory import MemoryBus

if TYPE_CHECKING:
    from dragoman.server.server import Server


class Told(Struct, tag=1, array_like=True):
    """A change that every client is told of, if it wants to know."""

    method: str
    subject: str | None
    params: bytes | None = None
    """Encoded, because they may hold what the processes cannot otherwise tell each other."""


class Logged(Struct, tag=2, array_like=True):
    """A log message for every client that set a level that wants it."""

    level: types.LoggingLevel
    data: bytes
    logger: str | None


class Sought(Struct, tag=3, array_like=True):
    """The question of what is remembered of a session; the reply is `Remembered` or nothing."""

    session: str


class Changed(Struct, tag=4, array_like=True):
    """What a session has come to remember."""

    session: str
    log_level: types.LoggingLevel | None = None
    subscribed: str | None = None
    unsubscribed: str | None = None


class Ended(Struct, tag=5, array_like=True):
    """A session that its client ended."""

    session: str


class StandaloneStreamOpened(Struct, tag=6, array_like=True):
    """A session whose client now reads elsewhere what belongs to no request."""

    session: str


class Said(Struct, tag=7, array_like=True):
    """A message of a session that belongs to no request."""

    session: str
    message: bytes


class Sent(Struct, tag=8, array_like=True):
    """A message of a client that concerns a request in another process: an answer, or a cancellation."""

    session: str
    message: bytes


class Completed(Struct, tag=9, array_like=True):
    """An elicitation that came to its end."""

    elicitation: str


class Remembered(Struct, array_like=True):
    """What a process remembers of a session."""

    is_over: bool
    """It was ended, or was not used for too long."""
    was_ended: bool = False
    log_level: types.LoggingLevel | None = None
    subscribed: list[str] = []


Message = Told | Logged | Sought | Changed | Ended | StandaloneStreamOpened | Said | Sent | Completed
M = TypeVar("M", Told, Logged, Sought, Changed, Ended, StandaloneStreamOpened, Said, Sent, Completed)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_remembered = msgspec.msgpack.Decoder(Remembered)


class Workers:
    """This process among those that serve the same server at the same path with the same key."""

    def __init__(self, server: Server, store: Store | None = None, *, path: str = "/mcp") -> None:
        self.store: Store = Memory() if store is None else store
        self._is_alone = store is None
        self._server = server
        self._path = path
        self._bus: Bus = MemoryBus()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_joined = False
        self._joining: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = None, asyncio.Lock()
        self._takers: dict[type, Callable[[Any], Remembered | None]] = {
            Told: self._take_told,
            Logged: self._take_logged,
            Completed: self._take_completed,
        }
        self._sending: set[asyncio.Task[Any]] = set()
        self._watch: AsyncGenerator[None, None] | None = None

    @property
    def name(self) -> str:
        """What the ids that this process makes begin with."""
        return self._bus.name

    def on(self, kind: type[M], take: Callable[[M], Remembered | None]) -> None:
        """Let messages of a kind be taken by a function."""
        self._takers[kind] = take

    def needs_to_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether `join` must be awaited before anything is served in a loop."""
        return self._loop is not loop and not self._is_alone

    async def join(self) -> None:
        """Find the others; a process does so when it serves first, for only then it has its loop."""
        loop = asyncio.get_running_loop()
        async with self._lock(loop):
            if self.needs_to_join(loop):
                bus = self.store.bus(self._group())
                await bus.open(self._receive)
                self._bus, self._loop, self._has_joined = bus, loop, True
                self._server.audience.add(self)
                self._watch = self._until_the_loop_ends()
                await anext(self._watch)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Leave the others when the loop ends: a mounted application is not told of it, but async generators are."""
        try:
            yield
        finally:
            await self.close()

    def _lock(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        if self._joining[0] is not loop:
            self._joining = loop, asyncio.Lock()
        return self._joining[1]

    def _group(self) -> str:
        """Name what only those have in common who share a key, a server, a path, a folder and a machine."""
        folder = ""
        with suppress(OSError):  # the folder may have been removed
            folder = str(Path.cwd())
        place = "\0".join([self._server.name, self._path, folder, socket.gethostname()])
        return self._server.key_ring.seal("group", place.encode())

    def _receive(self, data: bytes) -> bytes:
        message = _decoder.decode(data)
        take = self._takers.get(type(message))
        reply = None if take is None else take(message)
        return b"" if reply is None else _encoder.encode(reply)

    def send(self, message: Message, to: str | None = None) -> None:
        """Send a message to the others, or to one, without waiting for it."""
        if self._has_joined and self._loop is not None:
            task = self._loop.create_task(self._bus.publish(_encoder.encode(message), to))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def share(self, message: Message) -> list[Remembered]:
        """Send a message to the others, and wait until they have it; return what they say to it."""
        return [_remembered.decode(reply) for reply in await self._bus.publish(_encoder.encode(message)) if reply]

    def tell(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Let the others tell their clients of a change, from any thread."""
        self._later(Told(method, subject, None if params is None else encode(params)))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Let the others send a log message to their clients, from any thread."""
        self._later(Logged(level, encode(data), logger))

    def complete_elicitation(self, id: str) -> None:
        """Let the others tell the client that was sent to a page, from any thread."""
        self._later(Completed(id))

    def _later(self, message: Message) -> None:
        if self._has_joined and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.send, message)

    def _take_told(self, told: Told) -> None:
        params = None if told.params is None else msgspec.json.decode(told.params)
        for listener in self._server.audience.members():
            if not isinstance(listener, Workers):
                listener.tell(told.method, told.subject, params)

    def _take_logged(self, logged: Logged) -> None:
        for listener in self._server.audience.members():
            if not isinstance(listener, Workers):
                listener.log(logged.level, Raw(logged.data), logged.logger)

    def _take_completed(self, completed: Completed) -> None:
        for listener in self._server.audience.members():
            if not isinstance(listener, Workers):
                listener.complete_elicitation(completed.elicitation)

    async def close(self) -> None:
        """Leave the others; what is served in this loop from now on is served alone."""
        loop = asyncio.get_running_loop()
        async with self._lock(loop):
            self._server.audience.discard(self)
            has_joined, self._has_joined = self._has_joined, False
            if has_joined and self._loop is loop:
                if self._sending:
                    await asyncio.wait(list(self._sending))
                await self._bus.close()
