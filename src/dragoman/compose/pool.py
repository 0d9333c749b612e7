"""`Pool`: the connections of a proxy to its target in one event loop, and which call uses which of them.

Connections are shared unless that would mix what must stay apart:

    a stateless target                  one connection: each request carries the client's version and capabilities
    a target with sessions
      clients that cannot be asked      one connection for each version and set of capabilities
      sessions that can be asked        one connection for each session, and for each client on a duplex connection
      stateless calls that can be asked one connection for each call at a time; free ones are used again

`isolate`, forwarded credentials and the proxies that a call has passed through divide all of these again. A connection
of a session ends with the session.

There are at most `max_connections`, and a principal opens at most `max_connections_per_principal` of them. Beyond
either limit a call makes room only at the cost of its own principal: it closes the connection of this principal that
was idle longest, or ends the call of this principal that has been parked longest, or waits. A call that waits because
all principals together have too many connections also closes a connection that nobody has used for `UNUSED_SECONDS`.

Rejected: a connection for each client. A process is started for each connection to a command.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary, finalize

from msgspec import Raw

from dragoman import types
from dragoman.compose.parked import ParkedCalls
from dragoman.compose.upstream import UNREACHABLE, Upstream, can_be_asked
from dragoman.errors import DragomanError, RpcError
from dragoman.protocol.eras import Caller
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import LATEST_HANDSHAKE, Version
from dragoman.runtime.tasks import call_in_loop, cancel_and_wait, keep_until_done
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.server.request.call import Call, Session
    from dragoman.server.server import Server

Isolation = Literal["principal", "session"]
WAIT_SECONDS = 60.0
UNUSED_SECONDS = 300.0
"""A connection without calls and sessions for this long may be closed for a call of another principal."""
MAX_LISTS = 1000
NONE_DECLARED = encode(types.ClientCapabilities())
_logger = logging.getLogger("dragoman.compose")


class Pool:
    """The connections of a proxy in one loop.

    `make` makes an unconnected `Upstream` for a call and a caller. `origin` returns what of the origin of a call keeps
    its connections apart, such as its credentials.
    """

    def __init__(
        self,
        server: Server,
        make: Callable[[Call, Caller | None, Callable[[], None]], Upstream],
        origin: Callable[[Call], Hashable],
        *,
        isolate: Isolation | None,
        max_connections: int,
        max_connections_per_principal: int,
    ) -> None:
        self.parked = ParkedCalls(server)
        self.lists: Recent[Hashable, tuple[Raw, Version, float]] = Recent(MAX_LISTS)
        """The last answers to requests for lists, for the time in which the target is away."""
        self._make = make
        self._origin = origin
        self._isolate = isolate
        self._max_connections = max_connections
        self._quota = max_connections_per_principal
        self._upstreams: dict[Hashable, list[Upstream]] = {}
        self._tokens: WeakKeyDictionary[Session, object] = WeakKeyDictionary()
        self._found: WeakKeyDictionary[Session, tuple[Hashable, Upstream]] = WeakKeyDictionary()
        """The connections that sessions of the handshake era use, and for which owner."""
        self._needs_handshake = False
        self._freed = asyncio.Event()
        self._are_waiting = 0
        """How many calls wait for a connection."""
        self._stopping: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    def owner(self, call: Call) -> Hashable:
        """Return what divides the connections: the principal, the session, the credentials, the way of the call."""
        if self._isolate == "session":
            return self._token(call.session), self._origin(call)
        return (call.principal if self._isolate == "principal" else None), self._origin(call)

    def _token(self, session: Session) -> object:
        """Return what stands for a session; its connections are closed when the session is gone."""
        if session not in self._tokens:
            self._tokens[session] = token = object()
            session.on_end(partial(call_in_loop, self._loop, self._drop, token))
            # A stateless request over HTTP has a session of its own, which nobody ends.
            finalize(session, call_in_loop, self._loop, self._drop, token).atexit = False
        return self._tokens[session]

    def ready(self, call: Call) -> Upstream | None:
        """Return the connection for a call, taken by the call, if it was found before and is alive; else None."""
        version, owner = call.request.caller.version, self.owner(call)
        if not version.stateless:
            known_owner, upstream = self._found.get(call.session, (None, None))
            upstream = upstream if known_owner == owner else None  # a client may send other credentials than before
        else:
            several = None if self._needs_handshake else self._upstreams.get((owner,))
            upstream = several[0] if several else None
        connection = None if upstream is None else upstream.current
        if upstream is None or connection is None or (version.stateless and not connection.version.stateless):
            return None
        upstream.take(call)
        return upstream

    async def upstream(self, call: Call, caller: Caller) -> Upstream:
        """Return the connection for a call, taken by the call until `release`.

        Raises:
            TransportError: the target cannot be reached.
            RpcError: the target refuses, or every connection is in use.
        """
        upstream = await self._find(call, caller, lambda one: not one.calls)
        upstream.take(call)
        if call.session.caller is not None:
            self._found[call.session] = self.owner(call), upstream
        return upstream

    async def listening(self, call: Call) -> Upstream:
        """Return the connection for a subscription, which other calls may use too, taken until `release`."""
        upstream = await self._find(call, call.request.caller, lambda _: True)
        upstream.take(call)
        return upstream

    async def _find(self, call: Call, caller: Caller, is_fit: Callable[[Upstream], bool]) -> Upstream:
        owner, version = self.owner(call), caller.version
        declared = encode(caller.capabilities)
        if version.stateless:
            if not self._needs_handshake or declared == NONE_DECLARED:
                shared = await self._one((owner,), call, None)
                shared.take(call)  # an idle connection may be closed
                try:
                    is_stateless = (await shared.connection()).version.stateless
                finally:
                    self.release(shared, call)
                self._needs_handshake = not is_stateless
                if is_stateless or declared == NONE_DECLARED:
                    return shared
                if not (shared.calls or shared.has_sessions):
                    self._close(shared)
            caller = Caller(LATEST_HANDSHAKE, caller.capabilities, caller.info)
        key: tuple[Hashable, ...] = (owner, caller.version.name, declared)
        if not can_be_asked(caller.capabilities):
            return await self._one(key, call, caller)
        if call.channel.carrier is not None or not version.stateless:
            key = (*key, self._token(call.session))
        if not version.stateless:
            return await self._one(key, call, caller)
        return await self._exclusive(key, call, caller, is_fit)

    async def _one(self, key: Hashable, call: Call, caller: Caller | None) -> Upstream:
        if not self._upstreams.get(key):
            await self._make_room(call.principal)
        if not self._upstreams.get(key):
            self._open(key, call, caller)
        return self._upstreams[key][0]

    async def _exclusive(
        self, key: Hashable, call: Call, caller: Caller, is_fit: Callable[[Upstream], bool]
    ) -> Upstream:
        for upstream in filter(is_fit, self._upstreams.get(key, ())):
            return upstream
        await self._make_room(call.principal)
        return self._open(key, call, caller)

    def _open(self, key: Hashable, call: Call, caller: Caller | None) -> Upstream:
        upstream = self._make(call, caller, self._lost)
        upstream.principal, upstream.used_at = call.principal, self._loop.time()
        self._upstreams.setdefault(key, []).append(upstream)
        return upstream

    async def _make_room(self, principal: str | None) -> None:
        """Wait until a principal may open another connection; close or end something of this principal if it must.

        Raises:
            RpcError: there was no room in time.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while (reason := self._shortage(principal)) is not None:
                    idle = self._closable(principal)
                    if idle is not None:
                        if idle.has_sessions:
                            _logger.warning("A session lost its connection to the target: %s", reason)
                        self._close(idle)
                    else:
                        self.parked.give_way(principal)
                        await self._wait_until_freed()
                return
        raise RpcError(UNREACHABLE, f"{reason}, and none became free in time; try again later")

    def _shortage(self, principal: str | None) -> str | None:
        """Return why a principal may not open another connection now; None if it may.

        Callers without a principal cannot be told apart, so only the limit of the proxy holds for them.
        """
        if self._is_full:
            return f"All {self._max_connections} connections of the proxy are in use"
        own = [one for several in self._upstreams.values() for one in several if one.principal == principal]
        if principal is None or len(own) < self._quota:
            return None
        return f"All {self._quota} connections that the proxy opens for one principal are in use"

    @property
    def _is_full(self) -> bool:
        return sum(map(len, self._upstreams.values())) >= self._max_connections

    def _closable(self, principal: str | None) -> Upstream | None:
        """Return the idle connection to close for a new connection of a principal: its own, or an unused connection."""
        idle = [upstream for several in self._upstreams.values() for upstream in several if not upstream.calls]
        own = [upstream for upstream in idle if upstream.principal == principal and not upstream.is_shared]
        if not own and self._is_full:
            unused_since = self._loop.time() - UNUSED_SECONDS
            own = [upstream for upstream in idle if not upstream.has_sessions and upstream.used_at <= unused_since]
        return min(own, key=lambda upstream: (upstream.has_sessions, upstream.used_at), default=None)

    async def _wait_until_freed(self) -> None:
        self._freed.clear()
        self._are_waiting += 1
        try:
            await self._freed.wait()
        finally:
            self._are_waiting -= 1

    def release(self, upstream: Upstream, call: Call) -> None:
        """Let other calls use a connection that a call has taken."""
        upstream.calls.pop(call, None)
        upstream.used_at = self._loop.time()
        if self._are_waiting and not upstream.calls:
            self._freed.set()

    def _lost(self) -> None:
        """Find out again whether the target has sessions: it may come back in another version."""
        self._needs_handshake = False

    def _drop(self, token: object) -> None:
        for key in [key for key in self._upstreams if _holds(key, token)]:
            for upstream in list(self._upstreams[key]):
                self._close(upstream)

    def _close(self, upstream: Upstream) -> None:
        for session in [session for session, (_, found) in self._found.items() if found is upstream]:
            del self._found[session]
        for key, several in list(self._upstreams.items()):
            if upstream in several:
                several.remove(upstream)
                if not several:
                    del self._upstreams[key]
        upstream.is_retired = True
        self._freed.set()
        keep_until_done(self._loop.create_task(upstream.stop()), self._stopping)

    async def stop(self) -> None:
        """End every connection."""
        await self.parked.close()
        for upstream in [one for several in self._upstreams.values() for one in several]:
            self._close(upstream)
        while self._stopping:
            task = next(iter(self._stopping))
            with suppress(DragomanError):
                await asyncio.wait([task], timeout=10)
            if not task.done():
                await cancel_and_wait(task)


def _holds(key: Any, token: object) -> bool:
    return key is token or (isinstance(key, tuple) and any(_holds(part, token) for part in key))
