"""What stands behind a client's methods: the connection that heals, the server's messages, the rounds of input.

A request goes out over the lifeline's connection. In the stateless era its result may say that input is required: the
handlers answer, and the request is made again with the answers, a bounded number of times. The total time of a request
is that of all of it: waiting for a connection, the rounds, what the handlers take, and repetitions. What the server
tells is given to the author's functions in order. A request returns after what the server told before its answer was
delivered, or a moment after its answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from math import isnan
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.handlers import Handlers
from dragoman.client.answer.serving import MAX_SERVER_REQUESTS
from dragoman.client.catalog import Catalog
from dragoman.client.connect.connection import OnProgress, Options, ServerConnection
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.handshake import Connector, Endpoint, OfferedVersions
from dragoman.client.connect.reconnect import Connections, Failures, pause
from dragoman.client.extensions.contract import ExtendedRequest
from dragoman.client.extensions.joined import Extensions
from dragoman.client.hear.notifications import Deliveries, LogMessage, ServerNotification, log_here
from dragoman.client.hear.subscriptions import LASTING_SECONDS, LONGEST_PAUSE, Listening
from dragoman.client.results import FurtherResult, read
from dragoman.errors import (
    CapabilityNotAvailable,
    DragomanError,
    InputNeeded,
    RpcError,
    Timeout,
    TransportError,
    ValidationError,
)
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.protocol.methods import declares
from dragoman.protocol.peer import PROGRESS
from dragoman.protocol.subscriptions import (
    ACKNOWLEDGED,
    PROMPTS_CHANGED,
    RESOURCE_UPDATED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
)
from dragoman.protocol.versions import Version
from dragoman.types import decode

R = TypeVar("R")

MOST_ROUNDS = 10
TIMEOUT_SECONDS, CONNECT_SECONDS = 60.0, 30.0
MOST_LINKED = 1000
LOG = "notifications/message"
_CHANGED: dict[str, tuple[Any, ...]] = {
    TOOLS_CHANGED: ("tools",),
    PROMPTS_CHANGED: ("prompts",),
    RESOURCES_CHANGED: ("resources", "resource_templates"),
}
_params = msgspec.json.Decoder(types.Json)
_CANNOT_ASK = re.compile(r"server-(?:initiated|to-client) requests?\b", re.IGNORECASE)
"""How the SDKs of servers say that a handler wanted to ask where it cannot."""
_logger = logging.getLogger("dragoman.client")


class ClientCallbacks(msgspec.Struct, kw_only=True):
    """The author's functions that are told of things."""

    on_log: Callable[[LogMessage], object] | None = None
    log_level: types.LoggingLevel = "warning"
    on_progress: OnProgress | None = None
    on_notification: Callable[[ServerNotification], object] | None = None
    on_list_changed: Callable[[str], object] | None = None
    on_resource_updated: Callable[[str], object] | None = None
    on_reconnect: Callable[[], object] | None = None


class ContentHolder(Protocol):
    """Whoever keeps what a resource held."""

    def forget(self) -> None:
        """Keep it no longer."""


class ClientSession:
    """One client's inside."""

    def __init__(
        self,
        way: Endpoint,
        *,
        info: types.Implementation,
        speech: OfferedVersions,
        handlers: Handlers,
        watchers: ClientCallbacks,
        credentials: Credentials,
        timeout: float | None,
        total_timeout: float | None,
        connect_timeout: float,
        meta: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        max_server_requests: int = MAX_SERVER_REQUESTS,
        extensions: Extensions | None = None,
    ) -> None:
        self.info = info
        self.extensions = extensions or Extensions()
        self.table = self.extensions.table
        self.max_server_requests = max_server_requests
        self.handlers = handlers
        self.watchers = watchers
        self.credentials = credentials
        self.catalog = Catalog()
        self.listening = Listening(self.extensions.filter_type)
        self.subscribed: set[str] = set()
        self.linked: dict[str, types.Resource] = {}
        """The resources that results of tools linked to, by URI; the latest of them."""
        self._subscribers: dict[str, list[Callable[[str], Any]]] = {}
        self._watches: dict[str, WeakSet[ContentHolder]] = {}
        self.timeout = timeout
        self.total_timeout = total_timeout
        self._meta = meta
        self._deliveries = Deliveries()
        opening = Connector(way, self, speech, limits, timeout=connect_timeout)
        self.connections = Connections(opening.connect, self._welcome)
        self._background: set[asyncio.Task[Any]] = set()
        self._welcomed = 0.0
        self._brief = 0
        """How many connections in a row ended soon after they were made."""
        self._has_log_level = False
        """Whether `set_log_level` said which log messages are wanted."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.listening.on_gap = self._missed_changes

    # What a connection asks of its host.

    def capabilities_for(self, version: Version) -> types.ClientCapabilities:
        """Return what this client can do for a server."""
        return self.extensions.declared(self.handlers.capabilities(), version)

    def log_level_for(self, version: Version) -> types.LoggingLevel | None:
        """Return from which level on log messages are wanted with each request."""
        return self.watchers.log_level if version.stateless and self._wants_logs else None

    @property
    def _wants_logs(self) -> bool:
        """Whether anybody asked for log messages."""
        return self.watchers.on_log is not None or self._has_log_level

    def answer(self, request: jsonrpc.Request) -> Any:
        """Return the answer to a request of the server, or a function that is awaited for it."""
        if request.method in self.extensions.served and self.connections.latest is not None:
            self.extensions.require_served(request.method, self.connections.latest)
        return self.handlers.answer(request.method, request.params)

    def progressed(self, on_progress: OnProgress | None, params: types.ProgressNotificationParams) -> None:
        """Tell of progress: whoever made the call, else whoever made the client."""
        told, size = on_progress or self.watchers.on_progress, len(params.message or "")
        if told is not None:
            self._deliveries.put(told, params.progress, params.total, params.message, size=size)
        if self.watchers.on_notification is not None:
            self._tell(
                self.watchers.on_notification, ServerNotification(PROGRESS, msgspec.to_builtins(params)), size=size
            )

    def notified(self, notification: jsonrpc.Notification) -> None:
        """Take a notification of the server."""
        try:
            params = _params.decode(notification.params)
            self._take(notification.method, notification.params, params)
        except (msgspec.DecodeError, ValidationError, RecursionError) as error:
            _logger.warning("A notification %s of the server cannot be read: %s", notification.method[:100], error)

    def _take(self, method: str, raw: Raw, params: types.Json) -> None:
        watchers = self.watchers
        if method in _CHANGED:
            self.catalog.forget(*_CHANGED[method])
            for kind in _CHANGED[method]:
                self._tell_change(watchers.on_list_changed, kind)
        elif method == RESOURCE_UPDATED:
            uri = decode(raw, types.ResourceUpdatedNotificationParams).uri
            self._forget_content(uri)
            for subscriber in self._subscribers_of(uri):
                self._tell_change(subscriber, uri)
            self._tell_change(watchers.on_resource_updated, uri)
        elif method == LOG:
            said = decode(raw, types.LoggingMessageNotificationParams)
            self._tell(watchers.on_log or log_here, LogMessage(said.level, said.data, said.logger), size=len(raw))
        elif method == ACKNOWLEDGED:
            acknowledged = msgspec.convert(params.get("notifications"), self.listening.kind)
            self.listening.acknowledge(_subscription_id(params), acknowledged)
        else:
            self.extensions.notified(method, raw, self._tell)
        self._tell(watchers.on_notification, ServerNotification(method, params), size=len(method) + len(raw))

    def _tell(self, function: Callable[..., Any] | None, *given: Any, size: int = 0) -> None:
        if function is not None:
            self._deliveries.put(function, *given, size=size)

    def _tell_change(self, function: Callable[[str], Any] | None, what: str) -> None:
        if function is not None:
            self._deliveries.put_change(function, what)

    def _subscribers_of(self, uri: str) -> list[Callable[[str], Any]]:
        """Return who follows a resource, or what it lies below."""
        return [
            subscriber
            for subscribed, subscribers in self._subscribers.items()
            if uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")
            for subscriber in subscribers
        ]

    def lost(self, connection: ServerConnection, error: Exception) -> None:
        """Take note that the connection has ended by itself; who waits for changes gets a new one at once."""
        _logger.info("The connection to the server was lost: %s", error)
        has_lasted = asyncio.get_running_loop().time() - self._welcomed > LASTING_SECONDS
        self._brief = 0 if has_lasted else self._brief + 1
        if self.connections.lost(connection) and (self.subscribed or self.listening.wants_any):
            self._start(self._reconnect())

    async def _reconnect(self) -> None:
        if self._brief > 1:
            # A server that ends as soon as it is connected to is not to be started without end.
            await pause(self._brief, LONGEST_PAUSE)
        try:
            await self.connections.connection()
        except DragomanError as error:
            _logger.warning("The connection to the server cannot be made again: %s", error)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _missed_changes(self) -> None:
        self.catalog.forget()
        self._forget_content()

    async def _welcome(self, connection: ServerConnection, again: bool) -> None:  # noqa: FBT001
        """Tell a new connection all that the server is to know."""
        self.handlers.meet(connection.server_info)
        self._missed_changes()
        self._welcomed = asyncio.get_running_loop().time()
        if connection.version.stateless:
            self.listening.begin(connection)
        else:
            await self._prepare_session(connection)
        if again:
            self._tell(self.watchers.on_reconnect)

    async def _prepare_session(self, connection: ServerConnection) -> None:
        requests: list[tuple[str, dict[str, Any]]] = [("resources/subscribe", {"uri": uri}) for uri in self.subscribed]
        if self._wants_logs and connection.capabilities.logging is not None:
            requests.append(("logging/setLevel", {"level": self.watchers.log_level}))
        for method, params in requests:
            try:
                await connection.request(method, params, Options(timeout=self.timeout))
            except RpcError as error:
                _logger.warning("The server refused %s: %s", method, error)

    # What the client's methods ask for.

    async def start(self, *, is_patient: bool = False) -> ServerConnection:
        """Return the connection, made now if there is none; who is patient waits for it to its end.

        Raises:
            DragomanError: the client belongs to another event loop that still runs.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop.is_running() and self.connections.current is not None:
                raise DragomanError("The client is connected in another event loop; use one client per loop")
            if self._loop is not None:
                self._move()
            self._loop = loop
        return await self.connections.connection(is_patient=is_patient)

    def _move(self) -> None:
        """Leave what belongs to an event loop that is gone."""
        self.connections.abandon()
        self._background.clear()
        wanted, self.listening = self.listening.wanted, Listening(self.listening.kind)
        self.listening.wanted, self.listening.on_gap = wanted, self._missed_changes
        shares_loop, self._deliveries = self._deliveries.shares_loop, Deliveries()
        self._deliveries.shares_loop = shares_loop

    def request(self, method: str, params: dict[str, Any], kind: type[R], options: Options) -> Coroutine[Any, Any, R]:
        """Make a request, with as many rounds of input as it takes, and return its result.

        Of the kind `Raw` it is made once, and its result is as it came.

        Raises:
            RpcError: the server refused.
            Timeout: nothing was heard of it in time.
            TransportError: the connection was lost.
            InputNeeded: the server needs answers that nobody here gives.
        """
        total = self.total_timeout if options.total_timeout is None else options.total_timeout
        if total is None:
            return self.rounds(method, params, kind, options)
        return self._in_time(total, method, params, kind, options)

    async def _in_time(self, total: float, method: str, params: dict[str, Any], kind: type[R], options: Options) -> R:
        ids: list[types.RequestId] = []
        noting = msgspec.structs.replace(options, on_id=ids.append)
        clock = asyncio.timeout(total)
        try:
            async with clock:
                return await self.rounds(method, params, kind, noting)
        except TimeoutError:
            if not clock.expired():
                raise
            message = f"{method} timed out: it was not answered within {total:g} seconds"
            raise Timeout(message, ids[-1] if ids else None) from None

    async def rounds(self, method: str, params: dict[str, Any], kind: type[R], options: Options) -> R:
        """Make a request, and again while input is required for it; of the kind `Raw`, return the first unread."""
        is_safe = method in self.table.repeatable if options.is_safe is None else options.is_safe
        is_extended = method in self.extensions.methods
        turn, given, failures = 1, params, None
        while True:
            filled = self._filled(options)
            if self._loop is not asyncio.get_running_loop():
                await self.start()
            connection = self.connections.latest
            if connection is None or connection.state != "alive":
                connection = await self.connections.connection()
            sent = given
            if is_extended:
                filled = self.extensions.with_token(filled)
                request = ExtendedRequest(self, connection, method, given, filled)
                sent = self.extensions.with_params(request, connection)
            try:
                raw = await connection.request(method, sent, filled)
            except TransportError as error:
                failures = failures or Failures()
                if await self.connections.may_repeat(error, connection, failures, is_safe=is_safe):
                    continue
                raise
            except RpcError as error:
                message = self.with_advice(error.message)
                if message == error.message:
                    raise
                raise RpcError.of(error.code, message, error.data) from error
            if self._deliveries.lanes:
                await self._deliveries.settled(filled.timeout)
            result: Any = raw if kind is Raw else is_extended and self.extensions.named(method, raw)
            result = result or read(raw, kind, method)
            if type(result) is FurtherResult:
                request = ExtendedRequest(self, connection, method, sent, filled)
                result = await self.extensions.finish(connection, request, result, kind)
            if type(result) is not types.InputRequiredResult:
                return result  # type: ignore[no-any-return]
            given = await self._next_round(turn, method, params, result)
            turn, failures = turn + 1, None

    async def _next_round(
        self, turn: int, method: str, params: dict[str, Any], result: types.InputRequiredResult
    ) -> dict[str, Any]:
        """Return the parameters with which a request is made again, after its result was that input is required."""
        needed = result.input_requests or {}
        if turn > MOST_ROUNDS:
            raise InputNeeded(
                f"{method} asked for input {MOST_ROUNDS} times, and still does", needed, result.request_state
            )
        # MUST (2026-07-28): the retry has the original parameters, the answers, and exactly the state that came.
        given = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
        if needed:
            given["inputResponses"] = await self.answers(method, result)
        else:
            await pause(turn)
        if result.request_state is not None:
            given["requestState"] = result.request_state
        return given

    async def answers(self, method: str, result: types.InputRequiredResult) -> dict[str, Any]:
        """Answer everything that is asked, at once."""
        asked = result.input_requests or {}
        if len(asked) > self.max_server_requests:
            raise InputNeeded(
                f"{method} asks {len(asked)} questions at a time, more than max_server_requests="
                f"{self.max_server_requests} lets it",
                asked,
                result.request_state,
            )
        given = await asyncio.gather(*(self._answer(request) for request in asked.values()), return_exceptions=True)
        for outcome in given:
            if isinstance(outcome, RpcError):
                raise InputNeeded(
                    f"{method} needs input that this client does not give: {outcome}", asked, result.request_state
                ) from outcome
            if isinstance(outcome, BaseException):
                raise outcome
        return dict(zip(asked, given, strict=True))

    async def _answer(self, request: types.InputRequest) -> Any:
        name = str(type(request).__struct_config__.tag)
        params = request.params
        outcome = self.handlers.answer(name, b"{}" if params is None else jsonrpc.encode(params))
        return await outcome() if callable(outcome) else outcome

    def _filled(self, options: Options) -> Options:
        """Return options with what the client has in place of what they leave open; to be asked for each request."""
        if options.timeout is None:
            options.timeout = self.timeout
        elif isnan(options.timeout):
            raise ValueError(f"A time-out must be a number of seconds, not {options.timeout:g}")
        if self._meta is None and "opentelemetry.propagate" not in sys.modules:
            return options
        meta = self._meta() if callable(self._meta) else self._meta
        return msgspec.structs.replace(options, meta={**_trace_context(), **(meta or {}), **(options.meta or {})})

    def with_advice(self, failure: str) -> str:
        """Return why the server failed, with a remedy if it failed because it cannot ask in a stateless version."""
        connection = self.connections.latest
        if connection is None or not connection.version.stateless:
            return failure
        was_asked, connection.serving.asked_in_vain = connection.serving.asked_in_vain, False
        if not was_asked and not _CANNOT_ASK.search(failure):
            return failure
        return (
            f"{failure} (the server wanted to ask this client, and cannot in {connection.version.name}: connect with"
            ' mode="handshake")'
        )

    async def notify(self, method: str, params: Any = jsonrpc.NO_PARAMS) -> None:
        """Send a notification, if there is a connection."""
        connection = self.connections.current
        if connection is not None:
            try:
                await connection.notify(method, params)
            except TransportError as error:
                _logger.info("%s could not be sent: %s", method, error)

    def send_quietly(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Make a request whose outcome nobody waits for."""
        self._start(self._sent_quietly(send))

    async def _sent_quietly(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            await send()
        except DragomanError as error:
            _logger.info("A request that nobody waits for failed: %s", error)

    async def listen(self, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Let the server tell what these fields of extensions ask for, and return what it said that it tells."""
        connection = await self.start()
        for name in fields:
            field = self.extensions.subscription(name)
            if not offers(connection, *field.capability):
                raise CapabilityNotAvailable(f"The server does not offer {name} ({'.'.join(field.capability)})")
        wanted = {name: given if isinstance(given, bool) else given and list(given) for name, given in fields.items()}
        self.listening.want(connection, **{name: given or None for name, given in wanted.items()})
        if connection.version.stateless and self.listening.wants_any:
            await self.listening.acknowledged(self.timeout or TIMEOUT_SECONDS)
        return self.listening.heard

    async def subscribe(self, uri: str, on_update: Callable[[str], object] | None = None) -> None:
        """Let the server tell when a resource changes."""
        connection = await self.start()
        self.subscribed.add(uri)
        try:
            if connection.version.stateless:
                self.listening.want(connection, resource_subscriptions=sorted(self.subscribed))
                await self.listening.acknowledged(self.timeout or TIMEOUT_SECONDS)
                self._check_heard(uri)
            else:
                await self.request("resources/subscribe", {"uri": uri}, Raw, Options())
        except DragomanError:
            if uri not in self._subscribers:
                self.subscribed.discard(uri)
            raise
        self._subscribers.setdefault(uri, []).extend([] if on_update is None else [on_update])

    def _check_heard(self, uri: str) -> None:
        if uri not in (self.listening.heard.resource_subscriptions or ()):
            _logger.warning("The server did not acknowledge that it tells when %s changes", uri)

    async def unsubscribe(self, uri: str) -> None:
        """Let the server tell so no more."""
        self.subscribed.discard(uri)
        self._subscribers.pop(uri, None)
        connection = await self.start()
        if connection.version.stateless:
            self.listening.want(connection, resource_subscriptions=sorted(self.subscribed) or None)
            await self.listening.replaced()
            await connection.told()
        else:
            await self.request("resources/unsubscribe", {"uri": uri}, Raw, Options())

    def watch(self, uri: str, watcher: ContentHolder) -> None:
        """Let somebody forget what a resource held when it changes."""
        self._watches.setdefault(uri, WeakSet()).add(watcher)

    def _forget_content(self, uri: str | None = None) -> None:
        for watched in [self._watches.get(uri, ())] if uri is not None else self._watches.values():
            for bound in list(watched):
                bound.forget()

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Say from which level on log messages are wanted."""
        self.watchers.log_level, self._has_log_level = level, True
        connection = await self.start()
        if connection.version.stateless:
            connection.speak(connection.version)
        else:
            await self.request("logging/setLevel", {"level": level}, Raw, Options())

    def roots_changed(self) -> None:
        """Tell the server, from any thread, that the roots changed, if it was told at the start that it will be."""
        connection = self.connections.current
        if connection is None or self._loop is None or connection.version.stateless:
            return
        if declares(connection.declared, ("roots", "list_changed")):
            asyncio.run_coroutine_threadsafe(self.notify("notifications/roots/list_changed"), self._loop)

    def note_links(self, content: list[types.ContentBlock]) -> None:
        """Keep the resources that a result links to."""
        for block in content:
            if type(block) is types.ResourceLink:
                fields = {name: getattr(block, name) for name in types.Resource.__struct_fields__}
                self.linked.pop(block.uri, None)
                self.linked[block.uri] = types.Resource(**fields)
                if len(self.linked) > MOST_LINKED:
                    del self.linked[next(iter(self.linked))]

    def warn(self, text: str, *given: Any) -> None:
        """Write a warning to the client's logger."""
        _logger.warning(text, *given)

    def share_loop(self) -> None:
        """Let no function of the author's end the loop, which all blocking clients share."""
        self._deliveries.shares_loop = True

    async def identity(self, headers: Mapping[str, str] | None = None) -> Hashable:
        """Return what tells apart those whom the server may show different lists."""
        if self.credentials.are_fixed and not headers:
            return None
        return tuple(sorted({**await self.credentials.own_headers(), **(headers or {})}.items()))

    async def stop(self) -> None:
        """End everything."""
        await self.listening.close()
        for task in list(self._background):
            task.cancel()
        await self.connections.stop()
        await self._deliveries.close()
        self.catalog.forget()
        if self._background:
            await asyncio.wait(list(self._background))


def offers(connection: ServerConnection, *path: str) -> bool:
    """Tell whether a server offers something, or did not say what it offers."""
    return not connection.has_introduced or declares(connection.capabilities, path)


def seconds(given: float | None, variable: str, default: float) -> float:
    """Return a time: as given, or as the environment says, or by default.

    Raises:
        ValueError: it is no positive number.
    """
    text = os.environ.get(variable)
    try:
        value = float(text) if given is None and text else default if given is None else float(given)
    except ValueError:
        raise ValueError(f"{variable} must be a number of seconds, not {text!r}") from None
    if not value > 0:
        raise ValueError(f"A time-out must be more than 0 seconds, not {value:g}")
    return value


def _trace_context() -> dict[str, str]:
    """Return the trace that is under way, where OpenTelemetry is in use."""
    propagate = sys.modules.get("opentelemetry.propagate")
    carrier: dict[str, str] = {}
    if propagate is not None:
        propagate.inject(carrier)
    return carrier


def _subscription_id(params: types.Json) -> Any:
    meta = params.get("_meta")
    return meta.get(types.SUBSCRIPTION_ID) if isinstance(meta, dict) else None
