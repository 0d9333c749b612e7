"""`Upstream`: one connection of a proxy to its target, and the calls of clients that pass over it.

An `Upstream` connects when the first call needs it, and again after the connection was lost. It owns the client's side
of the protocol there: it declares the capabilities of the clients that it serves, passes their requests, and brings
them what the target sends. What it brings belongs to

    a request    progress, and messages that arrive while the response of the request is read (HTTP, memory)
    a listen     notifications with the subscription id of a `subscriptions/listen` that passed
    the clients  everything else: changes of lists go to each session, an updated resource to those that subscribed

A message that belongs to no request goes to every client with a session or a call here. If these clients have different
principals, logs and other messages without a request are dropped, because they may be about one of them. What is said
of a task whose principal is known goes to the clients of that principal.

A question of the target goes to the client of the request that it arrived with. On a duplex connection the wire does
not tell, so a connection over which a server may ask serves one session, or one call at a time (`pool`).

Rejected: `AsyncClient`. It decodes results and answers questions itself, and a proxy must do neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, ref

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.connect.endpoint import Endpoint
from dragoman.client.connect.handshake import Connector
from dragoman.client.connect.reconnect import MAX_ATTEMPTS, Connections, Failures
from dragoman.client.connect.server_requests import MAX_SERVER_REQUESTS
from dragoman.client.hear.subscriptions import ListenStream
from dragoman.client.options import TIMEOUT_SECONDS, OnProgress, RequestOptions
from dragoman.errors import DragomanError, HttpError, MethodNotFound, RpcError, TransportError
from dragoman.forward.messages import RawObject, raw_object
from dragoman.forward.passthrough import LIMITS
from dragoman.protocol import jsonrpc
from dragoman.protocol.eras import Caller
from dragoman.protocol.extensions import ProtocolTable
from dragoman.protocol.headers import PARAM_PREFIX, HeaderPlan, read
from dragoman.protocol.official import apps, skills
from dragoman.protocol.official.tasks import FIRST_OF_SERVERS, SECOND
from dragoman.protocol.subscriptions import (
    ACKNOWLEDGED,
    PROMPTS_CHANGED,
    RESOURCE_UPDATED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
)
from dragoman.protocol.versions import VERSIONS, Version
from dragoman.runtime.tasks import cancel_and_wait, keep_until_done
from dragoman.server.request.asking import TIMEOUT
from dragoman.server.request.call import LEVELS, Call, ConnectedClient, Session
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.server.duplex import DuplexConnection

Listener = Callable[[str, RawObject], None]
"""Called with the method and the parameters of a notification."""
PROXIED: ContextVar[Call | None] = ContextVar("dragoman_proxied_call", default=None)
"""The call whose request is being sent or whose response is being read."""
STATELESS_META = (types.PROTOCOL_VERSION, types.CLIENT_CAPABILITIES, types.CLIENT_INFO, types.LOG_LEVEL)
LIST_CHANGES = {TOOLS_CHANGED: "tools", PROMPTS_CHANGED: "prompts", RESOURCES_CHANGED: "resources"}
LOG = "notifications/message"
MAX_TASKS = 1000
"""At most this many tasks on a connection keep forwarding progress after their call was answered."""
MAX_PLANS = 10_000
"""At most this many tools of a connection are remembered."""
_TABLE = ProtocolTable.of([apps.ROW, skills.ROW, FIRST_OF_SERVERS, SECOND])
_logger = logging.getLogger("dragoman.compose")


def can_be_asked(capabilities: types.ClientCapabilities) -> bool:
    """Tell whether a server may ask a client with these capabilities."""
    return (capabilities.sampling, capabilities.elicitation, capabilities.roots) != (None, None, None)


def header_of(call: Call, name: str) -> str | None:
    """Return a header of the HTTP request of a call; None if there is none."""
    wanted = name.encode()
    for key, value in call.headers:
        if key.lower() == wanted:
            return value.decode("latin-1")
    return None


def mirrored_by(call: Call) -> Mapping[str, str] | None:
    """Return the `Mcp-Param-*` headers of a request; None if its client sends no such headers."""
    if not call.headers or not call.request.caller.version.mirrors_headers:
        return None
    return read((name.lower(), value) for name, value in call.headers).params


class Upstream:
    """One connection to the target of a proxy.

    `caller` is the client whose version and capabilities the connection declares; without one, the connection declares
    nothing and has the newest version that the target speaks. `on_lost` is called when the connection was lost.
    """

    max_server_requests = MAX_SERVER_REQUESTS
    table = _TABLE

    def __init__(
        self,
        endpoint: Endpoint,
        info: types.Implementation,
        caller: Caller | None = None,
        *,
        connect_timeout: float,
        on_lost: Callable[[], None],
    ) -> None:
        self.info = info
        self.calls: dict[Call, None] = {}
        """The calls that use the connection now, oldest first."""
        self.asks: dict[Call, Callable[[jsonrpc.Request], Any]] = {}
        """What asks the client of each stateless call that can be asked."""
        self._reader: ref[DuplexConnection] | None = None
        """The client on stdio, if this process serves one: nothing is read from the target while it does not read."""
        self._room: asyncio.Task[None] | None = None
        """Waits for room in the pipe to the client."""
        self.listens: dict[types.RequestId, Listener] = {}
        """The requests of `subscriptions/listen` that passed, by their ids here."""
        self._listeners: dict[Listener, tuple[frozenset[str], asyncio.Future[None]]] = {}
        """What receives changes for stateless clients of a target that has sessions: its URIs, and its end."""
        self._kept: deque[AbstractContextManager[None]] = deque()
        """The progress of tasks that is still passed, oldest first."""
        self._background: set[asyncio.Task[Any]] = set()
        self.plans: Recent[str, HeaderPlan] = Recent(MAX_PLANS)
        """Which arguments of the tools that were listed last are repeated in headers."""
        self.task_principals: Mapping[str, str | None] = {}
        """The principals of tasks, by the ids of the tasks; what the target says of a task is for its principal."""
        self.used_at = 0.0
        """When the connection was used last, by the clock of the loop."""
        self.principal: str | None = None
        """The principal whose call opened the connection, and in whose quota it counts."""
        self.is_shared = False
        """Whether other principals have used the connection too."""
        self.on_back: Callable[[], None] | None = None
        """Called when the target can be reached again."""
        self._capabilities = types.ClientCapabilities() if caller is None else caller.capabilities
        self._on_lost = on_lost
        self._sessions: WeakKeyDictionary[Session, ref[ConnectedClient]] = WeakKeyDictionary()
        self._log_level: types.LoggingLevel | None = None
        self._stream = ListenStream()
        exact = () if caller is None or caller.version.stateless else (caller.version,)
        make = partial(Connector, endpoint, self, limits=LIMITS, timeout=connect_timeout)
        self._exact, self._any = make(versions=exact) if exact else None, make(versions=VERSIONS)
        self._connections = Connections(self._connect_apart, self._prepare)

    def take(self, call: Call) -> None:
        """Let a call use the connection."""
        self.calls[call] = None
        self.is_shared = self.is_shared or call.principal != self.principal
        if call.channel.carrier == "stdio":
            self._reader = ref(cast("DuplexConnection", call.channel))

    @property
    def current(self) -> ServerConnection | None:
        """The connection, if it is alive."""
        return self._connections.current

    async def connection(self) -> ServerConnection:
        """Return the connection, and connect first if there is none.

        Raises:
            TransportError: the target cannot be reached.
            RpcError: the target refuses.
        """
        return await self._connections.connection()

    async def _connect_apart(self) -> ServerConnection:
        """Connect in a context without a call: what reads the connection later must not seem to belong to one."""
        variables: Variables = copy_context()
        variables.run(PROXIED.set, None)
        return await asyncio.get_running_loop().create_task(self._connect(), context=variables)

    async def _connect(self) -> ServerConnection:
        if self._exact is not None:
            try:
                return await self._exact.connect()
            except (RpcError, HttpError) as error:
                if isinstance(error, HttpError) and error.status >= 500:
                    raise
                _logger.info("The target does not speak the version of the client: %s", error)
                await self._exact.closed()
                connection = await self._any.connect()
                self._exact = None
                return connection
        return await self._any.connect()

    async def _prepare(self, connection: ServerConnection, is_reconnected: bool) -> None:  # noqa: FBT001
        """Renew the subscriptions and the log level, and tell the clients that the lists may have changed."""
        self.plans.clear()
        if connection.version.listens:
            self._stream.open(connection)
        else:
            requests: list[tuple[str, types.Json]] = [("resources/subscribe", {"uri": uri}) for uri in self._wanted()]
            if self._log_level is not None:
                requests.append(("logging/setLevel", {"level": self._log_level}))
            for method, params in requests:
                try:
                    await connection.request(method, params, RequestOptions(timeout=TIMEOUT_SECONDS))
                except RpcError as error:
                    _logger.warning("The target of the proxy refused %s: %s", method, error)
        if is_reconnected:
            self.announce_lists(connection)

    def announce_lists(self, connection: ServerConnection) -> None:
        """Tell the clients that every list may have changed: the target is back."""
        if self.on_back is not None:
            self.on_back()  # before a client asks for the lists
        for method, kind in LIST_CHANGES.items():
            if connection.offers(kind, "list_changed"):
                self._announce(method, {})

    def _wanted(self) -> set[str]:
        """Return the URIs of the resources that sessions subscribed to."""
        of_sessions = {uri for session in self._sessions for uri in session.subscribed}
        return of_sessions.union(*(uris for uris, _ in self._listeners.values()))

    async def request(
        self,
        call: Call,
        method: str,
        params: RawObject,
        *,
        meta: RawObject | None = None,
        on_progress: OnProgress | None = None,
        on_id: Callable[[types.RequestId], None] | None = None,
        reconnects: bool = True,
    ) -> tuple[Raw, Version]:
        """Send a request of a client; return its result as received, and the version in which it was answered.

        Without `reconnects`, a request that could not be sent is not sent again.

        Raises:
            RpcError: the target answered with an error.
            TransportError: the target cannot be reached, or was lost.
        """
        PROXIED.set(call)
        failures = Failures() if reconnects else Failures(unsent=MAX_ATTEMPTS)
        while True:
            connection = await self._connections.connection()
            options = RequestOptions(
                meta=self._meta(call, meta or {}, connection), on_progress=on_progress, on_id=on_id, is_whole_meta=True
            )
            sent: dict[str, Any] = dict(params)
            if connection.link.is_http:
                self._add_mirrored(call, method, sent, options)
            try:
                return await connection.request(method, sent, options), connection.version
            except TransportError as error:
                is_repeatable = method in self.table.repeatable
                if not await self._connections.may_repeat(error, connection, failures, is_repeatable=is_repeatable):
                    raise

    def add_plans(self, plans: Mapping[str, HeaderPlan]) -> None:
        """Keep which arguments of listed tools are repeated in headers."""
        for name, plan in plans.items():
            self.plans[name] = plan

    def keep_progress(self, token: types.ProgressToken, on_progress: OnProgress) -> None:
        """Go on to pass progress with a token after its request was answered, because a task goes on."""
        if self.current is not None:
            kept = self.current.receiving_progress(RequestOptions(progress_token=token, on_progress=on_progress))
            kept.__enter__()
            self._kept.append(kept)
        if len(self._kept) > MAX_TASKS:
            self._kept.popleft().__exit__(None, None, None)

    def _meta(self, call: Call, meta: RawObject, connection: ServerConnection) -> dict[str, Any]:
        """Return the `_meta` of a request in the version of the target."""
        own: dict[str, Any] = {key: value for key, value in meta.items() if key != "progressToken"}
        caller, version = call.request.caller, connection.version
        if version.stateless and not caller.version.stateless:
            own |= connection.with_envelope({})["_meta"]
            own[types.CLIENT_CAPABILITIES] = caller.capabilities
            level = call.session.log_level
            return own | ({} if level is None else {types.LOG_LEVEL: level})
        if caller.version.stateless and not version.stateless:
            return {key: value for key, value in own.items() if key not in STATELESS_META}
        return own

    def _add_mirrored(self, call: Call, method: str, sent: dict[str, Any], options: RequestOptions) -> None:
        """Add what headers of HTTP repeat: the name, and arguments as the client sent them or the tool marks them."""
        named_by = self.table.named_by.get(method)
        if named_by in sent:
            sent[named_by] = msgspec.json.decode(sent[named_by])
        if method != "tools/call":
            return
        given = mirrored_by(call)
        plan = self.plans.get(sent.get("name", ""))
        if given:
            options.headers = {f"{PARAM_PREFIX}{name}": value for name, value in given.items()}
        elif given is None and plan is not None and "arguments" in sent:
            sent["arguments"], options.mirrored = msgspec.json.decode(sent["arguments"]), plan

    async def notify(self, method: str, params: RawObject) -> None:
        """Pass a notification of a client."""
        await (await self.connection()).notify(method, params)

    # What clients want to hear.

    async def prepare(self, call: Call) -> None:
        """Let the client of a call receive what it wants to hear, and ask the target for the logs that it wants."""
        caller = call.request.caller
        if call.session.caller is not None:
            await self.add_session(call)
        if caller.log_level is not None and self._is_new_level(caller.log_level):
            connection = await self.connection()
            if not connection.version.stateless and connection.offers("logging"):
                self._log_level = caller.log_level
                await self.request(call, "logging/setLevel", {"level": _raw(caller.log_level)})

    def _is_new_level(self, level: types.LoggingLevel) -> bool:
        return self._log_level is None or LEVELS.index(level) < LEVELS.index(self._log_level)

    @property
    def server_info(self) -> types.Implementation | None:
        """The name of the target."""
        return None if self._connections.latest is None else self._connections.latest.server_info

    async def add_session(self, call: Call) -> None:
        """Let the client of a session receive what the target sends to its clients."""
        standalone, session = call.channel.standalone, call.session
        if standalone is None or session.caller is None or session in self._sessions:
            return
        self._sessions[session] = ref(standalone)
        connection = await self.connection()
        if connection.version.listens:
            self._stream.update(
                connection, tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            )

    async def subscribe(self, call: Call, params: RawObject) -> Raw:
        """Subscribe a session to a resource, and return the result."""
        await self.add_session(call)
        uri, connection, result = call.request.params.uri, await self.connection(), Raw(b"{}")
        if not connection.version.listens:
            result, _ = await self.request(call, "resources/subscribe", params)
        call.session.subscribe(uri)
        if connection.version.listens:
            self._stream.update(connection, resource_subscriptions=sorted(self._wanted()))
            await self._stream.wait_acknowledged(TIMEOUT_SECONDS)
        return result

    async def unsubscribe(self, call: Call, params: RawObject) -> Raw:
        """Unsubscribe a session from a resource; the target is told when no session is left."""
        uri, connection = call.request.params.uri, await self.connection()
        call.session.unsubscribe(uri)
        if connection.version.listens:
            self._stream.update(connection, resource_subscriptions=sorted(self._wanted()) or None)
        elif uri not in self._wanted():
            return (await self.request(call, "resources/unsubscribe", params))[0]
        return Raw(b"{}")

    async def listen(self, call: Call, listener: Listener, uris: frozenset[str], begun: Callable[[], None]) -> None:
        """Let a listener receive changes until the connection is lost; `begun` is called when the target knows."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners[listener] = uris, ended
        try:
            for uri in sorted(uris):
                await self.request(call, "resources/subscribe", {"uri": _raw(uri)})
            begun()
            await ended
        finally:
            del self._listeners[listener]
            for uri in uris - self._wanted():
                self._start(self.request(call, "resources/unsubscribe", {"uri": _raw(uri)}))

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something that nobody waits for."""

        async def quietly() -> None:
            with suppress(DragomanError):
                await work

        keep_until_done(asyncio.get_running_loop().create_task(quietly()), self._background)

    async def set_level(self, call: Call, params: RawObject) -> Raw:
        """Set the log level of a session; the target gets the most detailed level of all sessions."""
        await self.add_session(call)
        level: types.LoggingLevel = call.request.params.level
        result = Raw(b"{}")
        if self._is_new_level(level):
            if not (await self.connection()).version.stateless:
                result, _ = await self.request(call, "logging/setLevel", params)
            self._log_level = level
        call.session.set_level(level)
        return result

    # The contract `ConnectionOwner`: the connection calls these methods.

    def capabilities_for(self, version: Version) -> types.ClientCapabilities:  # noqa: ARG002
        """Return the capabilities of the client."""
        return self._capabilities

    def log_level_for(self, version: Version) -> types.LoggingLevel | None:  # noqa: ARG002
        """Return None: each request has the level of its own client."""
        return None

    def progress_received(
        self, on_progress: OnProgress | None, params: types.ProgressNotificationParams
    ) -> asyncio.Future[None] | None:
        """Pass the progress of a request."""
        if on_progress is not None:
            on_progress(params.progress, params.total, params.message)
        return self._room_for_more()

    def _room_for_more(self) -> asyncio.Future[None] | None:
        """Return what to wait for before more is read from the target, if the client on stdio does not read."""
        reader = None if self._reader is None else self._reader()
        if reader is None or reader.has_room:
            return None
        if self._room is None or self._room.done():
            waiting = asyncio.get_running_loop().create_task(reader.wait_for_room())
            self._room = keep_until_done(waiting, self._background)
        return self._room

    def connection_lost(self, connection: ServerConnection, error: Exception) -> None:
        """Forget the connection; if sessions or subscriptions need one, connect again."""
        _logger.info("The connection of the proxy to its target was lost: %s", error)
        self._on_lost()
        for _, ended in self._listeners.values():
            if not ended.done():
                ended.set_result(None)
        if self._connections.lose(connection) and self._sessions:
            self._start(self.connection())

    def stream_reopened(self, connection: ServerConnection) -> None:
        """Renew what clients want to hear: a restarted target may have kept only the session."""
        self._start(self._prepare(connection, is_reconnected=True))

    def answer(self, request: jsonrpc.Request) -> Any:
        """Ask the client of the call that a question belongs to.

        Raises:
            MethodNotFound: the question belongs to no call of a client that can be asked.
        """
        if request.method == "ping":
            return {}
        given = PROXIED.get()
        call = given if given in self.calls else next(filter(self._can_ask, reversed(self.calls)), None)
        if call is None and (client := self._only_client()) is not None:
            return partial(client.request, request.method, request.params, TIMEOUT)
        if call is None or not self._can_ask(call):
            raise MethodNotFound(f"No client of this proxy can be asked: {request.method}", {"method": request.method})
        if call in self.asks:
            return partial(self.asks[call], request)
        return partial(call.ask_client, request.method, request.params, TIMEOUT)

    def _only_client(self) -> ConnectedClient | None:
        """Return the client that has this connection for itself; a question between its calls is for this client."""
        [client, *others] = [one() for one in self._sessions.values()] or [None]
        return client if can_be_asked(self._capabilities) and not others else None

    def _can_ask(self, call: Call) -> bool:
        return call in self.asks or not call.request.caller.version.asks_in_results

    def notification_received(self, notification: jsonrpc.Notification) -> asyncio.Future[None] | None:
        """Pass a notification of the target to those whom it concerns."""
        method, params = notification.method, raw_object(notification.params)
        meta = raw_object(params.get("_meta", b""))
        raw_id = meta.get(types.SUBSCRIPTION_ID)
        listener = None if raw_id is None else self.listens.get(msgspec.json.decode(raw_id))
        if listener is not None:
            listener(method, params)
        elif method == ACKNOWLEDGED:
            self._stream.acknowledge(msgspec.json.decode(notification.params))
        elif method in LIST_CHANGES or method == RESOURCE_UPDATED:
            self._announce(method, params)
        else:
            self._pass_message(method, params)
        return self._room_for_more()

    def _announce(self, method: str, params: RawObject) -> None:
        """Pass a change to the sessions and the subscriptions that want it."""
        meta = {
            key: value for key, value in raw_object(params.get("_meta", b"")).items() if key != types.SUBSCRIPTION_ID
        }
        params = {key: value for key, value in params.items() if key != "_meta"} | (
            {"_meta": _raw(meta)} if meta else {}
        )
        for listener in list(self._listeners):
            listener(method, params)
        uri = msgspec.json.decode(params.get("uri", b"null"))
        told: set[ConnectedClient] = set()  # a proxy that is mounted twice has two sessions with each client
        for session, standalone in list(self._sessions.items()):
            client = standalone()
            is_wanted = uri in session.subscribed if method == RESOURCE_UPDATED else client not in told
            if client is not None and is_wanted:
                told.add(client)
                client.notify(method, params)

    def _pass_message(self, method: str, params: RawObject) -> None:
        """Pass a log message, or a notification that this package does not know."""
        call = PROXIED.get()
        calls = {one.session: one for one in ([call] if call in self.calls else self.calls)}
        sessions = [] if call in self.calls else [one for one in self._sessions if one not in calls]
        id = msgspec.json.decode(params.get("taskId", b"null"))
        if isinstance(id, str) and id in self.task_principals:
            owner = self.task_principals[id]
            calls = {session: one for session, one in calls.items() if session.principal == owner}
            sessions = [one for one in sessions if one.principal == owner]
        elif len({one.principal for one in (*sessions, *calls)}) > 1:
            return
        for session, one in calls.items():
            if _wants(method, params, session, one):
                one.channel.notify(method, params)
        for session in sessions:
            client = self._sessions[session]()
            if client is not None and _wants(method, params, session, None):
                client.notify(method, params)

    # The end.

    @property
    def has_sessions(self) -> bool:
        """Whether clients wait for what the target sends."""
        return bool(self._sessions or self.listen_count)

    @property
    def listen_count(self) -> int:
        """How many subscriptions of stateless clients there are."""
        return len(self._listeners) + len(self.listens)

    async def stop(self) -> None:
        """End the connection."""
        for task in list(self._background):
            await cancel_and_wait(task)
        await self._stream.close()
        await self._connections.stop()
        for connector in (self._exact, self._any):
            if connector is not None:
                await connector.closed()


def _wants(method: str, params: RawObject, session: Session, call: Call | None) -> bool:
    if method != LOG:
        return True
    is_stateless = call is not None and call.request.caller.version.stateless
    threshold = call.request.caller.log_level if call is not None and is_stateless else session.log_level
    if threshold is None and not is_stateless:
        return True  # MAY: a server decides what it sends to a client that set no level
    level = msgspec.json.decode(params.get("level", b"null"))
    return threshold in LEVELS and level in LEVELS and LEVELS.index(level) >= LEVELS.index(threshold)


def _raw(value: Any) -> Raw:
    return Raw(jsonrpc.encode(value))
