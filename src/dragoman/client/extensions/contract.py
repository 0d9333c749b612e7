"""The contract of an extension on a client: a class whose methods an author overrides as the extension needs.

An extension is rows of data (`ExtensionRow`) and, on a client, an object of a subclass of `ClientExtension`. The rows
say what is on the wire. The object declares the extension, adds parameters to requests, finishes results of further
types, serves requests, receives notifications, and reads the fields that were added to the entries of lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.answer.handlers import decode_object
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.options import RequestOptions
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method as Method
from dragoman.protocol.subscriptions import SubscriptionField as SubscriptionField
from dragoman.runtime.tasks import keep_until_done

if TYPE_CHECKING:
    from dragoman.client.session import ClientSession

ExtensionHandler = Callable[[Any], Any]
"""A function, plain or async, that takes the parameters: of the type in the method's row, or a dict without one."""
AnswerNext = Callable[[], Awaitable[object]]
"""Runs the client's handler of a request, and returns the result."""


class ClientExtension:
    """An extension on a client.

    Example:
        class Quotes(ClientExtension):
            rows = (ExtensionRow(id="com.example/quotes", result_types={"quote": ("tools/call",)}),)

            async def finish(self, request, result):
                return await request.send("quotes/accept", {"quoteId": result["quoteId"]})

        client = Client(target, extensions=[Quotes()])

    `rows` has one row, or one for each generation of the extension; all of them have the same id.
    """

    rows: tuple[ExtensionRow, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(dict.fromkeys(row.id for row in self.rows))}>"

    def settings(self) -> types.Json:
        """Return the settings to declare under the id of the extension; by default those of its row."""
        return next((row.settings for row in self.rows if not row.capability), {})

    def capability_settings(self, row: ExtensionRow) -> types.Json | None:
        """Return the settings to declare at the `capability` path of a row; None declares nothing there."""
        return row.settings

    def bind(self, client: ExtensionClient) -> ClientExtension | None:  # noqa: ARG002
        """Receive a client; return the object that acts for this client, or None if this object acts for it.

        Example:
            def bind(self, client):
                return Watching(client)

        The constructor of a client calls this once, before it calls any other method. The clients of a group share the
        object that the group was given, so an extension that keeps the client returns a new object.
        """
        return None

    def params(self, request: ExtendedRequest) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the parameters to add to a request of a method that the row adds parameters to.

        The client calls it each time before it sends the request, unless the server has not declared the extension.
        """
        return {}

    def result_type(self, method: str, result: types.Json) -> str | None:  # noqa: ARG002
        """Return the type of a result without the field `resultType`, which is new in 2026-07-28; None if ordinary."""
        return None

    async def finish(self, request: ExtendedRequest, result: types.Json) -> types.Result | types.Json:
        """Turn a result of one of the extension's types into the method's ordinary result.

        The total time-out of the call covers this coroutine. Cancelling the call cancels this coroutine. The call
        raises the errors of this coroutine.
        """
        raise NotImplementedError(f"{type(self).__name__} does not finish results of {request.method}: {result!r}")

    async def around_answer(self, request: ReceivedRequest, call_next: AnswerNext) -> object:  # noqa: ARG002
        """Return the answer to a request of the protocol by the server; `call_next` runs the client's handler.

        The requests are `sampling/createMessage`, `elicitation/create` and `roots/list`, in both eras. The handler may
        still run after this coroutine has returned.

        Raises:
            RpcError: the request is refused.
        """
        return await call_next()

    def requests(self) -> Mapping[str, ExtensionHandler]:
        """Return the functions that answer the server's requests, by method."""
        return {}

    def notifications(self) -> Mapping[str, ExtensionHandler]:
        """Return the functions that receive the server's notifications, by method."""
        return {}

    def read_tool(self, tool: types.Tool) -> Any:
        """Return the value of `tool.extension(id)`: a Struct of the fields that the row adds; None if none is set."""
        return self._added_fields("tools/list", tool)

    def read_resource(self, resource: types.Resource | types.ResourceTemplate) -> Any:
        """Return the value of `resource.extension(id)` for a resource or a resource template, as `read_tool` does."""
        is_template = isinstance(resource, types.ResourceTemplate)
        return self._added_fields("resources/templates/list" if is_template else "resources/list", resource)

    def _added_fields(self, method: str, entry: Struct) -> Struct | None:
        for row in self.rows:
            kind = row.entries.get(method)
            if kind is not None and all(hasattr(entry, name) for name in kind.__struct_fields__):
                found = kind(**{name: getattr(entry, name) for name in kind.__struct_fields__})
                return None if found == kind() else found
        return None


class ReceivedRequest:
    """A request of the server, before the client's handler reads it."""

    def __init__(self, method: str, params: bytes | Raw) -> None:
        self.method = method
        self._params = params

    def __repr__(self) -> str:
        return f"<ReceivedRequest {self.method}>"

    @property
    def params(self) -> types.Json:
        """The parameters, as the server sent them.

        Raises:
            InvalidParams: the parameters are not an object.
        """
        return decode_object(self._params)

    @property
    def size(self) -> int:
        """The bytes of the parameters."""
        return len(self._params)


class ExtensionClient:
    """The client that an extension acts for.

    Example:
        class Watching(ClientExtension):
            def bind(self, client):
                return Watching(client)

            async def changed(self, params):
                await self.client.send("quotes/get", {"quoteId": params["quoteId"]})
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.server_name!r}>"

    @property
    def server_name(self) -> str | None:
        """The name of the server: the client's option, or the name that the server gave itself."""
        return self._session.handlers.server

    @property
    def protocol_version(self) -> str | None:
        """The protocol version of the connection; None before the client connects."""
        latest = self._session.connections.latest
        return None if latest is None else latest.version.name

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities of the server; empty before the client connects."""
        latest = self._session.connections.latest
        return types.ServerCapabilities() if latest is None else latest.capabilities

    @property
    def own_capabilities(self) -> types.ClientCapabilities:
        """The capabilities of this client's handlers and roots, and those that its author gave."""
        return self._session.handlers.capabilities()

    @property
    def max_server_requests(self) -> int:
        """How many requests of the server may be under way at a time."""
        return int(self._session.max_server_requests)

    @property
    def is_stopped(self) -> bool:
        """Whether the client was stopped."""
        return self._session.connections.status == "stopped"

    async def start(self) -> None:
        """Connect, if there is no connection.

        Raises:
            TransportError: the server cannot be reached.
        """
        await self._session.start()

    async def send(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.Json:
        """Send a request, and return its result; the time-out is that of the client by default.

        Raises:
            RpcError: the server refused.
            Timeout: no answer came in time.
            TransportError: the connection was lost.
        """
        raw = await self._session.request(method, dict(params or {}), Raw, RequestOptions(timeout=timeout))
        return msgspec.json.decode(raw, type=types.Json)

    def send_later(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a request without waiting for its result, such as one that cancels the work of a call.

        If the client is stopped, it sends the request first, and waits at most a second for the result.
        """
        keep_until_done(self._session.send_quietly(partial(self.send, method, params)), self._session.parting)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification.

        Raises:
            TransportError: the notification could not be sent.
        """
        await self._session.notify(method, params or {})

    async def answer(self, asked: Mapping[str, types.InputRequest]) -> dict[str, Any]:
        """Let the client's handlers answer input requests of the server.

        Raises:
            InputNeeded: the client has no handler for one of the input requests.
        """
        return await self._session.input_responses("The server", types.InputRequiredResult(dict(asked)))

    async def listen(self, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Subscribe to notifications of the extension, as the client's `listen` does."""
        return await self._session.subscriptions.listen(**fields)

    def run_later(self, work: Callable[[], Coroutine[Any, Any, object]]) -> asyncio.Task[None]:
        """Run work in the background until the client is stopped; its errors are logged."""
        return self._session.send_quietly(work)

    @contextmanager
    def paused_clocks(self) -> Iterator[None]:
        """Pause the time-outs of this client's requests for the block, as while a handler works."""
        latest = self._session.connections.latest
        with nullcontext() if latest is None else latest.paused_clocks():
            yield

    @property
    def acknowledged(self) -> types.SubscriptionFilter:
        """What the server has acknowledged of the subscriptions; empty while there is no connection."""
        return self._session.subscriptions.stream.acknowledged


class ExtendedRequest(ExtensionClient):
    """A request of the specification to which an extension adds parameters, or whose result it finishes."""

    def __init__(
        self,
        session: ClientSession,
        connection: ServerConnection,
        method: str,
        params: Mapping[str, Any],
        options: RequestOptions,
    ) -> None:
        super().__init__(session)
        self.method = method
        self.params = params
        """The parameters, as they are sent."""
        self.options = options
        """The call's time-outs, headers and `_meta`, and its `on_progress`."""
        self._connection = connection

    def __repr__(self) -> str:
        return f"<ExtendedRequest {self.method}>"

    @property
    def protocol_version(self) -> str:
        """The protocol version of the connection."""
        return self._connection.version.name

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """The capabilities of the server."""
        return self._connection.capabilities

    @property
    def tool(self) -> types.Tool | None:
        """The tool that is called, if it was listed."""
        known = self._session.catalog.tools.get(str(self.params.get("name"))) if self.method == "tools/call" else None
        return None if known is None else known.tool

    async def send(
        self, method: str, params: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> types.Json:
        """Send another request, with the headers and `_meta` of the call, and return its result.

        The time-out is that of the call by default.

        Raises:
            RpcError: the server refused.
            Timeout: no answer came in time.
            TransportError: the connection was lost.
        """
        options = msgspec.structs.replace(self.options, progress_token=None, mirrored=None, is_repeatable=None)
        options.timeout = options.timeout if timeout is None else timeout
        raw = await self._session.rounds(method, dict(params or {}), Raw, options)
        return msgspec.json.decode(raw, type=types.Json)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller."""
        params = types.ProgressNotificationParams(self.options.progress_token or 0, progress, total, message)
        self._session.progress_received(self.options.on_progress, params)

    async def answer(self, asked: Mapping[str, types.InputRequest]) -> dict[str, Any]:
        """Let the client's handlers answer input requests of the server.

        Raises:
            InputNeeded: the client has no handler for one of the input requests.
        """
        return await self._session.input_responses(self.method, types.InputRequiredResult(dict(asked)))
