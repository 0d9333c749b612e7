"""One duplex connection: stdio, or a test's wire.

The peer machine turns bytes into events. A request whose outcome is known at once is answered in place; any other gets
one task, which answers when it ends. Cancelling a request cancels its task, and the peer sees to it that nothing is
answered then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from dragoman.errors import Cancelled, RpcError, ValidationError
from dragoman.protocol import eras, jsonrpc
from dragoman.protocol.peer import Answered, Event, Peer, Reply
from dragoman.protocol.peer import Cancelled as GaveUp
from dragoman.server.call import SILENCE, Call, Session

if TYPE_CHECKING:
    from dragoman.server.server import Server


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
        for event in self._peer.receive(chunk):
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
        self._peer.close()
        for task, call in list(self._running.values()):
            call.cancelled = True
            task.cancel()

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
            case Answered() | _:
                pass

    def _cancel(self, id: Any) -> None:
        if id in self._running:
            task, call = self._running[id]
            call.cancelled = True
            task.cancel()

    def _serve(self, message: jsonrpc.Request) -> None:
        call: Call | None = None
        try:
            request = eras.open(message, self._server.offer, self._session.caller)
            call = Call(request, self._session, self, server_context=self._server.server_context)
            outcome = self._server.serve(call)
        except Exception as error:
            self._refuse(message.id, error, call)
            return
        if isinstance(outcome, CoroutineType):
            task = asyncio.get_running_loop().create_task(self._finish(call, outcome))
            self._running[message.id] = task, call
        else:
            self._reply(call, outcome)

    async def _finish(self, call: Call, outcome: CoroutineType[Any, Any, Any]) -> None:
        id = call.request.id
        try:
            result = await outcome
        except asyncio.CancelledError:
            self._write(self._peer.drop(id))
        except Exception as error:
            self._refuse(id, error, call)
        else:
            self._reply(call, result)
        finally:
            self._running.pop(id, None)

    def _reply(self, call: Call, result: Any) -> None:
        try:
            data = self._peer.send_result(call.request.id, result)
        except ValidationError as error:
            self._refuse(call.request.id, error, call)
            return
        self._write(data)
        if call.request.method.name == "initialize" and self._session.caller is not None:
            self._peer.version = self._session.caller.version

    def _refuse(self, id: Any, error: Exception, call: Call | None) -> None:
        if isinstance(error, Cancelled):
            self._write(self._peer.drop(id))
            return
        refusal = self._server.refusal(error, call)
        try:
            self._write(self._peer.send_error(id, refusal))
        except ValidationError:
            self._write(self._peer.send_error(id, RpcError(refusal.code, refusal.message)))

    def _write(self, data: bytes | None) -> None:
        if data is not None:
            self._send(data)


async def answer(server: Server, body: bytes, server_context: Any) -> bytes | None:
    """Answer one message that stands alone; None for what is not answered."""
    message = jsonrpc.decode(body)
    if isinstance(message, jsonrpc.Invalid):
        return jsonrpc.encode_error(message.id, message.error) if message.answer else None
    if not isinstance(message, jsonrpc.Request):
        return None
    call: Call | None = None
    context = server.server_context if server_context is None else server_context
    try:
        request = eras.open(message, server.offer)
        call = Call(request, Session(), SILENCE, server_context=context)
        outcome = server.serve(call)
        result = await outcome if isinstance(outcome, CoroutineType) else outcome
        return jsonrpc.encode_result(message.id, result)
    except Cancelled:
        return None
    except Exception as error:
        return jsonrpc.encode_error(message.id, server.refusal(error, call))
