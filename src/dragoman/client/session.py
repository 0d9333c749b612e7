"""ClientSession: sends the requests of one client. The session outlives its connection and replaces a lost one.

In the stateless era the result of a request may be `input_required`. The client's handlers then answer the questions,
and the session sends the request again with the answers, at most ten times. The total time-out of a request covers
everything: the wait for a connection, the rounds of input, the handlers, and repetitions.

The server may send notifications before the answer to a request. The callbacks receive these notifications first. Then
the request returns. It waits for slow callbacks at most half a second.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from itertools import count
from math import isnan
from sys import modules
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.handlers import HANDLER_OPTIONS, Handlers
from dragoman.client.answer.roots import Roots
from dragoman.client.catalog import Catalog
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.connect.credentials import Credentials
from dragoman.client.connect.endpoint import EndpointOptions, Target, endpoint_of
from dragoman.client.connect.handshake import Connector, offered_versions
from dragoman.client.connect.reconnect import Connections, Failures, pause
from dragoman.client.connect.recording import recorded
from dragoman.client.connect.server_requests import MAX_SERVER_REQUESTS
from dragoman.client.extensions.contract import ExtendedRequest
from dragoman.client.hear.deliveries import Deliveries
from dragoman.client.hear.notifications import ClientCallbacks, NotificationReceiver
from dragoman.client.hear.subscriptions import LASTING_SECONDS, MAX_PAUSE, Subscriptions
from dragoman.client.options import CONNECT_SECONDS, TIMEOUT_SECONDS, RequestOptions, check_seconds, seconds
from dragoman.client.results import FurtherResult, read
from dragoman.errors import (
    WITHHELD,
    DragomanError,
    InputNeeded,
    InternalError,
    MissingCapability,
    RpcError,
    Timeout,
    ToolError,
    TransportError,
)
from dragoman.protocol import jsonrpc
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.protocol.methods import declares
from dragoman.protocol.versions import Version
from dragoman.runtime.tasks import keep_until_done
from dragoman.telemetry import API

if TYPE_CHECKING:
    from dragoman.client.extensions.installed import Extensions

R = TypeVar("R")
E = TypeVar("E", RpcError, ToolError)

MAX_ROUNDS = 10
PARTING_SECONDS = 1.0
_CANNOT_ASK = re.compile(r"server-(?:initiated|to-client) requests?\b", re.IGNORECASE)
"""The words that SDKs use in the error of a handler that cannot send its request to the client."""
_NOT_ACCEPTED = re.compile(r"accept|cancel|declin", re.IGNORECASE)
"""The words of a failure for which the server had no answer of the user."""
_OPTIONS = {"elicitation": "on_elicitation=", "sampling": "on_sampling=", "roots": "roots="}
"""The options of a client that declare a capability."""
_QUOTED_CHARACTERS = 2000
_logger = logging.getLogger("dragoman.client")


class ClientSession:
    """The requests of one client, and the state that outlives its connections."""

    def __init__(self, target: Target, options: Mapping[str, Any], extensions: Extensions) -> None:
        roots = Roots(options.get("roots") or ())
        roots.on_change = self.roots_changed
        version = options.get("version") or str(sys.modules["dragoman"].__version__)
        limits = Limits(options.get("max_message_bytes", CLIENT_LIMITS.message_bytes), CLIENT_LIMITS.nesting)
        self.info = types.Implementation(options.get("name") or "dragoman", version)
        self.extensions = extensions
        self.table = extensions.table
        self.max_server_requests = options.get("max_server_requests", MAX_SERVER_REQUESTS)
        self.handlers = Handlers(
            roots=roots,
            server=options.get("server_name"),
            served=extensions.served,
            **_selected(options, HANDLER_OPTIONS),
        )
        self.callbacks = ClientCallbacks(**_selected(options, ClientCallbacks.__struct_fields__))
        self.credentials = Credentials.of(options.get("headers"), options.get("auth"))
        self.timeout = seconds(options.get("timeout"), "DRAGOMAN_TIMEOUT", TIMEOUT_SECONDS)
        self.total_timeout: float | None = options.get("total_timeout")
        self._meta = options.get("meta")
        self.catalog = Catalog()
        self.subscriptions = Subscriptions(self, self.catalog.forget_all)
        self.notifications = NotificationReceiver(self.callbacks, self.catalog, self.subscriptions, extensions)
        self.notification_received = self.notifications.receive
        self.progress_received = self.notifications.receive_progress
        selected = _selected(options, EndpointOptions.__struct_fields__)
        self._connector = Connector(
            endpoint_of(target, EndpointOptions(self.credentials, limits=limits, **selected)),
            self,
            offered_versions(options.get("mode", "auto"), options.get("protocol_version")),
            limits,
            timeout=seconds(options.get("connect_timeout"), "DRAGOMAN_CONNECT_TIMEOUT", CONNECT_SECONDS),
        )
        self.connections = Connections(self._connector.connect, self._prepare)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that the connection belongs to."""
        self._background: set[asyncio.Task[Any]] = set()
        self.parting: set[asyncio.Task[Any]] = set()
        """The background tasks for which `stop` waits: they tell the server to end work."""
        self._connected_at = 0.0
        self._brief_connections = 0
        """How many connections in a row ended soon after they were made."""
        self._has_log_level = False
        """Whether `set_log_level` was called."""
        extensions.bind(self)  # an extension may use the client at once

    # The contract `ConnectionOwner`: the connection calls these methods.

    def capabilities_for(self, version: Version) -> types.ClientCapabilities:
        """Return the capabilities that the client declares in a version."""
        return self.extensions.declared(self.handlers.capabilities(), version)

    def log_level_for(self, version: Version) -> types.LoggingLevel | None:
        """Return the log level that each request carries; None in the handshake era, or if no logs are wanted."""
        return self.callbacks.log_level if version.stateless and self._wants_logs else None

    @property
    def _wants_logs(self) -> bool:
        return self.callbacks.on_log is not None or self._has_log_level

    def answer(self, request: jsonrpc.Request) -> Any:
        """Return the result of a request of the server, or a function to await for the result."""
        if request.method in self.extensions.served and self.connections.latest is not None:
            self.extensions.require_served(request.method, self.connections.latest)
        return self._answer(request.method, request.params)

    def _answer(self, method: str, params: bytes | Raw) -> Any:
        return self.extensions.around(method, params, self.handlers.answer(method, params))

    def connection_lost(self, connection: ServerConnection, error: Exception) -> None:
        """Connect again at once if the client has subscriptions; otherwise the next request connects."""
        _logger.info("The connection to the server was lost: %s", error)
        has_lasted = asyncio.get_running_loop().time() - self._connected_at > LASTING_SECONDS
        self._brief_connections = 0 if has_lasted else self._brief_connections + 1
        if self.connections.lose(connection) and self.subscriptions.is_needed:
            self._start_task(self._reconnect())

    def stream_reopened(self, connection: ServerConnection) -> None:
        """Renew the subscriptions and the log level: a restarted server may have kept only the session."""
        self.catalog.forget_all()
        self.send_quietly(partial(self._renew_handshake_state, connection))

    async def _reconnect(self) -> None:
        if self._brief_connections > 1:
            # Without the pause, a server that ends right after each start would be restarted in a tight loop.
            await pause(self._brief_connections, MAX_PAUSE)
        try:
            await self.connections.connection()
        except DragomanError as error:
            _logger.warning("The connection to the server cannot be made again: %s", error)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return keep_until_done(asyncio.get_running_loop().create_task(work), self._background)

    async def _prepare(self, connection: ServerConnection, is_reconnected: bool) -> None:  # noqa: FBT001
        """Renew the subscriptions and the log level on a new connection."""
        self.handlers.use_server_name(connection.server_info)
        self.catalog.forget_all()
        self._connected_at = asyncio.get_running_loop().time()
        if connection.version.listens:
            self.subscriptions.stream.open(connection)
        else:
            await self._renew_handshake_state(connection)
        if is_reconnected:
            self.notifications.deliver(self.callbacks.on_reconnect)

    async def _renew_handshake_state(self, connection: ServerConnection) -> None:
        requests: list[tuple[str, dict[str, Any]]]
        requests = [("resources/subscribe", {"uri": uri}) for uri in self.subscriptions.resources]
        if self._wants_logs and connection.capabilities.logging is not None:
            requests.append(("logging/setLevel", {"level": self.callbacks.log_level}))
        for method, params in requests:
            try:
                await connection.request(method, params, RequestOptions(timeout=self.timeout))
            except RpcError as error:
                _logger.warning("The server refused %s: %s", method, error)

    # The methods that the client calls.

    async def start(self, *, unlimited: bool = False) -> ServerConnection:
        """Return the connection, and connect first if there is none; `unlimited` ignores `max_wait`.

        Raises:
            DragomanError: the client belongs to another event loop that still runs.
        """
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            if self.loop is not None and self.loop.is_running() and self.connections.current is not None:
                raise DragomanError("The client is connected in another event loop; use one client per loop")
            if self.loop is not None:
                self._leave_loop()
            self.loop = loop
        return await self.connections.connection(unlimited=unlimited)

    def _leave_loop(self) -> None:
        """Drop the connection, tasks, stream and deliveries of an event loop that has ended."""
        self.connections.abandon()
        self._background.clear()
        self.parting.clear()
        self.subscriptions.renew_stream()
        self.notifications.deliveries = Deliveries(shares_loop=self.notifications.deliveries.shares_loop)

    def request(
        self, method: str, params: dict[str, Any], kind: type[R], options: RequestOptions
    ) -> Coroutine[Any, Any, R]:
        """Send a request, answer its rounds of input, and return its result.

        With the kind `Raw` the result is returned undecoded, also if it is `input_required`.

        Raises:
            RpcError: the server refused.
            Timeout: neither an answer nor progress arrived within the time-out.
            TransportError: the connection was lost.
            InputNeeded: the server needs answers that no handler gives.
        """
        total = self.total_timeout if options.total_timeout is None else options.total_timeout
        if total is not None:
            check_seconds("total_timeout", total)
        send = self.rounds if total is None else partial(self._request_in_time, total)
        if API not in modules:
            return send(method, params, kind, options)
        sending = partial(send, method, params, kind, options)
        return recorded(sending, lambda: self.connections.latest, method, params, options)

    async def _request_in_time(
        self, total: float, method: str, params: dict[str, Any], kind: type[R], options: RequestOptions
    ) -> R:
        ids = options.note_ids()
        timeout = asyncio.timeout(total)
        try:
            async with timeout:
                return await self.rounds(method, params, kind, options)
        except TimeoutError:
            if not timeout.expired():
                raise
            message = f"{method} timed out: it was not answered within {total:g} seconds."
            raise Timeout(message, ids[-1] if ids else None, "total_timeout") from None

    async def rounds(self, method: str, params: dict[str, Any], kind: type[R], options: RequestOptions) -> R:
        """Send a request, and send it again with answers while its result is `input_required`."""
        round_params = params
        for turn in count(1):
            connection, sent, filled, raw = await self._answered(method, round_params, options)
            if self.notifications.deliveries.queues:
                await self.notifications.deliveries.delivered(filled.timeout)
            is_extended = kind is not Raw and method in self.extensions.methods
            result: Any = self.extensions.recognized(method, raw) if is_extended else None
            result = raw if kind is Raw else result or read(raw, kind, method)
            if type(result) is FurtherResult:
                request = ExtendedRequest(self, connection, method, sent, filled)
                result = await self.extensions.finish(connection, request, result, kind)
            if type(result) is not types.InputRequiredResult:
                break
            round_params = await self._next_round(turn, method, params, result)
        return result  # type: ignore[no-any-return]

    async def _answered(
        self, method: str, params: dict[str, Any], options: RequestOptions
    ) -> tuple[ServerConnection, dict[str, Any], RequestOptions, Raw]:
        """Send a request, and again if it failed and may be repeated.

        Return the connection, the parameters and options with which the request was sent, and the answer.
        """
        is_repeatable = method in self.table.repeatable if options.is_repeatable is None else options.is_repeatable
        failures = Failures()
        while True:
            sent, filled = params, self._filled(options)
            if self.loop is not asyncio.get_running_loop():
                await self.start()
            connection = self.connections.latest
            if connection is None or connection.state != "alive":
                connection = await self.connections.connection()
            if method in self.extensions.methods:
                request = ExtendedRequest(self, connection, method, params, filled)
                sent, filled = self.extensions.extended(request, connection)
            try:
                return connection, sent, filled, await connection.request(method, sent, filled)
            except TransportError as error:
                if not await self.connections.may_repeat(error, connection, failures, is_repeatable=is_repeatable):
                    raise
            except RpcError as error:
                message = self.with_advice(error.message)
                if message == error.message:
                    self.explained(error)
                    raise
                raise RpcError.of(error.code, message, error.data) from error

    async def _next_round(
        self, turn: int, method: str, params: dict[str, Any], result: types.InputRequiredResult
    ) -> dict[str, Any]:
        """Return the parameters with which a request is sent again after an `input_required` result."""
        questions = result.input_requests or {}
        if turn > MAX_ROUNDS:
            message = f"{method} asked for input {MAX_ROUNDS} times without coming to an end"
            raise InputNeeded(message, questions, result.request_state)
        # MUST (2026-07-28): the retry has the original parameters, the answers, and the server's exact state.
        retried = {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
        if questions:
            retried["inputResponses"] = await self.input_responses(method, result)
        else:
            await pause(turn)
        if result.request_state is not None:
            retried["requestState"] = result.request_state
        return retried

    async def input_responses(self, method: str, result: types.InputRequiredResult) -> dict[str, Any]:
        """Answer all questions of an `input_required` result at the same time.

        Raises:
            InputNeeded: there are too many questions, or no handler answers one of them.
        """
        questions = result.input_requests or {}
        if len(questions) > self.max_server_requests:
            raise InputNeeded(
                f"{method} asks {len(questions)} questions at a time, more than max_server_requests="
                f"{self.max_server_requests} allows",
                questions,
                result.request_state,
            )
        answers = await asyncio.gather(*map(self._input_response, questions.values()), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, RpcError):
                message = f"{method} needs input that this client cannot give: {answer}"
                raise InputNeeded(message, questions, result.request_state) from answer
            if isinstance(answer, BaseException):
                raise answer
        return dict(zip(questions, answers, strict=True))

    async def _input_response(self, question: types.InputRequest) -> Any:
        method, params = str(type(question).__struct_config__.tag), question.params
        answer = self._answer(method, b"{}" if params is None else jsonrpc.encode(params))
        return await answer() if callable(answer) else answer

    def _filled(self, options: RequestOptions) -> RequestOptions:
        """Return options with the client's time-out and `_meta` filled in."""
        if options.timeout is None:
            options.timeout = self.timeout
        elif type(options.timeout) is not float or isnan(options.timeout):
            check_seconds("timeout", options.timeout)
        for name, value in (("headers", options.headers), ("meta", options.meta)):
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
        if self._meta is None:
            return options
        meta = self._meta() if callable(self._meta) else self._meta
        return msgspec.structs.replace(options, meta={**(meta or {}), **(options.meta or {})})

    def with_advice(self, failure: str) -> str:
        """Add a cause or a remedy to the text of a failure that began in this client.

        The server cannot send requests in this version, or a mistake of the elicitation handler cancelled its question.
        """
        mistake, self.handlers.elicitation_mistake = self.handlers.elicitation_mistake, None
        if mistake is not None and _NOT_ACCEPTED.search(failure):
            return f"{failure} (on_elicitation gave no answer that could be sent: {mistake})"
        connection = self.connections.latest
        if connection is None or not connection.version.asks_in_results:
            return failure
        was_asked, connection.server_requests.refused_stateless = connection.server_requests.refused_stateless, False
        if not was_asked and not _CANNOT_ASK.search(failure):
            return failure
        return (
            f"{failure} (the server wanted to ask this client, and cannot in {connection.version.name}: connect with"
            ' mode="handshake")'
        )

    def explained(self, error: E) -> E:
        """Return an error, with a note if it names no cause or no remedy; a traceback shows the note.

        The message stays as it is: it may be passed on to others, who must not read the stderr of this server.
        """
        connection = self.connections.latest
        if isinstance(error, MissingCapability):
            required = error.data.get("requiredCapabilities") if isinstance(error.data, dict) else None
            options = [option for name, option in _OPTIONS.items() if name in (required or ())]
            if options:
                error.add_note(f"The server has a question for this client: give the client {', '.join(options)}.")
        elif isinstance(error, InternalError) or str(error) == WITHHELD:
            written = "" if connection is None else connection.link.stderr_tail[-_QUOTED_CHARACTERS:].strip()
            where = f"It wrote to stderr:\n{written}" if written else "Read the log of the server."
            error.add_note(f"The server does not tell the cause. {where}")
        return error

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        connection = await self.start()
        await connection.notify(method, connection.with_envelope(params))

    def send_quietly(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[None]:
        """Send a request in the background, and log its failure."""

        async def sending() -> None:
            try:
                await send()
            except DragomanError as error:
                _logger.info("A request that nobody waits for failed: %s", error)

        return self._start_task(sending())

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Request log messages of this level and above."""
        self.callbacks.log_level, self._has_log_level = level, True
        connection = await self.start()
        if connection.version.stateless:
            connection.use_version(connection.version)
        else:
            await self.request("logging/setLevel", {"level": level}, Raw, RequestOptions())

    def roots_changed(self) -> None:
        """Notify the server that the roots changed, if the client declared that; may be called from any thread."""
        connection = self.connections.current
        if connection is None or self.loop is None or connection.version.stateless:
            return
        if declares(connection.declared, ("roots", "list_changed")):
            asyncio.run_coroutine_threadsafe(_notify_roots_changed(connection), self.loop)

    async def stop(self) -> None:
        """End the connection, the subscriptions and the deliveries."""
        if self.parting and self.connections.current is not None:
            await asyncio.wait(list(self.parting), timeout=PARTING_SECONDS)
        await self.subscriptions.stream.close()
        for task in list(self._background):
            task.cancel()
        await self.connections.stop()
        await self._connector.closed()
        await self.notifications.deliveries.close()
        self.catalog.forget()
        if self._background:
            await asyncio.wait(list(self._background))


def _selected(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


async def _notify_roots_changed(connection: ServerConnection) -> None:
    method = "notifications/roots/list_changed"
    try:
        await connection.notify(method)
    except TransportError as error:
        _logger.info("%s could not be sent: %s", method, error)
