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
from dragoman.auth.bearer import FORBIDDEN
from dragoman.auth.identity import Denial, Identity
from dragoman.errors import (
    HeaderMismatch,
    InsufficientScope,
    InternalError,
    InvalidRequest,
    ParseError,
    RpcError,
    TooLarge,
    UnsupportedVersion,
    ValidationError,
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
from dragoman.protocol.versions import find_version, version_names
from dragoman.runtime.tasks import OwnTask
from dragoman.server import serving
from dragoman.server.admission import Admission, Entrance, caller_of
from dragoman.server.call import SILENCE, Call, Channel, Session
from dragoman.server.guard import Guard
from dragoman.server.http_notices import HttpNotices
from dragoman.server.http_session import HttpSession, SessionAside, SessionChannel, SessionRefused, SharedSession
from dragoman.server.httprequest import Auth, insufficient, verify
from dragoman.server.instrument import observe_refusal
from dragoman.server.post import Listener, PostChannel
from dragoman.server.replies import answer, challenge, in_use, refuse_repeated, settle
from dragoman.server.served import STOPPED, Served, answer_stopped
from dragoman.server.sessions import Sessions
from dragoman.server.streams import part
from dragoman.server.workers import Workers
from dragoman.transports.exchange import (
    CLIENT_CLOSED,
    JSON_HEADERS,
    Exchange,
    Gone,
    TooSlow,
)

if TYPE_CHECKING:
    from dragoman.server.server import Server

_CLOSE = (b"connection", b"close")
NO_CONTENT, METHOD_NOT_ALLOWED, REQUEST_TIMEOUT = 204, 405, 408
CONFLICT, TOO_LARGE, INTERNAL_ERROR, UNAVAILABLE = 409, 413, 500, 503
_arguments = msgspec.json.Decoder(types.Json | None)
CLOSE_SECONDS = 5.0


class HttpService:
    """Serves the exchanges of one server."""

    _serves_listeners = True

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
        self._entrance = Entrance(guard or Guard())
        self._workers = workers or (Workers(server) if sessions is None else sessions.workers)
        self._sessions = sessions
        self._auth = auth
        self._path = path
        self._max_subscriptions = max_subscriptions
        self._json_response = json_response
        self._limits = server.limits
        self._listeners: set[Listener] = set()
        self._serving = Served()
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
        except SessionRefused as refused:
            await exchange.reply(refused.status, jsonrpc.encode_error(refused.id, refused.error), JSON_HEADERS)
        except Gone:
            raise
        except Exception as error:
            await self._fail(exchange, error, "a service of HTTP")

    async def _let_in(self, exchange: Exchange, admission: Admission) -> bool:
        """Tell whether a POST may be read; one that may not, and what is none, is answered before this returns."""
        if admission.barred is not None:
            await exchange.reply(admission.barred.status, admission.barred.body(), JSON_HEADERS)
            return False
        if admission.grants and exchange.method == "OPTIONS":
            await exchange.reply(NO_CONTENT)
            return False
        if self._workers.needs_to_join(exchange.loop):
            await self._workers.join()
        if self._auth is not None and not await self._verified(exchange, self._auth):
            return False
        if exchange.method == "POST":
            return True
        await self._serve_other(exchange, admission)
        return False

    async def _fail(self, exchange: Exchange, error: Exception, place: str) -> None:
        self._server.report(error, None, {"place": place})
        failure = jsonrpc.encode_error(None, InternalError("Internal error"))
        if exchange.streaming:
            await exchange.stream(sse.encode(failure), last=True)
        else:
            await exchange.reply(INTERNAL_ERROR, failure, JSON_HEADERS)

    async def _serve_other(self, exchange: Exchange, admission: Admission) -> None:
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
                await self._refuse_method(exchange)

    async def _session_of(self, exchange: Exchange, sessions: Sessions, admission: Admission) -> HttpSession:
        """Return the session of what has no body.

        Raises:
            SessionRefused: its headers cannot be served, or name no session of this client.
        """
        sent = admission.sent
        if sent.repeated is not None:
            refuse_repeated(sent.repeated)
        versions = self._server.offer.versions
        if sent.protocol_version is not None and find_version(sent.protocol_version) not in versions:
            raise SessionRefused(BAD_REQUEST, UnsupportedVersion(sent.protocol_version, version_names(versions)))
        session = await sessions.find(sent.session_id, exchange.principal, exchange.address)
        session.require_origin(admission.origin)
        return session

    async def _refuse_method(self, exchange: Exchange) -> None:
        allowed = b"POST" if self._sessions is None else b"GET, POST, DELETE"
        error = InvalidRequest(f"{exchange.method} is not served here")
        await exchange.reply(
            METHOD_NOT_ALLOWED, jsonrpc.encode_error(None, error), (*JSON_HEADERS, (b"allow", allowed))
        )

    async def _verified(self, exchange: Exchange, auth: Auth) -> bool:
        """Tell whether the author's check lets a client in, who is answered if not; the body is not read before."""
        try:
            found = await verify(auth, exchange.scope, self._path)
        except Exception as error:
            await self._fail(exchange, error, "auth")
            return False
        if isinstance(found, Denial):
            refused = jsonrpc.encode_error(None, InvalidRequest(found.reason))
            await exchange.reply(found.status, refused, (*JSON_HEADERS, challenge(found)))
            return False
        exchange.principal, exchange.identity = found.principal, found
        return True

    async def _receive_post(self, exchange: Exchange, admission: Admission) -> eras.Request | None:
        """Return a request that stands alone; what is none is served, or refused, before this returns."""
        if admission.unreadable is not None:
            await exchange.reply(admission.unreadable.status, admission.unreadable.body(), JSON_HEADERS)
            return None
        limit = self._limits.message_bytes
        try:
            body = exchange.at_hand(limit) or await exchange.read(limit)
        except TooLarge:
            error = ParseError(f"A message must not have more than {limit} bytes")
            await exchange.reply(TOO_LARGE, jsonrpc.encode_error(None, error), JSON_HEADERS)
            return None
        except TooSlow as error:
            late = ParseError(str(error))
            await exchange.reply(REQUEST_TIMEOUT, jsonrpc.encode_error(None, late), (*JSON_HEADERS, _CLOSE))
            return None
        offer = self._server.offer
        received = receive(admission.sent, body, offer, self._limits)
        if isinstance(received, eras.Request):
            if exchange.identity is not None and await self._lacks_scope(exchange, received):
                return None
            refusal = self._refuse_params(admission.sent, received)
            if refusal is None:
                return received
            received = refusal
        if isinstance(received, InSession):
            await self._serve_in_session(exchange, admission, received, offer)
        elif isinstance(received, Rejection):
            await self._reject(exchange, received)
        else:
            await self._notices.serve(
                exchange, received, Session(caller_of(admission.sent), principal=exchange.principal)
            )
        return None

    async def _reject(self, exchange: Exchange, refusal: Rejection) -> None:
        if refusal.method is not None:
            await self._observe(refusal.method, refusal.error)
        await exchange.reply(refusal.status, refusal.body(), JSON_HEADERS)

    async def _observe(self, method: str, error: RpcError, caller: eras.Caller | None = None) -> None:
        """Let the hooks know of a request that is refused before it is served, if there are any."""
        if self._server.settings.is_observed:
            await observe_refusal(self._server, method, error, caller)

    async def _serve_stream(self, exchange: Exchange, session: HttpSession, sent: headers.RequestHeaders) -> None:
        """Let a client read what belongs to no request, or take up a stream that broke."""
        if not acceptable(sent.accept).sse:
            raise SessionRefused(NOT_ACCEPTABLE, InvalidRequest("The Accept header must admit text/event-stream"))
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

    def _refuse_params(self, sent: headers.RequestHeaders, request: eras.Request) -> Rejection | None:
        """Compare the `Mcp-Param-*` headers of a tool call with its arguments."""
        tool = self._server.registry.tools.get(request.params.name) if request.method.name == "tools/call" else None
        if tool is None or not tool.mirrored.params:
            return None
        raw = request.params.arguments
        try:
            tool.mirrored.check({} if raw is UNSET else _arguments.decode(raw) or {}, sent.params)
        except msgspec.DecodeError:
            return None  # arguments that are no object are refused by the tool
        except HeaderMismatch as error:
            return Rejection(BAD_REQUEST, error, request.id, method=request.method.name)
        return None

    async def _lacks_scope(self, exchange: Exchange, request: eras.Request) -> bool:
        """Tell whether whoever asks may not call the tool, and is answered so."""
        tool = self._server.registry.tools.get(request.params.name) if request.method.name == "tools/call" else None
        if tool is None or exchange.identity.scopes.issuperset(tool.scopes):
            return False
        self._challenge_for(exchange, tool.scopes)
        error = InsufficientScope(tool.scopes)
        await self._reject(exchange, Rejection(FORBIDDEN, error, request.id, method=request.method.name))
        return True

    def _challenge_for(self, exchange: Exchange, scopes: Iterable[str]) -> None:
        denial = insufficient(self._auth, scopes, exchange.scope, self._path)
        exchange.extra_headers += (challenge(denial),)

    async def _serve_alone(
        self, exchange: Exchange, sent: headers.RequestHeaders, messages: InSession, taken: Acceptable
    ) -> None:
        """Serve a message of the handshake era that has no session to belong to."""
        message = messages.messages[0]
        if messages.batch:
            refusal = Rejection(400, InvalidRequest("Batches need a session, and this server keeps none"))
            await exchange.reply(refusal.status, refusal.body(), JSON_HEADERS)
        elif not isinstance(message, jsonrpc.Request):
            await self._notices.serve(exchange, message, Session(caller_of(sent), principal=exchange.principal))
        else:
            try:
                request = eras.open(message, self._server.offer, caller_of(sent))
            except RpcError as error:
                await self._observe(message.method, error)
                await answer(exchange, taken, OK, jsonrpc.encode_error(message.id, error))
                return
            if exchange.identity is None or not await self._lacks_scope(exchange, request):
                await self._serve_request(exchange, request, taken)

    async def _serve_in_session(
        self, exchange: Exchange, admission: Admission, messages: InSession, offer: eras.Offer
    ) -> None:
        sessions, sent, taken = self._sessions, admission.sent, admission.taken
        if sessions is None:
            await self._serve_alone(exchange, sent, messages, taken)
            return
        message, principal = messages.messages[0], exchange.principal
        try:
            if sent.repeated is not None:
                refuse_repeated(sent.repeated)
            if messages.is_initialize:
                await sessions.refuse_second(sent.session_id, principal, exchange.address)
                await self._begin_session(exchange, sessions, message, admission)
                return
            session = sessions.find_here(sent.session_id, principal)
            if session is None:
                session = await sessions.find(sent.session_id, principal, exchange.address)
            if admission.origin:
                session.require_origin(admission.origin)
        except SessionRefused as refused:
            if isinstance(message, jsonrpc.Request) and not messages.batch:
                refused.id = message.id
                await self._observe(message.method, refused.error)
            raise
        if messages.batch:
            await self._serve_batch(exchange, session, messages.messages, taken)
        elif isinstance(message, jsonrpc.Request):
            await self._serve_session_request(exchange, sessions, session, message, taken, offer)
        else:
            session.take(message)
            await self._notices.serve(exchange, message, session.data, SessionAside(session))

    async def _begin_session(
        self, exchange: Exchange, sessions: Sessions, message: jsonrpc.Message, admission: Admission
    ) -> None:
        data = SharedSession(principal=exchange.principal)
        data.origin = admission.origin
        reply = await self._answer_alone(message, data)
        if data.caller is not None:
            exchange.extra_headers += ((b"mcp-session-id", sessions.begin(data, exchange.address).encode()),)
        await answer(exchange, admission.taken, OK, reply)

    async def _serve_batch(
        self, exchange: Exchange, session: HttpSession, messages: list[jsonrpc.Message], taken: Acceptable
    ) -> None:
        """Serve a batch (2025-03-26): its requests at once, answered by one JSON array."""
        if session.data.caller is None or not session.data.caller.version.batches:
            raise SessionRefused(BAD_REQUEST, InvalidRequest("This protocol version has no batches"))
        for message in messages:
            if not isinstance(message, jsonrpc.Request | jsonrpc.Invalid):
                session.take(message)
        answers = await asyncio.gather(*(self._serve_in_batch(exchange, session, message) for message in messages))
        given = [answer for answer in answers if answer]
        await self._share(session.data)
        if given:
            await answer(exchange, taken, OK, jsonrpc.encode_batch(given))
        else:
            await exchange.reply(ACCEPTED)

    async def _serve_in_batch(self, exchange: Exchange, session: HttpSession, message: jsonrpc.Message) -> bytes:
        if isinstance(message, jsonrpc.Request | jsonrpc.Invalid):
            return await self._answer_alone(message, session.data, session.running, exchange.identity)
        call = self._notices.begin(message, session.data, SessionAside(session), exchange.identity)
        if call is not None:
            await self._notices.run(call)
        return b""

    async def _serve_session_request(
        self,
        exchange: Exchange,
        sessions: Sessions,
        session: HttpSession,
        message: jsonrpc.Request,
        taken: Acceptable,
        offer: eras.Offer,
    ) -> None:
        if message.id in session.running:
            await answer(exchange, Acceptable(json=True, sse=False), CONFLICT, in_use(message.id))
            return
        try:
            request = eras.open(message, offer, session.data.caller)
        except RpcError as error:
            await self._observe(message.method, error, session.data.caller)
            await answer(exchange, taken, OK, jsonrpc.encode_error(message.id, error))
            return
        if exchange.identity is not None and await self._lacks_scope(exchange, request):
            return
        exchange.may_stream = taken.sse and not self._json_response
        channel = SessionChannel(session, exchange, streams=exchange.may_stream)
        call = self._call(request, session.data, channel, exchange.identity)
        session.running[message.id] = call
        self._serving.add(call)
        serving = self._run_in_session(sessions, session, call, channel, json=taken.json)
        if exchange.lasts:
            call.task = exchange.task
            await serving
        else:
            let_go = exchange.loop.create_future()
            channel.open(let_go)
            call.task = OwnTask(serving, loop=exchange.loop)
            try:
                await let_go
            except asyncio.CancelledError:
                await self._stop_in_session(exchange, call, channel)
            if not exchange.ended:
                await part(exchange)

    async def _stop_in_session(self, exchange: Exchange, call: Call, channel: SessionChannel) -> None:
        """Answer a request at once when the server that carries its exchange ends, and waits for it no more."""
        task = asyncio.current_task()
        if not exchange.is_ending or task is None or task.uncancel():
            raise asyncio.CancelledError
        call.stop(STOPPED)
        await answer_stopped(call, channel)

    async def _run_in_session(
        self, sessions: Sessions, session: HttpSession, call: Call, channel: SessionChannel, *, json: bool
    ) -> None:
        try:
            try:
                status, data = await self._outcome(call)
                if session.data.unshared:
                    await self._share(session.data)
            finally:
                call.ended = True
                del session.running[call.request.id]
                sessions.touch(session)
            if call.cancelled:
                await settle()
            if call.lacked is not None and channel.reader is not None:
                self._challenge_for(channel.reader, call.lacked)
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

    def _call(
        self,
        request: eras.Request,
        data: Session,
        channel: Channel = SILENCE,
        identity: Identity | None = None,
    ) -> Call:
        loop = asyncio.get_running_loop()
        call = Call(request, data, channel, self._server, self._server.server_context, loop, data.principal)
        if identity is not None:
            call.scopes, call.claims = identity.scopes, identity.claims
        return call

    async def _serve_request(self, exchange: Exchange, request: eras.Request, taken: Acceptable) -> None:
        listens = request.method.name == "subscriptions/listen"
        streams = taken.sse and (request.caller.version.stateless or not self._json_response)
        if listens and (refusal := self._refuse_listening(request, streams=streams)) is not None:
            await self._reject(exchange, refusal)
            return
        is_mute = not (self._serves_listeners and request.caller.version.stateless)
        channel = PostChannel(self._server, self._listeners, exchange, can_stream=streams, is_mute=is_mute)
        call = self._call(request, Session(principal=exchange.principal), channel, exchange.identity)
        call.task = exchange.task
        exchange.may_stream = streams
        if request.caller.version.stateless:
            exchange.on_gone = call.give_up
        self._serving.add(call)
        try:
            try:
                outcome = self._server.serve(call)
                result = await outcome if isinstance(outcome, CoroutineType) else outcome
                status, data = OK, self._encoded(call, result)
            except BaseException as error:
                if exchange.is_ending and isinstance(error, asyncio.CancelledError) and not call.cancelled:
                    call.cancelled, call.stopped = True, STOPPED
                status, data = self._refused(call, error)
            call.ended = True
            if call.lacked is not None:
                self._challenge_for(exchange, call.lacked)
            if channel.was_used:
                await channel.room()
            if exchange.streaming or not taken.json:
                await exchange.stream(sse.encode(data), last=True)
            else:
                await exchange.reply(status, data, JSON_HEADERS)
        except asyncio.CancelledError:
            # The client may leave just when its answer is being sent.
            self._given_up(call)
        finally:
            self._serving.discard(call)
            exchange.on_gone = None
            if call.cancelled:
                await settle()
            if channel.was_used:
                await channel.close()

    def _refuse_listening(self, request: eras.Request, *, streams: bool) -> Rejection | None:
        if not streams:
            error: RpcError = InvalidRequest("The Accept header must admit text/event-stream")
            return Rejection(NOT_ACCEPTABLE, error, request.id, method=request.method.name)
        if self._max_subscriptions is not None and len(self._listeners) >= self._max_subscriptions:
            error = InternalError("There are too many subscriptions; try again later")
            return Rejection(UNAVAILABLE, error, request.id, method=request.method.name)
        return None

    async def _answer_alone(
        self,
        message: jsonrpc.Message,
        data: Session,
        running: dict[types.RequestId, Call] | None = None,
        identity: Identity | None = None,
    ) -> bytes:
        """Answer a message that has no stream of its own."""
        if isinstance(message, jsonrpc.Invalid):
            return jsonrpc.encode_error(message.id, message.error, null_id=True)
        assert isinstance(message, jsonrpc.Request)
        running = {} if running is None else running
        if message.id in running:
            return in_use(message.id)
        try:
            call = self._call(eras.open(message, self._server.offer, data.caller), data, identity=identity)
        except RpcError as error:
            await self._observe(message.method, error, data.caller)
            return jsonrpc.encode_error(message.id, error)
        call.task = asyncio.current_task(call.loop)
        running[message.id] = call
        self._serving.add(call)
        try:
            return (await self._outcome(call))[1]
        finally:
            call.ended = True
            del running[message.id]
            self._serving.discard(call)

    async def _outcome(self, call: Call) -> tuple[int, bytes]:
        try:
            outcome = self._server.serve(call)
            result = await outcome if isinstance(outcome, CoroutineType) else outcome
            return OK, self._encoded(call, result)
        except BaseException as error:
            return self._refused(call, error)

    def _refused(self, call: Call, error: BaseException) -> tuple[int, bytes]:
        if call.is_given_up_by(error):
            given_up = self._given_up(call)
            stopped = call.stopped
            return (
                (CLIENT_CLOSED, given_up) if stopped is None else (OK, jsonrpc.encode_error(call.request.id, stopped))
            )
        refusal = self._server.refusal(error, call)
        if isinstance(error, InsufficientScope):
            call.lacked = error.scopes
            return FORBIDDEN, jsonrpc.encode_error(call.request.id, refusal)
        return handler_status(refusal), jsonrpc.encode_error(call.request.id, refusal)

    def _encoded(self, call: Call, result: Any) -> bytes:
        try:
            return jsonrpc.encode_result(call.request.id, result)
        except ValidationError as error:
            return jsonrpc.encode_result(call.request.id, serving.unencodable(self._server, call, error))

    def _given_up(self, call: Call) -> bytes:
        """End into the void: the client is gone, and a cancellation that was ours goes no further."""
        task = asyncio.current_task()
        if not call.cancelled or task is None or task.uncancel():
            raise asyncio.CancelledError
        return b""

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
