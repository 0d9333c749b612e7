"""Sessions of the handshake era over HTTP: data that a sealed id stands for.

A session is what its id says (who the client is, which version was agreed on) and what this process remembers of it.
"""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.errors import InvalidRequest, RpcError
from dragoman.protocol.inbound import BAD_REQUEST, NOT_FOUND
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.tokens import SessionTokens
from dragoman.server.http.holders import Holders, holder_name
from dragoman.server.http.retention import MOST_BYTES, Retention
from dragoman.server.http.session import SESSION_LIFE, HttpSession, SessionRefused, SharedSession
from dragoman.server.http.workers import Changed, Ended, Remembered, Said, Sent, Sought, StandaloneStreamOpened, Workers
from dragoman.stores import State

if TYPE_CHECKING:
    from dragoman.server.server import Server

V = TypeVar("V")
MAX_AGE = 86_400
"""A session ends so many seconds after it began."""
MOST_OVER = 100_000
LARGEST_INTRODUCTION = 4096
"""If a client says more of itself than so many bytes, only what the session id carries is kept."""
MOST_SET_ASIDE = 10_000
LONGEST_SET_ASIDE = 1_000
"""The subscriptions of a session that gives way are remembered if they have no more characters than these."""
SHARE = 100
"""The share of a holder is the greatest number of sessions divided by this."""
ENDED, LAPSED = True, False
UNAVAILABLE = 503


class Sessions:
    """The sessions of one application, found by their sealed ids.

    Any process that has the key can take a session up: what it knows of it is what the id says, and what the others
    remember. A session that nobody used for long has lapsed, unless another process still uses it. When there are too
    many, one that is idle gives way: it is not over, and is taken up again when its client comes back.
    """

    def __init__(
        self,
        server: Server,
        *,
        workers: Workers | None = None,
        path: str = "/mcp",
        idle_timeout: float | None = 1800,
        most: int | None = 10_000,
        most_event_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.workers = Workers(server, path=path) if workers is None else workers
        self._server = server
        self._path = path
        self._idle_timeout = MAX_AGE if idle_timeout is None else idle_timeout
        self._most = most
        self._retention = Retention(most_event_bytes)
        self._clock = clock
        self._wall_clock = wall_clock
        self._holders = Holders(1 if most is None else max(1, most // SHARE))
        self._known = self._holders.everyone.sessions
        self._set_aside: OrderedDict[str, SharedSession] = OrderedDict()
        """What is remembered of those that gave way."""
        self._first_lapses = -math.inf
        """No session has lapsed before; it may be later, since those that are used lapse later."""
        self._over: OrderedDict[str, bool] = OrderedDict()
        self._adopting: dict[str, list[Changed]] = {}
        self._tokens: SessionTokens | None = None
        self._ended: State | None = None
        self.workers.on(Sought, self._recall)
        self.workers.on(Ended, lambda ended: self._forget(ended.session, was_ended=True))
        self.workers.on(Changed, self._take_change)
        self.workers.on(StandaloneStreamOpened, lambda read: self._in(read.session, HttpSession.read_elsewhere))
        self.workers.on(Said, lambda said: self._in(said.session, HttpSession.say_here, said.message))
        self.workers.on(Sent, lambda sent: self._in(sent.session, HttpSession.take_here, sent.message))

    @property
    def _sealed(self) -> SessionTokens:
        if self._tokens is None:
            self._tokens = SessionTokens(
                self._server.key_ring, server=self._server.name, path=self._path, max_age=MAX_AGE
            )
        return self._tokens

    @property
    def _kept_ended(self) -> State:
        """The ids of sessions that were ended, which no process with the same store takes up any more."""
        if self._ended is None:
            self._ended = self.workers.store.state(f"ended sessions\0{self._server.name}\0{self._path}")
        return self._ended

    async def refuse_second(self, id: str | None, principal: str | None = None, address: str | None = None) -> None:
        """Refuse an `initialize` inside a session.

        Raises:
            SessionRefused: it names a session, one that lives or one that does not.
        """
        if id is not None:
            await self.find(id, principal, address)
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The session is initialized already"))

    def begin(self, data: SharedSession, address: str | None = None) -> str:
        """Begin a session of a client at an address, and return its id.

        Raises:
            SessionRefused: there are too many, and all are in use.
        """
        assert data.caller is not None
        now = self._wall_clock()
        sealed = self._sealed
        id = sealed.seal(
            data.caller,
            principal=data.principal,
            now=now,
            nonce=os.urandom(12),
            origin=data.origin,
            extensions=self._server.capabilities.extensions or (),
        )
        if len(encode((data.caller.info, data.caller.capabilities))) > LARGEST_INTRODUCTION:
            opened = sealed.open(id, principal=data.principal, now=now)
            data.caller = data.caller if opened is None else opened.caller
        self._keep(id, data, address, int(now) + sealed.max_age)
        return id

    async def find(self, id: str | None, principal: str | None = None, address: str | None = None) -> HttpSession:
        """Return a session of a principal, for a client at an address.

        Raises:
            SessionRefused: no id was sent, or it is foreign, forged, outdated or over; or there are too many sessions,
                and all are in use.
        """
        if id is None:
            raise SessionRefused(BAD_REQUEST, InvalidRequest("The header Mcp-Session-Id is missing; initialize first"))
        session = self.find_here(id, principal)
        if session is None and id not in self._known:
            await self._adopt(id, principal, address)
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
        if self._wall_clock() > session.expires_at:
            return None
        session.last_used = now
        session.state = SESSION_LIFE[session.state, "use"]
        self._known.move_to_end(id)
        session.holder.sessions.move_to_end(id)
        return session

    async def _adopt(self, id: str, principal: str | None, address: str | None) -> None:
        """Take up a session that began in another process, with what the others remember of it, if it is one."""
        opened = self._sealed.open(id, principal=principal, now=self._wall_clock())
        if opened is None or self._over.get(id) is ENDED or await self._kept_ended.get(id) is not None:
            return
        missed = self._adopting.setdefault(id, [])
        try:
            told = await self.workers.share(Sought(id))
        finally:
            self._adopting.pop(id, None)
        if id in self._known or self._over.get(id) is ENDED:
            return
        living = [memory for memory in told if not memory.is_over]
        lives = bool(living) or id in self._set_aside
        if any(memory.was_ended for memory in told) or (not lives and (told or id in self._over)):
            return
        self._over.pop(id, None)
        data = self._set_aside.get(id) or SharedSession(opened.caller, principal=principal)
        data.origin = opened.origin
        for memory in living:
            data.log_level = memory.log_level or data.log_level
            data.subscribed.update(memory.subscribed)
        for change in missed:
            data.take(change)
        self._keep(id, data, address, opened.expires_at)
        self._set_aside.pop(id, None)

    def _recall(self, sought: Sought) -> Remembered | None:
        self._expire(self._clock())
        session = self._known.get(sought.session)
        data = self._set_aside.get(sought.session) if session is None else session.data
        if data is not None:
            return Remembered(is_over=False, log_level=data.log_level, subscribed=list(data.subscribed))
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
        if changed.session in self._set_aside:
            self._set_aside[changed.session].take(changed)
        self._in(changed.session, lambda session: session.data.take(changed))

    def touch(self, session: HttpSession) -> None:
        """Note that a session was used just now."""
        session.last_used = self._clock()
        id = session.data.id
        if id is not None and self._known.get(id) is session:
            self._known.move_to_end(id)
            session.holder.sessions.move_to_end(id)

    def _keep(self, id: str, data: SharedSession, address: str | None, expires_at: int) -> None:
        now = self._clock()
        self._expire(now)
        if self._most is not None and len(self._known) >= self._most:
            self._make_room(now)
        data.id = id
        session = HttpSession(self._server, data, workers=self.workers, retention=self._retention)
        session.last_used = now
        session.expires_at = expires_at
        self._holders.add(id, session, holder_name(data.principal, address))

    def _make_room(self, now: float) -> None:
        """Let an idle session give way; what it remembers is set aside, for its client may come back.

        Raises:
            SessionRefused: all are in use.
        """
        session = self._holders.first_idle(self.touch, now)
        if session is None:
            raise SessionRefused(UNAVAILABLE, RpcError(-32603, "There are too many sessions; try again later"))
        data = session.data
        assert data.id is not None
        self._remove(data.id)
        if session.state != "new":
            if sum(map(len, data.subscribed)) > LONGEST_SET_ASIDE:
                data.subscribed.clear()
            _remember(self._set_aside, data.id, data, MOST_SET_ASIDE)

    def _remove(self, id: str) -> None:
        session = self._known.get(id)
        if session is not None:
            self._holders.discard(id, session)
            session.end()

    def _expire(self, now: float) -> None:
        """Let those lapse that were idle too long; the least recently used come first.

        One that is too old is idle even while its stream is read, but what it was asked before is served to the end.
        """
        long_ago = now - self._idle_timeout
        unused: list[tuple[str, HttpSession]] = []
        for id, session in self._known.items():
            if session.last_used > long_ago:
                break
            unused.append((id, session))
        today = self._wall_clock()
        for id, session in unused:
            if session.running or (session.is_busy and today <= session.expires_at):
                self.touch(session)
            else:
                self._forget(id, was_ended=False)
        first = next(iter(self._known.values()), None)
        self._first_lapses = self._idle_timeout + (now if first is None else first.last_used)

    async def end(self, id: str | None, principal: str | None = None, address: str | None = None) -> None:
        """End a session, in every process, because its client says so.

        Raises:
            SessionRefused: there is no such session.
        """
        await self.find(id, principal, address)
        assert id is not None
        self._forget(id, was_ended=True)
        await self._kept_ended.set(id, b"", ttl=self._sealed.max_age)
        await self.workers.share(Ended(id))

    def _forget(self, id: str, *, was_ended: bool) -> None:
        self._remove(id)
        self._set_aside.pop(id, None)
        _remember(self._over, id, ENDED if was_ended else LAPSED, MOST_OVER)

    def let_go(self) -> None:
        """Let go of whoever reads what belongs to no request; requests go on."""
        for session in self._known.values():
            session.let_go()

    async def close(self) -> None:
        """Let go of every session; another process may take them up."""
        sessions = list(self._known.items())
        for id, session in sessions:
            self._holders.discard(id, session)
        for _, session in sessions:
            await session.close()


def _remember(memory: OrderedDict[str, V], id: str, value: V, most: int) -> None:
    """Remember a value of a session, and forget the oldest when there are too many."""
    memory[id] = value
    if len(memory) > most:
        memory.popitem(last=False)
