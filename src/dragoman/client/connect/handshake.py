"""Connector: connects to a server, and negotiates the era and the version.

The client probes the server with `server/discover`, and `protocol.negotiation` judges the answer. The client sends
`initialize` to a server of the handshake era, remembers that the server requires a handshake, and sends it no probe
again until `initialize` fails. If a POST of `initialize` is answered with status 400, 404 or 405, the server may be one
of 2024-11-05, and the client falls back to the HTTP+SSE transport of that version.

A server over stdio may not answer the probe within five seconds, for one of two reasons:

- It is still starting. It then answers the probe later.
- The probe broke it: servers on `mcp` 1.2 to 1.9 stop reading after an unknown method, and end at the next message.

So after five seconds the client sends `initialize` while the probe is pending, and takes the answer that arrives first.
A late answer to the probe that names a stateless version is confirmed by a second probe. If the server ends, the client
starts it again and sends `initialize` without a probe. If the server refuses `initialize`, the client probes it once
more, without the limit of five seconds. Killing a silent server instead was rejected, because it would end every server
that takes long to start.

A silent server costs five seconds and a second start in each process. So the client stores its command for a day in the
user's state folder. Servers that answer the probe are not stored: the probe is cheap, and an update of the server may
add a version at any time.

A child process may turn out to serve HTTP. The client then negotiates with the server at its URL, and keeps the process
for as long as the connection.

One time-out covers all of these steps together. It is paused while a person logs in. A child process that takes longer
to end is ended in the background; the next attempt, and `stop`, wait for its end.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.connect.connection import ConnectionOwner, ServerConnection, connection_error
from dragoman.client.connect.endpoint import Endpoint
from dragoman.client.connect.link import DuplexLink, Link
from dragoman.client.connect.recording import recorded
from dragoman.client.options import RequestOptions
from dragoman.errors import (
    AuthError,
    ConnectError,
    HttpError,
    RpcError,
    ServerUsesHttp,
    StoreError,
    Timeout,
    TransportError,
    UnsupportedVersion,
    ValidationError,
)
from dragoman.protocol import jsonrpc, negotiation
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import ErrorResponse, Limits, ResultResponse
from dragoman.protocol.versions import (
    LATEST_HANDSHAKE,
    VERSIONS,
    Version,
    find_version,
    handshake_versions,
    newest_common,
    stateless_versions,
    version_names,
)
from dragoman.runtime.tasks import cancel_and_wait, is_pending_here, keep_until_done, retrieve_exception
from dragoman.types import decode

if TYPE_CHECKING:
    from dragoman.stores import Revised, State

_logger = logging.getLogger("dragoman.client")

Mode = Literal["auto", "handshake", "stateless"]
PROBE_SECONDS = 5.0
CLOSE_SECONDS = 0.1
"""An attempt that timed out waits this long for its connection to end, which suffices without a child process."""
REMEMBERED_SECONDS = 24 * 3600.0
MAX_REMEMBERED = 1000
_NO_STREAMABLE_HTTP = frozenset({400, 404, 405})
_handshake_servers: dict[Hashable, Version] = {}
"""The servers that require a handshake, by key, and the version that they were offered; for the whole process."""


def offered_versions(mode: Mode = "auto", protocol_version: str | None = None) -> tuple[Version, ...]:
    """Return the versions that a client with a mode and a pinned version uses.

    Raises:
        ValueError: the mode or the version is unknown, or they contradict each other.
    """
    versions = {
        "auto": VERSIONS,
        "handshake": tuple(handshake_versions(VERSIONS)),
        "stateless": tuple(stateless_versions(VERSIONS)),
    }.get(mode)
    if versions is None:
        raise ValueError(f'mode must be "auto", "handshake" or "stateless", not {mode!r}')
    if protocol_version is None:
        return versions
    pinned = find_version(protocol_version)
    if pinned is None or pinned not in versions:
        known = ", ".join(version_names(versions))
        raise ValueError(f"protocol_version {protocol_version!r} is not available with mode {mode!r}; use {known}")
    return (pinned,)


class Connector:
    """Connects to one server, and remembers whether it requires a handshake."""

    def __init__(
        self,
        endpoint: Endpoint,
        owner: ConnectionOwner,
        versions: tuple[Version, ...],
        limits: Limits,
        *,
        timeout: float,
    ) -> None:
        self.endpoint = endpoint
        self.owner = owner
        self.versions = versions
        self.limits = limits
        self.timeout = timeout
        """Seconds that all steps together may take."""
        self._closing: set[asyncio.Task[None]] = set()
        self._remembered: dict[Hashable, Version] = {} if endpoint.key is None else _handshake_servers

    async def connect(self) -> ServerConnection:
        """Connect, and return a connection with a negotiated version.

        Raises:
            UnsupportedVersion: the two sides have no version in common.
            Timeout: the server does not answer in time.
            TransportError: the server cannot be reached.
            RpcError: the server refuses.
        """
        timeout = asyncio.timeout(self.timeout)
        attempt = _ConnectAttempt(self, timeout)
        try:
            async with timeout:
                await self.closed()  # both attempts may use the same transport
                return await attempt.connect()
        except Exception as error:
            await self._close(attempt, timeout.when())
            if isinstance(error, TimeoutError) and timeout.expired():
                self.remember(None)
                raise attempt.timed_out() from None
            raise
        except BaseException:
            await attempt.close()
            raise

    async def _close(self, attempt: _ConnectAttempt, deadline: float | None) -> None:
        """End an attempt that failed; what takes longer than the time of the attempt continues in the background."""
        loop = asyncio.get_running_loop()
        closing = keep_until_done(loop.create_task(attempt.close()), self._closing)
        closing.add_done_callback(retrieve_exception)
        left = None if deadline is None else max(CLOSE_SECONDS, deadline - loop.time())
        await asyncio.wait([closing], timeout=left)

    async def closed(self) -> None:
        """Wait until the connections of failed attempts have ended."""
        closing = [task for task in self._closing if is_pending_here(task)]
        if closing:
            await asyncio.wait(closing)

    async def remembered(self) -> Version | None:
        """Return the version to offer a server that is known to require a handshake, if this client has it."""
        version = self._remembered.get(self.endpoint.key)
        if version not in self.versions:
            stored = await self._stored() if stateless_versions(self.versions) else None
            version = None if stored is None else find_version(stored.value.decode())
        return version if version in self.versions else None

    def remember(self, version: Version | None) -> None:
        """Remember in this process that the server requires a handshake, or with None that it does not."""
        self._remembered.pop(self.endpoint.key, None)
        if version is not None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[self.endpoint.key] = version

    async def remember_silent(self, version: Version) -> None:
        """Store for other processes that the server does not answer the probe."""
        async with self._silent_servers() as (servers, key):
            if servers is not None:
                await servers.set(key, version.name.encode(), ttl=REMEMBERED_SECONDS)

    async def forget(self) -> None:
        """Forget that the server requires a handshake, in this process and in the store."""
        self.remember(None)
        async with self._silent_servers() as (servers, key):
            if servers is not None:
                await servers.delete(key)

    async def _stored(self) -> Revised | None:
        found = None
        async with self._silent_servers() as (servers, key):
            if servers is not None:
                found = await servers.get(key)
        return found

    @asynccontextmanager
    async def _silent_servers(self) -> AsyncIterator[tuple[State | None, str]]:
        """Open the store of silent servers, and give the key of this one; a connection does not need the store.

        There is no store without a key, and over HTTP, where every server answers.
        """
        if self.endpoint.key is None or self.endpoint.is_http:
            yield None, ""
            return
        from dragoman.stores import Local

        store = Local()
        try:
            name = repr(self.endpoint.key).encode("utf-8", "surrogatepass")
            yield store.state("silentservers"), hashlib.sha256(name).hexdigest()
        except StoreError as error:
            _logger.warning("The client cannot remember which servers do not answer the probe: %s", error)
        finally:
            await store.close()


class _ConnectAttempt:
    """One attempt to connect. It may open several connections, one after the other, and returns the last one."""

    def __init__(self, connector: Connector, timeout: asyncio.Timeout) -> None:
        self._connector = connector
        self._timeout = timeout
        self._time_left: float | None = None
        """Seconds that were left when the time-out was paused."""
        self._endpoint = connector.endpoint
        self._versions = connector.versions
        self._probes = bool(stateless_versions(self._versions)) and not self._endpoint.is_handshake
        self._awaited: str | None = None
        """The method of the last request to the server."""
        self._awaited_id: types.RequestId | None = None
        self._opened: ServerConnection | None = None
        self._child: DuplexLink | None = None
        """The process of a server that turned out to serve HTTP."""
        self._pending_probe: asyncio.Task[Raw] | None = None
        """A probe that the server has not answered in time, and may answer later."""

    async def connect(self) -> ServerConnection:
        try:
            await self._open_endpoint()
        except TransportError:
            uses_http = None if self._opened is None else self._opened.error
            if not isinstance(uses_http, ServerUsesHttp) or self._endpoint.endpoint_at is None:
                raise
            await self._follow(self._endpoint.endpoint_at(uses_http.url))
        self._connection.on_clocks_paused = None
        self._connection.child, self._child = self._child, None
        return self._connection

    async def _open_endpoint(self) -> None:
        await self._open(self._endpoint.link)
        if self._endpoint.negotiates:
            await self._negotiate()
        else:
            is_handshake = LATEST_HANDSHAKE in self._versions
            self._connection.use_version(LATEST_HANDSHAKE if is_handshake else self._versions[0])

    async def _follow(self, endpoint: Endpoint) -> None:
        """Connect to the URL at which the child process serves HTTP."""
        assert isinstance(self._connection.link, DuplexLink)
        self._child, self._opened = self._connection.link, None
        self._endpoint = endpoint
        await self._open_endpoint()

    def timed_out(self) -> Timeout:
        seconds = f"{self._connector.timeout:g} seconds"
        if self._awaited is None:
            return Timeout(f"The connection could not be opened within {seconds}")
        message = f"The server did not answer {self._awaited} within {seconds}; is it an MCP server?"
        return Timeout(message, self._awaited_id, "connect_timeout")

    def _pause_timeout(self, is_paused: bool) -> None:  # noqa: FBT001
        deadline, now = self._timeout.when(), asyncio.get_running_loop().time()
        if self._timeout.expired():
            return
        if is_paused and deadline is not None:
            self._time_left = deadline - now
            self._timeout.reschedule(None)
        elif not is_paused and self._time_left is not None:
            self._timeout.reschedule(now + self._time_left)
            self._time_left = None

    async def _request(self, method: str, params: types.Json) -> Raw:
        """Send a request without a time-out of its own; the time-out of the attempt covers it."""

        def note(id: types.RequestId) -> None:
            self._awaited_id = id

        self._awaited, connection = method, self._connection
        try:
            options = RequestOptions(on_id=note)
            sending = partial(connection.request, method, params, options, may_cancel=False)
            return await recorded(sending, lambda: connection, method, params, options)
        except ConnectError:
            # A process that ended before the request was sent is reported like a process that ended after it.
            if connection.error is None:
                raise
            raise connection_error(connection.error) from None

    async def close(self) -> None:
        await self._close_connection()
        if self._child is not None:
            await self._child.close()

    async def _close_connection(self) -> None:
        if self._opened is not None:
            self._opened.on_clocks_paused = None
        await self._end_probe()
        if self._opened is not None:
            await self._opened.close()

    async def _end_probe(self) -> None:
        probe, self._pending_probe = self._pending_probe, None
        if probe is not None:
            await cancel_and_wait(probe)

    @property
    def _connection(self) -> ServerConnection:
        assert self._opened is not None
        return self._opened

    async def _open(self, link: Callable[[], Link]) -> None:
        await self._close_connection()
        self._pause_timeout(False)  # noqa: FBT003
        self._opened = ServerConnection(link(), self._connector.owner, self._connector.limits)
        self._opened.on_clocks_paused = self._pause_timeout
        if self._child is not None:
            self._child.on_closed = self._opened.lost
        self._awaited = None
        await self._opened.open()

    async def _negotiate(self) -> None:
        remembered = await self._connector.remembered()
        if remembered is not None and await self._initialize_as_remembered(remembered):
            return
        verdict = await self._probe()
        if isinstance(verdict, negotiation.NoCommonVersion):
            raise verdict.error
        if isinstance(verdict, negotiation.Stateless):
            self._adopt(verdict)
            return
        assert isinstance(verdict, negotiation.Handshake)
        was_silent = self._pending_probe is not None
        costs_time = was_silent or not self._connection.is_alive
        if not self._connection.is_alive:
            await self._open(self._endpoint.link)
        try:
            if self._pending_probe is None:
                await self._initialize(verdict.version)
            else:
                await self._initialize_beside(self._pending_probe, verdict.version)
        except RpcError as refusal:
            if not was_silent and not isinstance(refusal, UnsupportedVersion):
                raise
            await self._probe_after_refusal(refusal)
        if self._probes and not self._connection.version.stateless:
            self._connector.remember(verdict.version)
            if costs_time:
                await self._connector.remember_silent(verdict.version)

    async def _initialize_beside(self, probe: asyncio.Task[Raw], offered: Version) -> None:
        """Send `initialize` while a probe is pending, and accept the answer that arrives first."""
        initializing = asyncio.get_running_loop().create_task(self._offer(offered))
        try:
            await asyncio.wait([probe, initializing], return_when=asyncio.FIRST_COMPLETED)
            verdict = await self._judged(probe, last=False) if probe.done() and self._connection.is_alive else None
            if isinstance(verdict, negotiation.Stateless):
                await cancel_and_wait(initializing)
                await self._confirm(verdict)
            else:
                await self._accept(await initializing)
        except TransportError:
            if self._connection.is_alive or isinstance(self._connection.error, ConnectError):
                raise
            await self._open(self._endpoint.link)
            await self._initialize(offered)
        finally:
            await cancel_and_wait(initializing)
            await self._end_probe()

    async def _confirm(self, verdict: negotiation.Stateless) -> None:
        """Adopt a late answer to the probe if the server repeats the answer after it received `initialize`.

        Servers on the TypeScript SDK stay in the handshake era after `initialize`. The client starts such a server
        again and sends it a probe only.
        """
        confirmed = await self._probe_with(verdict.version, last=True, unlimited=True)
        if not isinstance(confirmed, negotiation.Stateless):
            await self._open(self._endpoint.link)
            confirmed = await self._probe_with(verdict.version, last=True, unlimited=True)
        self._adopt(confirmed if isinstance(confirmed, negotiation.Stateless) else verdict)

    async def _initialize_as_remembered(self, offered: Version) -> bool:
        """Send `initialize` without a probe; return False if the server seems to have become stateless."""
        try:
            await self._initialize(offered)
        except (AuthError, ConnectError):
            raise
        except (RpcError, TransportError) as error:
            if (
                isinstance(error, HttpError)
                and negotiation.interpret_http_probe(error.status, None, self._versions) is None
            ):
                raise
            await self._connector.forget()
            if isinstance(error, TransportError) and not isinstance(error, HttpError):
                raise
            await self._open(self._endpoint.link)
            return False
        return True

    async def _probe(self) -> negotiation.Verdict:
        handshakes = handshake_versions(self._versions)
        if not self._probes and not handshakes:
            message = "This transport is of the handshake era, but this client speaks stateless versions only"
            return negotiation.NoCommonVersion(RpcError.of(UnsupportedVersion.CODE, message))
        if not self._probes:
            return negotiation.Handshake(handshakes[0])
        verdict = await self._probe_with(stateless_versions(self._versions)[0], last=False)
        if isinstance(verdict, negotiation.ProbeAgain):
            verdict = await self._probe_with(verdict.version, last=True)
        return verdict

    async def _probe_after_refusal(self, refusal: RpcError) -> None:
        """Probe a server again that refused `initialize`.

        Raises:
            RpcError: the refusal, if the server has no stateless version either.
        """
        if isinstance(refusal, UnsupportedVersion):
            verdict = negotiation.interpret_probe(ErrorResponse(0, refusal), self._versions)
        else:
            verdict = negotiation.ProbeAgain(stateless_versions(self._versions)[0])
        if isinstance(verdict, negotiation.ProbeAgain):
            verdict = await self._probe_with(verdict.version, last=True, unlimited=True)
        if not isinstance(verdict, negotiation.Stateless):
            raise refusal
        self._adopt(verdict)

    async def _probe_with(self, version: Version, *, last: bool, unlimited: bool = False) -> negotiation.Verdict:
        """Send the probe with a version; except over HTTP, it stays pending if no answer comes within five seconds."""
        self._connection.use_version(version)
        is_limited = not (unlimited or self._connection.link.is_http) and handshake_versions(self._versions)
        probe = asyncio.get_running_loop().create_task(self._request("server/discover", {}))
        self._pending_probe = probe
        await asyncio.wait([probe], timeout=PROBE_SECONDS if is_limited else None)
        if not probe.done():
            return negotiation.interpret_probe(None, self._versions, last=last)
        self._pending_probe = None
        return await self._judged(probe, last=last)

    async def _judged(self, probe: asyncio.Task[Raw], *, last: bool) -> negotiation.Verdict:
        """Return the verdict on a probe that has ended.

        Raises:
            TransportError: the probe failed, and its error does not tell the era of the server.
        """
        connection = self._connection
        try:
            result = await probe
        except RpcError as error:
            return negotiation.interpret_probe(ErrorResponse(0, error), self._versions, last=last)
        except AuthError:
            raise
        except HttpError as error:
            body = jsonrpc.decode(error.body)
            message = body if isinstance(body, ErrorResponse) else None
            verdict = negotiation.interpret_http_probe(error.status, message, self._versions, last=last)
            if verdict is None:
                raise
            if isinstance(verdict, negotiation.NoCommonVersion):
                raise RpcError.of(UnsupportedVersion.CODE, f"{verdict.error}: {error}") from error
            return verdict
        except TransportError as error:
            if (
                not handshake_versions(self._versions)
                or connection.link.is_http
                or (isinstance(error, ConnectError) and connection.is_alive)
                or isinstance(connection.error, ConnectError)  # another start would not help
            ):
                raise
            return negotiation.interpret_probe(None, self._versions, last=last)
        return negotiation.interpret_probe(ResultResponse(0, result), self._versions, last=last)

    def _adopt(self, verdict: negotiation.Stateless) -> None:
        connection, discovered = self._connection, verdict.discovered
        connection.use_version(verdict.version)
        if discovered is not None:
            connection.set_server(_server_info(discovered), discovered.capabilities, discovered.instructions)
        connection.link.open_standalone_stream()

    async def _initialize(self, offered: Version) -> None:
        """Send `initialize`, and send it again on the fallback link if Streamable HTTP finds no server."""
        try:
            await self._accept(await self._offer(offered))
        except HttpError as error:
            fallback = self._endpoint.fallback
            if fallback is None or error.status not in _NO_STREAMABLE_HTTP:
                raise
            try:
                await self._open(fallback)
            except TransportError:
                raise error from None
            await self._accept(await self._offer(offered))

    async def _offer(self, offered: Version) -> types.InitializeResult:
        """Send `initialize`, and again if the server names another version that both sides have."""
        try:
            return await self._offer_once(offered)
        except UnsupportedVersion as error:
            other = newest_common(negotiation.supported_versions(error), handshake_versions(self._versions))
            if other is None or other is offered:
                raise
            return await self._offer_once(other)

    async def _offer_once(self, offered: Version) -> types.InitializeResult:
        connection, owner = self._connection, self._connector.owner
        connection.use_version(offered)
        connection.link.version = None  # `initialize` carries no version header, because no version is agreed on yet
        connection.declared = owner.capabilities_for(offered)
        params = types.InitializeRequestParams(
            offered.name, trim(connection.declared, offered), trim(owner.info, offered)
        )
        try:
            connection.initialized = await self._request("initialize", msgspec.to_builtins(params))
            return decode(connection.initialized, types.InitializeResult)
        except ValidationError as error:
            raise TransportError(f"The server's answer to initialize cannot be read: {error}") from error

    async def _accept(self, result: types.InitializeResult) -> None:
        connection = self._connection
        connection.use_version(self._agreed(result))
        connection.set_server(result.server_info, result.capabilities, result.instructions)
        await connection.notify("notifications/initialized")
        connection.link.open_standalone_stream()

    def _agreed(self, result: types.InitializeResult) -> Version:
        try:
            return negotiation.agreed_version(result, self._versions)
        except UnsupportedVersion as error:
            supported = negotiation.supported_versions(error)
            raise RpcError.of(
                UnsupportedVersion.CODE,
                f"The server chose protocol version {result.protocol_version!r}, which this client does not speak; it"
                f" speaks {', '.join(supported)}",
                {"supported": supported, "requested": result.protocol_version},
            ) from None


def _server_info(discovered: types.DiscoverResult) -> types.Implementation | None:
    found = (discovered.meta or {}).get(types.SERVER_INFO)
    try:
        return None if found is None else msgspec.convert(found, types.Implementation)
    except msgspec.ValidationError:
        return None
