"""Links: how a connection sends messages to a server and receives messages from it.

A link sends messages and passes those that come back to `receive`. Over a duplex link, `send` returns when the message
is sent, and the answer is received later. Over HTTP (`http.py`), the answer comes in the response to the POST, so
`send` returns when the request is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NoReturn, Protocol

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.errors import ConnectError, DragomanError, TransportError
from dragoman.protocol.versions import Version
from dragoman.runtime.callables import invoke
from dragoman.transports.contract import Receive, Transport


class Outgoing(Struct):
    """A message to the server."""

    data: bytes
    method: str | None = None
    """None for an answer of the client."""
    id: types.RequestId | None = None
    """None for a notification or an answer."""
    params: Mapping[str, Any] | None = None
    """The parameters of a request."""
    headers: Mapping[str, str] | None = None
    """HTTP headers of this message alone."""
    answered: Callable[[], bool] | None = None
    """Returns whether the request has its answer."""
    paused_clocks: Callable[[], AbstractContextManager[None]] = nullcontext
    """Returns a context manager that pauses the time-outs of all requests; entered while a person logs in."""
    named_by: str | None = None
    """The parameter that names the tool, prompt or resource of the request."""

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt, or the URI of the resource, that the request is about."""
        return None if self.named_by is None or self.params is None else self.params.get(self.named_by)


class Link(Protocol):
    """The contract of a link; the defaults are those of a link without HTTP."""

    version: Version | None = None
    """The version in use, or the one that a probe tries; None before the probe."""
    is_http: bool = False
    session_id: str | None = None
    """The id of the session, if the server gave one."""
    carrier: Literal["stdio", "http"] | None = None
    """What carries the messages; None for another transport."""
    address: str | None = None
    """The URL of the server, without secrets; None if the link is not over HTTP."""
    on_reopened: Callable[[], None] | None = None
    """Called when the standalone stream is open again, perhaps because the server was restarted."""

    @property
    def stderr_tail(self) -> str:
        """The end of what the program of the server wrote to stderr, if the link has started one."""
        return ""

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the link; `closed` is called once if the link ends by itself."""

    async def send(self, message: Outgoing) -> None:
        """Send a message.

        Raises:
            ConnectError: the message was not sent.
            TransportError: the message may have been sent, but there will be no answer.
        """

    def open_standalone_stream(self) -> None:
        """Receive messages that belong to no request; called when both sides have agreed on a version."""
        return

    async def close(self) -> None:
        """Close the link."""


class DuplexLink(Link):
    """A link over a transport that carries messages both ways.

    Exceptions of the transport become errors of this package, so callers need not know the transport.
    """

    def __init__(self, transport: Transport, carrier: Literal["stdio", "http"] | None = None) -> None:
        self.transport = transport
        self.carrier = carrier
        self.on_closed: Callable[[Exception | None], None] | None = None
        """Called when the transport ends by itself."""

    @property
    def stderr_tail(self) -> str:
        """The end of what the program wrote to stderr; empty for a transport without a program."""
        return getattr(self.transport, "stderr_tail", "")

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the transport."""
        self.on_closed = closed
        try:
            await self.transport.open(receive, self._on_closed)
        except Exception as error:
            _raise(error, ConnectError, "The transport cannot be opened")

    async def send(self, message: Outgoing) -> None:
        """Send a message; its answer comes later."""
        try:
            await self.transport.send(message.data)
        except Exception as error:
            _raise(error, TransportError, "The transport failed to send")

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    def _on_closed(self, error: Exception | None) -> None:
        if self.on_closed is not None:
            self.on_closed(error)


class SendsRequests(Protocol):
    """A transport of one method, plain or async, that takes a request as a dict and returns the response as one."""

    def send_request(self, request: types.Json, /) -> types.Json | Awaitable[types.Json]:
        """Send a request, and return the response."""


class OneMethodLink(Link):
    """A link over an object with the one method `send_request(request) -> response`, plain or async.

    Notifications go to the object's `send_notification`, if it has that method. The server cannot send requests or
    notifications.
    """

    def __init__(self, transport: SendsRequests) -> None:
        self.transport = transport
        self._receive: Receive | None = None

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        """Call `connect` of the transport, if it has that method."""
        try:
            await self._call("connect")
        except Exception as error:
            _raise(error, ConnectError, "The transport cannot connect")
        self._receive = receive

    async def send(self, message: Outgoing) -> None:
        """Send a request, and receive the response that the transport returns."""
        if self._receive is None:
            raise ConnectError("The transport is closed")
        method = "send_notification" if message.id is None else "send_request"
        try:
            response = await self._call(method, msgspec.json.decode(message.data))
        except Exception as error:
            _raise(error, TransportError, f"{method} failed")
        if message.id is not None and self._receive is not None:
            self._receive(_encoded_response(message, response))

    async def _call(self, name: str, *args: Any) -> Any:
        method = getattr(self.transport, name, None)
        return None if method is None else await invoke(method, *args)

    async def close(self) -> None:
        """Call `close` of the transport, if it has that method."""
        self._receive = None
        await self._call("close")


def _encoded_response(message: Outgoing, response: Any) -> bytes:
    if not isinstance(response, Mapping):
        raise TransportError(f"send_request must return a response as a dict, not {response!r}")
    if "result" not in response and "error" not in response:
        raise TransportError(f"send_request must return a dict with a result or an error, not {response!r}")
    try:
        # The response may have any id: the call of `send_request` ties it to its request.
        return msgspec.json.encode({**response, "jsonrpc": "2.0", "id": message.id})
    except (TypeError, ValueError) as error:
        raise TransportError(f"send_request must return what can be JSON: {error}") from None


def _raise(error: Exception, kind: type[TransportError], what: str) -> NoReturn:
    """Raise an error of this package unchanged; wrap any other exception in an error of this package."""
    if isinstance(error, DragomanError):
        raise error
    raise kind(f"{what}: {str(error) or type(error).__name__}") from error
