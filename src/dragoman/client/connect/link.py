"""The ways to a server, as a connection sees them.

A link carries messages out and gives those that come back to `receive`. Over a duplex link a message is sent when
`send` returns, and its answer comes whenever it comes. Over HTTP (`http.py`) the answer comes back on the exchange of
its request, so that `send` returns when the request is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.errors import ConnectError, DragomanError, TransportError
from dragoman.protocol.versions import Version
from dragoman.runtime.callables import invoke
from dragoman.transports.contract import Receive, Transport


class Outgoing(Struct):
    """A message on its way to the server."""

    data: bytes
    method: str | None = None
    """None for an answer."""
    id: types.RequestId | None = None
    """None for what is not answered."""
    params: Mapping[str, Any] | None = None
    """Of a request."""
    headers: Mapping[str, str] | None = None
    """For this message alone, where there are headers."""
    answered: Callable[[], bool] | None = None
    """Tells whether the request has its answer."""
    standstill: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while somebody else is waited for, such as a user who logs in: the clocks of requests stand still."""
    named_by: str | None = None
    """The parameter that says what the request is about, if one does."""

    @property
    def name(self) -> str | None:
        """What the request is about: the name of a tool or prompt, or the URI of a resource."""
        return None if self.named_by is None or self.params is None else self.params.get(self.named_by)


class Link(Protocol):
    """A way to a server."""

    version: Version | None
    """What was agreed on, or is being tried; None while nothing is known."""
    is_http: bool

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Make ready; `closed` is called once if it ends by itself."""

    async def send(self, message: Outgoing) -> None:
        """Send a message.

        Raises:
            ConnectError: it was not sent.
            TransportError: it may have been sent, but there will be no answer.
        """

    def settle(self) -> None:
        """Do what begins when both sides have agreed on a version."""

    async def close(self) -> None:
        """End the link."""


class DuplexLink:
    """A link over a transport that carries messages both ways.

    Whatever a transport raises that is no error of ours becomes one, so that those who call need not know it.
    """

    is_http = False

    def __init__(self, transport: Transport) -> None:
        self.version: Version | None = None
        self.transport = transport

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Open the transport."""
        try:
            await self.transport.open(receive, closed)
        except Exception as error:
            _raise(error, ConnectError, "The transport cannot be opened")

    async def send(self, message: Outgoing) -> None:
        """Send a message; its answer comes later."""
        try:
            await self.transport.send(message.data)
        except Exception as error:
            _raise(error, TransportError, "The transport failed to send")

    def settle(self) -> None:
        """Do nothing: what the server says comes anyway."""

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()


class SendsRequests(Protocol):
    """A transport of one method, plain or async, that takes a request as a dict and returns the response as one."""

    def send_request(self, request: types.Json, /) -> types.Json | Awaitable[types.Json]:
        """Send a request, and return the response."""


class OneMethodLink:
    """A link over an object with nothing but `send_request(request) -> response`, plain or async.

    Notifications go to its `send_notification`, if it has one; the server cannot say anything by itself.
    """

    is_http = False

    def __init__(self, transport: SendsRequests) -> None:
        self.version: Version | None = None
        self.transport = transport
        self._receive: Receive | None = None

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:  # noqa: ARG002
        """Let the transport connect, if it knows how to."""
        try:
            await self._call("connect")
        except Exception as error:
            _raise(error, ConnectError, "The transport cannot connect")
        self._receive = receive

    async def send(self, message: Outgoing) -> None:
        """Let the transport send a request, and receive what it returns."""
        if self._receive is None:
            raise ConnectError("The transport is closed")
        method = "send_notification" if message.id is None else "send_request"
        try:
            response = await self._call(method, msgspec.json.decode(message.data))
        except Exception as error:
            _raise(error, TransportError, f"{method} failed")
        if message.id is not None and self._receive is not None:
            self._answer(message, response, self._receive)

    def _answer(self, message: Outgoing, response: Any, receive: Receive) -> None:
        if not isinstance(response, Mapping):
            raise TransportError(f"send_request must return a response as a dict, not {response!r}")
        if "result" not in response and "error" not in response:
            raise TransportError(f"send_request must return a dict with a result or an error, not {response!r}")
        try:
            # Whatever id it names: it came back from the call that made the request.
            data = msgspec.json.encode({**response, "jsonrpc": "2.0", "id": message.id})
        except (TypeError, ValueError) as error:
            raise TransportError(f"send_request must return what can be JSON: {error}") from None
        receive(data)

    async def _call(self, name: str, *given: Any) -> Any:
        method = getattr(self.transport, name, None)
        return None if method is None else await invoke(method, *given)

    def settle(self) -> None:
        """Do nothing: the server cannot say anything by itself."""

    async def close(self) -> None:
        """Let the transport close, if it knows how to."""
        self._receive = None
        await self._call("close")


def _raise(error: Exception, kind: type[TransportError], what: str) -> NoReturn:
    """Raise an error as it is if it is one of ours, and else as one of ours."""
    if isinstance(error, DragomanError):
        raise error
    raise kind(f"{what}: {str(error) or type(error).__name__}") from error
