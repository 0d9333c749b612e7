"""Resumption of an event stream in another process than the one that serves its request.

The process that serves a request owns the stream of the request. The name of a stream begins with the name of its
owner and ends with the id of the request, so that any process can answer the request with an error if all else is lost.

`StreamLogWriter` is the owner's part. It writes the events to the store: at once if no client reads the stream, and
otherwise after `WRITE_SECONDS`. A stream that is complete and delivered by then is never written. Most streams are so
short, and the owner still has their events in memory if a client resumes them elsewhere.

`RemoteStream` is the part of a process in which a client resumes the stream of another process:

    asking      it asks the owner for the stream; the owner detaches its own reader and writes what the log lacks
    following   it sends what the log has; the owner tells it after each write that there is more
    over        the last event was sent, the client is gone, or a newer reader has the stream

If the owner does not reply, the log may still have the last event. If it has not, the client receives an error: the
request may have run, and nobody knows its result.

While the store is away, the client waits for `STORE_SECONDS`, and then receives such an error.

Rejected: events in the messages between processes. They would queue without a bound for a client that reads slowly, and
a process that is gone could not send them. Rejected: the status 503 while the store is away. Official clients give up a
stream after two such statuses, about three seconds, and one of them then lets its request wait without a word.
"""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.errors import InternalError, StoreUnavailable
from dragoman.protocol import jsonrpc, sse
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.workers import StreamFollowed, StreamGrew, StreamState, Workers
from dragoman.stores.contract import EventLog

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.http.streams import ResumableStream, StreamReader

T = TypeVar("T")
WRITE_SECONDS = 0.1
"""The seconds after which events that a client reads are written to the log."""
CHECK_SECONDS = 3.0
"""The seconds between two checks that the owner of a followed stream is alive."""
REPLAY_SECONDS = 2.0
"""The seconds that a process waits for the last events of a standalone stream of another process."""
STORE_SECONDS = 10.0
"""The seconds that a client which resumes a stream waits for a store that is away."""
STORE_PAUSE = 0.25
"""The seconds between two attempts to use a store that is away."""
CLOSE_SECONDS = 1.0
"""The seconds that the last events have to reach the log when the owner ends."""
MAX_ID_CHARACTERS = 256
"""The name of a stream has no request id if the encoded id is longer than this."""
OWNER_LOST = "The process that served this request is gone; the request may have run"
NOT_KEPT = "The events of this request are not kept any more; the request may have run"
STORE_AWAY = "The events of this request cannot be read while the store is away; the request may have run"
NOT_PASSED_ON = "The events of this request cannot be read here; the request may have run"
_NAME = re.compile(r"([0-9A-Za-z]+)-[0-9a-f]+(?:\.([0-9A-Za-z_-]*))?")


class StreamName(Struct, frozen=True):
    """What the name of a stream says."""

    owner: str
    """The name of the process that made the stream."""
    is_standalone: bool
    request_id: types.RequestId | None = None
    """The request whose stream it is; None for a standalone stream, and if the id was too long for a name."""

    @staticmethod
    def encode(id: str, request_id: types.RequestId | None) -> str:
        """Return the name of a stream; `id` is the name of the process and a number, as in the ids of a `Peer`."""
        if request_id is None:
            return id
        request = urlsafe_b64encode(jsonrpc.encode(request_id)).rstrip(b"=").decode()
        return f"{id}.{request if len(request) <= MAX_ID_CHARACTERS else ''}"

    @staticmethod
    def decode(name: str) -> StreamName | None:
        """Return what a name says; None if it is not the name of a stream."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        owner, request = found.groups()
        if not request:
            return StreamName(owner, is_standalone=request is None)
        with suppress(ValueError):
            id = msgspec.json.decode(urlsafe_b64decode(request + "=" * (-len(request) % 4)), type=types.RequestId)
            return StreamName(owner, is_standalone=False, request_id=id)
        return None


class LogRecord(Struct, array_like=True):
    """Events that follow each other, as the log keeps them."""

    first: int
    """The number of the first event."""
    events: list[bytes]
    is_complete: bool
    """Whether the stream ends with these events."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogRecord)


class SharedLogs:
    """The logs of the streams of one session in the store, and the processes that write and read them."""

    def __init__(self, workers: Workers, session: str | None) -> None:
        self._workers = workers
        self._session = session or ""

    def open(self, stream: str) -> EventLog:
        """Return the log of a stream."""
        return self._workers.store.log(f"{self._session} {stream}")

    def announce_growth(self, stream: str, worker: str) -> None:
        """Tell the process that reads a stream that its log has more events."""
        self._workers.send(StreamGrew(self._session, stream), worker)

    async def ask_owner(self, stream: str, owner: str, reader: int, *, is_check: bool) -> StreamState | None:
        """Ask the owner for a stream, or check that a reader still has it; return None if the owner is gone."""
        message = StreamFollowed(self._session, stream, self._workers.name, reader, is_check)
        return await self._workers.ask(message, owner)

    def warn(self, error: Exception) -> None:
        """Log that the store is away."""
        self._workers.warn(error)


class StreamLogWriter:
    """Writes the events of a stream of this process to the log of the store."""

    follower: tuple[str, int] | None = None
    """The process in which a client reads the stream, and the number of the reader there."""

    def __init__(self, stream: ResumableStream, logs: SharedLogs) -> None:
        self._stream = stream
        self._logs = logs
        self._log: EventLog | None = None
        self._loop = asyncio.get_running_loop()
        self._appended = 0
        self._written = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Write the events that the log lacks: soon if a client reads them here, otherwise at once."""
        if self._stream.reader is None or self.follower is not None:
            self.write()
        elif self._timer is None:
            self._timer = self._loop.call_later(WRITE_SECONDS, self.write)

    def write(self, *, appends_now: bool = False) -> None:
        """Write the events that the log lacks, without waiting.

        While events are being written, further events wait for them, unless `appends_now` is true.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None or appends_now:
            self._append()
        if self._flushing is None and self._written < self._appended:
            self._flushing = self._loop.create_task(self._flush())

    def _append(self) -> None:
        stream = self._stream
        is_needless = not self._appended and self.follower is None and stream.is_delivered and stream.is_finished
        if stream.sequence > self._appended and not is_needless:
            events = stream.kept_after(self._appended)
            record = LogRecord(stream.sequence - len(events) + 1, events, stream.is_finished)
            if self._log is None:
                self._log = self._logs.open(stream.name)
            self._log.append(stream.sequence, _encoder.encode(record))
            self._appended = stream.sequence

    async def _flush(self) -> None:
        assert self._log is not None
        try:
            while self._written < self._appended:
                appended = self._appended
                await self._log.flush()
                self._written = appended
                if self.follower is not None:
                    self._logs.announce_growth(self._stream.name, self.follower[0])
                self._append()
        except Exception as error:
            self._appended = self._written  # the next event, or the next reader, has these events written again
            self._logs.warn(error)
        finally:
            self._flushing = None

    async def close(self) -> None:
        """Write the events that the log lacks, and wait for that, but not for long."""
        self.write()
        if self._flushing is not None:
            flushing = self._flushing
            await asyncio.wait([flushing], timeout=CLOSE_SECONDS)
            flushing.cancel()


class RemoteStream:
    """A stream of another process, or one that this process has forgotten, which a client resumes here."""

    def __init__(
        self,
        server: Dispatcher,
        logs: SharedLogs,
        name: StreamName,
        after: sse.EventId,
        reader: StreamReader,
        number: int = 0,
    ) -> None:
        self.reader = reader
        self._server = server
        self._logs = logs
        self._name = name
        self._stream = after.stream
        self._sequence = after.sequence
        self._number = number
        """The number of the reader in this process."""
        self._log = logs.open(after.stream)
        self._grew = asyncio.Event()
        self._is_complete = False

    def grow(self) -> None:
        """Note that the log has more events."""
        self._grew.set()

    async def serve(self) -> None:
        """Send the events of the stream of a request to the client, to the last one or to an error."""
        reader = self.reader
        try:
            await self._follow()
        except StoreUnavailable:
            if not reader.is_released:
                await reader.send(sse.encode(self._refuse(STORE_AWAY)), last=True)
        reader.release()
        await reader.end()

    async def _follow(self) -> None:
        reader = self.reader
        owner = await self._ask_first()
        await reader.send(await self._read(), last=self._is_complete)
        while not (self._is_complete or reader.is_released):
            if owner is None or not owner.is_known:
                await self._send_error(OWNER_LOST if owner is None else NOT_KEPT)
            elif owner.is_taken or (owner.is_finished and self._sequence >= owner.sequence):
                reader.release()
            elif await self._has_grown(CHECK_SECONDS):
                await reader.send(await self._read(), last=self._is_complete)
            else:
                due, owner = owner.sequence, await self._patiently(lambda: self._ask(is_check=True))
                await reader.send(await self._read(), last=self._is_complete)
                has_stream = owner is not None and owner.is_known and not owner.is_taken
                if has_stream and self._sequence < due:
                    await self._send_error(NOT_PASSED_ON)

    async def replay(self) -> None:
        """Send the events of a standalone stream that the client missed; more of them do not follow.

        If the store stays away, the reader is released: the client comes back later.
        """
        try:
            owner = await self._ask_first()
            events = await self._read()
            newest = 0 if owner is None else owner.sequence
            if self._sequence < newest and await self._has_grown(REPLAY_SECONDS):
                events += await self._read()
        except StoreUnavailable:
            self.reader.release()
        else:
            await self.reader.send(events)

    async def _ask_first(self) -> StreamState | None:
        """Ask the owner for the stream, until the reader is released."""
        asking = asyncio.ensure_future(self._patiently(lambda: self._ask(is_check=False)))
        await self._wait(asking, None)
        return asking.result() if asking.done() and not asking.cancelled() else None

    async def _ask(self, *, is_check: bool) -> StreamState | None:
        return await self._logs.ask_owner(self._stream, self._name.owner, self._number, is_check=is_check)

    def _refuse(self, reason: str) -> bytes:
        return refusal(self._server, InternalError(reason), self._name.request_id)

    async def _patiently(self, use: Callable[[], Awaitable[T]]) -> T:
        """Use the store, and try again for a while if it is away.

        Raises:
            StoreUnavailable: the store stays away, or the reader was released.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + STORE_SECONDS
        while True:
            try:
                return await use()
            except StoreUnavailable as error:
                self._logs.warn(error)
                if self.reader.is_released or loop.time() >= ends_at:
                    raise
            await asyncio.sleep(STORE_PAUSE)

    async def _send_error(self, reason: str) -> None:
        """Answer the request with an error, because no more events come, unless the client has the last event."""
        newest = await self._patiently(lambda: self._log.after(max(0, self._sequence - 1)))
        self._is_complete = True
        if not any(_decoder.decode(data).is_complete for _, data in newest):
            await self.reader.send(sse.encode(self._refuse(reason)), last=True)

    async def _has_grown(self, seconds: float) -> bool:
        """Wait until the log has more events, or the reader is released; return False if the time is up."""
        return await self._wait(asyncio.ensure_future(self._grew.wait()), seconds)

    async def _wait(self, task: asyncio.Future[Any], seconds: float | None) -> bool:
        """Wait for a task or the release of the reader, and cancel the task; return False if the time is up."""
        waiting = [task, self.reader.released]
        try:
            done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
        return bool(done)

    async def _read(self) -> bytes:
        """Return the events that the client has not received."""
        self._grew.clear()
        events: list[bytes] = []
        for _, data in await self._patiently(lambda: self._log.after(self._sequence)):
            record = _decoder.decode(data)
            events += record.events[max(0, self._sequence + 1 - record.first) :]
            self._sequence = record.first + len(record.events) - 1
            self._is_complete = record.is_complete
        return b"".join(events)
