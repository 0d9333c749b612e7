"""The processes that serve one server together, and the messages that they send to each other.

A request runs in the process that received it, and so do its stream and its questions to the client. The client's next
message may reach another process. That one forwards the message: an answer to the process whose name begins the id,
everything else about a session to all processes. A process that meets a session for the first time asks the others for
its state. Notifications and log messages for all clients go to all processes too.

No process owns a session, and no router stands before them: a session whose owner dies would be lost.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.tasks import call_in_loop
from dragoman.stores import Bus, Memory, Store
from dragoman.stores.memory import MemoryBus

if TYPE_CHECKING:
    from dragoman.server.server import Server


class BusMessage(Struct, array_like=True):
    """A message that a process sends to the others; named for what happened there."""


class ChangeAnnounced(BusMessage, tag=1):
    """A change happened, of which every client that wants to know is notified."""

    method: str
    subject: str | None
    params: bytes | None = None
    """JSON, because parameters may hold what msgpack cannot."""


class MessageLogged(BusMessage, tag=2):
    """A log message was sent to every client whose level admits it."""

    level: types.LoggingLevel
    data: bytes
    logger: str | None


class ElicitationCompleted(BusMessage, tag=9):
    """An elicitation by URL was completed."""

    elicitation: str


class SessionMessage(BusMessage):
    """A message about one session."""

    session: str


class SessionStateRequested(SessionMessage, tag=3):
    """A process met a session for the first time; the reply is a `SessionState`, or nothing."""


class SessionStateChanged(SessionMessage, tag=4):
    """A client set its log level, or subscribed to a resource, or unsubscribed."""

    log_level: types.LoggingLevel | None = None
    subscribed: str | None = None
    unsubscribed: str | None = None


class SessionEnded(SessionMessage, tag=5):
    """A client ended its session."""


class StandaloneStreamOpened(SessionMessage, tag=6):
    """A client opened the standalone stream of its session in another process."""


class StandaloneMessageSent(SessionMessage, tag=7):
    """A message was sent on the standalone stream of a session, which the client may read in another process."""

    message: bytes


class ClientMessageReceived(SessionMessage, tag=8):
    """A process received an answer or a cancellation that concerns a request in another process."""

    message: bytes


class SessionState(Struct, array_like=True):
    """What a process knows of a session."""

    is_over: bool
    """The session was ended, or has expired."""
    was_ended: bool = False
    log_level: types.LoggingLevel | None = None
    subscribed: list[str] = []


_KINDS: Any = (
    *(ChangeAnnounced, MessageLogged, SessionStateRequested, SessionStateChanged, SessionEnded),
    *(StandaloneStreamOpened, StandaloneMessageSent, ClientMessageReceived, ElicitationCompleted),
)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[BusMessage] = msgspec.msgpack.Decoder(Union[_KINDS])  # noqa: UP007
_states = msgspec.msgpack.Decoder(SessionState)


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
        self.on_session_message: Callable[[SessionMessage], SessionState | None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._watch: AsyncGenerator[None, None] | None = None

    @property
    def name(self) -> str:
        """The name of this process, with which the ids that it makes begin."""
        return self._bus.name

    def needs_to_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether `join` must be awaited before anything is served in a loop."""
        return self._loop is not loop and not self._is_alone

    async def join(self) -> None:
        """Join the other processes; done before the first request, because there is no loop earlier."""
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
        """Close when the loop ends: async generators are finalized then, while a mounted application is not told."""
        try:
            yield
        finally:
            await self.close()

    def _lock(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        if self._joining[0] is not loop:
            self._joining = loop, asyncio.Lock()
        return self._joining[1]

    def _group(self) -> str:
        """Return a name that only processes with the same key, server, path, folder and machine can make."""
        folder = ""
        with suppress(OSError):  # the folder may have been removed
            folder = str(Path.cwd())
        place = "\0".join([self._server.name, self._path, folder, socket.gethostname()])
        return self._server.key_ring.seal("group", place.encode())

    def _receive(self, data: bytes) -> bytes:
        message, reply = _decoder.decode(data), None
        if not isinstance(message, SessionMessage):
            self._deliver(message)
        elif self.on_session_message is not None:
            reply = self.on_session_message(message)
        return b"" if reply is None else _encoder.encode(reply)

    def _deliver(self, message: BusMessage) -> None:
        """Pass a message for all clients to those of this process."""
        listeners = [member for member in self._server.audience.members() if not isinstance(member, Workers)]
        match message:
            case ChangeAnnounced(method, subject, encoded):
                params = None if encoded is None else msgspec.json.decode(encoded)
                for listener in listeners:
                    listener.notify_change(method, subject, params)
            case MessageLogged(level, data, logger):
                for listener in listeners:
                    listener.log(level, Raw(data), logger)
            case ElicitationCompleted(elicitation):
                for listener in listeners:
                    listener.complete_elicitation(elicitation)

    def send(self, message: BusMessage, to: str | None = None) -> None:
        """Send a message to the other processes, or to one, without waiting for it."""
        if self._has_joined and self._loop is not None:
            task = self._loop.create_task(self._bus.publish(_encoder.encode(message), to))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def share(self, message: BusMessage) -> list[SessionState]:
        """Send a message to the other processes, wait until they have it, and return their replies."""
        return [_states.decode(reply) for reply in await self._bus.publish(_encoder.encode(message)) if reply]

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> None:
        """Let the other processes notify their clients of a change, from any thread."""
        self._send_from_any_thread(ChangeAnnounced(method, subject, None if params is None else encode(params)))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Let the other processes send a log message to their clients, from any thread."""
        self._send_from_any_thread(MessageLogged(level, encode(data), logger))

    def complete_elicitation(self, id: str) -> None:
        """Let the other processes notify the client whose elicitation was completed, from any thread."""
        self._send_from_any_thread(ElicitationCompleted(id))

    def _send_from_any_thread(self, message: BusMessage) -> None:
        if self._loop is not None:
            call_in_loop(self._loop, self.send, message)

    async def close(self) -> None:
        """Leave the other processes; this one goes on alone in its loop."""
        loop = asyncio.get_running_loop()
        async with self._lock(loop):
            self._server.audience.discard(self)
            has_joined, self._has_joined = self._has_joined, False
            if has_joined and self._loop is loop:
                if self._sending:
                    await asyncio.wait(list(self._sending))
                await self._bus.close()
