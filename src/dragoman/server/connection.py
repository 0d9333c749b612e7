"""One duplex connection: stdio, or a test's wire.

The peer machine turns bytes into events. A request whose outcome is known at once is answered in place; any other gets
one task, which answers when it ends. Cancelling a request cancels its task, and the peer sees to it that nothing is
answered then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.errors import InternalError, RpcError, ValidationError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Cancelled as GaveUp
from dragoman.protocol.peer import Event, Peer, Reply
from dragoman.server import serving
from dragoman.server.call import SILENCE, Call, Session

if TYPE_CHECKING:
    from dragoman.server.server import Server


Encoded = TypeVar("Encoded", bytes, bytes | None)


class Connection:
    """A server's end of one connection."""

    def __init__(self, server: Server, send: Callable[[bytes], None]) -> None:
        self._server = server
        self._send = send
        self._peer = Peer()
        self._session = Session()
        self._running: dict[Any, tuple[asyncio.Task[None], Call]] = {}

    def receive(self, chunk: bytes) -> None:
        """Take in a chunk of the stream."""
        # Line by line: what a message changes, an id that is free again or a version agreed on, holds for the next.
        for line in chunk.splitlines(keepends=True):
            for event in self._peer.receive(line):
                self._take(event)

    def receive_end(self) -> None:
        """Take in the end of the stream; an unterminated last line is a line."""
        for event in self._peer.receive_end():
            self._take(event)

    async def drain(self) -> None:
        """Wait until nothing is in flight."""
        while self._running:
            await asyncio.wait([task for task, _ in self._running.values()])

    def close(self) -> None:
        """Cancel what is in flight; nothing is sent any more."""
        self._send = _discard
        self._peer.close()
        for id in list(self._running):
            self._cancel(id)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client."""
        self._send(self._peer.send_notification(method, params))

    def _take(self, event: Event) -> None:
        match event:
            case jsonrpc.Request():
                self._serve(event)
            case Reply(data):
                self._send(data)
            case GaveUp(id):
                self._cancel(id)
            case _:  # nothing that a server without requests of its own and without subscriptions needs to know
                pass

    def _cancel(self, id: Any) -> None:
        if id in self._running:
            task, call = self._running[id]
            call.cancelled = True
            # After its first step, which is scheduled already: a task that never began would not clean up after itself.
            task.get_loop().call_soon(task.cancel)

    def _serve(self, message: jsonrpc.Request) -> None:
        call: Call | None = None
        try:
            request = eras.open(message, self._server.offer, self._session.caller)
            call = Call(request, self._session, self, server_context=self._server.server_context)
            outcome = self._server.serve(call)
        except BaseException as error:
            self._refuse(message.id, error, call)
            return
        if isinstance(outcome, CoroutineType):
            task = asyncio.get_running_loop().create_task(self._finish(call, outcome))
            self._running[message.id] = task, call
        else:
            self._reply(call, outcome)

    async def _finish(self, call: Call, outcome: CoroutineType[Any, Any, Any]) -> None:
        try:
            self._reply(call, await outcome)
        except BaseException as error:
            self._refuse(call.request.id, error, call)
        finally:
            self._running.pop(call.request.id, None)

    def _reply(self, call: Call, result: Any) -> None:
        try:
            self._write(_encoded(self._server, call, result, self._peer.send_result))
        except ValidationError as error:
            self._refuse(call.request.id, error, call)
            return
        if call.request.method.name == "initialize" and self._session.caller is not None:
            self._peer.version = self._session.caller.version

    def _refuse(self, id: Any, error: BaseException, call: Call | None) -> None:
        if call is not None and call.is_given_up_by(error):
            self._write(self._peer.drop(id))
        else:
            self._write(_encoded_refusal(self._server, call, id, error, self._peer.send_error))

    def _write(self, data: bytes | None) -> None:
        if data is not None:
            self._send(data)


def _discard(_: bytes) -> None:
    """Send nothing: the connection is closed."""


def _encoded(server: Server, call: Call, result: Any, encode: Callable[[Any, Any], Encoded]) -> Encoded:
    try:
        return encode(call.request.id, result)
    except ValidationError as error:
        return encode(call.request.id, serving.unencodable(server, call, error))


def _encoded_refusal(
    server: Server, call: Call | None, id: Any, error: BaseException, encode: Callable[[Any, RpcError], Encoded]
) -> Encoded:
    refusal = server.refusal(error, call)
    for sayable in (refusal, RpcError(refusal.code, refusal.message)):
        try:
            return encode(id, sayable)
        except ValidationError as misfit:
            server.report(misfit, call)
    return encode(id, InternalError("Internal error"))


async def answer(server: Server, body: bytes, server_context: Any) -> bytes | None:
    """Answer one message that stands alone; None for what is not answered."""
    message = jsonrpc.decode(body)
    if isinstance(message, jsonrpc.Request):
        return await _answer_request(server, message, server_context)
    if isinstance(message, jsonrpc.Invalid) and message.answer:
        return jsonrpc.encode_error(message.id, message.error)
    return None


async def _answer_request(server: Server, message: jsonrpc.Request, server_context: Any) -> bytes:
    call: Call | None = None
    context = server.server_context if server_context is None else server_context
    try:
        request = eras.open(message, server.offer)
        call = Call(request, Session(), SILENCE, server_context=context)
        outcome = server.serve(call)
        result = await outcome if isinstance(outcome, CoroutineType) else outcome
        return _encoded(server, call, result, jsonrpc.encode_result)
    except BaseException as error:
        if call is not None and call.is_given_up_by(error):
            raise
        return _encoded_refusal(server, call, message.id, error, jsonrpc.encode_error)
