"""`UnchangedCalls`: the short way of a request through a proxy.

A request that keeps its version, and of whose content a proxy changes nothing, needs no task: it is sent to the target
in the turn of the loop in which it arrives, and its result is written in the turn in which that arrives. It comes over
a duplex connection or as a POST (`Keeper`), and goes over either. All other requests go the plain way (`ProxyServer`):

- a request of another version than that of the connection to the target
- a request that middleware, an extension, an audit or telemetry observes
- a request for which the proxy does more than pass it, such as a list, which it remembers
- a request that has to wait, because there is no connection or the target does not read
- a request over HTTP whose headers repeat arguments, or have credentials that a function returns

A passed call is in one of these states:

    open       the target has the request; what received it keeps it without a task
    answered   the client has the result
    dropped    the client cancelled the request: the target is told, and its answer is ignored
    failed     the target answered with an error or was lost: a task goes on with the request, on the plain way

The target gets the parameters as they came, but with the id of the request to the target as the progress token: clients
may use the same tokens, and the target may report progress of a request that was cancelled.

What the target sends meanwhile finds its client as on the plain way: the call is one of `Upstream.calls`. Over HTTP a
response that is no short JSON body with the result, such as an event stream or a failure, is read by a task, which does
what the plain way does after it has sent a request.

Rejected: a coroutine with fewer steps. The task, its future and two more turns of the loop cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, copy_context
from functools import partial
from sys import modules
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.clocks import Clock
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.connect.link import Posts, SendsAtOnce
from dragoman.client.connect.reconnect import Failures
from dragoman.compose.known_targets import refusal_of
from dragoman.compose.pool import Pool
from dragoman.compose.raw_results import is_begun_task, require_unambiguous, with_progress_token
from dragoman.compose.task_owners import ABOUT_TASKS
from dragoman.compose.upstream import PROXIED, Upstream
from dragoman.errors import DragomanError, HeaderMismatch, InvalidParams, TransportError
from dragoman.protocol.eras import McpRequest
from dragoman.protocol.fields import trim
from dragoman.protocol.official.tasks import LIST as LIST_TASKS
from dragoman.protocol.versions import Version
from dragoman.server.dispatch.observing import observes
from dragoman.server.request.call import Call
from dragoman.telemetry import API

if TYPE_CHECKING:
    import asyncio

    from dragoman.server.duplex import Keeper
    from dragoman.server.server import Server
    from dragoman.transports.web.connections import BegunRequest

LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
MAX_WAYS = 64
ALWAYS_PLAIN = LISTS | ABOUT_TASKS | {LIST_TASKS, "resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
"""The methods that a proxy does more for than to pass them."""


class UnchangedCalls:
    """The short way through a proxy for the requests of one duplex connection, of one session of HTTP, or without one.

    `pool_of` returns the connections for a call. `answer` passes a call on the plain way; it takes how often the call
    has failed.
    """

    def __init__(
        self,
        server: Server,
        pool_of: Callable[[Call], Pool],
        answer: Callable[[Call, Failures], Coroutine[Any, Any, Any]],
        is_named: bool,  # noqa: FBT001
    ) -> None:
        self.server = server
        self.answer = answer
        self._pool_of = pool_of
        self._is_named = is_named
        self._ways: dict[Iterable[tuple[bytes, bytes]], Way] = {}
        """The ways that were found, by the headers of a request, which decide over which connection it goes."""

    def pass_on(self, call: Call, keeper: Keeper) -> bool:
        """Send a request to the target, if it can go the short way; return whether it was sent."""
        request, server, way = call.request, self.server, self._ways.get(call.headers)
        name = request.method.name
        if (
            call.rejection is not None
            or server.middleware_chain is not None
            or server.audit is not None
            or server.debug
            or name in ALWAYS_PLAIN
            or name in server.handlers
            or name in server.around_methods
            or (request.method.input_required and request.params.request_state is not None)
            or call.session.principal is not None
            or (API in modules and observes(call))
        ):
            return False
        try:
            require_unambiguous(request)
        except InvalidParams:  # the plain way refuses the request
            return False
        version = request.caller.version
        if way is None or way.version is not version or way.upstream.is_retired or way.connection.state != "alive":
            way = self._find_way(call)
            if way is None:
                return False
        send = None if way.at_once is None else way.at_once.send_at_once
        if send is None and (way.posts is None or way.mirrors_arguments(request)):
            return False
        call.settings = server.settings
        return PassedCall(self, way, call, keeper, copy_context()).start(send)

    def _find_way(self, call: Call) -> Way | None:
        """Return the connection for a call, if it is there and has the version of the call."""
        self._ways.pop(call.headers, None)
        version = call.request.caller.version
        if self._is_named and version.stateless:
            return None
        try:
            pool = self._pool_of(call)
        except DragomanError:  # the plain way says what is wrong
            return None
        upstream = pool.ready(call)
        connection = None if upstream is None else upstream.current
        if upstream is None or connection is None:
            return None
        pool.release(upstream, call)
        if connection.version is not version:
            return None
        if len(self._ways) >= MAX_WAYS:
            self._ways.clear()
        link = connection.link
        way = self._ways[call.headers] = Way(pool, upstream, connection, version, link.posts, link.at_once)
        return way


class Way(Struct, frozen=True):
    """The way of the requests of a session to the target: it does not change while the connection is alive."""

    pool: Pool
    upstream: Upstream
    connection: ServerConnection
    version: Version
    posts: Posts | None
    at_once: SendsAtOnce | None

    def mirrors_arguments(self, request: McpRequest) -> bool:
        """Tell whether headers of a request repeat arguments of its tool."""
        is_call = self.version.mirrors_headers and request.method.name == "tools/call"
        plan = self.upstream.plans.get(request.params.name) if is_call else None
        return plan is not None and plan.params != ()


class PassedCall(Struct, eq=False):
    """One request that went the short way: the waiter for its answer."""

    passing: UnchangedCalls
    way: Way
    call: Call
    keeper: Keeper
    context: Context
    id: types.RequestId = 0
    clock: Clock | None = None
    is_settled: bool = False
    begun: BegunRequest | None = None
    """The POST of the request."""
    reading: asyncio.Task[None] | None = None
    """Reads an unusual response to the POST."""

    def start(self, send: Callable[[bytes], None] | None) -> bool:
        """Send or post the request, and return whether that was possible now; its response comes later."""
        call, way, request = self.call, self.way, self.call.request
        connection, method = way.connection, request.method.name
        self.id = id = connection.next_id()
        params = with_progress_token(request.raw_params, request.progress_token, id)
        data = connection.begin_request(id, method, params, self)
        if send is None:
            assert way.posts is not None
            named_by = way.upstream.table.named_by.get(method)
            name = None if named_by is None else getattr(request.params, named_by, None)
            self.begun = way.posts.begin(data, self._arrived, method, name)
            if self.begun is None:
                connection.forget(id)
                return False
        way.upstream.calls[call] = None
        self.keeper.keep_open(call, self._drop)
        if send is not None:
            before = PROXIED.set(call)
            send(data)
            PROXIED.reset(before)
        return True

    def _arrived(self, begun: BegunRequest) -> None:
        """Take the result from the response to the POST, or let a task read the response."""
        if self.is_settled:  # the connection was closed
            return
        connection, body = self.way.connection, begun.response.whole
        result = None if body is None else connection.take_result(self.id, body)
        if result is not None:
            self.settle(result)
            return
        before = PROXIED.set(self.call)
        self.reading = connection.go_on(begun, self.call.request.method.name, self, lambda: self.is_settled)
        PROXIED.reset(before)

    def settle(self, outcome: Raw | Exception) -> None:
        """Write the result to the client; go on in a task after an error."""
        call, way = self.call, self.way
        self.is_settled = True
        if type(outcome) is not Raw:
            way.pool.release(way.upstream, call)
            assert isinstance(outcome, Exception)
            assert call.loop is not None
            # Later: the connection reports its end to the proxy after it has failed its requests.
            call.loop.call_soon(self.keeper.go_on, call, partial(self._go_on, outcome), context=self.context)
            return
        self.keeper.answer(call, outcome, at_once=way.at_once is not None and way.at_once.is_single)
        way.pool.release(way.upstream, call)
        if call.request.progress_token is not None and is_begun_task(call.request, outcome):
            way.upstream.keep_progress(self.id, self.on_progress)

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress to the client, under its own token."""
        token = self.call.request.progress_token
        if token is not None:
            report_progress(self.call, token, progress, total, message)

    async def _go_on(self, error: Exception) -> Any:
        """Raise the error for the client, or send the request again, as the plain way does."""
        if isinstance(error, HeaderMismatch):  # the plain way finds out which headers the target wants
            return await self.passing.answer(self.call, Failures())
        if not isinstance(error, TransportError):
            raise error
        failures, name, method = Failures(), self.passing.server.name, self.call.request.method.name
        try:
            is_repeated = await self.way.upstream.may_repeat(error, self.way.connection, failures, method)
        except TransportError as noted:
            raise refusal_of(noted, name) from noted
        if not is_repeated:
            raise refusal_of(error, name) from error
        return await self.passing.answer(self.call, failures)

    def _drop(self) -> None:
        """Tell the target that the client cancelled the request."""
        self.is_settled = True
        if self.begun is not None:
            self.begun.drop()
        if self.reading is not None:
            self.reading.cancel()
        self.way.pool.release(self.way.upstream, self.call)
        self.way.connection.abandon(self.id)


def report_progress(
    call: Call, token: types.ProgressToken, progress: float, total: float | None, message: str | None
) -> None:
    """Pass the progress of a request to its client, under the token of the client."""
    if call.progress is not None and progress <= call.progress:
        return  # MUST: progress increases. A call that is sent again after a question begins at the start.
    call.progress = progress
    params = types.ProgressNotificationParams(token, progress, total, message)
    call.channel.notify_session("notifications/progress", trim(params, call.request.caller.version))
