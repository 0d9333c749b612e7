"""A server over Streamable HTTP.

A POST is judged by `protocol.exchange`, served as any other call, and answered as JSON, or as an event stream once the
handler says something on the way. A stateless request runs in the task of its exchange, and is cancelled when its
client goes away. A request of the handshake era belongs to a session and is not ended by a broken connection: it runs
in the task of its exchange if that lasts, and else in one of its own. Without sessions such a request stands alone too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman import types
from dragoman.auth.server.bearer import FORBIDDEN
from dragoman.auth.server.identity import Denial
from dragoman.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidRequest,
    ParseError,
    RpcError,
    TooLarge,
    UnsupportedVersion,
)
from dragoman.protocol import eras, headers, jsonrpc, sse
from dragoman.protocol.exchange import (
    ACCEPTED,
    BAD_REQUEST,
    NOT_ACCEPTABLE,
    OK,
    Acceptable,
    InSession,
    Rejection,
    acceptable,
    handler_status,
    receive,
)
from dragoman.protocol.peer import Event, PeerReply
from dragoman.protocol.versions import find_version, version_names
from dragoman.runtime.tasks import SelfCancelTask, uncancelled
from dragoman.server.dispatch.runner import refusal, run, run_refused, stopped, whole_answer
from dragoman.server.http.guard import Guard
from dragoman.server.http.head import HeadReader, RequestHead, caller_of
from dragoman.server.http.in_flight import STOPPED, CallsInFlight, answer_stopped
from dragoman.server.http.notices import HttpNotices
from dragoman.server.http.replies import HttpRefusal, answer, challenge, refuse_repeated, settle
from dragoman.server.http.response import ListenStream, PostChannel
from dragoman.server.http.session import HttpSession, SessionAside, SessionChannel, SharedSession
from dragoman.server.http.sessions import Sessions
from dragoman.server.http.streams import part
from dragoman.server.http.workers import Workers
from dragoman.server.request.call import SILENCE, Call, Channel, Session
from dragoman.server.request.http_request import Auth, insufficient, verify
from dragoman.transports.http.exchange import (
    CLIENT_CLOSED,
    JSON_HEADERS,
    Exchange,
    Gone,
    Header,
    TooSlow,
)

if TYPE_CHECKING:
    from dragoman.server.server import Server

_CLOSE = (b"connection", b"close")
NO_CONTENT, METHOD_NOT_ALLOWED, REQUEST_TIMEOUT = 204, 405, 408
CONFLICT, TOO_LARGE, INTERNAL_ERROR, UNAVAILABLE = 409, 413, 500, 503
_JSON = Acceptable(json=True, sse=False)
_arguments = msgspec.json.Decoder(types.Json | None)
CLOSE_SECONDS = 5.0


class HttpService:
    """Serves the exchanges of one server."""

    _serves_listeners = True
    _lacks = ""
    """Why a method of HTTP is not served, to be said of it."""

    def __init__(
        self,
        server: Server,
        *,
        guard: Guard | None = None,
        workers: Workers | None = None,
        sessions: Sessions | None = None,
        json_response: bool = False,
        auth: Auth | None = None,
        path: str = "/mcp",
        max_subscriptions: int | None = None,
    ) -> None:
        self._server = server
        self._entrance = HeadReader(guard or Guard())
        self._workers = workers or (Workers(server) if sessions is None else sessions.workers)
        self._sessions = sessions
        self._auth = auth
        self._path = path
        self._max_subscriptions = max_subscriptions
        self._json_response = json_response
        self._limits = server.limits
        self._listeners: set[ListenStream] = set()
        self._serving = CallsInFlight()
        self._notices = HttpNotices(server, self._serving, self._call)

    async def serve(self, exchange: Exchange) -> None:
        """Serve one exchange to its end."""
        admission = self._entrance.admit(exchange)
        exchange.extra_headers = admission.grants
        is_open = exchange.method == "POST" and self._auth is None and admission.barred is None
        try:
            must_wait = not is_open or self._workers.needs_to_join(exchange.loop)
            if must_wait and not await self._let_in(exchange, admission):
                return
            request = await self._receive_post(exchange, admission)
            if request is not None:
                await self._serve_request(exchange, request, admission.taken)
        except HttpRefusal as refused:
            await self._reject(exchange, refused, admission.taken)
        except Gone:
            raise
        except Exception as error:
            failed = HttpRefusal(INTERNAL_ERROR, error, place="a service of HTTP")
            await self._reject(exchange, failed, admission.taken)

    async def _let_in(self, exchange: Exchange, admission: RequestHead) -> bool:
        """Tell whether there is a POST to read; what is none is served before this returns.

        Raises:
            HttpRefusal: the client, or the page that it is, may not come in.
        """
        if admission.barred is not None:
            raise HttpRefusal.of(admission.barred)
        if admission.grants and exchange.method == "OPTIONS":
            await exchange.reply(NO_CONTENT)
            return False
        if self._workers.needs_to_join(exchange.loop):
            await self._workers.join()
        if self._auth is not None:
            await self._verify(exchange, self._auth)
        if exchange.method == "POST":
            return True
        await self._serve_other(exchange, admission)
        return False

    async def _serve_other(self, exchange: Exchange, admission: RequestHead) -> None:
        match exchange.method, self._sessions:
            case "GET", Sessions() as sessions:
                await self._serve_stream(
                    exchange, await self._session_of(exchange, sessions, admission), admission.sent
                )
            case "DELETE", Sessions() as sessions:
                await self._session_of(exchange, sessions, admission)
                await sessions.end(admission.sent.session_id, exchange.principal, exchange.address)
                await exchange.reply(OK)
            case _:
                allowed = b"POST" if self._sessions is None else b"GET, POST, DELETE"
                error = InvalidRequest(f"{exchange.method} is not served here{self._lacks}")
                raise HttpRefusal(METHOD_NOT_ALLOWED, error, headers=((b"allow", allowed),))

    async def _session_of(self, exchange: Exchange, sessions: Sessions, admission: RequestHead) -> HttpSession:
        """Return the session of what has no body.

        Raises:
            HttpRefusal: its headers cannot be served, or name no session of this client.
        """
        sent = admission.sent
        if sent.repeated is not None:
            refuse_repeated(sent.repeated)
        versions = self._server.offer.versions
        if sent.protocol_version is not None and find_version(sent.protocol_version) not in versions:
            raise HttpRefusal(BAD_REQUEST, UnsupportedVersion(sent.protocol_version, version_names(versions)))
        session = await sessions.find(sent.session_id, exchange.principal, exchange.address)
        session.require_origin(admission.origin)
        return session

    async def _verify(self, exchange: Exchange, auth: Auth) -> None:
        """Find out by the author's check who a client is; the body is not read before.

        Raises:
            HttpRefusal: it does not let the client in, or failed.
        """
        try:
            found = await verify(auth, exchange.scope, self._path)
        except Exception as error:
            raise HttpRefusal(INTERNAL_ERROR, error, place="auth") from None
        if isinstance(found, Denial):
            raise HttpRefusal(found.status, InvalidRequest(found.reason), headers=(challenge(found),))
        exchange.principal, exchange.identity = found.principal, found

    async def _receive_post(self, exchange: Exchange, admission: RequestHead) -> eras.McpRequest | None:
        """Return a request that stands alone; what is none is served before this returns.

        Raises:
            HttpRefusal: it cannot be served.
        """
        if admission.unreadable is not None:
            raise HttpRefusal.of(admission.unreadable)
        limit = self._limits.message_bytes
        try:
            body = exchange.complete_body(limit) or await exchange.read(limit)
        except TooLarge:
            raise HttpRefusal(TOO_LARGE, ParseError(f"A message must not have more than {limit} bytes")) from None
        except TooSlow as error:
            raise HttpRefusal(REQUEST_TIMEOUT, ParseError(str(error)), headers=(_CLOSE,)) from None
        received = receive(admission.sent, body, self._server.offer, self._limits)
        if isinstance(received, eras.McpRequest):
            self._require_callable(exchange, received, admission.sent)
            return received
        if isinstance(received, Rejection):
            raise HttpRefusal.of(received)
        if isinstance(received, InSession):
            await self._serve_in_session(exchange, admission, received)
        else:
            data = Session(caller_of(admission.sent), principal=exchange.principal)
            await self._notices.serve(exchange, received, data)
        return None

    async def _reject(self, exchange: Exchange, refused: HttpRefusal, taken: Acceptable) -> None:
        status, data = await self._refusal(exchange, refused)
        if status == refused.status:
            exchange.extra_headers += refused.headers
        # An error of the protocol's own comes as any other answer does; one of HTTP has a body.
        await answer(exchange, taken if status == OK else _JSON, status, data)

    async def _refusal(self, exchange: Exchange, refused: HttpRefusal) -> tuple[int, Any]:
        """Return the status and the answer of what is refused before it is served; middleware may answer otherwise."""
        server, request, error = self._server, refused.request, refused.error
        if request is None or server.around is None:
            return refused.status, refusal(server, error, refused.id, null_id=refused.null_id, place=refused.place)
        session = refused.session or Session(principal=exchange.principal)
        if isinstance(request, jsonrpc.Request):
            request = eras.unopened(request, server.offer, session.caller)
        call = self._call(request, session, exchange)
        call.task = exchange.task
        self._serving.add(call)
        try:
            data = await run_refused(call, error)
        finally:
            self._serving.discard(call)
        is_same = call.refusal is not None and call.refusal is call.refused
        return refused.status if is_same else OK if call.refusal is None else handler_status(call.refusal), data

    def _open(self, message: jsonrpc.Request, session: Session) -> eras.McpRequest:
        """Return a request of the handshake era.

        Raises:
            HttpRefusal: it cannot be served.
        """
        try:
            return eras.open(message, self._server.offer, session.caller)
        except RpcError as error:
            raise HttpRefusal(OK, error, message, session=session) from None

    async def _serve_stream(self, exchange: Exchange, session: HttpSession, sent: headers.McpHeaders) -> None:
        """Let a client read what belongs to no request, or take up a stream that broke."""
        if not acceptable(sent.accept).sse:
            raise HttpRefusal(NOT_ACCEPTABLE, InvalidRequest("The Accept header must admit text/event-stream"))
        if sent.last_event_id is None:
            stream, after = session.standalone(), None
        else:
            stream, after = session.resumed(sent.last_event_id)
        let_go = exchange.loop.create_future()
        stream.attach(exchange, after, let_go=let_go)
        exchange.on_ending = session.let_go
        await exchange.stream(b"")
        await stream.flush()
        await let_go
        await exchange.stream(b"", last=True)

    def _require_callable(
        self,
        exchange: Exchange,
        request: eras.McpRequest,
        sent: headers.McpHeaders | None = None,
        session: Session | None = None,
    ) -> None:
        """Refuse a tool call before anything else is done for it.

        Raises:
            HttpRefusal: whoever asks lacks a scope of the tool, or an `Mcp-Param-*` header differs from its argument.
        """
        tool = self._server.registry.tools.get(request.params.name) if request.method.name == "tools/call" else None
        if tool is None:
            return
        if exchange.identity is not None and not exchange.identity.scopes.issuperset(tool.scopes):
            challenged = (self._challenge(exchange, tool.scopes),)
            raise HttpRefusal(FORBIDDEN, InsufficientScope(tool.scopes), request, session=session, headers=challenged)
        if sent is None or not tool.mirrored.params:
            return
        raw = request.params.arguments
        try:
            tool.mirrored.check({} if raw is UNSET else _arguments.decode(raw) or {}, sent.params)
        except msgspec.DecodeError:
            return  # arguments that are no object are refused by the tool
        except HeaderMismatch as error:
            raise HttpRefusal(BAD_REQUEST, error, request) from None

    def _challenge(self, exchange: Exchange, scopes: Iterable[str]) -> Header:
        return challenge(insufficient(self._auth, scopes, exchange.scope, self._path))

    async def _serve_alone(
        self, exchange: Exchange, sent: headers.McpHeaders, messages: InSession, taken: Acceptable
    ) -> None:
        """Serve a message of the handshake era that has no session to belong to."""
        message = messages.messages[0]
        if messages.batch:
            raise HttpRefusal(BAD_REQUEST, InvalidRequest("Batches need a session, and this server keeps none"))
        if not isinstance(message, jsonrpc.Request):
            await self._notices.serve(exchange, message, Session(caller_of(sent), principal=exchange.principal))
            return
        request = self._open(message, Session(caller_of(sent), principal=exchange.principal))
        self._require_callable(exchange, request)
        await self._serve_request(exchange, request, taken)

    async def _serve_in_session(self, exchange: Exchange, admission: RequestHead, messages: InSession) -> None:
        sessions, sent, taken = self._sessions, admission.sent, admission.taken
        if sessions is None:
            await self._serve_alone(exchange, sent, messages, taken)
            return
        message, principal = messages.messages[0], exchange.principal
        try:
            if sent.repeated is not None:
                refuse_repeated(sent.repeated)
            if messages.is_initialize and isinstance(message, jsonrpc.Request):
                await sessions.refuse_second(sent.session_id, principal, exchange.address)
                await self._begin_session(exchange, sessions, message, admission)
                return
            session = sessions.find_here(sent.session_id, principal)
            if session is None:
                session = await sessions.find(sent.session_id, principal, exchange.address)
            if admission.origin:
                session.require_origin(admission.origin)
        except HttpRefusal as refused:
            if isinstance(message, jsonrpc.Request) and not messages.batch:
                refused.id, refused.request = message.id, message
                refused.session = Session(caller_of(sent), principal=principal)
            raise
        if messages.batch:
            await self._serve_batch(exchange, session, messages.messages, taken)
        elif isinstance(message, jsonrpc.Request):
            await self._serve_session_request(exchange, sessions, session, message, taken)
        else:
            session.take(session.peer.accept(message))
            await self._notices.serve(exchange, message, session.data, SessionAside(session))

    async def _begin_session(
        self, exchange: Exchange, sessions: Sessions, message: jsonrpc.Request, admission: RequestHead
    ) -> None:
        data = SharedSession(principal=exchange.principal)
        data.origin = admission.origin
        reply = await self._answer_alone(exchange, message, data, {})
        if data.caller is not None:
            exchange.extra_headers += ((b"mcp-session-id", sessions.begin(data, exchange.address).encode()),)
        await answer(exchange, admission.taken, OK, reply)

    async def _serve_batch(
        self, exchange: Exchange, session: HttpSession, messages: list[jsonrpc.Message], taken: Acceptable
    ) -> None:
        """Serve a batch (2025-03-26): its requests at once, answered by one JSON array."""
        if session.data.caller is None or not session.data.caller.version.batches:
            raise HttpRefusal(BAD_REQUEST, InvalidRequest("This protocol version has no batches"))
        events = session.peer.accept_batch(messages)
        answers = await asyncio.gather(*(self._serve_in_batch(exchange, session, event) for event in events))
        await self._share(session.data)
        whole = next(filter(None, answers), None)
        await (exchange.reply(ACCEPTED) if whole is None else answer(exchange, taken, OK, whole))

    async def _serve_in_batch(self, exchange: Exchange, session: HttpSession, event: Event) -> bytes | None:
        """Serve a part of a batch; return the answer to the whole batch if this part is the last."""
        if isinstance(event, jsonrpc.Request):
            data = None
            try:
                data = await self._answer_alone(exchange, event, session.data, session.running) or None
            finally:
                whole = session.peer.finish(event.id, data)
            return whole
        session.take(event)  # when the requests before it run, which it may cancel
        if isinstance(event, jsonrpc.Notification):
            call = self._notices.begin(exchange, event, session.data, SessionAside(session))
            if call is not None:
                await self._notices.run(call)
        return event.data if isinstance(event, PeerReply) else None

    async def _serve_session_request(
        self,
        exchange: Exchange,
        sessions: Sessions,
        session: HttpSession,
        message: jsonrpc.Request,
        taken: Acceptable,
    ) -> None:
        if (in_use := session.peer.refuse_id(message.id)) is not None:
            raise HttpRefusal(CONFLICT, in_use, id=message.id)
        request = self._open(message, session.data)
        self._require_callable(exchange, request, session=session.data)
        exchange.may_stream = taken.sse and not self._json_response
        channel = SessionChannel(session, exchange, streams=exchange.may_stream)
        call = self._call(request, session.data, exchange, channel)
        session.peer.accept(message)
        session.running[message.id] = call
        self._serving.add(call)
        serving = self._run_in_session(sessions, session, call, channel, json=taken.json)
        if exchange.lasts:
            call.task = exchange.task
            await serving
        else:
            let_go = exchange.loop.create_future()
            channel.open(let_go)
            call.task = SelfCancelTask(serving, loop=exchange.loop)
            try:
                await let_go
            except asyncio.CancelledError:
                await self._stop_in_session(exchange, call, channel)
            if not exchange.ended:
                await part(exchange)

    async def _stop_in_session(self, exchange: Exchange, call: Call, channel: SessionChannel) -> None:
        """Answer a request at once when the server that carries its exchange ends, and waits for it no more."""
        if not exchange.is_ending or not uncancelled():
            raise asyncio.CancelledError
        call.stop(STOPPED)
        await answer_stopped(call, channel)

    async def _run_in_session(
        self, sessions: Sessions, session: HttpSession, call: Call, channel: SessionChannel, *, json: bool
    ) -> None:
        status, data = OK, b""
        try:
            try:
                data = await whole_answer(call)
                if session.data.unshared:
                    await self._share(session.data)
            finally:
                del session.running[call.request.id]
                data = session.peer.finish(call.request.id, data) or b""
                sessions.touch(session)
            if call.cancelled:
                await settle()
            status = OK if data and call.refusal is None else self._status(call, channel.reader)
            await channel.answer(status, data, json=json)
        finally:
            self._serving.discard(call)
            channel.close()

    async def _share(self, data: SharedSession) -> None:
        """Let every process know what a session has come to remember, before its client hears that it is so."""
        while data.unshared:
            change = data.unshared.pop(0)
            try:
                await self._workers.share(change)
            except Exception as error:
                self._server.report(error, None, {"place": "telling other workers"})

    def _call(self, request: eras.McpRequest, data: Session, exchange: Exchange, channel: Channel = SILENCE) -> Call:
        server, loop, identity = self._server, asyncio.get_running_loop(), exchange.identity
        call = Call(request, data, channel, server, server.server_context, loop, data.principal)
        call.headers = exchange.given_headers
        if identity is not None:
            call.scopes, call.claims = identity.scopes, identity.claims
        return call

    async def _serve_request(self, exchange: Exchange, request: eras.McpRequest, taken: Acceptable) -> None:
        listens = request.method.name == "subscriptions/listen"
        streams = taken.sse and (request.caller.version.stateless or not self._json_response)
        if listens:
            self._require_listening(request, streams=streams)
        is_mute = not (self._serves_listeners and request.caller.version.stateless)
        channel = PostChannel(self._server, self._listeners, exchange, can_stream=streams, is_mute=is_mute)
        call = self._call(request, Session(principal=exchange.principal), exchange, channel)
        call.task = exchange.task
        exchange.may_stream = streams
        if request.caller.version.stateless:
            exchange.on_gone = call.give_up
        self._serving.add(call)
        try:
            try:
                outcome: Any = run(call)
                data = await outcome if type(outcome) is CoroutineType else outcome
            except asyncio.CancelledError:
                if not exchange.is_ending or call.cancelled or not uncancelled():
                    raise
                call.cancelled, call.stopped = True, STOPPED
                data = stopped(call)
            status = OK if data and call.refusal is None else self._status(call, exchange)
            if channel.was_used:
                await channel.room()
            if exchange.streaming or not taken.json:
                await exchange.stream(sse.encode(data), last=True)
            else:
                await exchange.reply(status, data, JSON_HEADERS)
        except asyncio.CancelledError:
            # The client may leave just when its answer is being sent; a cancellation of another's goes on.
            if not call.cancelled or not uncancelled():
                raise
        finally:
            self._serving.discard(call)
            exchange.on_gone = None
            if call.cancelled:
                await settle()
            if channel.was_used:
                await channel.close()

    def _require_listening(self, request: eras.McpRequest, *, streams: bool) -> None:
        if not streams:
            raise HttpRefusal(NOT_ACCEPTABLE, InvalidRequest("The Accept header must admit text/event-stream"), request)
        if self._max_subscriptions is not None and len(self._listeners) >= self._max_subscriptions:
            error = InternalError("There are too many subscriptions; try again later")
            raise HttpRefusal(UNAVAILABLE, error, request)

    async def _answer_alone(
        self, exchange: Exchange, message: jsonrpc.Request, data: Session, running: dict[types.RequestId, Call]
    ) -> bytes:
        """Answer a request that has no stream of its own."""
        try:
            call = self._call(self._open(message, data), data, exchange)
        except HttpRefusal as refused:
            _, refusing = await self._refusal(exchange, refused)
            return refusing  # type: ignore[no-any-return]
        call.task = asyncio.current_task(call.loop)
        running[message.id] = call
        self._serving.add(call)
        try:
            return await whole_answer(call)
        finally:
            del running[message.id]
            self._serving.discard(call)

    def _status(self, call: Call, exchange: Exchange | None) -> int:
        """Return the status of a request that was refused or given up; whoever lacks a scope is told which."""
        if isinstance(call.refusal, InsufficientScope):
            if exchange is not None:
                exchange.extra_headers += (self._challenge(exchange, call.refusal.scopes),)
            return FORBIDDEN
        return CLIENT_CLOSED if call.refusal is None else handler_status(call.refusal)

    async def close(self, seconds: float | None = None) -> None:
        """End what is open in good order: streams at once, and requests when they are done, or their time is up."""
        for listener in list(self._listeners):
            listener.end()
        if self._sessions is not None:
            self._sessions.let_go()
        await self._serving.finish(CLOSE_SECONDS if seconds is None else seconds)
        if self._sessions is not None:
            await self._sessions.close()
        await self._workers.close()
