"""`Pool`: the connections of a proxy to its target in one event loop, and which call uses which of them. `Dialer`
makes them.

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

A `ConnectionKey` names what the calls that may use a connection have in common, and `Pool.key` is the policy that gives
each call its key. Nothing else decides which connection a call gets.

Rejected: a connection for each client. A process is started for each connection to a command.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

import msgspec

from dragoman import types
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, endpoint_of
from dragoman.config import is_async
from dragoman.errors import DefinitionError, DragomanError, RpcError, Timeout, ToolError, TransportError
from dragoman.forward.messages import UNREACHABLE
from dragoman.forward.passthrough import LIMITS
from dragoman.forward.proxy.known_targets import KnownTargets
from dragoman.forward.proxy.parked import ParkedCalls
from dragoman.forward.proxy.upstream import PROXIED, Upstream, can_be_asked, header_of
from dragoman.protocol.eras import Caller
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.versions import LATEST_HANDSHAKE
from dragoman.runtime.callables import invoke
from dragoman.runtime.tasks import call_in_loop, cancel_and_wait, keep_until_done
from dragoman.server.duplex import ServerForSender
from dragoman.server.request.call import NO_CHANNEL, Call, Sender, Session
from dragoman.server.request.context import BlockingContext, Context
from dragoman.server.server import Server

if TYPE_CHECKING:
    from dragoman.client.connect.connection import ServerConnection
    from dragoman.client.connect.endpoint import Endpoint
    from dragoman.forward.proxy.proxy import ProxyServer
    from dragoman.server.request.context import CredentialExchange

Isolation = Literal["principal", "session"]
HOPS_HEADER, HOPS_VARIABLE = "dragoman-proxies", "DRAGOMAN_PROXIES"
MAX_HOPS = 8
"""A request passes through at most this many proxies."""
WAIT_SECONDS = 60.0
PRINCIPAL_SHARE = 4
"""A principal may open this fraction of the connections, unless `max_connections_per_principal` is given."""
UNUSED_SECONDS = 300.0
"""A connection without calls and sessions for this long may be closed for a call of another principal."""
NONE_DECLARED = encode(types.ClientCapabilities())
_logger = logging.getLogger("dragoman.compose")


class Dialer:
    """Makes the connections of a proxy to its target, each with the headers that the origin of a call needs.

    Raises:
        DefinitionError: the target cannot have several connections, or gets no credentials because it has no URL.
    """

    def __init__(
        self,
        server: Server,
        target: Any,
        *,
        auth: object,
        headers: Mapping[str, str],
        forward_credentials: bool | CredentialExchange,
        env: Mapping[str, str],
        cwd: str | None,
        connect_timeout: float,
    ) -> None:
        is_server = hasattr(target, "connect") and hasattr(target, "handle_json")
        if not is_server and not isinstance(target, str | os.PathLike | list | tuple | Mapping):
            raise DefinitionError(
                f"A proxy needs a URL, a command, an entry of a configuration file or a Server, not {target!r}"
            )
        self._server, self._target, self._auth = server, target, auth
        self._local = target if isinstance(target, Server) else None
        self._headers, self._env, self._cwd = dict(headers), env, cwd
        self._connect_timeout = connect_timeout
        self._forwards = forward_credentials
        self._takes_context = callable(forward_credentials) and _takes_context(forward_credentials)
        self._id = uuid4().hex[:12]
        self._hops = [hop for hop in os.environ.get(HOPS_VARIABLE, "").split(",") if hop]
        self.divides_users = is_server or forward_credentials is not False
        """Whether the target may know the callers apart, although they share the proxy."""
        if forward_credentials is not False and not self._endpoint(self._headers, self._hops).is_http:
            raise DefinitionError("forward_credentials needs a target with a URL: a process gets no HTTP headers")

    def require_progress(self, call: Call) -> None:
        """Refuse a call that goes in a circle.

        Raises:
            RpcError: the call has passed through this proxy before, or through too many proxies.
        """
        if call.headers or self._hops:
            hops = self._hops_of(call)
            if self._id in hops or len(hops) >= MAX_HOPS:
                name = self._server.name
                raise RpcError(
                    UNREACHABLE, f"The proxy {name!r} leads back to itself; give it another target than itself"
                )

    def _hops_of(self, call: Call) -> list[str]:
        """Return the proxies that a call has passed through."""
        given = header_of(call, HOPS_HEADER)
        return self._hops if not given else [hop for hop in given.split(",") if hop] or self._hops

    def credential(self, call: Call) -> str | None:
        """Return the `Authorization` header of a call; None if it is not forwarded."""
        return None if self._forwards is False else header_of(call, "authorization")

    def origin(self, call: Call) -> Hashable:
        """Return what of the origin of a call divides the connections, because each connection is marked with it."""
        principal = None if self._forwards is False else call.principal
        return self.credential(call), principal, tuple(self._hops_of(call)), self.identity(call)

    def identity(self, call: Call) -> Hashable:
        """Return the identity that a server of this process gets from the proxy; None for any other target."""
        return None if self._local is None or call.sender is None else call.sender.key

    def upstream(self, call: Call, caller: Caller | None, on_lost: Callable[[], None]) -> Upstream:
        """Return an unconnected connection for a call."""
        headers: dict[str, Any] = dict(self._headers)
        given = self.credential(call)
        if self._takes_context or (callable(self._forwards) and given is not None):
            headers["Authorization"] = partial(self._exchange, given or "", _without_client(call))
        elif given is not None:
            headers["Authorization"] = given
        info = caller.info if caller is not None and caller.info is not None else self._server.info
        endpoint = self._endpoint(headers, self._hops_of(call), call.sender)
        return Upstream(endpoint, info, caller, connect_timeout=self._connect_timeout, on_lost=on_lost)

    async def _exchange(self, given: str, opening: Call) -> str:
        """Return the `Authorization` header for the target, as the function of the author makes it of the caller's.

        Raises:
            ToolError: the function raised it for the client, or failed.
        """
        exchange, call = cast("Any", self._forwards), PROXIED.get() or opening
        context = Context(call) if is_async(exchange) else BlockingContext(call)
        try:
            header = await (invoke(exchange, given, context) if self._takes_context else invoke(exchange, given))
        except ToolError:
            raise
        except Exception as error:
            reason = repr(error)
        else:
            if isinstance(header, str) and header:
                return header
            reason = f"it returned {header!r}" if not header else f"it returned a value of the type {type(header)}"
        name = self._server.name
        _logger.error("forward_credentials of the proxy %r failed: %s", name, reason)
        raise ToolError(f"The proxy {name!r} has no credentials for the server behind it; its log says more")

    def _endpoint(self, headers: Mapping[str, Any], hops: list[str], sender: Sender | None = None) -> Endpoint:
        marked = ",".join([*hops, self._id])
        options = EndpointOptions(
            Credentials.of({**headers, HOPS_HEADER: marked}, self._auth),
            env={**self._env, HOPS_VARIABLE: marked},
            cwd=self._cwd,
            limits=LIMITS,
        )
        if self._local is not None and sender is not None:
            return endpoint_of(ServerForSender(self._local.dispatcher, sender), options)
        return endpoint_of(self._target, options)


def _takes_context(function: Callable[..., Any]) -> bool:
    """Tell whether a function has a second parameter, for the context."""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:  # a function of C without a signature
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len([one for one in positional if one.default is one.empty]) > 1


def lasting(call: Call) -> Call:
    """Return a call that can be sent although its session has ended, because others want to know the answer."""
    return _without_client(call) if getattr(call.session, "has_ended", True) else call


def _without_client(call: Call) -> Call:
    """Return a copy of a call that outlives its session: it has the caller, and nothing to reach the client by."""
    session = Session(call.session.caller, call.session.id, call.principal)
    return msgspec.structs.replace(call, session=session, channel=NO_CHANNEL, task=None)


class ConnectionKey(NamedTuple):
    """The key that calls share if they may use the same connection."""

    isolated: Hashable
    """The principal or the session that shares the connection with no other, if the proxy isolates them."""
    origin: Hashable
    """The credentials, the identity and the proxies of the calls."""
    version: str | None = None
    """The version of the clients; None: each request carries the version and the capabilities of its own client."""
    capabilities: bytes = b""
    """The capabilities of the clients, encoded."""
    session: object | None = None
    """Stands for the session that has the connection for itself."""
    is_exclusive: bool = False
    """Whether the connection serves one call at a time."""


class ConnectionLimit:
    """How many connections the proxies that share the limit have together, in each loop.

    `targets` is the number of these proxies: each must be able to have a connection.

    Raises:
        DefinitionError: a number is out of range.
    """

    def __init__(self, of_all: int, of_principal: int | None, targets: int = 1) -> None:
        if of_all < targets:
            raise DefinitionError(
                f"max_connections must be a whole number of at least {targets}, not {of_all!r}"
                + (": there are so many servers" if targets > 1 else "")
            )
        quota = max(targets, of_all // PRINCIPAL_SHARE) if of_principal is None else of_principal
        if not targets <= quota <= of_all:
            raise DefinitionError(
                f"max_connections_per_principal must be from {targets} to max_connections, not {quota!r}"
            )
        self.of_all = of_all
        self.of_principal = quota
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Pool]] = WeakKeyDictionary()

    def pools(self, loop: asyncio.AbstractEventLoop) -> list[Pool]:
        """Return the pools that share the limit in a loop; a pool adds itself, and removes itself at its end."""
        return self._pools.setdefault(loop, [])


class Pool:
    """The connections of a proxy in one loop; those of all pools with the same limit count together.

    `task_principals` are the principals of tasks, by the ids of the tasks.
    """

    def __init__(
        self,
        server: ProxyServer,
        dialer: Dialer,
        task_principals: Mapping[str, str | None],
        *,
        isolate: Isolation | None,
        limit: ConnectionLimit,
    ) -> None:
        self.parked = ParkedCalls(server)
        self.known = KnownTargets(server)
        self._dialer = dialer
        self._task_principals = task_principals
        self._isolate = isolate
        self._limit = limit
        self._upstreams: list[tuple[ConnectionKey, Upstream]] = []
        self._tokens: WeakKeyDictionary[Session, object] = WeakKeyDictionary()
        self._needs_handshake = False
        """Whether the target was found to have sessions."""
        self._freed = asyncio.Event()
        self._stopping: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()
        self._pools = limit.pools(self._loop)
        self._pools.append(self)

    def key(self, call: Call, caller: Caller) -> ConnectionKey:
        """Return the key of the connection for a call of a client."""
        isolated: Hashable = None if self._isolate is None else call.principal
        if self._isolate == "session":
            isolated = self.token(call.session)
        shared = ConnectionKey(isolated, self._dialer.origin(call))
        declared, version = encode(caller.capabilities), caller.version
        if version.stateless and (declared == NONE_DECLARED or not self._needs_handshake):
            return shared
        if version.stateless:
            version = LATEST_HANDSHAKE
        key = shared._replace(version=version.name, capabilities=declared)
        if not can_be_asked(caller.capabilities):
            return key
        is_alone = call.channel.carrier is not None or not caller.version.stateless
        session = self.token(call.session) if is_alone else None
        return key._replace(session=session, is_exclusive=caller.version.stateless)

    def user(self, call: Call) -> Hashable:
        """Return whose lists the target shows to a caller: those of one user are shown to nobody else.

        The credentials and the connections of a principal change; the user stays the same.
        """
        if self._isolate is None and not self._dialer.divides_users:
            return None
        if (identity := self._dialer.identity(call)) is not None:
            return "identity", identity
        if call.principal is not None:
            return "principal", call.principal
        token = self.token(call.session) if self._isolate == "session" else None
        return "caller", token, self._dialer.credential(call)

    def token(self, session: Session) -> object:
        """Return what stands for a session; its connections are closed when the session is gone."""
        if session not in self._tokens:
            self._tokens[session] = token = object()
            session.on_end(partial(call_in_loop, self._loop, self._drop, token))
            # A stateless request over HTTP has a session of its own, which nobody ends.
            finalize(session, call_in_loop, self._loop, self._drop, token).atexit = False
        return self._tokens[session]

    def is_connected(self, call: Call) -> bool:
        """Tell whether the owner of a call has a connection that is surely alive; one over HTTP only seems to be."""
        owner = self.key(call, call.request.caller)[:2]
        alive = (one.current for key, one in self._upstreams if key[:2] == owner)
        return any(connection is not None and not connection.link.is_http for connection in alive)

    async def take(
        self, call: Call, wait: float | None = None, *, caller: Caller | None = None, may_share: bool = False
    ) -> Upstream:
        """Return the connection for a call, connected, and taken by the call until `release`.

        `wait` is how many seconds to wait until it is connected, None for no limit. `caller` is the client of a session
        that begins. `may_share` permits a connection that serves another call, as a subscription may use it.

        Raises:
            Timeout: the target cannot be reached in time.
            TransportError: the target cannot be reached.
            RpcError: the target refuses, or every connection is in use.
        """
        upstream = await self._find(call, caller or call.request.caller, wait, may_share=may_share)
        upstream.take(call)
        try:
            await _within(wait, upstream)
            await upstream.prepare(call)
        except BaseException:
            self.release(upstream, call)
            raise
        return upstream

    @asynccontextmanager
    async def taken(self, call: Call, wait: float | None = None, **options: Any) -> AsyncIterator[Upstream]:
        """Take a connection as `take` does, and release it at the end."""
        upstream = await self.take(call, wait, **options)
        try:
            yield upstream
        finally:
            self.release(upstream, call)

    async def _find(self, call: Call, caller: Caller, wait: float | None, *, may_share: bool) -> Upstream:
        if getattr(call.session, "has_ended", True):
            raise TransportError("The session has ended")
        key = self.key(call, caller)
        upstream = await self._get(key, call, caller, may_share=may_share)
        if key.version is not None:
            return upstream
        upstream.take(call)  # an idle connection may be closed
        try:
            self._needs_handshake = not (await _within(wait, upstream)).version.stateless
        finally:
            self.release(upstream, call)
        key_of_session = self.key(call, caller)
        if key_of_session == key:
            return upstream
        if not (upstream.calls or upstream.has_sessions):
            self._close(upstream)
        return await self._get(key_of_session, call, caller, may_share=may_share)

    async def _get(self, key: ConnectionKey, call: Call, caller: Caller, *, may_share: bool) -> Upstream:
        upstream = self._fitting(key, may_share=may_share)
        if upstream is None:
            await self._make_room(call.principal)
            upstream = self._fitting(key, may_share=may_share)  # another call may have opened it meanwhile
        return upstream or self._open(key, call, caller)

    def _fitting(self, key: ConnectionKey, *, may_share: bool) -> Upstream | None:
        fitting = (upstream for known, upstream in self._upstreams if known == key)
        return next((one for one in fitting if may_share or not key.is_exclusive or not one.calls), None)

    def _open(self, key: ConnectionKey, call: Call, caller: Caller) -> Upstream:
        declared: Caller | None = caller
        if key.version is None:
            declared = None
        elif caller.version.stateless:
            declared = Caller(LATEST_HANDSHAKE, caller.capabilities, caller.info)
        upstream = self._dialer.upstream(call, declared, self._lost)
        upstream.task_principals = self._task_principals
        upstream.on_back = partial(self._back, self.user(call))
        upstream.principal, upstream.used_at = call.principal, self._loop.time()
        self._upstreams.append((key, upstream))
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
                        pool, upstream = idle
                        if upstream.has_sessions:
                            _logger.warning("A session lost its connection to the target: %s", reason)
                        pool._close(upstream)
                    else:
                        any(pool.parked.give_way(principal) for pool in self._pools)
                        self._freed.clear()
                        await self._freed.wait()
                return
        raise RpcError(UNREACHABLE, f"{reason}, and none became free in time; try again later")

    def _shortage(self, principal: str | None) -> str | None:
        """Return why a principal may not open another connection now; None if it may.

        Callers without a principal cannot be told apart, so only the limit of the proxy holds for them.
        """
        if self._is_full:
            return f"All {self._limit.of_all} connections of the proxy are in use"
        own = [upstream for _, upstream in self._counted() if upstream.principal == principal]
        if principal is None or len(own) < self._limit.of_principal:
            return None
        return f"All {self._limit.of_principal} connections that the proxy opens for one principal are in use"

    def _counted(self) -> list[tuple[Pool, Upstream]]:
        """Return the connections that count for the limit, each with its pool."""
        return [(pool, upstream) for pool in self._pools for _, upstream in pool._upstreams]

    @property
    def _is_full(self) -> bool:
        return len(self._counted()) >= self._limit.of_all

    def _closable(self, principal: str | None) -> tuple[Pool, Upstream] | None:
        """Return the idle connection to close for a new connection of a principal: its own, or an unused connection."""
        idle = [(pool, upstream) for pool, upstream in self._counted() if not upstream.calls]
        own = [one for one in idle if one[1].principal == principal and not one[1].is_shared]
        if not own and self._is_full:
            unused_since = self._loop.time() - UNUSED_SECONDS
            own = [one for one in idle if not one[1].has_sessions and one[1].used_at <= unused_since]
        return min(own, key=lambda one: (one[1].has_sessions, one[1].used_at), default=None)

    def _wake(self) -> None:
        """Let the calls that wait for room look again."""
        for pool in self._pools:
            pool._freed.set()

    def release(self, upstream: Upstream, call: Call) -> None:
        """Let other calls use a connection that a call has taken."""
        upstream.calls.pop(call, None)
        upstream.used_at = self._loop.time()
        if not upstream.calls:
            self._wake()

    def _lost(self) -> None:
        """Find out again whether the target has sessions: it may come back in another version."""
        self._needs_handshake = False

    def _back(self, user: Hashable) -> None:
        self.known.of(user).is_away = False

    def _drop(self, token: object) -> None:
        for key, upstream in list(self._upstreams):
            if token in (key.isolated, key.session):
                self._close(upstream)

    def _close(self, closed: Upstream) -> None:
        self._upstreams = [(key, upstream) for key, upstream in self._upstreams if upstream is not closed]
        self._wake()
        keep_until_done(self._loop.create_task(closed.stop()), self._stopping)

    async def stop(self) -> None:
        """End every connection."""
        await self.known.stop()
        await self.parked.close()
        for _, upstream in list(self._upstreams):
            self._close(upstream)
        self._pools.remove(self)
        while self._stopping:
            task = next(iter(self._stopping))
            with suppress(DragomanError):
                await asyncio.wait([task], timeout=10)
            if not task.done():
                await cancel_and_wait(task)


async def _within(wait: float | None, upstream: Upstream) -> ServerConnection:
    """Return the connection of an upstream, if it is there in time; it is connected in the background otherwise."""
    try:
        async with asyncio.timeout(wait):
            return await upstream.connection()
    except TimeoutError as error:
        raise error if isinstance(error, Timeout) else Timeout("There is no connection to the target yet") from None
