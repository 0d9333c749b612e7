"""`Workers`: the processes that serve one server together, and the messages that they send to each other.

A request runs in the process that received it; its requests to the client stay in that process. The next message of the
client may reach another process, which forwards it. A response goes to the process whose name is the prefix of the id,
and a message about a stream to the process whose name is the prefix of the stream's name. Every other message about a
session goes to all processes. A process that does not know a session asks the others for its state. Notifications and
log messages for all clients also go to all processes.

`Workers` has two states. It is alone before `join`, after `close`, and always if it does not join: `send` then sends
nothing. After `join` it is joined, and messages go over the bus of the store. While the store is away, messages are
lost. Sessions go on, because their ids say who the client is.

Rejected: one process that owns a session, or a router that finds it. If the owner dies, the session is lost.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import StoreUnavailable
from dragoman.protocol.jsonrpc import encode
from dragoman.runtime.tasks import call_in_loop
from dragoman.stores.contract import Bus, Store
from dragoman.stores.memory import Memory, MemoryBus

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

ASK_ATTEMPTS = 3
"""A process that does not reply so many times in a row counts as gone."""
ASK_PAUSE = 0.3
WARN_SECONDS = 60.0
"""The seconds between two warnings that the store is away."""
_logger = logging.getLogger("dragoman.server")


class BusMessage(Struct, array_like=True):
    """A message that a process sends to the others; the name of a subclass says what happened in the sender."""


class ChangeAnnounced(BusMessage, tag=1):
    """A change happened: every process notifies the clients that want the notification."""

    method: str
    subject: str | None
    params: bytes | None = None
    """The params as JSON, because msgpack cannot represent every JSON value."""


class MessageLogged(BusMessage, tag=2):
    """A log message for all clients: every process sends it to the clients whose log level includes it."""

    level: types.LoggingLevel
    data: bytes
    logger: str | None


class ElicitationCompleted(BusMessage, tag=9):
    """A url elicitation is complete: the process that has its session notifies the client."""

    elicitation: str


class SessionMessage(BusMessage):
    """A message about one session."""

    session: str


class SessionStateRequested(SessionMessage, tag=3):
    """A process does not know a session; a process that knows it replies with a `SessionState`."""


class SessionStateChanged(SessionMessage, tag=4):
    """A client set its log level, subscribed to a resource, or unsubscribed from one."""

    log_level: types.LoggingLevel | None = None
    subscribed: str | None = None
    unsubscribed: str | None = None


class SessionEnded(SessionMessage, tag=5):
    """A client ended its session."""


class StandaloneStreamOpened(SessionMessage, tag=6):
    """A client opened the standalone stream of its session in another process."""


class StandaloneMessageSent(SessionMessage, tag=7):
    """A message for the standalone stream of a session; the client may read the stream from another process."""

    message: bytes


class ClientMessageReceived(SessionMessage, tag=8):
    """A process received a response or a cancellation for a request that another process has."""

    message: bytes


class StreamFollowed(SessionMessage, tag=10):
    """A client resumed a stream of the receiver in the sender; the receiver replies with a `StreamState`."""

    stream: str
    worker: str
    """The process in which the client resumed the stream."""
    reader: int
    """The number of the reader in that process."""
    is_check: bool
    """Whether the reader has the stream already, and asks whether the receiver is alive."""


class StreamGrew(SessionMessage, tag=11):
    """The log of a stream that the receiver reads has more events."""

    stream: str


class StreamState(Struct, array_like=True):
    """The state of a stream that its owner knows."""

    is_known: bool = True
    is_taken: bool = False
    """Whether another reader has the stream."""
    sequence: int = 0
    """The number of the newest event."""
    is_finished: bool = False
    """Whether the newest event is the last."""


class SessionState(Struct, array_like=True):
    """The state of a session that a process knows."""

    is_over: bool
    """Whether the session was ended by its client, or has expired."""
    was_ended: bool = False
    log_level: types.LoggingLevel | None = None
    subscribed: list[str] = []


_KINDS: Any = (
    *(ChangeAnnounced, MessageLogged, SessionStateRequested, SessionStateChanged, SessionEnded),
    *(StandaloneStreamOpened, StandaloneMessageSent, ClientMessageReceived, ElicitationCompleted),
    *(StreamFollowed, StreamGrew),
)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[BusMessage] = msgspec.msgpack.Decoder(Union[_KINDS])  # noqa: UP007
_states = msgspec.msgpack.Decoder(SessionState)
_stream_states = msgspec.msgpack.Decoder(StreamState)


class Workers:
    """This process's connection to the processes that serve the same server at the same path with the same key."""

    is_elsewhere = True
    """Whether the clients that the listener notifies are those of other processes (`Audience`)."""

    def __init__(self, server: Dispatcher, *, path: str = "/mcp", joins: bool = False) -> None:
        self._joins = joins
        self._server = server
        self._path = path
        self._bus: Bus = MemoryBus()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_joined = False
        self._joining: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = None, asyncio.Lock()
        self.on_session_message: Callable[[SessionMessage], SessionState | StreamState | None] | None = None
        self._sending: set[asyncio.Task[Any]] = set()
        self._watch: AsyncGenerator[None, None] | None = None
        self._next_warning = 0.0

    @cached_property
    def store(self) -> Store:
        """The store of the server; a store of its own if this process does not join others."""
        return self._server.storage.store if self._joins else Memory()

    @cached_property
    def shares_streams(self) -> bool:
        """Whether other processes can read the logs of the store."""
        return self.store.reach != "process"

    @property
    def name(self) -> str:
        """The name of this process; the ids of its requests and streams have it as their prefix."""
        return self._bus.name

    def needs_to_join(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether the caller must await `join` before it serves a request in a loop."""
        return self._loop is not loop and self._joins

    async def join(self) -> None:
        """Open the bus to the other processes; called before the first request, because no loop runs earlier."""
        loop = asyncio.get_running_loop()
        async with self._lock(loop):
            if self.needs_to_join(loop):
                bus = self.store.bus(self._group())
                try:
                    await bus.open(self._receive)
                except StoreUnavailable as error:
                    self.warn(error)
                self._bus, self._loop, self._has_joined = bus, loop, True
                self._server.notifier.add(self)
                self._watch = self._until_the_loop_ends()
                await anext(self._watch)

    def warn(self, error: Exception) -> None:
        """Log that the store is away, unless that was logged a short time ago."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_warning:
            self._next_warning = now + WARN_SECONDS
            _logger.warning(
                "The store is away (%s): until it is back, sessions go on, but other processes do not hear of answers,"
                " changes and ended sessions, and cannot resume streams",
                error,
            )

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        """Call `close` when the loop ends.

        A loop finalizes its async generators at its end. A mounted ASGI application receives no other signal.
        """
        try:
            yield
        finally:
            await self.close()

    def _lock(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        if self._joining[0] is not loop:
            self._joining = loop, asyncio.Lock()
        return self._joining[1]

    def _group(self) -> str:
        """Return the name of the bus, which processes with the same key, server name and path share.

        If the store does not reach other machines, they also have the folder and the machine in common.
        """
        folder = machine = ""
        if self.store.reach != "network":
            machine = socket.gethostname()
            with suppress(OSError):  # the folder may have been removed
                folder = str(Path.cwd())
        place = "\0".join([self._server.name, self._path, folder, machine])
        return self._server.storage.key_ring.seal("group", place.encode())

    def _receive(self, data: bytes) -> bytes:
        try:
            message, reply = _decoder.decode(data), None
        except msgspec.DecodeError as error:  # while a new release is deployed, it may send what this one lacks
            _logger.debug("A message of another release is ignored: %s", error)
            return b""
        if not isinstance(message, SessionMessage):
            self._deliver(message)
        elif self.on_session_message is not None:
            reply = self.on_session_message(message)
        return b"" if reply is None else _encoder.encode(reply)

    def _deliver(self, message: BusMessage) -> None:
        """Pass a message for all clients to the listeners of this process."""
        listeners = self._server.notifier.members_here()
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
        """Send a message to the other processes, or to the process `to`, without waiting for its delivery."""
        if self._has_joined and self._loop is not None:
            task = self._loop.create_task(self._send(message, to))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, message: BusMessage, to: str | None) -> None:
        try:
            await self._bus.publish(_encoder.encode(message), to)
        except StoreUnavailable as error:
            self.warn(error)
        except Exception as error:
            self._server.report(error, None, {"place": "telling other workers"})

    async def share(self, message: BusMessage) -> list[SessionState]:
        """Send a message to the other processes, wait until they have received it, and return their replies.

        If the store is away, there are no replies.
        """
        try:
            replies = await self._bus.publish(_encoder.encode(message)) if self._has_joined else []
        except StoreUnavailable as error:
            self.warn(error)
            return []
        return [_states.decode(reply) for reply in replies if reply]

    async def ask(self, message: StreamFollowed, to: str) -> StreamState | None:
        """Ask the owner of a stream for its state; return None if the owner is gone.

        Raises:
            StoreUnavailable: the store is away.
        """
        if to == self.name:
            return StreamState(is_known=False)
        for attempt in range(ASK_ATTEMPTS if self._has_joined else 0):
            await asyncio.sleep(ASK_PAUSE if attempt else 0)
            replies = await self._bus.publish(_encoder.encode(message), to)
            if replies:
                return _stream_states.decode(replies[0]) if replies[0] else StreamState(is_known=False)
        return None

    def notify_change(self, method: str, subject: str | None = None, params: types.Json | None = None) -> bool:
        """Send a change to the other processes, from any thread; they notify their clients."""
        return self._send_from_any_thread(ChangeAnnounced(method, subject, None if params is None else encode(params)))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> bool:
        """Send a log message to the other processes, from any thread; they send it to their clients."""
        return self._send_from_any_thread(MessageLogged(level, encode(data), logger))

    def complete_elicitation(self, id: str) -> bool:
        """Send the completion of a url elicitation to the other processes, from any thread."""
        return self._send_from_any_thread(ElicitationCompleted(id))

    def _send_from_any_thread(self, message: BusMessage) -> bool:
        """Send a message to the other processes, and return False: it is not known whether a client there gets it."""
        if self._loop is not None:
            call_in_loop(self._loop, self.send, message)
        return False

    async def close(self) -> None:
        """Close the bus to the other processes; this process continues alone in its loop."""
        loop = asyncio.get_running_loop()
        async with self._lock(loop):
            self._server.notifier.discard(self)
            has_joined, self._has_joined = self._has_joined, False
            if has_joined and self._loop is loop:
                if self._sending:
                    await asyncio.wait(list(self._sending))
                await self._bus.close()
                await self.store.close()
