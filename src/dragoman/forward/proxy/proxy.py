"""`ProxyServer`: a server in front of any target of a client, which passes every request and returns every result.

Each method has the same handler, `forward`: it sends the method and the parameters to the target as they came, and
returns the result as it came. So methods, fields and kinds of content that this package does not know pass too. What a
proxy changes is what the two connections must have of their own:

    ids, progress tokens    each connection has its own
    `_meta`                 a stateless request carries the version, the capabilities and the name of its client
    the era                 a result gets, or loses, what only stateless results have
    questions               a client is asked in its own era, whichever era the target asks in (`parked`)
    the server's name       if `name` is given

If both sides speak the same version, a result is passed as bytes and never decoded. A proxy connects to its target with
the version of its client, if the target speaks that version.

Rejected: a server with a tool for each tool of the target. It loses what it does not know, and is late with changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.client.options import CONNECT_SECONDS
from dragoman.errors import (
    DefinitionError,
    DragomanError,
    HeaderMismatch,
    InsufficientScope,
    InvalidParams,
    InvalidRequest,
    PaginationLimit,
    RpcError,
    TransportError,
)
from dragoman.forward.messages import UNREACHABLE, RawObject, listed_plans, pages_of
from dragoman.forward.proxy.known_targets import TargetDeclaration, refusal_of
from dragoman.forward.proxy.pool import ConnectionLimit, Dialer, Isolation, Pool, lasting
from dragoman.forward.proxy.raw_results import (
    check_mirrored,
    declaration,
    fits,
    input_requests,
    is_begun_task,
    params_of,
    report_progress,
    translated,
    with_age,
    with_subscription,
    with_tools,
    with_versions,
)
from dragoman.forward.proxy.task_owners import ABOUT_TASKS, TaskOwners
from dragoman.forward.proxy.upstream import LIST_CHANGES, Upstream, can_be_asked, mirrored_by
from dragoman.protocol import eras
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import METHOD_NAMES, Method
from dragoman.protocol.official.tasks import LIST as LIST_TASKS
from dragoman.protocol.rounds import MAX_ROUNDS
from dragoman.protocol.subscriptions import ACKNOWLEDGED, RESOURCE_UPDATED, Subscription, honoured_filter
from dragoman.protocol.versions import Version, version_names
from dragoman.server.offering import Offering
from dragoman.server.registry import PageCursors
from dragoman.server.request.asking import TIMEOUT
from dragoman.server.server import Server

if TYPE_CHECKING:
    from dragoman.client.connect.endpoint import Target
    from dragoman.forward.mount.mount import Mount
    from dragoman.server.dispatch.dispatcher import Dispatcher
    from dragoman.server.request.call import Call
    from dragoman.server.request.context import CredentialExchange

T = TypeVar("T")
NOTIFICATIONS = "notifications/"
MAX_CONNECTIONS = 100
MAX_LISTENS = 10_000
_EVERYTHING = types.ServerCapabilities(
    tools=types.ListChangedCapability(list_changed=True),
    prompts=types.ListChangedCapability(list_changed=True),
    resources=types.ResourcesCapability(list_changed=True, subscribe=True),
    logging={},
    completions={},
)
LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
_OWN_NOTIFICATIONS = frozenset({"notifications/cancelled", "notifications/progress"})


class _EveryMethod(dict[str, Method]):
    """The methods of a version, and a row without types for each method that the protocol does not define."""

    def __contains__(self, name: object) -> bool:
        is_of_another_version = name in METHOD_NAMES and not str(name).startswith(NOTIFICATIONS)
        return super().__contains__(name) or not is_of_another_version

    def __missing__(self, name: str) -> Method:
        if name not in self:
            raise KeyError(name)
        return Method(name=name, result=types.Result)


class _Forwarding(dict[str, Any]):
    """A table of handlers in which every method has one."""

    def __init__(self, forward: Any, **own: Any) -> None:
        super().__init__(own)
        self._forward = forward

    def __missing__(self, _: str) -> Any:
        return self._forward


class ProxyOffering(Offering):
    """The offering of a proxy: every method, because only the target knows which it has."""

    def derive(self) -> None:
        """Derive the offer, with every method."""
        super().derive()
        if not isinstance(next(iter(self.offer.methods.values())), _EveryMethod):
            methods = {name: _EveryMethod(rows) for name, rows in self.offer.methods.items()}
            self.offer = msgspec.structs.replace(self.offer, methods=methods, table=Upstream.table)

    def for_notification(self, method: str) -> eras.Offer | None:
        """Return the offer that opens a notification of a client: the target may handle every notification."""
        return None if method in _OWN_NOTIFICATIONS else self.offer


class ProxyServer(Server):
    """The server that `Server.proxy` returns for one target, which says what the parameters are.

    `limit` is shared with other proxies, instead of `max_connections`. Tools that `shows_tool` denies do not exist.
    """

    _offering_type = ProxyOffering

    def __init__(
        self,
        target: Target,
        *,
        name: str | None = None,
        isolate: Isolation | None = None,
        forward_credentials: bool | CredentialExchange = False,
        headers: Mapping[str, str] | None = None,
        auth: object = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        connect_timeout: float = CONNECT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
        max_connections_per_principal: int | None = None,
        limit: ConnectionLimit | None = None,
        shows_tool: Callable[[str], bool] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name or "proxy", capabilities=_EVERYTHING, **options)
        self._is_named = name is not None
        self.dispatcher.passes_to = target.dispatcher if isinstance(target, Server) else None
        if isolate not in (None, "principal", "session"):
            raise DefinitionError(f'isolate must be "principal", "session" or None, not {isolate!r}')
        self._dialer = Dialer(
            self,
            target,
            auth=auth,
            headers=headers or {},
            forward_credentials=forward_credentials,
            env=env or {},
            cwd=cwd,
            connect_timeout=connect_timeout,
        )
        self._shows_tool = shows_tool
        self._task_owners = TaskOwners(self, lambda call: self._dialer.credential(call) is None)
        self._isolate = isolate
        self._limit = limit or ConnectionLimit(max_connections, max_connections_per_principal)
        own = {"initialize": self._initialize, "server/discover": self._discover, "subscriptions/listen": self._listen}
        served = {name: partial(self._serve, handle) for name, handle in own.items()}
        ping = self.dispatcher.handlers["ping"]
        self.dispatcher.handlers = _Forwarding(partial(self._serve, self._answer), ping=ping, **served)
        self.lifespan(self._pooled)

    def __repr__(self) -> str:
        return f"<Server {self.name!r}: a proxy>"  # the target may hold secrets

    # What a mounted proxy tells: its clients may never have reached the target.

    @property
    def is_watched(self) -> bool:
        """Whether the clients of another server want to know when the target is back."""
        return len(self.dispatcher.mounted_in) > 0

    def target_is_back(self) -> None:
        """Tell the clients of the servers in which this one is mounted that every list may have changed."""
        for mount in cast("list[Mount]", list(self.dispatcher.mounted_in)):
            for method in LIST_CHANGES:
                for listener in mount.listeners:
                    listener.notify_change(method)

    # Connections to the target.

    async def _pooled(self) -> AsyncIterator[Pool]:
        pool = Pool(self, self._dialer, self._task_owners.recent, isolate=self._isolate, limit=self._limit)
        try:
            yield pool
        finally:
            await pool.stop()

    def _pool_of(self, call: Call) -> Pool:
        """Return the connections in the loop of a call.

        Raises:
            RpcError: the call has passed through this proxy before, or through too many proxies.
        """
        self._dialer.require_progress(call)
        return cast("Pool", self.dispatcher.lifespan_values(call.loop)[self._pooled])

    # Handlers.

    def _serve(
        self, handle: Callable[[Call], Awaitable[Any]], _server: Dispatcher, call: Call
    ) -> Coroutine[Any, Any, Any]:
        if call.is_notification:
            return self._take_notification(call)
        return (
            self._readable(call, handle)
            if self.dispatcher.middleware_chain is not None
            else self._explained(handle(call))
        )

    async def _readable(self, call: Call, handle: Callable[[Call], Awaitable[Any]]) -> Any:
        """Return a result that middleware can read: bytes that fit the type of the method, else a dict."""
        raw = await self._explained(handle(call))
        if not isinstance(raw, Raw) or fits(raw, call.request.method.result):
            return raw
        return msgspec.json.decode(raw)

    async def _explained(self, answer: Awaitable[T]) -> T:
        """Return an answer of the target, or the error that clients get if the target cannot give one."""
        try:
            return await answer
        except (TransportError, PaginationLimit) as error:
            raise refusal_of(error, self.name) from error

    async def _take_notification(self, call: Call) -> None:
        """Pass a notification of a client; nobody waits for an answer, so an error is only logged."""
        try:
            params, meta = params_of(call.request)
            await self._task_owners.require(call, params)
            async with self._pool_of(call).taken(call) as upstream:
                # `take` lets the client of a session receive what the target sends, which needs its own `initialized`.
                if call.request.method.name != "notifications/initialized":
                    await upstream.notify(
                        call.request.method.name, {**params, "_meta": Raw(encode(meta))} if meta else params
                    )
        except DragomanError as error:
            refusal_of(error, self.name)

    async def _answer(self, call: Call) -> Any:
        """Pass a request to the target, and return the result in the form of the client's version."""
        pool, method = self._pool_of(call), call.request.method
        params, meta = params_of(call.request)
        if method.name == "tools/call" and self._shows_tool and not self._shows_tool(call.request.params.name):
            raise _unknown_tool(call.request.params.name)
        if method.input_required and pool.parked.waits_for(call):
            return await pool.parked.resume(call)
        if method.name in LISTS:
            return await self._list(pool, call, params, meta)
        upstream = await pool.take(call)
        is_parked = False
        try:
            if self._may_be_parked(call) and not (await upstream.connection()).version.asks_in_results:
                is_parked = True
                return await self._park(pool, upstream, call, params, meta)
            raw, version = await self._pass(upstream, call, params, meta)
        finally:
            if not is_parked:
                pool.release(upstream, call)
        pool.known.of(pool.user(call)).is_away = False
        return self._translated(raw, version, call, upstream)

    async def _list(self, pool: Pool, call: Call, params: RawObject, meta: RawObject) -> Raw:
        """Return a list of the target, or the last known list with its age if the target is away."""
        known, key = pool.known.of(pool.user(call)), (call.request.method.name, encode(params))
        page = known.page(key)

        async def fetch(wait: float | None) -> Raw:
            async with pool.taken(lasting(call), wait) as upstream:
                raw, version = await self._pass(upstream, call, params, meta, reconnects=wait is None)
                if known.is_away:
                    upstream.announce_lists(await upstream.connection())
            if self._shows_tool is not None and call.request.method.name == "tools/list":
                raw = with_tools(raw, self._shows_tool)
            known.keep(key, raw, version)
            return self._translated(raw, version, call, upstream)

        def last() -> Raw:
            assert page is not None
            return with_age(self._translated(page.raw, page.version, call), page.age)

        return await known.latest(
            fetch,
            None if page is None else last,
            is_connected=pool.is_connected(call),
            waits=not call.is_passed,  # a mount leaves out what is away
        )

    def _may_be_parked(self, call: Call) -> bool:
        """Tell whether a call asks its client by results, so that it waits here if the target asks during the call."""
        method, caller = call.request.method, call.request.caller
        return method.input_required and caller.version.asks_in_results and can_be_asked(caller.capabilities)

    def _translated(self, raw: Raw, version: Version, call: Call, upstream: Upstream | None = None) -> Raw:
        request = call.request
        info = self.info if self._is_named else None
        if upstream is not None and not version.stateless:
            info = info or upstream.server_info
        return translated(raw, version, request.caller.version, request.method, info)

    async def _pass(
        self, upstream: Upstream, call: Call, params: RawObject, meta: RawObject, *, reconnects: bool = True
    ) -> tuple[Raw, Version]:
        """Send a request; ask a client with a session the questions of a stateless target, and send it again."""
        match call.request.method.name:
            case "resources/subscribe":
                return await upstream.subscribe(call, params), call.request.caller.version
            case "resources/unsubscribe":
                return await upstream.unsubscribe(call, params), call.request.caller.version
            case "logging/setLevel":
                return await upstream.set_level(call, params), call.request.caller.version
        if call.request.method.name in ABOUT_TASKS:
            await self._task_owners.require(call, params)
        for _ in range(MAX_ROUNDS + 1):
            raw, version = await self._send(upstream, call, params, meta, reconnects=reconnects)
            if not version.asks_in_results or call.request.caller.version.asks_in_results:
                return raw, version
            questions, state = input_requests(raw)
            if questions is None:
                return raw, version
            params = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
            answers = await asyncio.gather(
                *(call.ask_client(one.method, one.params, TIMEOUT) for one in questions.values())
            )
            params["inputResponses"] = Raw(encode(dict(zip(questions, answers, strict=True))))
            if state is not UNSET:
                params["requestState"] = state
        raise RpcError(UNREACHABLE, f"The server behind the proxy asked for input more than {MAX_ROUNDS} times")

    async def _send(
        self,
        upstream: Upstream,
        call: Call,
        params: RawObject,
        meta: RawObject,
        on_progress: Any = None,
        *,
        reconnects: bool = True,
    ) -> tuple[Raw, Version]:
        method, token = call.request.method.name, call.request.progress_token
        plan = upstream.plans.get(call.request.params.name) if method == "tools/call" else None
        if plan is not None and (sent := mirrored_by(call)) is not None:
            check_mirrored(plan, params.get("arguments", b"{}"), sent)
        if token is not None and on_progress is None:
            on_progress = partial(report_progress, call, token)
        ids: list[types.RequestId] = []
        try:
            raw, version = await upstream.request(
                call, method, params, meta=meta, on_progress=on_progress, on_id=ids.append, reconnects=reconnects
            )
        except RpcError as error:
            # The target may want arguments of the tool in headers, which its list of tools names.
            is_listed = method != "tools/call" or upstream.plans or mirrored_by(call)
            if not isinstance(error, HeaderMismatch) or is_listed:
                raise self._refusal(error) from error
            await self._read_plan(upstream, call, meta)
            raw, version = await upstream.request(call, method, params, meta=meta, on_progress=on_progress)
        if call.principal is not None or method == LIST_TASKS:
            raw = await self._task_owners.passed(call, raw)
        if on_progress is not None and ids and is_begun_task(call.request, raw):
            upstream.keep_progress(ids[-1], on_progress)
        if method == "tools/list" and version.mirrors_headers:
            upstream.add_plans(listed_plans(raw))
        return raw, version

    def _refusal(self, error: RpcError) -> RpcError:
        """Return an error of the target; a server of this process may miss scopes of the caller's own token."""
        scopes = error.data.get("requiredScopes") if isinstance(error.data, dict) else None
        return InsufficientScope(scopes) if scopes and self.dispatcher.passes_to is not None else error

    async def _read_plan(self, upstream: Upstream, call: Call, meta: RawObject) -> None:
        """Find the tool of a call in the list of tools, and keep which of its arguments headers repeat.

        Raises:
            PaginationLimit: the list has too many pages.
        """

        async def page(cursor: str | None) -> Raw:
            params = {} if cursor is None else {"cursor": Raw(encode(cursor))}
            return (await upstream.request(call, "tools/list", params, meta=meta))[0]

        async for raw in pages_of(page, PageCursors("tools/list")):
            upstream.add_plans(listed_plans(raw))
            if call.request.params.name in upstream.plans:
                return

    async def _park(self, pool: Pool, upstream: Upstream, call: Call, params: RawObject, meta: RawObject) -> Raw:
        """Pass a call of a stateless client to a target that may ask it over the connection."""
        if call.request.params.request_state is not None:
            pool.release(upstream, call)
            raise InvalidParams("The requestState does not belong to this request")
        params.pop("inputResponses", None)

        def released() -> None:
            del upstream.asks[call]
            pool.release(upstream, call)

        parked = pool.parked.begin(call, released)
        upstream.asks[call] = parked.ask

        def progressed(progress: float, total: float | None, message: str | None) -> None:
            if parked.progress_token is not None:
                report_progress(call, parked.progress_token, progress, total, message)

        async def work() -> Raw:
            raw, version = await self._send(upstream, call, params, meta, progressed)
            return self._translated(raw, version, call, upstream)

        parked.start(self._explained(work()))
        return await pool.parked.result(parked, call)

    async def _initialize(self, call: Call) -> Any:
        """Begin a session: connect to the target, and return what the target declares."""
        if call.session.caller is not None:
            raise InvalidRequest("The session is initialized already")
        result, caller = eras.initialize(call.request.params, self.offering.offer, self.capabilities, self.info)
        pool = self._pool_of(call)
        known = pool.known.of(pool.user(call))

        async def fetch(wait: float | None) -> TargetDeclaration:
            async with pool.taken(lasting(call), wait, caller=caller) as upstream:
                known.declaration = TargetDeclaration.of(await upstream.connection())
            return known.declaration

        declared = await known.latest_declaration(fetch)
        call.session.begin(caller)
        return declaration(declared.raw, result, declared.server_info, self.info if self._is_named else None)

    async def _discover(self, call: Call) -> Any:
        """Return the versions of this proxy and the capabilities of the target."""
        pool, (params, meta) = self._pool_of(call), params_of(call.request)
        known = pool.known.of(pool.user(call))

        async def fetch(wait: float | None) -> TargetDeclaration:
            async with pool.taken(lasting(call), wait, may_share=True) as upstream:
                connection = await upstream.connection()
                known.declaration = declared = TargetDeclaration.of(connection)
                if connection.version.stateless:
                    envelope = meta or cast("RawObject", connection.with_envelope({})["_meta"])
                    raw, version = await upstream.request(
                        call, "server/discover", params, meta=envelope, reconnects=wait is None
                    )
                    declared.discovered = with_versions(raw, version_names(self.offering.offer.versions)), version
            return declared

        declared = await known.latest_declaration(fetch)
        if declared.discovered is not None:
            return self._translated(*declared.discovered, call)
        result = eras.discover(self.offering.offer, declared.capabilities, declared.instructions)
        info = self.info if self._is_named or declared.server_info is None else declared.server_info
        result.meta = {types.SERVER_INFO: Raw(encode(info))}
        return result

    async def _listen(self, call: Call) -> Any:
        """Pass a subscription of a stateless client, until the client cancels it or the target ends it."""
        async with self._pool_of(call).taken(call, may_share=True) as upstream:
            version = (await upstream.connection()).version
        if upstream.listen_count >= MAX_LISTENS:
            raise RpcError(UNREACHABLE, "There are too many subscriptions; try again later")
        return await (self._listen_there if version.listens else self._listen_here)(upstream, call)

    async def _listen_there(self, upstream: Upstream, call: Call) -> Any:
        ids: list[types.RequestId] = []
        params, meta = params_of(call.request)
        params = await self._task_owners.heard(call, params)

        def begun(id: types.RequestId) -> None:
            ids.append(id)
            upstream.listens[id] = lambda method, sent: call.channel.notify(method, with_subscription(sent, call))

        try:
            raw, _ = await upstream.request(call, "subscriptions/listen", params, meta=meta, on_id=begun)
        except TransportError:
            if not ids:
                raise
            # The client sends an ended subscription again, and knows then that it may have missed something.
            return types.SubscriptionsListenResult(meta={types.SUBSCRIPTION_ID: call.request.id})
        finally:
            for id in ids:
                upstream.listens.pop(id, None)
        return with_subscription(msgspec.json.decode(raw, type=RawObject), call)

    async def _listen_here(self, upstream: Upstream, call: Call) -> Any:
        """Serve a subscription by the session of the proxy with the target."""
        connection = await upstream.connection()
        honoured = honoured_filter(call.request.params.notifications, connection.capabilities)
        subscription = Subscription(call.request.id, honoured)

        def change(method: str, params: RawObject) -> None:
            uri = msgspec.json.decode(params["uri"]) if method == RESOURCE_UPDATED else None
            if subscription.enqueue(method, uri):
                subscription.drain()
                call.channel.notify(method, with_subscription(params, call))

        def begun() -> None:
            acknowledged: RawObject = {"notifications": Raw(encode(honoured))}
            call.channel.notify(ACKNOWLEDGED, with_subscription(acknowledged, call))

        await upstream.listen(call, change, frozenset(honoured.resource_subscriptions or ()), begun)
        return subscription.result()


def _unknown_tool(name: str) -> InvalidParams:
    error = InvalidParams(f"Unknown tool: {name}")
    error.label = "tool_not_found"
    return error
