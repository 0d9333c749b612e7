"""Sessions of the handshake era over HTTP: data that a sealed id stands for, and the streams that belong to it.

A session is what its id says (who the client is, which version was agreed on) and what this process remembers of it.
Each request has a stream of its own: what is said on its way, what is asked of the client, and its response. A stream
is a bounded log of events with numbers, and at most one exchange that it is written to. When the connection breaks, the
handler goes on and the log is kept; a client that comes back by GET with the last number that it saw gets the rest.
What belongs to no request goes to the one stream that the client opened by GET; the newest wins.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import DragomanError, InvalidRequest, RpcError, Timeout, TransportError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.listen import RESOURCE_UPDATED, Subscription
from dragoman.protocol.sse import EventId
from dragoman.protocol.tokens import SessionTokens
from dragoman.server.call import Call, Session
from dragoman.server.streams import EventStream
from dragoman.server.telling import announces, is_wanted, log_params
from dragoman.server.workers import Changed, Ended, Read, Remembered, Said, Sent, Sought, Workers

if TYPE_CHECKING:
    from dragoman.server.server import Server

MOST_STREAMS = 100
MOST_OVER = 100_000
ENDED, LAPSED = True, False
BAD_REQUEST, NOT_FOUND, UNAVAILABLE = 400, 404, 503
_cancelled = msgspec.json.Decoder(types.CancelledNotificationParams)


class SessionRefused(DragomanError):
    """A message that names no session which can be served: an HTTP status and the reason."""

    def __init__(self, status: int, error: RpcError) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.id: types.RequestId | None = None
        """The request that is refused, if it is one."""


class SharedSession(Session):
    """What a session remembers, and what of it the other processes have not been told."""

    __slots__ = ("unshared",)

    def __init__(self, caller: eras.Caller | None = None, id: str | None = None, principal: str | None = None) -> None:
        super().__init__(caller, id, principal)
        self.unshared: list[Changed] = []

    def set_level(self, level: types.LoggingLevel) -> None:
        """Note from which level on the client wants log messages."""
        super().set_level(level)
        self._share(Changed("", log_level=level))

    def follow(self, uri: str) -> None:
        """Note that the client wants to be told when a resource changes."""
        super().follow(uri)
        self._share(Changed("", followed=uri))

    def unfollow(self, uri: str) -> None:
        """Note that it wants so no longer."""
        super().unfollow(uri)
        self._share(Changed("", unfollowed=uri))

    def _share(self, change: Changed) -> None:
        if self.id is not None:
            change.session = self.id
            self.unshared.append(change)

    def take(self, changed: Changed) -> None:
        """Note what another process was told."""
        self.log_level = changed.log_level or self.log_level
        if changed.followed is not None:
            self.followed.add(changed.followed)
        if changed.unfollowed is not None:
            self.followed.discard(changed.unfollowed)


class Sessions:
    """The sessions of one application, found by their sealed ids.

    Any process that has the key can take a session up: what it knows of it is what the id says, and what the others
    remember. A session that nobody used for long has lapsed, unless another process still uses it.
    """

    def __init__(
        self,
        server: Server,
        *,
        workers: Workers | None = None,
        path: str = "/mcp",
        idle_timeout: float | None = 1800,
        most: int | None = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workers = Workers(server, path=path) if workers is None else workers
        self._server = server
        self._path = path
        self._idle_timeout = idle_timeout
        self._most = most
        self._clock = clock
        self._known: OrderedDict[str, HttpSession] = OrderedDict()
        self._first_lapses = -math.inf
        """No session has lapsed before; it may be later, since those that are used lapse later."""
        self._over: OrderedDict[str, bool] = OrderedDict()
        self._adopting: dict[str, list[Changed]] = {}
        self._tokens: SessionTokens | None = None
        self.workers.on(Sought, self._recall)
        self.workers.on(Ended, lambda ended: self._forget(ended.session, was_ended=True))
        self.workers.on(Changed, self._take_change)
        self.workers.on(Read, lambda read: self._in(read.session, HttpSession.read_elsewhere))
        self.workers.on(Said, lambda said: self._in(said.session, HttpSession.say_here, said.message))
        self.workers.on(Sent, lambda sent: self._in(sent.session, HttpSession.take_here, sent.message))

    @property
    def _sealed(self) -> SessionTokens:
        if self._tokens is None:
            self._tokens = SessionTokens(self._server.key_ring, server=self._server.name, path=self._path)
        return self._tokens

    async def refuse_second(self, id: str | None, principal: str | None = None) -> None:
        """Refuse an `initialize` inside a session.

        Raises:
            SessionRefused: it names a session, one that lives or one that does not.
        """
        if id is not None:
            await self.find(id, principal)
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The session is initialized already"))

    def begin(self, data: SharedSession) -> str:
        """Begin a session, and return its id.

        Raises:
            SessionRefused: there are too many.
        """
        assert data.caller is not None
        id = self._sealed.seal(data.caller, principal=data.principal, now=time.time(), nonce=os.urandom(12))
        self._keep(id, data)
        return id

    async def find(self, id: str | None, principal: str | None = None) -> HttpSession:
        """Return a session of a principal.

        Raises:
            SessionRefused: no id was sent, or it is foreign, forged, outdated or over; or there are too many.
        """
        if id is None:
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The header Mcp-Session-Id is missing; initialize first"))
        session = self.find_here(id, principal)
        if session is None and id not in self._known:
            await self._adopt(id, principal)
            session = self.find_here(id, principal)
        if session is None:
            raise SessionRefused(NOT_FOUND, InvalidRequest("The session is not known here, or has ended"))
        return session

    def find_here(self, id: str | None, principal: str | None = None) -> HttpSession | None:
        """Return a session of a principal, if this process has it."""
        now = self._clock()
        if now >= self._first_lapses:
            self._expire(now)
        session = None if id is None else self._known.get(id)
        if id is None or session is None or session.data.principal != principal:
            return None
        session.last_used = now
        self._known.move_to_end(id)
        return session

    async def _adopt(self, id: str, principal: str | None) -> None:
        """Take up a session that began in another process, with what the others remember of it, if it is one."""
        caller = self._sealed.open(id, principal=principal, now=time.time())
        if caller is None or self._over.get(id) is ENDED:
            return
        missed = self._adopting.setdefault(id, [])
        try:
            told = await self.workers.share(Sought(id))
        finally:
            self._adopting.pop(id, None)
        if id in self._known or self._over.get(id) is ENDED:
            return
        living = [memory for memory in told if not memory.is_over]
        if any(memory.was_ended for memory in told) or (not living and (told or id in self._over)):
            return
        self._over.pop(id, None)
        data = SharedSession(caller, principal=principal)
        for memory in living:
            data.log_level = memory.log_level or data.log_level
            data.followed.update(memory.followed)
        for change in missed:
            data.take(change)
        self._keep(id, data)

    def _recall(self, sought: Sought) -> Remembered | None:
        self._expire(self._clock())
        session = self._known.get(sought.session)
        if session is not None:
            data = session.data
            return Remembered(is_over=False, log_level=data.log_level, followed=list(data.followed))
        over = self._over.get(sought.session)
        return None if over is None else Remembered(is_over=True, was_ended=over is ENDED)

    def _in(self, id: str, take: Callable[..., None], *given: Any) -> None:
        session = self._known.get(id)
        if session is not None:
            take(session, *given)

    def _take_change(self, changed: Changed) -> None:
        # Whoever told what it remembers may have been told more before that was taken in here.
        if changed.session in self._adopting:
            self._adopting[changed.session].append(changed)
        self._in(changed.session, lambda session: session.data.take(changed))

    def touch(self, session: HttpSession) -> None:
        """Note that a session was used just now."""
        session.last_used = self._clock()
        id = session.data.id
        if id is not None and id in self._known:
            self._known.move_to_end(id)

    def _keep(self, id: str, data: SharedSession) -> None:
        self._expire(self._clock())
        if self._most is not None and len(self._known) >= self._most:
            raise SessionRefused(UNAVAILABLE, RpcError(-32603, "There are too many sessions; try again later"))
        data.id = id
        session = self._known[id] = HttpSession(self._server, data, workers=self.workers)
        session.last_used = self._clock()

    def _expire(self, now: float) -> None:
        """Let those lapse that were idle too long; the least recently used come first."""
        if self._idle_timeout is None:
            self._first_lapses = math.inf
            return
        long_ago = now - self._idle_timeout
        unused: list[tuple[str, HttpSession]] = []
        for id, session in self._known.items():
            if session.last_used > long_ago:
                break
            unused.append((id, session))
        for id, session in unused:
            if session.is_busy:
                self.touch(session)
            else:
                self._forget(id, was_ended=False)
        first = next(iter(self._known.values()), None)
        self._first_lapses = self._idle_timeout + (now if first is None else first.last_used)

    async def end(self, id: str | None, principal: str | None = None) -> None:
        """End a session, in every process, because its client says so.

        Raises:
            SessionRefused: there is no such session.
        """
        await self.find(id, principal)
        assert id is not None
        self._forget(id, was_ended=True)
        await self.workers.share(Ended(id))

    def _forget(self, id: str, *, was_ended: bool) -> None:
        session = self._known.pop(id, None)
        if session is not None:
            session.end()
        self._over[id] = ENDED if was_ended else LAPSED
        if len(self._over) > MOST_OVER:
            self._over.popitem(last=False)

    def let_go(self) -> None:
        """Let go of whoever reads what belongs to no request; requests go on."""
        for session in self._known.values():
            session.let_go()

    async def close(self) -> None:
        """Let go of every session; another process may take them up."""
        sessions = list(self._known.values())
        self._known.clear()
        for session in sessions:
            await session.close()


class HttpSession:
    """What this process remembers of one session."""

    def __init__(self, server: Server, data: SharedSession, *, workers: Workers) -> None:
        self.data = data
        self.running: dict[types.RequestId, Call] = {}
        self.last_used = 0.0
        # SHOULD (2025-11-25): "immediately send an SSE event consisting of an event ID and an empty data field".
        self._primes = data.caller is not None and data.caller.version.omits_unknown_id
        self._server = server
        self._workers = workers
        self._streams: dict[str, EventStream] = {}
        self._standalone: EventStream | None = None
        self._asked: dict[types.RequestId, asyncio.Future[Raw]] = {}
        self._minted = 0
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        server.audience.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether something is served, or somebody reads what belongs to no request."""
        return bool(self.running) or (self._standalone is not None and self._standalone.reader is not None)

    def open_stream(self) -> EventStream:
        """Return a new stream, which is kept from when it has a name."""
        return EventStream(self._workers.store, self._keep, primes=self._primes)

    def _keep(self, stream: EventStream) -> str:
        """Keep a stream, and return its name; the oldest finished one is forgotten when there are too many."""
        name = self._mint()
        self._streams[name] = stream
        if len(self._streams) > MOST_STREAMS:
            oldest = next((kept for kept in self._streams.values() if kept.finished), None)
            if oldest is not None:
                self.forget(oldest)
        return name

    def forget(self, stream: EventStream) -> None:
        """Keep a stream no longer: nobody can come back to it."""
        if stream.is_named:
            self._streams.pop(stream.name, None)

    def _mint(self) -> str:
        self._minted += 1
        return f"{self._workers.name}-{self._minted}"

    def resumed(self, last_event_id: str) -> tuple[EventStream, int]:
        """Return the stream of an event, and its number there.

        Raises:
            SessionRefused: the stream is not kept.
        """
        cursor = EventId.decode(last_event_id)
        stream = None if cursor is None else self._streams.get(cursor.stream)
        if cursor is None or stream is None:
            # Not 404, by which a client would take its session for ended.
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The stream of this Last-Event-ID is not kept here"))
        return stream, cursor.sequence

    def standalone(self) -> EventStream:
        """Return the stream of what belongs to no request; who reads it in another process is let go."""
        if self._standalone is None:
            self._standalone = self.open_stream()
        assert self.data.id is not None
        self._workers.send(Read(self.data.id))
        return self._standalone

    async def ask(self, stream: EventStream, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to the client on a stream, and return what it answers in a POST of its own."""
        id = self._mint()
        request = jsonrpc.encode_request(id, method, params)
        answered: asyncio.Future[Raw] = self._loop.create_future()
        self._asked[id] = answered
        try:
            async with asyncio.timeout(timeout):
                stream.add(request)
                return await answered
        except TimeoutError:
            self._withdraw(stream, id)
            raise Timeout(f"The client did not answer {method} within {timeout:g} seconds", id) from None
        except asyncio.CancelledError:
            self._withdraw(stream, id)
            raise
        finally:
            del self._asked[id]

    def _withdraw(self, stream: EventStream, id: str) -> None:
        params = types.CancelledNotificationParams(id, "The server does not wait for it any more")
        stream.add(jsonrpc.encode_notification("notifications/cancelled", params))

    def take(self, message: jsonrpc.Message) -> None:
        """Take a notification, or an answer to a request of ours, wherever that is served."""
        match message:
            case jsonrpc.ResultResponse(id=id, result=result) if id not in self._asked:
                self._send_answer(id, jsonrpc.encode_result(id, result))
            case jsonrpc.ErrorResponse(id=id, error=error) if id is not None and id not in self._asked:
                self._send_answer(id, jsonrpc.encode_error(id, error))
            case jsonrpc.Notification("notifications/cancelled", params):
                if not self._cancel(params):
                    self._send_on(jsonrpc.encode_notification("notifications/cancelled", params))
            case jsonrpc.Notification(method):
                self._server.notified(method)
            case _:
                self._take_answer(message)

    def _send_answer(self, id: types.RequestId, answer: bytes) -> None:
        worker = str(id).partition("-")[0]
        if worker != self._workers.name:
            self._send_on(answer, worker)

    def _send_on(self, message: bytes, to: str | None = None) -> None:
        assert self.data.id is not None
        self._workers.send(Sent(self.data.id, message), to)

    def take_here(self, data: bytes) -> None:
        """Take a message that came to another process, if it concerns this one."""
        message = jsonrpc.decode(data)
        if isinstance(message, jsonrpc.Notification):
            self._cancel(message.params)
        else:
            self._take_answer(message)

    def _take_answer(self, message: jsonrpc.Message | jsonrpc.Batch) -> None:
        if not isinstance(message, jsonrpc.ResultResponse | jsonrpc.ErrorResponse):
            return
        waiting = self._asked.get(message.id) if message.id is not None else None
        if waiting is None or waiting.done():
            return
        if isinstance(message, jsonrpc.ErrorResponse):
            waiting.set_exception(message.error)
        else:
            waiting.set_result(message.result)

    def _cancel(self, params: Raw) -> bool:
        """Give up the request that a cancellation names; false if it is not served here."""
        with suppress(msgspec.DecodeError):
            id = _cancelled.decode(params).request_id
            call = None if id is None else self.running.get(id)
            if call is not None:
                call.give_up()
                return True
        return False

    def let_go(self) -> None:
        """Let go of whoever reads what belongs to no request."""
        if self._standalone is not None:
            self._standalone.detach()

    def end(self) -> None:
        """End the session: what runs is given up, who waits is told, who reads is let go."""
        self._server.audience.discard(self)
        for call in list(self.running.values()):
            call.give_up()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(TransportError("The session has ended"))
        for stream in self._open():
            stream.detach()

    def _open(self) -> set[EventStream]:
        """Return the streams that are kept, and those of requests, which may have no name yet."""
        open = set(self._streams.values())
        open.update(call.channel.stream for call in self.running.values() if isinstance(call.channel, SessionChannel))
        return open if self._standalone is None else open | {self._standalone}

    async def close(self) -> None:
        """End the session, and wait until nothing of it is left."""
        streams = self._open()
        self.end()
        for stream in streams:
            await stream.close()

    # Encoded by whoever tells, so that what cannot be JSON fails there, and what changes later is told as it was.

    def tell(self, method: str, uri: str | None = None) -> None:
        """Tell the client of a change, from any thread, if it wants to know and reads what belongs to no request."""
        if (uri is None or uri in self.data.followed) and announces(self._server.capabilities, method):
            self.say(method, types.Params() if uri is None else types.ResourceUpdatedNotificationParams(uri))

    def log(self, level: types.LoggingLevel, data: Any, logger: str | None) -> None:
        """Send a log message, from any thread, if this client set a level that wants it."""
        if is_wanted(self._server, level, self.data.log_level):
            self.say("notifications/message", log_params(level, data, logger))

    def say(self, method: str, params: Any) -> None:
        """Send a notification that belongs to no request, from any thread, if anybody here ever read those."""
        self.say_here(jsonrpc.encode_notification(method, params))

    def say_anywhere(self, method: str, params: Any) -> None:
        """Send a notification that belongs to no request, from any thread, wherever the client reads those."""
        message = jsonrpc.encode_notification(method, params)
        self.say_here(message)
        if self.data.id is not None:
            self._in_loop(self._workers.send, Said(self.data.id, message))

    def say_here(self, message: bytes) -> None:
        """Add a message to what belongs to no request, from any thread, if anybody here ever read that."""
        if self._standalone is not None:
            self.later(self._standalone, message)

    def read_elsewhere(self) -> None:
        """Let go of who reads what belongs to no request: the newest wins, and it is in another process.

        Nothing is kept of it here, for whoever came back would be told again what it was told there.
        """
        stream, self._standalone = self._standalone, None
        if stream is not None:
            stream.detach()
            self.forget(stream)

    def later(self, stream: EventStream, message: bytes) -> None:
        """Add a message to a stream, from any thread."""
        self._in_loop(stream.add, message)

    def _in_loop(self, function: Callable[..., None], *given: Any) -> None:
        if self._loop.is_closed():
            return
        if get_ident() == self._loop_thread:
            function(*given)
        else:
            self._loop.call_soon_threadsafe(function, *given)


class SessionChannel:
    """The way back to the client of one request in a session: the request's own stream."""

    __slots__ = ("_session", "_streams", "stream")

    def __init__(self, session: HttpSession, stream: EventStream, *, streams: bool) -> None:
        self._session = session
        self.stream = stream
        self._streams = streams

    def notify(self, method: str, params: Any) -> None:
        """Send a notification on the request's stream, from any thread."""
        if self._streams:
            self._session.later(self.stream, jsonrpc.encode_notification(method, params))

    async def room(self) -> None:
        """Let what was said be written."""
        await self.stream.flush()

    async def request(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the client, on the request's stream."""
        if not self._streams:
            raise DragomanError(f"{method} cannot be asked here: the response is JSON alone")
        return await self._session.ask(self.stream, method, params, timeout)

    async def listen(self, subscription: Subscription) -> None:  # noqa: ARG002
        """Refuse: sessions have no subscriptions of that kind."""
        raise RpcError(-32601, "subscriptions/listen is not part of this protocol version")

    def updated(self, uri: str) -> None:
        """Tell this client, from any thread, that a resource changed."""
        self._session.say_anywhere(RESOURCE_UPDATED, types.ResourceUpdatedNotificationParams(uri))

    async def close_stream(self) -> None:
        """Let the connection go; the client comes back for the rest (2025-11-25)."""
        if self._streams:
            await self.stream.let_go()
