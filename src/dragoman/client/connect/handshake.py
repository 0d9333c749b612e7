"""How a client begins: which era and version the server speaks, and who both sides are.

The client probes the server with `server/discover`, and `protocol.negotiation` judges the answer. The client greets a
server of the handshake era with `initialize`. It remembers that the server wants a handshake, and does not probe it
again, until the server contradicts; a server that the probe costs time is remembered by other processes too (`silent`).
Where even `initialize` finds nobody over HTTP, the server may be one of 2024-11-05; the client then uses the transport
of that version.

A server over stdio may not answer the probe within five seconds, for one of two reasons:

- It is still starting. It then answers the probe later.
- The probe broke it: servers on `mcp` 1.2 to 1.9 stop to read after a method that they do not know, and end when the
  next message comes.

So the client sends `initialize` beside the probe and takes what comes first. An answer to the probe decides as it would
have in time. If the server ends, the client starts it again and greets it without a probe. A server that refuses
`initialize` is probed once more, and then has all the time that connecting may take. Killing a silent server instead
was rejected: that would end every server that takes long to start.

One clock counts for all of these steps together. It stands still while a person logs in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.connection import Host, Options, ServerConnection
from dragoman.client.connect.link import Link
from dragoman.errors import (
    AuthError,
    ConnectError,
    HttpError,
    RpcError,
    Timeout,
    TransportError,
    UnsupportedVersion,
    ValidationError,
)
from dragoman.protocol import jsonrpc
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import ErrorResponse, Limits, ResultResponse
from dragoman.protocol.negotiation import (
    Again,
    Handshake,
    NoCommonVersion,
    Stateless,
    Verdict,
    agreed,
    judge,
    judge_http,
    supported_versions,
)
from dragoman.protocol.versions import (
    LATEST_HANDSHAKE,
    VERSIONS,
    Version,
    common,
    find_version,
    handshake_versions,
    stateless_versions,
    version_names,
)
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.types import decode

Mode = Literal["auto", "handshake", "stateless"]
PROBE_SECONDS = 5.0
MOST_REMEMBERED = 1000
_NO_STREAMABLE_HTTP = frozenset({400, 404, 405})
_handshakers: dict[Hashable, Version] = {}
"""The servers that are known to want a handshake, and the version that they were offered; for the whole process."""


class Endpoint(Struct, kw_only=True):
    """How to reach a server."""

    key: Hashable | None
    """Names the server: what is learned of it holds for every client with this key; None for what has no name."""
    link: Callable[[], Link]
    fallback: Callable[[], Link] | None = None
    """What to try where the link finds no server."""
    introduces: bool = True
    """Whether anything is said before the first request."""
    is_handshake: bool = False
    """Whether it is known that the server wants a handshake."""
    is_http: bool = False


class OfferedVersions(Struct, kw_only=True, frozen=True):
    """What a client is willing to speak."""

    versions: tuple[Version, ...]

    @classmethod
    def of(cls, mode: Mode = "auto", protocol_version: str | None = None) -> OfferedVersions:
        """Return what a mode and a pinned version leave.

        Raises:
            ValueError: there is no such mode or version, or they contradict each other.
        """
        versions = {
            "auto": VERSIONS,
            "handshake": tuple(handshake_versions(VERSIONS)),
            "stateless": tuple(stateless_versions(VERSIONS)),
        }.get(mode)
        if versions is None:
            raise ValueError(f'mode must be "auto", "handshake" or "stateless", not {mode!r}')
        if protocol_version is None:
            return cls(versions=versions)
        pinned = find_version(protocol_version)
        if pinned is None or pinned not in versions:
            known = ", ".join(version_names(versions))
            raise ValueError(
                f"protocol_version {protocol_version!r} cannot be had with mode {mode!r}; there are {known}"
            )
        return cls(versions=(pinned,))


class Connector:
    """Opens connections to one server."""

    def __init__(self, way: Endpoint, host: Host, speech: OfferedVersions, limits: Limits, *, timeout: float) -> None:
        self.way = way
        self.host = host
        self.speech = speech
        self.limits = limits
        self.timeout = timeout
        """Seconds that all steps together may take."""
        self._known: dict[Hashable, Version] = {} if way.key is None else _handshakers

    async def connect(self) -> ServerConnection:
        """Return a connection on which both sides know each other.

        Raises:
            UnsupportedVersion: the two sides have no version in common.
            Timeout: the server does not answer in time.
            TransportError: the server cannot be reached.
            RpcError: it refuses.
        """
        clock = asyncio.timeout(self.timeout)
        attempt = _ConnectAttempt(self, _Standstill(clock))
        try:
            async with clock:
                return await attempt.connect()
        except BaseException as error:
            await attempt.close()
            if isinstance(error, TimeoutError) and clock.expired():
                self.known = None
                raise attempt.late() from None
            raise

    @property
    def known(self) -> Version | None:
        """What to offer a server that is known to want a handshake, if this client speaks it."""
        offered = self._known.get(self.way.key)
        return offered if offered in self.speech.versions else None

    @known.setter
    def known(self, offered: Version | None) -> None:
        if offered is None:
            self._known.pop(self.way.key, None)
            return
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[self.way.key] = offered

    # What holds for other processes too, where there is a name for the server; a server over HTTP answers the probe.

    @property
    def _is_lasting(self) -> bool:
        return self.way.key is not None and not self.way.is_http

    async def recalled(self) -> Version | None:
        """Return what to offer a server of which an earlier process found that it does not answer the probe."""
        if not self._is_lasting or not stateless_versions(self.speech.versions):
            return None
        from dragoman.client.connect import silent

        offered = await silent.recalled(self.way.key)
        return offered if offered in self.speech.versions else None

    async def remember(self, offered: Version) -> None:
        """Remember that the server does not answer the probe."""
        if self._is_lasting:
            from dragoman.client.connect import silent

            await silent.remember(self.way.key, offered)

    async def forget(self) -> None:
        """Forget what is known of a server that has contradicted."""
        self.known = None
        if self._is_lasting:
            from dragoman.client.connect import silent

            await silent.forget(self.way.key)


class _Standstill:
    """Lets a clock stand still, and go on with the time that was left."""

    def __init__(self, clock: asyncio.Timeout) -> None:
        self._clock = clock
        self._left: float | None = None

    def __call__(self, stands_still: bool) -> None:  # noqa: FBT001
        ends, now = self._clock.when(), asyncio.get_running_loop().time()
        if self._clock.expired():
            return
        if stands_still and ends is not None:
            self._left = ends - now
            self._clock.reschedule(None)
        elif not stands_still and self._left is not None:
            self._clock.reschedule(now + self._left)
            self._left = None


class _ConnectAttempt:
    """One attempt to connect: one connection at a time, of which the last is the one that is used."""

    def __init__(self, opening: Connector, standstill: _Standstill) -> None:
        self._opening = opening
        self._standstill = standstill
        self._awaited: str | None = None
        """What the server was asked last."""
        self._awaited_id: types.RequestId | None = None
        self._way = opening.way
        self._spoken = opening.speech.versions
        self._opened: ServerConnection | None = None
        self._unanswered: asyncio.Task[Raw] | None = None
        """A probe that the server has not answered in time, and may answer later."""

    async def connect(self) -> ServerConnection:
        await self._open(self._way.link)
        if self._way.introduces:
            await self._introduce()
        else:
            self._connection.speak(_assumed(self._opening.speech))
        self._connection.on_standstill = None
        return self._connection

    def late(self) -> Timeout:
        """Return the error that connecting took too long."""
        seconds = f"{self._opening.timeout:g} seconds"
        if self._awaited is None:
            return Timeout(f"The connection could not be opened within {seconds}")
        return Timeout(
            f"The server did not answer {self._awaited} within {seconds}; is it an MCP server? If it needs longer,"
            " raise connect_timeout",
            self._awaited_id,
        )

    def _waiting_for(self, method: str) -> Options:
        """Return how a request is sent: the clock of connecting is the only one that counts for it."""
        self._awaited = method
        return Options(on_id=self._note_id)

    def _note_id(self, id: types.RequestId) -> None:
        self._awaited_id = id

    async def close(self) -> None:
        if self._opened is not None:
            self._opened.on_standstill = None
        await self._forget_probe()
        if self._opened is not None:
            await self._opened.close()

    async def _forget_probe(self) -> None:
        probe, self._unanswered = self._unanswered, None
        if probe is not None:
            await cancel_and_wait(probe)

    @property
    def _connection(self) -> ServerConnection:
        assert self._opened is not None
        return self._opened

    async def _open(self, link: Callable[[], Link]) -> None:
        await self.close()
        self._standstill(False)  # noqa: FBT003
        opening = self._opening
        self._opened = ServerConnection(link(), opening.host, opening.limits)
        self._opened.on_standstill = self._standstill
        self._awaited = None
        await self._opened.open()

    async def _introduce(self) -> None:
        known = self._opening.known or await self._opening.recalled()
        if known is not None and await self._greet_as_known(known):
            return
        verdict = await self._probe()
        if isinstance(verdict, NoCommonVersion):
            raise verdict.error
        if isinstance(verdict, Stateless):
            self._adopt(verdict)
            return
        assert isinstance(verdict, Handshake)
        was_silent = self._unanswered is not None
        costs_time = was_silent or not self._connection.is_alive
        if not self._connection.is_alive:
            await self._open(self._way.link)
        try:
            await self._greet(verdict.version)
        except RpcError as refusal:
            if not was_silent and not isinstance(refusal, UnsupportedVersion):
                raise
            await self._probe_after_all(refusal)
        if self._asks and not self._connection.version.stateless:
            self._opening.known = verdict.version
            if costs_time:
                await self._opening.remember(verdict.version)

    async def _greet(self, offered: Version) -> None:
        """Shake hands, unless the server answers the probe first after all."""
        probe = self._unanswered
        if probe is None:
            await self._shake_hands(offered)
            return
        greeting = asyncio.get_running_loop().create_task(self._offer(offered))
        try:
            await asyncio.wait([probe, greeting], return_when=asyncio.FIRST_COMPLETED)
            verdict = await self._judged(probe, last=False) if probe.done() and self._connection.is_alive else None
            if isinstance(verdict, Stateless):
                await cancel_and_wait(greeting)
                await self._confirm(verdict)
            else:
                await self._accept(await greeting)
        except TransportError:
            if self._connection.is_alive:
                raise
            await self._open(self._way.link)
            await self._shake_hands(offered)
        finally:
            await cancel_and_wait(greeting)
            await self._forget_probe()

    async def _confirm(self, verdict: Stateless) -> None:
        """Adopt a late answer if the server still gives it, now that it was sent `initialize` too.

        Servers on the TypeScript SDK keep to the handshake from then on. Such a server is started again, and not sent
        `initialize`.
        """
        confirmed = await self._probe_with(verdict.version, last=True, is_patient=True)
        if not isinstance(confirmed, Stateless):
            await self._open(self._way.link)
            confirmed = await self._probe_with(verdict.version, last=True, is_patient=True)
        self._adopt(confirmed if isinstance(confirmed, Stateless) else verdict)

    @property
    def _asks(self) -> bool:
        """Whether the server is asked what it speaks; what was insisted on is nothing that was learned of it."""
        return bool(stateless_versions(self._spoken)) and not self._way.is_handshake

    async def _greet_as_known(self, offered: Version) -> bool:
        """Introduce both sides as it went before; return False if the server seems to have learned to do without."""
        try:
            await self._shake_hands(offered)
        except (AuthError, ConnectError):
            raise
        except (RpcError, TransportError) as error:
            if isinstance(error, HttpError) and judge_http(error.status, None, self._spoken) is None:
                raise
            await self._opening.forget()
            if isinstance(error, TransportError) and not isinstance(error, HttpError):
                raise
            await self._open(self._way.link)
            return False
        return True

    async def _probe(self) -> Verdict:
        handshakes = handshake_versions(self._spoken)
        if not self._asks and not handshakes:
            message = "This transport is of versions with a handshake, and this client speaks stateless versions only"
            return NoCommonVersion(RpcError.of(UnsupportedVersion.CODE, message))
        if not self._asks:
            return Handshake(handshakes[0])
        verdict = await self._probe_with(stateless_versions(self._spoken)[0], last=False)
        if isinstance(verdict, Again):
            verdict = await self._probe_with(verdict.version, last=True)
        return verdict

    async def _probe_after_all(self, refusal: RpcError) -> None:
        """Take the word of a server that did not answer the probe, but that `initialize` is not for it.

        Raises:
            RpcError: the refusal, if the server does not speak a stateless version either.
        """
        if isinstance(refusal, UnsupportedVersion):
            verdict = judge(ErrorResponse(0, refusal), self._spoken)
        else:
            verdict = Again(stateless_versions(self._spoken)[0])
        if isinstance(verdict, Again):
            verdict = await self._probe_with(verdict.version, last=True, is_patient=True)
        if not isinstance(verdict, Stateless):
            raise refusal
        self._adopt(verdict)

    async def _probe_with(self, version: Version, *, last: bool, is_patient: bool = False) -> Verdict:
        """Probe with a version; a server over stdio that is silent for five seconds may still answer later."""
        connection = self._connection
        connection.speak(version)
        asking = connection.request("server/discover", {}, self._waiting_for("server/discover"), may_cancel=False)
        waits = is_patient or connection.link.is_http or not handshake_versions(self._spoken)
        probe = self._unanswered = asyncio.get_running_loop().create_task(asking)
        await asyncio.wait([probe], timeout=None if waits else PROBE_SECONDS)
        if not probe.done():
            return judge(None, self._spoken, last=last)
        self._unanswered = None
        return await self._judged(probe, last=last)

    async def _judged(self, probe: asyncio.Task[Raw], *, last: bool) -> Verdict:
        """Return what a probe means that has come to its end.

        Raises:
            TransportError: it says nothing about the era.
        """
        connection = self._connection
        try:
            result = await probe
        except RpcError as error:
            return judge(ErrorResponse(0, error), self._spoken, last=last)
        except AuthError:
            raise
        except HttpError as error:
            said = jsonrpc.decode(error.body)
            message = said if isinstance(said, ErrorResponse) else None
            verdict = judge_http(error.status, message, self._spoken, last=last)
            if verdict is None:
                raise
            if isinstance(verdict, NoCommonVersion):
                raise RpcError.of(UnsupportedVersion.CODE, f"{verdict.error}: {error}") from error
            return verdict
        except TransportError as error:
            if (
                not handshake_versions(self._spoken)
                or connection.link.is_http
                or (isinstance(error, ConnectError) and connection.is_alive)
            ):
                raise
            return judge(None, self._spoken, last=last)
        return judge(ResultResponse(0, result), self._spoken, last=last)

    def _adopt(self, verdict: Stateless) -> None:
        connection = self._connection
        connection.speak(verdict.version)
        discovered = verdict.discovered
        if discovered is not None:
            connection.has_introduced = True
            connection.capabilities = discovered.capabilities
            connection.instructions = discovered.instructions
            connection.server_info = _server_info(discovered)
        connection.link.settle()

    async def _shake_hands(self, offered: Version) -> None:
        """Introduce both sides; over HTTP perhaps on another link."""
        try:
            await self._initialize(offered)
        except HttpError as error:
            fallback = self._way.fallback
            if fallback is None or error.status not in _NO_STREAMABLE_HTTP:
                raise
            try:
                await self._open(fallback)
            except TransportError:
                raise error from None
            await self._initialize(offered)

    async def _initialize(self, offered: Version) -> None:
        await self._accept(await self._offer(offered))

    async def _offer(self, offered: Version) -> types.InitializeResult:
        """Ask the server to initialize, with another version if it names one that both sides speak."""
        try:
            return await self._ask_to_initialize(offered)
        except UnsupportedVersion as error:
            other = common(supported_versions(error), handshake_versions(self._spoken))
            if other is None or other is offered:
                raise
            return await self._ask_to_initialize(other)

    async def _accept(self, result: types.InitializeResult) -> None:
        connection = self._connection
        connection.speak(self._agreed(result))
        connection.has_introduced = True
        connection.capabilities = result.capabilities
        connection.server_info = result.server_info
        connection.instructions = result.instructions
        await connection.notify("notifications/initialized")
        connection.link.settle()

    async def _ask_to_initialize(self, offered: Version) -> types.InitializeResult:
        connection, host = self._connection, self._opening.host
        connection.speak(offered)
        connection.link.version = None  # a server of before has not agreed to anything yet
        connection.declared = host.capabilities_for(offered)
        params = types.InitializeRequestParams(
            offered.name, trim(connection.declared, offered), trim(host.info, offered)
        )
        options = self._waiting_for("initialize")
        try:
            raw = await connection.request("initialize", msgspec.to_builtins(params), options, may_cancel=False)
            return decode(raw, types.InitializeResult)
        except ValidationError as error:
            raise TransportError(f"The server's answer to initialize cannot be read: {error}") from error

    def _agreed(self, result: types.InitializeResult) -> Version:
        try:
            return agreed(result, self._spoken)
        except UnsupportedVersion as error:
            spoken = supported_versions(error)
            raise RpcError.of(
                UnsupportedVersion.CODE,
                f"The server chose protocol version {result.protocol_version!r}, which this client does not speak; it"
                f" speaks {', '.join(spoken)}",
                {"supported": spoken, "requested": result.protocol_version},
            ) from None


def _assumed(speech: OfferedVersions) -> Version:
    return LATEST_HANDSHAKE if LATEST_HANDSHAKE in speech.versions else speech.versions[0]


def _server_info(discovered: types.DiscoverResult) -> types.Implementation | None:
    found = (discovered.meta or {}).get(types.SERVER_INFO)
    try:
        return None if found is None else msgspec.convert(found, types.Implementation)
    except msgspec.ValidationError:
        return None
