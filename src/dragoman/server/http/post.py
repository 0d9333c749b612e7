"""`PostService`: serves an HTTP POST, whose body is a request, a notification, a response or a batch of either era.

`protocol.inbound.receive_post` classifies a POST. A stateless request has no session, and neither has a request of the
handshake era if the server keeps no sessions. A request without a session runs in the task of its exchange; a stateless
request is cancelled if its client disconnects. A request in a session continues if the connection breaks. It runs in
the task of its exchange if that task outlives the connection, and otherwise in a task of its own. The response is JSON,
or an event stream if the handler sends a message first.

The server accepts a notification with status 202 before it runs the handler, so that the client does not wait. While
`MAX_ACCEPTED_AHEAD` messages are in flight, the server runs the handler first. Otherwise one client could start any
number of handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.errors import HeaderMismatch, InsufficientScope, InternalError, MethodNotFound, ParseError, TooLarge
from dragoman.protocol import jsonrpc, statuses
from dragoman.protocol.eras import McpRequest
from dragoman.protocol.headers import McpHeaders
from dragoman.protocol.inbound import (
    JSON,
    AcceptedTypes,
    Rejection,
    SessionMessages,
    receive_post,
)
from dragoman.protocol.peer import Event, PeerReply
from dragoman.runtime.tasks import SelfCancelTask, uncancelled
from dragoman.server.dispatch import runner
from dragoman.server.dispatch.opening import open_call, open_notification, opened_call, refused_call
from dragoman.server.http.channels import (
    STOPPED,
    CallsInFlight,
    NotificationChannel,
    ResponseChannel,
    ResumableChannel,
    SubscribedClient,
)
from dragoman.server.http.head import RequestHead
from dragoman.server.http.refusal import HttpRefusal, challenge
from dragoman.server.http.session import LiveSession, SessionData
from dragoman.server.http.sessions import SessionRegistry
from dragoman.server.request.call import NO_CHANNEL, Call, Channel, Session
from dragoman.server.request.http_request import SingleAuth, insufficient
from dragoman.transports.http.exchange import Exchange, Header, TooSlow

if TYPE_CHECKING:
    from dragoman.server.dispatch.dispatcher import Dispatcher

C = TypeVar("C", bound=Call | None)
MAX_ACCEPTED_AHEAD = 1000
"""While this many messages are in flight, the server accepts a notification only after its handler has run."""
NO_STREAMS_REMEDY = "serve it with server.asgi()"
_NO_SCOPES: frozenset[str] = frozenset()
_CLOSE = (b"connection", b"close")
_JSON_ONLY = AcceptedTypes(json=True, sse=False)
_arguments = msgspec.json.Decoder(types.Json | None)


class PostService:
    """Serves the POSTs to one server."""

    def __init__(
        self,
        server: Dispatcher,
        *,
        sessions: SessionRegistry | None,
        auth: SingleAuth | None,
        path: str,
        json_response: bool,
        max_subscriptions: int | None,
        can_stream: bool,
    ) -> None:
        self.in_flight = CallsInFlight()
        self.subscriptions: set[SubscribedClient] = set()
        self._server = server
        self._limits = server.limits
        self.sessions = sessions
        self._auth = auth
        self._path = path
        self.json_response = json_response
        self._max_subscriptions = max_subscriptions
        self._can_stream = can_stream

    async def serve(self, exchange: Exchange, head: RequestHead) -> None:
        """Serve a POST to its end.

        Raises:
            HttpRefusal: the POST is refused.
        """
        if head.body_refused is not None:
            raise HttpRefusal.of(head.body_refused)
        limit = self._limits.message_bytes
        try:
            body = await exchange.read(limit)
        except TooLarge:
            error = ParseError(f"A message must not have more than {limit} bytes")
            raise HttpRefusal(statuses.BODY_TOO_LARGE, error) from None
        except TooSlow as slow:
            raise HttpRefusal(statuses.BODY_TOO_SLOW, ParseError(str(slow)), headers=(_CLOSE,)) from None
        await self._serve_body(exchange, head, body)

    def _serve_body(self, exchange: Exchange, head: RequestHead, body: bytes) -> Coroutine[Any, Any, None]:
        received = receive_post(head.headers, body, self._server.offer, self._limits)
        if isinstance(received, McpRequest):
            call = self._call(opened_call, received, Session(principal=exchange.principal), exchange)
            self._require_callable(call, exchange, head.headers)
            return self.serve_request(call, exchange, head.acceptable)
        if isinstance(received, Rejection):
            message, session = received.request, Session(principal=exchange.principal)
            refused = partial(refused_call, received.error)
            raise HttpRefusal.of(received, message and self._call(refused, message, session, exchange))
        if isinstance(received, jsonrpc.Notification):
            return self._serve_notification(exchange, received, head.session(exchange.principal))
        if self.sessions is None:
            return self._serve_without_session(exchange, head, received)
        return self._serve_in_session(exchange, self.sessions, head, received)

    async def refuse(self, exchange: Exchange, refused: HttpRefusal, acceptable: AcceptedTypes) -> None:
        """Send the response of a refusal; middleware may replace it."""
        status, data = await self._refusal(refused)
        if status == refused.status:
            exchange.extra_headers += refused.headers
        # With status 200 the error is sent like any other response. With an HTTP error status it is a JSON body.
        await exchange.answer(status, data, json=acceptable.json or status != statuses.OK)

    async def _refusal(self, refused: HttpRefusal) -> tuple[int, bytes]:
        """Return the status and the body of a refusal; middleware may change them."""
        call = refused.call
        if call is None:
            id, error, place = refused.id, refused.error, refused.place
            return refused.status, runner.refusal(self._server, error, id, null_id=refused.null_id, place=place)
        call.rejection = runner.rpc_error(self._server, refused.error)
        data = await self.in_flight.run(call, runner.whole_answer(call))
        is_same = call.refusal is not None and call.refusal is call.rejection
        return refused.status if is_same else statuses.OK if call.refusal is None else statuses.handler_status(
            call.refusal
        ), data

    def _call(
        self,
        make: Callable[..., C],
        message: McpRequest | jsonrpc.Message,
        session: Session,
        exchange: Exchange,
        channel: Channel = NO_CHANNEL,
    ) -> C:
        """Return the call of a message, with the headers and the identity of its sender."""
        server, identity = self._server, exchange.identity
        context = server.server_context if exchange.server_context is None else exchange.server_context
        call = make(message, session, channel, server, context, exchange.loop)
        if call is not None:
            call.headers, call.remote = exchange.headers, exchange
            if exchange.record is not None:
                exchange.record.requests.append(call.request)
            if identity is None:
                call.scopes = _NO_SCOPES
            else:
                call.scopes, call.claims = identity.scopes, identity.claims
        return call

    def _require_callable(self, call: Call, exchange: Exchange, headers: McpHeaders | None = None) -> None:
        """Check a call before it runs: whether it was opened, and the scopes and `Mcp-Param-*` headers of a tool call.

        Raises:
            HttpRefusal: the request cannot be opened, the client lacks a scope of the tool, or an `Mcp-Param-*` header
                differs from its argument.
        """
        request = call.request
        if call.rejection is not None:
            raise HttpRefusal(statuses.OK, call.rejection, call)
        tool = self._server.registry.tools.get(request.params.name) if request.method.name == "tools/call" else None
        if tool is None and self._server.mounts is not None and request.method.name == "tools/call":
            tool = self._server.mounts.find("tools", request.params.name)
        if tool is None:
            return
        if call.scopes is not None and not call.scopes.issuperset(tool.scopes):
            challenged = (self._challenge(exchange, tool.scopes),)
            raise HttpRefusal(statuses.SCOPE_MISSING, InsufficientScope(tool.scopes), call, headers=challenged)
        if headers is None or not tool.mirrored.params:
            return
        raw = request.params.arguments
        try:
            tool.mirrored.check({} if raw is UNSET else _arguments.decode(raw) or {}, headers.params)
        except msgspec.DecodeError:
            return  # the tool refuses arguments that are not an object
        except HeaderMismatch as error:
            raise HttpRefusal(statuses.MALFORMED, error, call) from None

    def _challenge(self, exchange: Exchange, scopes: Iterable[str]) -> Header:
        return challenge(insufficient(self._auth, exchange.identity, scopes, exchange.scope, self._path))

    def _status(self, call: Call, exchange: Exchange | None) -> int:
        """Return the status of a request that was refused or cancelled; add a challenge if a scope is missing."""
        if isinstance(call.refusal, InsufficientScope):
            if exchange is not None:
                exchange.extra_headers += (self._challenge(exchange, call.refusal.scopes),)
            return statuses.SCOPE_MISSING
        if call.refusal is None:
            return statuses.CLIENT_CLOSED
        return statuses.handler_status(call.refusal, is_stateless=call.request.caller.version.stateless)

    # Requests without a session

    async def serve_request(self, call: Call, exchange: Exchange, acceptable: AcceptedTypes) -> None:
        """Serve a request without a session."""
        if not self._can_stream:
            acceptable = _require_no_stream(call, acceptable)
        version = call.request.caller.version
        exchange.may_stream = can_stream = acceptable.sse and (version.stateless or not self.json_response)
        if call.request.method.name == "subscriptions/listen":
            self._require_listening(call, can_stream=can_stream)
        call.channel = channel = ResponseChannel(self._server, self.subscriptions, exchange)
        channel.lacks_standalone_stream = not (self._can_stream and version.listens)
        call.task = exchange.task
        if version.cancels_by_closing:
            exchange.on_gone = call.cancel
        self.in_flight.add(call)
        try:
            data: Any = runner.run(call)
            if type(data) is CoroutineType:
                data = await data
            status = statuses.OK if data and call.refusal is None else self._status(call, exchange)
            waiting = channel.take() if channel.was_used else b""
            await exchange.answer(status, data, json=acceptable.json, after=waiting)
        finally:
            exchange.on_gone = None
            try:
                if channel.was_used:
                    await channel.close()
            finally:
                if call.dependencies is None:
                    self.in_flight.discard(call)
                else:
                    await self.in_flight.end(call)

    def _require_listening(self, call: Call, *, can_stream: bool) -> None:
        if not can_stream:
            raise HttpRefusal(statuses.NOT_ACCEPTABLE, "The Accept header must admit text/event-stream", call)
        if self._max_subscriptions is not None and len(self.subscriptions) >= self._max_subscriptions:
            error = InternalError("There are too many subscriptions; try again later")
            raise HttpRefusal(statuses.UNAVAILABLE, error, call)

    async def _serve_without_session(self, exchange: Exchange, head: RequestHead, received: SessionMessages) -> None:
        """Serve a message of the handshake era on a server that keeps no sessions."""
        message = received.messages[0]
        if received.batch:
            raise HttpRefusal(statuses.MALFORMED, "Batches need a session, and this server keeps none")
        # `initialize` negotiates the version of its result. The header of that request, if any, says nothing about it.
        session = Session(principal=exchange.principal) if received.is_initialize else head.session(exchange.principal)
        if isinstance(message, jsonrpc.Request):
            call = self._call(open_call, message, session, exchange)
            self._require_callable(call, exchange)
            await self.serve_request(call, exchange, head.acceptable)
        else:
            await self._serve_notification(exchange, message, session)

    # Messages without a response

    async def _serve_notification(
        self, exchange: Exchange, message: jsonrpc.Message, session: Session, channel: Channel = NO_CHANNEL
    ) -> None:
        """Accept a notification or a response with status 202, and run the handler of a notification, if any."""
        call = self._notification_call(exchange, message, session, channel)
        if call is None or len(self.in_flight) < MAX_ACCEPTED_AHEAD:
            await exchange.reply(statuses.ACCEPTED)
        if call is not None:
            await self.in_flight.run(call, runner.run_notification(call))
            await exchange.reply(statuses.ACCEPTED)

    def _notification_call(
        self, exchange: Exchange, message: jsonrpc.Message, session: Session, channel: Channel
    ) -> Call | None:
        is_notification = isinstance(message, jsonrpc.Notification)
        return self._call(open_notification, message, session, exchange, channel) if is_notification else None

    # Messages in sessions

    async def _serve_in_session(
        self, exchange: Exchange, sessions: SessionRegistry, head: RequestHead, received: SessionMessages
    ) -> None:
        headers, message, principal = head.headers, received.messages[0], exchange.principal
        try:
            if headers.repeated is not None:
                raise HttpRefusal.repeated(headers.repeated)
            if received.is_initialize and isinstance(message, jsonrpc.Request):
                await sessions.refuse_initialized(headers.session_id, principal, exchange.address)
                await self._begin_session(exchange, sessions, message, head)
                return
            session = sessions.find_local(headers.session_id, principal)
            if session is None:
                session = await sessions.find(headers.session_id, principal, exchange.address)
            if head.origin:
                session.require_origin(head.origin)
        except HttpRefusal as refused:
            if isinstance(message, jsonrpc.Request) and not received.batch:
                open = partial(refused_call, refused.error)
                refused.call = self._call(open, message, head.session(principal), exchange)
            raise
        if received.batch:
            await self._serve_batch(exchange, session, received.messages, head.acceptable)
        elif isinstance(message, jsonrpc.Request):
            await self._serve_session_request(exchange, session, message, head.acceptable)
        else:
            session.receive(session.peer.accept(message))
            await self._serve_notification(exchange, message, session.data, NotificationChannel(session))

    async def _begin_session(
        self, exchange: Exchange, sessions: SessionRegistry, message: jsonrpc.Request, head: RequestHead
    ) -> None:
        data = SessionData(principal=exchange.principal)
        data.origin = head.origin
        response = await self._response_without_stream(exchange, message, data, {})
        if data.caller is not None:
            exchange.extra_headers += ((b"mcp-session-id", sessions.begin(data, exchange.address).encode()),)
        await exchange.answer(statuses.OK, response, json=head.acceptable.json)

    async def _serve_batch(
        self, exchange: Exchange, session: LiveSession, messages: list[jsonrpc.Message], acceptable: AcceptedTypes
    ) -> None:
        """Serve a batch (2025-03-26): its requests run concurrently, and the response is one JSON array."""
        if session.data.caller is None or not session.data.caller.version.batches:
            raise HttpRefusal(statuses.MALFORMED, "This protocol version has no batches")
        events = session.peer.accept_batch(messages)
        answers = await asyncio.gather(*(self._serve_in_batch(exchange, session, event) for event in events))
        await session.share_changes()
        whole = next(filter(None, answers), None)
        await (
            exchange.reply(statuses.ACCEPTED)
            if whole is None
            else exchange.answer(statuses.OK, whole, json=acceptable.json)
        )

    async def _serve_in_batch(self, exchange: Exchange, session: LiveSession, event: Event) -> bytes | None:
        """Serve a message of a batch; return the response of the whole batch if this message completes it."""
        if isinstance(event, jsonrpc.Request):
            data = None
            try:
                data = await self._response_without_stream(exchange, event, session.data, session.running) or None
            finally:
                whole = session.peer.finish(event.id, data)
            return whole
        session.receive(event)  # the earlier requests of the batch have started, and this message may cancel them
        if isinstance(event, jsonrpc.Notification):
            call = self._notification_call(exchange, event, session.data, NotificationChannel(session))
            if call is not None:
                await self.in_flight.run(call, runner.run_notification(call))
        return event.data if isinstance(event, PeerReply) else None

    async def _response_without_stream(
        self, exchange: Exchange, message: jsonrpc.Request, session: Session, running: dict[types.RequestId, Call]
    ) -> bytes:
        """Return the response to a request that has no stream: `initialize`, or a request in a batch."""
        call = running[message.id] = self._call(open_call, message, session, exchange)
        try:
            return await self.in_flight.run(call, runner.whole_answer(call))
        finally:
            del running[message.id]

    async def _serve_session_request(
        self, exchange: Exchange, session: LiveSession, message: jsonrpc.Request, acceptable: AcceptedTypes
    ) -> None:
        if (in_use := session.peer.refuse_id(message.id)) is not None:
            raise HttpRefusal(statuses.ID_IN_USE, in_use, id=message.id)
        call = self._call(open_call, message, session.data, exchange)
        self._require_callable(call, exchange)
        exchange.may_stream = acceptable.sse and not self.json_response
        call.channel = channel = ResumableChannel(session, exchange, message.id, can_stream=exchange.may_stream)
        session.peer.accept(message)
        session.running[message.id] = call
        self.in_flight.add(call)
        serving = self.run_in_session(session, call, channel, runner.whole_answer(call), json=acceptable.json)
        if exchange.lasts:
            call.task = exchange.task
            await serving
            return
        reader = channel.open().reader
        call.task = SelfCancelTask(serving, loop=exchange.loop)
        try:
            if reader is not None:
                await reader.wait_released()
        except asyncio.CancelledError:
            if not exchange.is_ending or not uncancelled():
                raise
            # The HTTP server shuts down and cancels the exchange.
            call.stop(STOPPED)
            await channel.stop(runner.stopped(call, STOPPED))
        if reader is not None:
            await reader.end()

    async def run_in_session(
        self, session: LiveSession, call: Call, channel: ResumableChannel, answer: Awaitable[bytes], *, json: bool
    ) -> None:
        """Wait for the answer to a call in a session, and send it."""
        assert self.sessions is not None
        status, data = statuses.OK, b""
        try:
            try:
                data = await answer
                if session.data.unshared:
                    await session.share_changes()
            finally:
                del session.running[call.request.id]
                data = session.peer.finish(call.request.id, data) or b""
                self.sessions.touch(session)
            status = statuses.OK if data and call.refusal is None else self._status(call, channel.reader)
            await channel.answer(status, data, json=json)
        finally:
            channel.close()
            if call.dependencies is None:
                self.in_flight.discard(call)
            else:
                await self.in_flight.end(call)


def _require_no_stream(call: Call, acceptable: AcceptedTypes) -> AcceptedTypes:
    """Refuse a request that needs a stream, on a service that cannot stream; return the types of the response."""
    if call.request.method.name == "subscriptions/listen":
        error = MethodNotFound(f"subscriptions/listen is not served here: there are no streams; {NO_STREAMS_REMEDY}")
        raise HttpRefusal(statuses.NOT_FOUND, error, call)
    if not acceptable.json:
        reason = f"The Accept header must admit {JSON} here: there are no streams; {NO_STREAMS_REMEDY}"
        raise HttpRefusal(statuses.NOT_ACCEPTABLE, reason, call)
    return _JSON_ONLY
