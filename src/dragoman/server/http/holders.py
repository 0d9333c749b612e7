"""Who holds how many sessions, and which session gives way when there are too many.

A holder is a principal, or the network address of clients that proved no identity. Of each holder, sessions that were
never used since they began give way first, and then the least recently used. A session that serves a request, or whose
stream is read, does not give way. A holder of more than its share gives way to everybody, so that one who opens
thousands of sessions loses only its own.
"""

from __future__ import annotations

import math
import socket
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.server.http.session import HttpSession

BUSY_SECONDS = 1.0
"""When all sessions of a holder are busy, they are looked at again after so many seconds."""
_IPV6_NETWORK_BYTES = 8
_IPV4_IN_IPV6 = bytes(10) + b"\xff\xff"


class Holder:
    """The sessions of one holder, or of everybody, by their ids: the least recently used first."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._unused: OrderedDict[str, HttpSession] = OrderedDict()
        """Those that were not used when they were last looked at."""
        self._all_busy_until = -math.inf

    def add(self, id: str, session: HttpSession) -> None:
        """Hold a session that begins."""
        self.sessions[id] = self._unused[id] = session

    def discard(self, id: str) -> None:
        """Hold a session no longer."""
        self.sessions.pop(id, None)
        self._unused.pop(id, None)

    def first_idle(self, touch: Callable[[HttpSession], None], now: float) -> HttpSession | None:
        """Return the session that gives way first, if any is idle; one that is busy is touched, as it is in use."""
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
    """Everybody who holds sessions."""

    def __init__(self, share: int) -> None:
        self.everyone = Holder()
        self._share = share
        self._named: dict[str, Holder] = {}
        self._by_count: defaultdict[int, OrderedDict[Holder, None]] = defaultdict(OrderedDict)
        self._largest = 0

    def add(self, id: str, session: HttpSession, name: str) -> None:
        """Let a session be held."""
        holder = self._named.get(name)
        if holder is None:
            holder = self._named[name] = Holder(name)
        session.holder = holder
        self.everyone.add(id, session)
        holder.add(id, session)
        self._recount(holder, len(holder.sessions) - 1)

    def discard(self, id: str, session: HttpSession) -> None:
        """Let a session be held no longer."""
        holder = session.holder
        self.everyone.discard(id)
        holder.discard(id)
        self._recount(holder, len(holder.sessions) + 1)
        if not holder.sessions:
            del self._named[holder.name]

    def _recount(self, holder: Holder, before: int) -> None:
        count = len(holder.sessions)
        self._by_count[before].pop(holder, None)
        if not self._by_count[before]:
            del self._by_count[before]
        if count:
            self._by_count[count][holder] = None
        self._largest = max(self._largest, count)
        while self._largest and self._largest not in self._by_count:
            self._largest -= 1

    def first_idle(self, touch: Callable[[HttpSession], None], now: float) -> HttpSession | None:
        """Return the session that gives way first, if any is idle."""
        found = None
        if self._largest > self._share:
            found = next(iter(self._by_count[self._largest])).first_idle(touch, now)
        return found or self.everyone.first_idle(touch, now)


def holder_name(principal: str | None, address: str | None) -> str:
    """Return whose session it is: a principal's, or that of an address; all of an IPv6 network count as one."""
    if principal is not None:
        return f"principal {principal}"
    try:
        packed = socket.inet_pton(socket.AF_INET6, (address or "").partition("%")[0])
    except OSError:
        return f"address {address}"
    if packed.startswith(_IPV4_IN_IPV6):
        return f"address {socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_IN_IPV6) :])}"
    return f"network {packed[:_IPV6_NETWORK_BYTES].hex()}"
