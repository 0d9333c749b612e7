"""`PassedPost`: a POST with a request in a session that a proxy passes on, without a task.

The exchange of the POST, its session and its channel are as for any other request (`post`), but nothing awaits the
answer. Its states:

    open       the proxy has the request; the session has it among its running requests
    answered   the result was written in the turn of the loop in which it came
    resumed    a task goes on: after an error of the target, a cancellation, or if the answer cannot be one short body

Rejected: an eager first step of the task. The task is what costs most, and it would be needed for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from dragoman.protocol import jsonrpc
from dragoman.protocol.inbound import OK, AcceptedTypes
from dragoman.server.dispatch.runner import resume, stopped
from dragoman.server.http.channels import SessionChannel
from dragoman.server.http.session import HttpSession
from dragoman.server.http.sessions import Sessions
from dragoman.server.request.call import Call
from dragoman.transports.http.exchange import JSON_HEADERS, UNTIMED_BYTES, Exchange

if TYPE_CHECKING:
    from dragoman.server.http.post import PostService


class PassedPost(Struct, eq=False):
    """The keeper of one request that a proxy passes on."""

    posts: PostService
    sessions: Sessions
    session: HttpSession
    message: jsonrpc.Request
    exchange: Exchange
    acceptable: AcceptedTypes
    channel: SessionChannel | None = None

    def keep_open(self, call: Call, drop: Callable[[], None]) -> None:
        """Keep the request among those of its session; `drop` is called if it is cancelled."""
        session = self.session
        self.channel = self.posts.open_channel(session, call, self.exchange, self.acceptable)
        session.peer.accept(self.message)
        session.running[self.message.id] = call
        self.posts.in_flight.add(call)
        call.drop = partial(self._drop, call, drop)

    def answer(self, call: Call, result: Raw, *, at_once: bool) -> None:  # noqa: ARG002
        """Write the result, or let a task write it."""
        call.drop, call.ended = None, True
        answer = jsonrpc.encode_result(call.request.id, result)
        session, exchange, channel, id = self.session, self.exchange, self.channel, self.message.id
        assert channel is not None
        if (
            len(answer) > UNTIMED_BYTES
            or not self.acceptable.json
            or channel.opened is not None
            or exchange.streaming
            or session.data.unshared
        ):
            self._resume(call, _known(answer))
            return
        del session.running[id]
        data = session.peer.finish(id, answer)
        self.sessions.touch(session)
        assert data
        exchange.reply_at_once(OK, data, JSON_HEADERS)
        channel.close()
        self.posts.in_flight.discard(call)
        exchange.finish()

    def go_on(self, call: Call, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Serve the request in a task, unless it has ended."""
        if not call.ended:
            call.drop = None
            answer: Any = resume(call, work(), None)
            self._resume(call, answer)

    def _drop(self, call: Call, drop: Callable[[], None]) -> None:
        """End a request that was cancelled, or stopped because the server or the session ends."""
        drop()
        call.drop, call.ended = None, True
        self._resume(call, _known(b"" if call.stopped is None else stopped(call, call.stopped)))

    def _resume(self, call: Call, answer: Coroutine[Any, Any, bytes]) -> None:
        assert self.channel is not None
        work = self.posts.run_in_session(self.session, call, self.channel, answer, json=self.acceptable.json)
        self.exchange.go_on(work)
        call.task = self.exchange.task


async def _known(data: bytes) -> bytes:
    return data
