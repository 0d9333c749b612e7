"""`UnchangedCalls`: the short way of a request through a proxy, between two duplex connections.

A request that keeps its version, and of whose content a proxy changes nothing, needs no task: it is sent to the target
in the turn of the loop in which it arrives, and its result is written in the turn in which that arrives. `pass_on` tells
whether a request can go this way. All others go the plain way (`ProxyServer`): a request of another version than that of
the connection, one that middleware, an audit or telemetry observes, one that is answered from what the proxy knows, such
as a list, and one that has to wait, because there is no connection or the target does not read.

A passed call is in one of these states:

    open       the target has the request; the connection of the client keeps it without a task
    answered   the client has the result
    dropped    the client cancelled the request: the target is told, and its answer is ignored
    failed     the target answered with an error or was lost: a task goes on with the request, on the plain way

What the target sends meanwhile finds its client as on the plain way: the call is one of `Upstream.calls`.

Rejected: a coroutine with fewer steps. The task, its future and two more turns of the loop cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from contextvars import copy_context
from functools import partial
from sys import modules
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from dragoman.client.connect.reconnect import Failures
from dragoman.compose.raw_results import is_begun_task, split_meta
from dragoman.compose.task_owners import ABOUT_TASKS
from dragoman.compose.upstream import PROXIED, Upstream, refusal_of, report_progress
from dragoman.errors import DragomanError, TransportError
from dragoman.protocol.official.tasks import LIST as LIST_TASKS
from dragoman.server.dispatch.observing import observes
from dragoman.telemetry import API

if TYPE_CHECKING:
    from dragoman import types
    from dragoman.client.connect.connection import ServerConnection
    from dragoman.client.options import OnProgress
    from dragoman.compose.pool import Pool
    from dragoman.server.duplex import DuplexConnection
    from dragoman.server.request.call import Call
    from dragoman.server.server import Server

LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
ALWAYS_PLAIN = LISTS | ABOUT_TASKS | {LIST_TASKS, "resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
"""The methods that a proxy does more for than to pass them."""


class UnchangedCalls:
    """The short way through a proxy for the requests of one duplex connection.

    `pool_of` returns the connections for a call. `answer` passes a call on the plain way; it takes how often the call
    has failed.
    """

    def __init__(
        self,
        server: Server,
        pool_of: Callable[[Call], Pool],
        answer: Callable[[Call, Failures], Coroutine[Any, Any, Any]],
        *,
        is_named: bool,
    ) -> None:
        self.server = server
        self.answer = answer
        self._pool_of = pool_of
        self._is_named = is_named
        self._pool: Pool | None = None
        self._owner: Hashable = None
        """What divides the connections of the pool: it is the same for each request of a connection without headers."""

    def pass_on(self, call: Call) -> bool:
        """Send a request to the target, if it can go the short way; return whether it was sent."""
        if call.rejection is not None or not self._is_plain(call):
            return False
        pool = self._pool or self._found_pool(call)
        upstream = None if pool is None else pool.ready(call, self._owner)
        if pool is None or upstream is None:
            self._pool = None
            return False
        connection = upstream.current
        assert connection is not None
        if connection.version is not call.request.caller.version or not connection.link.can_send_at_once:
            pool.release(upstream, call)
            return False
        call.settings = self.server.settings
        PassedCall(self, pool, upstream, connection, call).begin()
        return True

    def _found_pool(self, call: Call) -> Pool | None:
        try:
            pool = self._pool = self._pool_of(call)
        except DragomanError:  # the plain way says what is wrong
            return None
        self._owner = pool.owner(call)
        return pool

    def _is_plain(self, call: Call) -> bool:
        """Tell whether nobody but the target does anything with a request."""
        request, server = call.request, self.server
        name = request.method.name
        if server.middleware_chain is not None or server.audit is not None or server.debug:
            return False
        if name in ALWAYS_PLAIN or name in server.handlers or name in server.around_methods:
            return False
        if request.method.input_required and request.params.request_state is not None:
            return False
        if call.principal is not None or (self._is_named and request.caller.version.stateless):
            return False
        return not (API in modules and observes(call))


class PassedCall:
    """One request that went the short way: the waiter for its answer."""

    __slots__ = ("_call", "_connection", "_context", "_passing", "_pool", "_upstream", "id", "on_progress")

    clock = None

    def __init__(
        self, passing: UnchangedCalls, pool: Pool, upstream: Upstream, connection: ServerConnection, call: Call
    ) -> None:
        self.id: types.RequestId = 0
        token = call.request.progress_token
        self.on_progress: OnProgress | None = None if token is None else partial(report_progress, call, token)
        self._passing = passing
        self._pool = pool
        self._upstream = upstream
        self._connection = connection
        self._call = call
        self._context = copy_context()

    def begin(self) -> None:
        """Send the request."""
        call = self._call
        channel: DuplexConnection = call.channel  # type: ignore[assignment]
        PROXIED.set(call)
        params, meta = split_meta(call.request.raw_params)
        meta.pop("progressToken", None)
        channel.keep_open(call, self._drop)
        self._connection.send_at_once(call.request.method.name, params, meta, self)

    def settle(self, outcome: Raw | Exception) -> None:
        """Write the result to the client; go on in a task after an error."""
        call = self._call
        channel: DuplexConnection = call.channel  # type: ignore[assignment]
        self._pool.release(self._upstream, call)
        if type(outcome) is not Raw:
            assert isinstance(outcome, Exception)
            # Later: the connection reports its end to the proxy after it has failed its requests.
            work = partial(self._go_on, outcome)
            assert call.loop is not None
            call.loop.call_soon(channel.go_on, call, work, context=self._context)
            return
        if self.on_progress is not None and is_begun_task(outcome):
            self._upstream.keep_progress(self.id, self.on_progress)
        channel.answer(call, outcome, at_once=self._connection.link.is_single)

    async def _go_on(self, error: Exception) -> Any:
        """Raise the error for the client, or send the request again, as the plain way does."""
        if not isinstance(error, TransportError):
            raise error
        failures, name, method = Failures(), self._passing.server.name, self._call.request.method.name
        try:
            is_repeated = await self._upstream.may_repeat(error, self._connection, failures, method)
        except TransportError as noted:
            raise refusal_of(noted, name) from noted
        if not is_repeated:
            raise refusal_of(error, name) from error
        return await self._passing.answer(self._call, failures)

    def _drop(self) -> None:
        """Tell the target that the client cancelled the request."""
        self._pool.release(self._upstream, self._call)
        self._connection.abandon(self.id)
