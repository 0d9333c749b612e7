"""Sessions of the handshake era over HTTP: data that a sealed id stands for.

A session is what its id says (who the client is, which version was agreed on) and what this process remembers of it.
"""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dragoman.errors import InvalidRequest, RpcError
from dragoman.protocol.exchange import BAD_REQUEST, NOT_FOUND
from dragoman.protocol.tokens import SessionTokens
from dragoman.server.http_session import HttpSession, SessionRefused, SharedSession
from dragoman.server.retention import MOST_BYTES, Retention
from dragoman.server.workers import Changed, Ended, Read, Remembered, Said, Sent, Sought, Workers

if TYPE_CHECKING:
    from dragoman.server.server import Server

MOST_OVER = 100_000
ENDED, LAPSED = True, False
UNAVAILABLE = 503


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
        most_event_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workers = Workers(server, path=path) if workers is None else workers
        self._server = server
        self._path = path
        self._idle_timeout = idle_timeout
        self._most = most
        self._retention = Retention(most_event_bytes)
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
        session = self._known[id] = HttpSession(self._server, data, workers=self.workers, retention=self._retention)
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
