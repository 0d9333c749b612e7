"""`Passthrough`: a transport that carries raw messages to any target of a client, whatever carries them there.

A bridge and a cassette pass on the messages of a client that they did not write. Over stdio and in memory this is
copying. Over HTTP the link needs facts about each message for its headers, and `Passthrough` reads them from the
messages that pass:

    the version       from `_meta` of a stateless request, or from the result of `initialize`
    the session       the link keeps it; a server that forgot the session gets the `initialize` of the client again
    mirrored headers  from the tools that the server listed
    the stream        a request is answered when a response with its id has passed

The messages themselves are never changed. A request that gets no answer because the connection failed is answered with
an error, so that a client on stdio does not wait.

Rejected: a client that decodes and a server that encodes again. That is a proxy: it drops what it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dragoman import types
from dragoman.client.connect.endpoint import Endpoint
from dragoman.client.connect.link import Link, Outgoing
from dragoman.errors import DragomanError, HttpError, RpcError, SessionExpired, TransportError
from dragoman.forward.messages import listed_plans, raw_object
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import ErrorResponse, Limits, Notification, Request, ResultResponse
from dragoman.protocol.official.tasks import SECOND
from dragoman.protocol.peer import CANCELLED
from dragoman.protocol.versions import VERSIONS, Version
from dragoman.runtime.tasks import cancel_and_wait, keep_until_done
from dragoman.transports.contract import Receive

FAILURE_CODE = -32000
LISTEN = "subscriptions/listen"
LIMITS = Limits(message_bytes=64 * 1024 * 1024)
"""The limits of a message that passes: the two ends have limits of their own, which are often lower."""
_NAMED_BY = ProtocolTable.of([SECOND]).named_by
_BY_NAME = {version.name: version for version in VERSIONS}
_FALLBACK_STATUSES = frozenset({400, 404, 405})


class Passthrough:
    """A transport to an endpoint; see `dragoman.transports.contract`.

    Example:
        options = EndpointOptions(Credentials(), limits=LIMITS)
        transport = Passthrough(endpoint_of("https://api.example.com/mcp", options))
        await transport.open(print, print)
        await transport.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{...}}')
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._link: Link = endpoint.link()
        self._receive: Receive = _ignore
        self._closed: Callable[[Exception | None], None] = _ignore
        self._pending: dict[types.RequestId, str] = {}
        """The methods of the requests that have no response yet."""
        self._posts: dict[types.RequestId, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._plans: dict[str, HeaderPlan] = {}
        self._initialize: bytes | None = None
        self._renewing = asyncio.Lock()
        self._renewals = 0

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the link to the server."""
        self._receive, self._closed = receive, closed
        await self._link.open(self._received, self._lost)

    async def send(self, message: bytes) -> None:
        """Send a message; over HTTP, the answer to a request comes later."""
        decoded = jsonrpc.decode(message, LIMITS)
        outgoing = self._outgoing(message, decoded)
        if not self._link.is_http:
            if outgoing.id is None:
                await self._link.send(outgoing)
            else:
                await self._post(outgoing)
        elif outgoing.id is not None:
            post = asyncio.get_running_loop().create_task(self._post(outgoing))
            self._posts[outgoing.id] = post
            keep_until_done(post, self._background)
        elif outgoing.method != CANCELLED or not await self._close_response(decoded):
            await self._link.send(outgoing)
            if outgoing.method == "notifications/initialized":
                self._link.open_standalone_stream()

    async def close(self) -> None:
        """Close the link; no request is answered any more."""
        for task in list(self._background):
            await cancel_and_wait(task)
        await self._link.close()

    def _outgoing(self, data: bytes, decoded: jsonrpc.Message) -> Outgoing:
        if not isinstance(decoded, Request | Notification):
            return Outgoing(data)
        params = _mapping(decoded.params)
        version = _version(params)
        if version is not None:
            self._link.version = version
        if isinstance(decoded, Notification):
            return Outgoing(data, decoded.method)
        id, method = decoded.id, decoded.method
        self._pending[id] = method
        if method == "initialize":
            self._initialize, self._link.version = data, None  # a probe of the stateless era may precede it
        headers = None
        if method == "tools/call" and self._link.version is not None and self._link.version.mirrors_headers:
            plan, arguments = self._plans.get(params.get("name", "")), params.get("arguments")
            headers = plan.build(arguments) if plan is not None and isinstance(arguments, dict) else None
        named_by = _NAMED_BY.get(method)
        return Outgoing(data, method, id, params, headers, lambda: id not in self._pending, named_by=named_by)

    async def _post(self, message: Outgoing) -> None:
        assert message.id is not None
        try:
            await self._post_healing(message)
        except DragomanError as error:
            if self._pending.pop(message.id, None) is not None:
                received = self._receive(jsonrpc.encode_error(message.id, _rpc_error(error)))
                if received is not None:
                    await received
        finally:
            self._posts.pop(message.id, None)

    async def _post_healing(self, message: Outgoing) -> None:
        """Post a request; try the HTTP of 2024-11-05 if there is no other, and renew a session that has expired."""
        renewals = self._renewals
        try:
            await self._link.send(message)
        except HttpError as error:
            if message.method != "initialize" or error.status not in _FALLBACK_STATUSES or not self._endpoint.fallback:
                raise
            await self._link.close()
            self._link = self._endpoint.fallback()
            await self._link.open(self._received, self._lost)
            await self._link.send(message)
        except SessionExpired:
            if self._initialize is None or message.method == "initialize":
                raise
            await self._renew(renewals)
            await self._link.send(message)

    async def _renew(self, renewals: int) -> None:
        """Begin a new session with the `initialize` that the client has sent; its result is not passed on."""
        async with self._renewing:
            if self._renewals > renewals:
                return
            version = self._link.version
            await self._link.close()
            self._link = self._endpoint.link()
            await self._link.open(self._received, self._lost)
            params = _mapping(raw_object(self._initialize or b"").get("params"))
            data = jsonrpc.encode_request(_RENEWAL, "initialize", params)
            self._pending[_RENEWAL] = "initialize"
            await self._link.send(Outgoing(data, "initialize", _RENEWAL, params, None, self._is_renewed))
            self._link.version = version
            await self._link.send(
                Outgoing(jsonrpc.encode_notification("notifications/initialized"), "notifications/initialized")
            )
            self._link.open_standalone_stream()
            self._renewals += 1

    def _is_renewed(self) -> bool:
        return _RENEWAL not in self._pending

    async def _close_response(self, decoded: jsonrpc.Message) -> bool:
        """Cancel a stateless request by closing its response, as HTTP requires; return whether the version does so."""
        version = self._link.version
        if version is None or not version.cancels_by_closing or not isinstance(decoded, Notification):
            return False
        id = _mapping(decoded.params).get("requestId")
        post = self._posts.get(id) if isinstance(id, int | str) else None
        if post is not None and id is not None:
            self._pending.pop(id, None)
            await cancel_and_wait(post)
        return True

    def _lost(self, error: Exception | None) -> None:
        """Answer what waits, and report the end; over HTTP only a session has ended, which the next request renews."""
        if self._link.is_http:
            return
        lost = TransportError(f"The server has ended: {error or 'it closed the connection'}")
        for id in list(self._pending):
            del self._pending[id]
            self._receive(jsonrpc.encode_error(id, _rpc_error(lost)))
        self._closed(error)

    async def answered(self) -> None:
        """Wait until every request over HTTP has its answer, except subscriptions, which have none for hours."""
        while posts := [post for id, post in self._posts.items() if self._pending.get(id) != LISTEN]:
            await asyncio.wait(posts)

    def _received(self, data: bytes) -> Awaitable[None] | None:
        decoded = jsonrpc.decode(data, LIMITS)
        if isinstance(decoded, ResultResponse | ErrorResponse) and decoded.id is not None:
            method = self._pending.pop(decoded.id, None)
            if isinstance(decoded, ResultResponse) and method is not None:
                self._read_result(method, decoded)
            if decoded.id == _RENEWAL:
                return None
        return self._receive(data)

    def _read_result(self, method: str, response: ResultResponse) -> None:
        if method == "initialize":
            self._link.version = _BY_NAME.get(_mapping(response.result).get("protocolVersion", ""))
        elif method == "tools/list":
            self._plans |= listed_plans(response.result)


_RENEWAL = "dragoman-renewal"
"""The id of the `initialize` that renews a session."""


def _ignore(_: object) -> None:
    return


def _mapping(raw: msgspec.Raw | Any) -> dict[str, Any]:
    """Return encoded parameters or a result as a dict; an empty one if they are anything else."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def _version(params: dict[str, Any]) -> Version | None:
    meta = params.get("_meta")
    return _BY_NAME.get(str(meta.get(types.PROTOCOL_VERSION, ""))) if isinstance(meta, dict) else None


def _rpc_error(error: DragomanError) -> RpcError:
    if isinstance(error, RpcError):
        return error
    assert isinstance(error, TransportError)
    return RpcError.of(FAILURE_CODE, str(error))
