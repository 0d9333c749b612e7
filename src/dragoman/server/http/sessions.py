"""`SessionRegistry`: begins, finds, evicts and ends the sessions of the handshake era over HTTP, in one process.

A session id is a sealed token with the client's identity, its capabilities and the agreed version. A process with the
key can therefore adopt a session that it does not have: from the id, and from the state that the other processes know.

This process sees a session in one of these states:

    local      an `LiveSession` exists here and serves requests
    evicted    there were too many sessions: only the state is kept, and the next request adopts the session again
    over       the client ended the session, or the session expired: requests get status 404
    unknown    the session is none of these here: a request with its id adopts it

A session expires when it was idle for too long, or `MAX_AGE` after it began. If another process still uses a session
that was idle here, this process adopts it again.

If there are too many sessions, an idle session is evicted. A session is busy, and not evicted, while it serves a
request or a client reads one of its streams. `Holders` counts the sessions of each holder. A holder is a principal, or
the network address of clients without a principal. If the largest holder has more than its share, one of its sessions
is evicted. Otherwise the choice is among all sessions. New sessions without a request are evicted first, then the
least recently used sessions.

The alternative is to refuse new sessions when there are too many. One client could then lock out all others.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from dragoman.errors import InternalError, StoreError, StoreUnavailable, StoreUnreadable
from dragoman.protocol import statuses
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.tokens import SessionTokens
from dragoman.server.http.refusal import HttpRefusal
from dragoman.server.http.session import SESSION_LIFE, LiveSession, SessionData
from dragoman.server.http.streams import MAX_BYTES, Retention
from dragoman.server.http.workers import (
    ClientMessageReceived,
    SessionEnded,
    SessionMessage,
    SessionState,
    SessionStateChanged,
    SessionStateRequested,
    StandaloneMessageSent,
    StandaloneStreamOpened,
    StreamFollowed,
    StreamGrew,
    StreamState,
    Workers,
)
from dragoman.server.request.http_request import holder_name
from dragoman.stores.contract import State

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

V = TypeVar("V")
MAX_AGE = 86_400
"""The seconds after which a session expires even if it is in use."""
MAX_OVER = 100_000
"""The greatest number of ended and expired sessions that a process remembers."""
MAX_ENDED = 1_000_000
"""The greatest number of ended sessions that the store remembers."""
MAX_CLIENT_BYTES = 4096
"""If the client's info and capabilities are larger, the session keeps only the part that the session id carries."""
MAX_EVICTED = 10_000
MAX_EVICTED_CHARACTERS = 1_000
"""An evicted session keeps its subscriptions if all their URIs together have at most this many characters."""
HOLDER_SHARE = 100
"""The share of a holder is the greatest number of sessions divided by this number."""
MIN_TIMER_SECONDS = 0.1
BUSY_SECONDS = 1.0
"""If all sessions of a holder are busy, the next search for an idle one starts after this many seconds."""


class SessionRegistry:
    """The sessions of one application in this process, by id."""

    def __init__(
        self,
        server: Dispatcher,
        *,
        workers: Workers | None = None,
        path: str = "/mcp",
        idle_timeout: float | None = 1800,
        max_sessions: int | None = 10_000,
        max_event_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.workers = Workers(server, path=path) if workers is None else workers
        self._server = server
        self._path = path
        self._idle_timeout = MAX_AGE if idle_timeout is None else idle_timeout
        self._max_sessions = math.inf if max_sessions is None else max_sessions
        self._retention = Retention(max_event_bytes)
        self._clock = clock
        self._wall_clock = wall_clock
        self._holders = Holders(1 if max_sessions is None else max(1, max_sessions // HOLDER_SHARE))
        self._local = self._holders.everyone.sessions
        self._evicted: OrderedDict[str, SessionData] = OrderedDict()
        self._next_expiry = -math.inf
        """No session expires before this time; a session that was used since then expires later."""
        self._over: OrderedDict[str, bool] = OrderedDict()
        """The sessions that are over: True if the client ended the session, False if it expired."""
        self._expiry_timer: asyncio.TimerHandle | None = None
        """Removes sessions that expire while no request comes, so that what belongs to them ends."""
        self._changed_while_adopting: dict[str, list[SessionStateChanged]] = {}
        self.workers.on_session_message = self._receive

    @cached_property
    def _tokens(self) -> SessionTokens:
        return SessionTokens(self._server.storage.key_ring, server=self._server.name, path=self._path, max_age=MAX_AGE)

    @cached_property
    def _ended_ids(self) -> State:
        """The ids of the sessions that clients ended; no process with the same store adopts them."""
        namespace = f"ended sessions\0{self._server.name}\0{self._path}"
        return self.workers.store.state(namespace, max_values=MAX_ENDED)

    async def refuse_initialized(self, id: str | None, principal: str | None, address: str | None) -> None:
        """Refuse an `initialize` request with a session id.

        Raises:
            HttpRefusal: `id` is a session id; the error depends on whether the session exists.
        """
        if id is not None:
            await self.find(id, principal, address)
            raise HttpRefusal(statuses.MALFORMED, "The session is initialized already")

    def begin(self, data: SessionData, address: str | None = None) -> str:
        """Begin a session and return its id; `address` is the network address of the client.

        Raises:
            HttpRefusal: there are too many sessions, and all are busy.
        """
        assert data.caller is not None
        now = self._wall_clock()
        id = self._tokens.seal(
            data.caller,
            principal=data.principal,
            now=now,
            nonce=os.urandom(12),
            origin=data.origin,
            extensions=self._server.capabilities.extensions or (),
        )
        if len(encode((data.caller.info, data.caller.capabilities))) > MAX_CLIENT_BYTES:
            opened = self._tokens.open(id, principal=data.principal, now=now)
            data.caller = data.caller if opened is None else opened.caller
        self._add(id, data, address, int(now) + MAX_AGE)
        return id

    async def find(self, id: str | None, principal: str | None = None, address: str | None = None) -> LiveSession:
        """Return the session of an id and a principal; adopt the session if this process does not have it.

        Raises:
            HttpRefusal: there is no id; the id is forged, or belongs to another server or principal; the session is
                over; or there are too many sessions, and all are busy.
        """
        if id is None:
            raise HttpRefusal(statuses.MALFORMED, "The header Mcp-Session-Id is missing; initialize first")
        session = self.find_local(id, principal)
        if session is None and id not in self._local:
            await self._adopt(id, principal, address)
            session = self.find_local(id, principal)
        if session is None:
            raise HttpRefusal(statuses.NOT_FOUND, "The session is not known here, or has ended")
        return session

    def find_local(self, id: str | None, principal: str | None = None) -> LiveSession | None:
        """Return the session of an id and a principal; None if this process does not have it."""
        now = self._clock()
        if now >= self._next_expiry:
            self._expire(now)
        session = None if id is None else self._local.get(id)
        if id is None or session is None or session.data.principal != principal:
            return None
        if self._wall_clock() > session.data.expires_at:
            return None
        session.last_used = now
        session.state = SESSION_LIFE[session.state, "use"]
        self._local.move_to_end(id)
        session.holder.sessions.move_to_end(id)
        return session

    async def _adopt(self, id: str, principal: str | None, address: str | None) -> None:
        """Add a session that this process does not have, from its id and the state that the processes know.

        A session is not adopted in two cases: a process or the store knows that the client ended it, or some processes
        know that it expired and no process still has it. A store that is away knows nothing.
        """
        opened = self._tokens.open(id, principal=principal, now=self._wall_clock())
        if opened is None or self._over.get(id) or await self._was_ended(id):
            return
        changes = self._changed_while_adopting.setdefault(id, [])
        try:
            states = await self.workers.share(SessionStateRequested(id))
        finally:
            self._changed_while_adopting.pop(id, None)
        if id in self._local or self._over.get(id):
            return
        living = [state for state in states if not state.is_over]
        is_alive = bool(living) or id in self._evicted
        if any(state.was_ended for state in states) or (not is_alive and (states or id in self._over)):
            return
        self._over.pop(id, None)
        data = self._evicted.get(id) or SessionData(opened.caller, principal=principal)
        data.origin = opened.origin
        for state in living:
            data.log_level = state.log_level or data.log_level
            data.subscribed = {*data.subscribed, *state.subscribed}
        for change in changes:
            data.apply(change)
        self._add(id, data, address, opened.expires_at)
        self._evicted.pop(id, None)

    async def _was_ended(self, id: str) -> bool:
        try:
            return await self._ended_ids.get(id) is not None
        except StoreUnreadable:  # a process with another secret has recorded the end of this session
            return True
        except StoreUnavailable as error:
            self.workers.warn(error)
            return False

    def _data_of(self, id: str) -> SessionData | None:
        session = self._local.get(id)
        return self._evicted.get(id) if session is None else session.data

    def _receive(self, message: SessionMessage) -> SessionState | StreamState | None:
        """Receive a message that another process sent about a session."""
        session = self._local.get(message.session)
        match message:
            case SessionStateRequested(id):
                return self._state_of(id)
            case SessionEnded(id):
                self._remove(id, was_ended=True)
            case SessionStateChanged():
                self._apply(message)
            case StandaloneStreamOpened() if session is not None:
                session.forget_standalone()
            case StandaloneMessageSent(_, data) if session is not None:
                session.add_standalone(data)
            case ClientMessageReceived(_, data) if session is not None:
                session.receive_forwarded(data)
            case StreamFollowed() if session is not None:
                return session.hand_over(message)
            case StreamGrew(_, stream) if session is not None:
                session.stream_grew(stream)
        return None

    def _state_of(self, id: str) -> SessionState | None:
        self._expire(self._clock())
        data = self._data_of(id)
        if data is not None:
            return SessionState(is_over=False, log_level=data.log_level, subscribed=list(data.subscribed))
        was_ended = self._over.get(id)
        return None if was_ended is None else SessionState(is_over=True, was_ended=was_ended)

    def _apply(self, change: SessionStateChanged) -> None:
        # Another process may reply with its state before this change, while this process still waits for the replies.
        if change.session in self._changed_while_adopting:
            self._changed_while_adopting[change.session].append(change)
        data = self._data_of(change.session)
        if data is not None:
            data.apply(change)

    def touch(self, session: LiveSession) -> None:
        """Record that a session is used now."""
        session.last_used = self._clock()
        id = session.data.id
        if id is not None and self._local.get(id) is session:
            self._local.move_to_end(id)
            session.holder.sessions.move_to_end(id)

    def _add(self, id: str, data: SessionData, address: str | None, expires_at: int) -> None:
        now = self._clock()
        self._expire(now)
        if len(self._local) >= self._max_sessions:
            self._evict_one(now)
        data.id, data.expires_at = id, expires_at
        session = LiveSession(self._server, data, workers=self.workers, retention=self._retention)
        session.last_used = now
        self._holders.add(id, session, holder_name(data.principal, address))
        self._set_timer(now)

    def _evict_one(self, now: float) -> None:
        """Evict an idle session, and keep its state for the next request of its client.

        Raises:
            HttpRefusal: all sessions are busy.
        """
        session = self._holders.first_idle(self.touch, now)
        if session is None:
            error = InternalError("There are too many sessions; try again later")
            raise HttpRefusal(statuses.UNAVAILABLE, error)
        data = session.data
        assert data.id is not None
        self._end(data.id)
        if sum(map(len, data.subscribed)) > MAX_EVICTED_CHARACTERS:
            data.subscribed = frozenset()
        _remember(self._evicted, data.id, data, MAX_EVICTED)

    def _end(self, id: str) -> None:
        session = self._local.get(id)
        if session is not None:
            self._holders.discard(id, session)
            session.end()

    def _expire(self, now: float) -> None:
        """Remove the sessions that were idle for too long; `_local` has the least recently used sessions first.

        A running request keeps a session alive. A client that reads a stream keeps it alive until `expires_at`.
        """
        long_ago = now - self._idle_timeout
        unused: list[tuple[str, LiveSession]] = []
        for id, session in self._local.items():
            if session.last_used > long_ago:
                break
            unused.append((id, session))
        today = self._wall_clock()
        for id, session in unused:
            if session.running or (session.is_busy and today <= session.data.expires_at):
                self.touch(session)
            else:
                self._remove(id, was_ended=False)
        first = next(iter(self._local.values()), None)
        self._next_expiry = self._idle_timeout + (now if first is None else first.last_used)
        self._set_timer(now)

    def _set_timer(self, now: float) -> None:
        if self._expiry_timer is None and self._local:
            seconds = max(MIN_TIMER_SECONDS, self._next_expiry - now)
            self._expiry_timer = asyncio.get_running_loop().call_later(seconds, self._expire_later)

    def _expire_later(self) -> None:
        self._expiry_timer = None
        self._expire(self._clock())

    async def end(self, id: str | None, principal: str | None = None, address: str | None = None) -> None:
        """End a session in every process, for a DELETE of the client.

        Raises:
            HttpRefusal: there is no such session, or the store could not record the end of the session.
        """
        session = await self.find(id, principal, address)
        assert id is not None
        failure: StoreError | None = None
        try:
            await self._ended_ids.set(id, b"", ttl=max(1.0, session.data.expires_at - self._wall_clock()))
        except StoreError as error:
            self.workers.warn(error)
            failure = error
        try:
            await self.workers.share(SessionEnded(id))
        finally:
            # Streams end right before the response: clients of others fail if events come while they wait for it.
            self._remove(id, was_ended=True)
        if failure is not None:
            reason = "The session has ended here, but the store could not record it: another process may still serve it"
            raise HttpRefusal(statuses.UNAVAILABLE, InternalError(reason))

    def _remove(self, id: str, *, was_ended: bool) -> None:
        data = self._data_of(id)
        self._end(id)
        self._evicted.pop(id, None)
        if data is not None:
            data.end()
        _remember(self._over, id, was_ended, MAX_OVER)

    def detach_standalone(self) -> None:
        """Detach the readers of all standalone streams; running requests continue."""
        for session in self._local.values():
            session.detach_standalone()

    async def close(self) -> None:
        """Close every session; another process may adopt them."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        sessions = list(self._local.items())
        for id, session in sessions:
            self._holders.discard(id, session)
        for _, session in sessions:
            await session.close()


def _remember(memory: OrderedDict[str, V], id: str, value: V, limit: int) -> None:
    memory[id] = value
    if len(memory) > limit:
        memory.popitem(last=False)


class Holder:
    """The sessions of one holder, or of all holders, by id; the least recently used come first."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.sessions: OrderedDict[str, LiveSession] = OrderedDict()
        self._unused: OrderedDict[str, LiveSession] = OrderedDict()
        """The sessions that may still be in the state `new`; `first_idle` removes the others."""
        self._all_busy_until = -math.inf

    def add(self, id: str, session: LiveSession) -> None:
        """Add a new session."""
        self.sessions[id] = self._unused[id] = session

    def discard(self, id: str) -> None:
        """Remove a session."""
        self.sessions.pop(id, None)
        self._unused.pop(id, None)

    def first_idle(self, touch: Callable[[LiveSession], None], now: float) -> LiveSession | None:
        """Return the session to evict; None if all are busy. `touch` is called for each busy session on the way."""
        while self._unused:
            id, session = next(iter(self._unused.items()))
            if session.state == "new" and not session.is_busy:
                return session
            del self._unused[id]
        if now < self._all_busy_until:
            return None
        for _ in range(len(self.sessions)):
            session = next(iter(self.sessions.values()))
            if not session.is_busy:
                return session
            touch(session)
        self._all_busy_until = now + BUSY_SECONDS
        return None


class Holders:
    """The holders of sessions; `share` is the number of sessions that none of them should exceed."""

    def __init__(self, share: int) -> None:
        self.everyone = Holder()
        self._share = share
        self._named: dict[str, Holder] = {}
        self._large: dict[Holder, None] = {}
        """The holders that have more than their share, which are few."""

    def add(self, id: str, session: LiveSession, name: str) -> None:
        """Add a session to the holder of a name."""
        session.holder = holder = self._named.setdefault(name, Holder(name))
        self.everyone.add(id, session)
        holder.add(id, session)
        if len(holder.sessions) > self._share:
            self._large[holder] = None

    def discard(self, id: str, session: LiveSession) -> None:
        """Remove a session."""
        holder = session.holder
        self.everyone.discard(id)
        holder.discard(id)
        if len(holder.sessions) <= self._share:
            self._large.pop(holder, None)
        if not holder.sessions:
            del self._named[holder.name]

    def first_idle(self, touch: Callable[[LiveSession], None], now: float) -> LiveSession | None:
        """Return the session to evict; None if all are busy.

        The session is one of the largest holder if this holder has more than its share and an idle session.
        """
        largest = max(self._large, key=lambda holder: len(holder.sessions), default=self.everyone)
        return largest.first_idle(touch, now) or self.everyone.first_idle(touch, now)
