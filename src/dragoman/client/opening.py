"""How a client begins: which era and version the server speaks, and who both sides are.

The probe is `server/discover`; `protocol.negotiation` judges what comes of it. A server of the handshake era is then
greeted by `initialize`. What is known of a server is remembered, so that it is not asked twice. Where even `initialize`
finds nobody over HTTP, the server may be one of 2024-11-05, which is spoken to over another link.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.client.connection import Connection, Host, Options
from dragoman.client.link import Link
from dragoman.errors import (
    AuthRequired,
    ConnectError,
    HttpError,
    RpcError,
    Timeout,
    TransportError,
    UnsupportedVersion,
    ValidationError,
)
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import ErrorResponse, Limits, ResultResponse
from dragoman.protocol.negotiation import (
    Again,
    Handshake,
    HttpProbe,
    Refused,
    Stateless,
    Verdict,
    agreed,
    common,
    judge,
    judge_http,
    supported_versions,
)
from dragoman.protocol.versions import (
    LATEST_HANDSHAKE,
    VERSIONS,
    Version,
    find_version,
    handshake_versions,
    stateless_versions,
    version_names,
)
from dragoman.types import decode

Mode = Literal["auto", "handshake", "stateless"]
PROBE_SECONDS = 5.0
_NO_STREAMABLE_HTTP = frozenset({400, 404, 405})
_handshakers: dict[Hashable, Version] = {}
"""The servers that are known to want a handshake, and the version that they were offered."""


class Way(Struct, kw_only=True):
    """How to reach a server."""

    key: Hashable
    """Names the server: what is learned of it holds for every connection with this key."""
    link: Callable[[], Link]
    fallback: Callable[[], Link] | None = None
    """What to try where the link finds no server."""
    introduces: bool = True
    """Whether anything is said before the first request."""
    is_handshake: bool = False
    """Whether it is known that the server wants a handshake."""


class Speech(Struct, kw_only=True, frozen=True):
    """What a client is willing to speak."""

    versions: tuple[Version, ...]

    @classmethod
    def of(cls, mode: Mode = "auto", protocol_version: str | None = None) -> Speech:
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


class Opening:
    """Opens connections to one server."""

    def __init__(self, way: Way, host: Host, speech: Speech, limits: Limits, *, timeout: float) -> None:
        self._way = way
        self._host = host
        self._speech = speech
        self._limits = limits
        self._timeout = timeout

    async def connect(self) -> Connection:
        """Return a connection on which both sides know each other.

        Raises:
            UnsupportedVersion: the two sides have no version in common.
            TransportError: the server cannot be reached, or does not answer.
            RpcError: it refuses.
        """
        connection = await self._open(self._way.link)
        try:
            if not self._way.introduces:
                connection.speak(_assumed(self._speech))
                return connection
            return await self._introduce(connection)
        except BaseException:
            await connection.close()
            raise

    async def _open(self, link: Callable[[], Link]) -> Connection:
        connection = Connection(link(), self._host, self._limits)
        try:
            await connection.open()
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _introduce(self, connection: Connection) -> Connection:
        offered = _handshakers.get(self._way.key)
        if offered in self._speech.versions and offered is not None:
            try:
                return await self._shake_hands(connection, offered)
            except (RpcError, HttpError):
                # It may have learned to do without since.
                del _handshakers[self._way.key]
                await connection.close()
                connection = await self._open(self._way.link)
        verdict = await self._probe(connection)
        if isinstance(verdict, Refused):
            await connection.close()
            raise verdict.error
        if isinstance(verdict, Stateless):
            return self._adopt(connection, verdict)
        assert isinstance(verdict, Handshake)
        if not connection.is_alive:
            await connection.close()
            connection = await self._open(self._way.link)
        connection = await self._shake_hands(connection, verdict.version)
        _handshakers[self._way.key] = verdict.version
        return connection

    async def _probe(self, connection: Connection) -> Verdict:
        candidates = stateless_versions(self._speech.versions)
        if not candidates or self._way.is_handshake:
            return Handshake(handshake_versions(self._speech.versions)[0])
        verdict = await self._probe_with(connection, candidates[0], last=False)
        if isinstance(verdict, Again):
            verdict = await self._probe_with(connection, verdict.version, last=True)
        return verdict

    async def _probe_with(self, connection: Connection, version: Version, *, last: bool) -> Verdict:
        connection.speak(version)
        spoken = self._speech.versions
        try:
            options = Options(timeout=min(PROBE_SECONDS, self._timeout))
            result = await connection.request("server/discover", {}, options, may_cancel=False)
        except RpcError as error:
            return judge(ErrorResponse(0, error), spoken, last=last)
        except HttpError as error:
            verdict = judge_http(HttpProbe(error.status), spoken, last=last)
            if verdict is None:
                raise
            return verdict
        except (AuthRequired, ConnectError):
            raise
        except TransportError:
            if connection.link.is_http:
                raise
            return judge(None, spoken, last=last)
        return judge(ResultResponse(0, result), spoken, last=last)

    def _adopt(self, connection: Connection, verdict: Stateless) -> Connection:
        connection.speak(verdict.version)
        discovered = verdict.discovered
        if discovered is not None:
            connection.has_introduced = True
            connection.capabilities = discovered.capabilities
            connection.instructions = discovered.instructions
            connection.server_info = _server_info(discovered)
        connection.link.settle()
        return connection

    async def _shake_hands(self, connection: Connection, offered: Version) -> Connection:
        """Introduce both sides; over HTTP perhaps on another link."""
        try:
            return await self._initialize(connection, offered)
        except HttpError as error:
            fallback = self._way.fallback
            if fallback is None or error.status not in _NO_STREAMABLE_HTTP:
                raise
            await connection.close()
            try:
                other = await self._open(fallback)
            except TransportError:
                raise error from None
            return await self._initialize(other, offered)

    async def _initialize(self, connection: Connection, offered: Version) -> Connection:
        try:
            result = await self._ask_to_initialize(connection, offered)
        except UnsupportedVersion as error:
            other = common(supported_versions(error), handshake_versions(self._speech.versions))
            if other is None or other is offered:
                raise
            result = await self._ask_to_initialize(connection, other)
        connection.speak(agreed(result, self._speech.versions))
        connection.has_introduced = True
        connection.capabilities = result.capabilities
        connection.server_info = result.server_info
        connection.instructions = result.instructions
        await connection.notify("notifications/initialized")
        connection.link.settle()
        return connection

    async def _ask_to_initialize(self, connection: Connection, offered: Version) -> types.InitializeResult:
        connection.speak(offered)
        connection.link.version = None  # a server of before has not agreed to anything yet
        params = types.InitializeRequestParams(
            offered.name, trim(self._host.capabilities_for(offered), offered), trim(self._host.info, offered)
        )
        options = Options(timeout=self._timeout)
        try:
            raw = await connection.request("initialize", msgspec.to_builtins(params), options, may_cancel=False)
            return decode(raw, types.InitializeResult)
        except Timeout as error:
            raise ConnectError(f"The server does not answer: {error}") from error
        except ValidationError as error:
            raise TransportError(f"The server's answer to initialize cannot be read: {error}") from error


def _assumed(speech: Speech) -> Version:
    return LATEST_HANDSHAKE if LATEST_HANDSHAKE in speech.versions else speech.versions[0]


def _server_info(discovered: types.DiscoverResult) -> types.Implementation | None:
    found = (discovered.meta or {}).get(types.SERVER_INFO)
    try:
        return None if found is None else msgspec.convert(found, types.Implementation)
    except msgspec.ValidationError:
        return None
