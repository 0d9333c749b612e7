"""What an extension does on a client; an author overrides what the extension needs.

An extension is rows of data (`ExtensionRow`) and, on a client, an object of a class like this one. The rows say what is
on the wire; the object declares it, adds parameters, finishes results of further types, serves methods, hears
notifications, and reads what was added to the entries of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.client.connect.connection import Options, ServerConnection
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import Method as Method
from dragoman.protocol.subscriptions import SubscriptionField as SubscriptionField

if TYPE_CHECKING:
    from dragoman.client.session import ClientSession

ExtensionHandler = Callable[[Any], Any]
"""A function, plain or async, of the parameters: of the type that the row has for them, else a dict."""


class ClientExtension:
    """An extension, as a client has it.

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
        """Return what is declared under the id of the extension: the settings of its row, unless it is overridden.

        A row whose `capability` is another path is declared there, with its own settings.
        """
        return next((row.settings for row in self.rows if not row.capability), {})

    def params(self, request: ExtendedRequest) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the parameters to add to a request of a method that the row adds parameters to.

        It is asked where the server has declared the extension, before each time that the request is sent.
        """
        return {}

    def result_type(self, method: str, result: types.Json) -> str | None:  # noqa: ARG002
        """Return the further type of a result that does not name its type; versions before 2026-07-28 have no name."""
        return None

    async def finish(self, request: ExtendedRequest, result: types.Json) -> types.Result | types.Json:
        """Return the method's ordinary result, after a result of one of the extension's types came.

        The total time-out of the call counts on meanwhile, and a call that is cancelled cancels this. Errors that are
        raised here are raised by the call.
        """
        raise NotImplementedError(f"{type(self).__name__} does not finish results of {request.method}: {result!r}")

    def requests(self) -> Mapping[str, ExtensionHandler]:
        """Return the functions that answer the server's requests, by method."""
        return {}

    def notifications(self) -> Mapping[str, ExtensionHandler]:
        """Return the functions that are told of the server's notifications, by method."""
        return {}

    def read_tool(self, tool: types.Tool) -> Any:
        """Return what `tool.extension(id)` gives: the fields that the row adds, as its Struct; None if none is set."""
        return self._added("tools/list", tool)

    def read_resource(self, resource: types.Resource | types.ResourceTemplate) -> Any:
        """Return what `resource.extension(id)` gives, of a resource or of a template, in the same way."""
        is_template = isinstance(resource, types.ResourceTemplate)
        return self._added("resources/templates/list" if is_template else "resources/list", resource)

    def _added(self, method: str, entry: Struct) -> Struct | None:
        for row in self.rows:
            kind = row.entries.get(method)
            if kind is not None and all(hasattr(entry, name) for name in kind.__struct_fields__):
                found = kind(**{name: getattr(entry, name) for name in kind.__struct_fields__})
                return None if found == kind() else found
        return None


class ExtendedRequest:
    """A request of the core which an extension adds parameters to, or whose result it finishes."""

    def __init__(
        self,
        session: ClientSession,
        connection: ServerConnection,
        method: str,
        params: Mapping[str, Any],
        options: Options,
    ) -> None:
        self.method = method
        self.params = params
        """As they are sent."""
        self.options = options
        """The call's time-outs, headers and `_meta`, and its `on_progress`."""
        self._session = session
        self._connection = connection

    def __repr__(self) -> str:
        return f"<ExtendedRequest {self.method}>"

    @property
    def protocol_version(self) -> str:
        """The version that is spoken."""
        return self._connection.version.name

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server offers."""
        return self._connection.capabilities

    @property
    def tool(self) -> types.Tool | None:
        """The tool that is called, if it was listed."""
        known = self._session.catalog.tools.get(str(self.params.get("name"))) if self.method == "tools/call" else None
        return None if known is None else known.tool

    async def send(self, method: str, params: Mapping[str, Any] | None = None) -> types.Json:
        """Send a further request and return its result; it has the time-out, headers and `_meta` of the call.

        Raises:
            RpcError: the server refused.
            Timeout: nothing was heard of it in time.
            TransportError: the connection was lost.
        """
        options = msgspec.structs.replace(self.options, progress_token=None, mirrored=None, is_safe=None)
        raw = await self._session.rounds(method, dict(params or {}), Raw, options)
        return msgspec.json.decode(raw, type=types.Json)

    def send_later(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a request whose result nobody waits for, such as one that says that the call was cancelled."""
        self._session.send_quietly(partial(self.send, method, params))

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever made the call of progress."""
        said = types.ProgressNotificationParams(self.options.progress_token or 0, progress, total, message)
        self._session.progressed(self.options.on_progress, said)

    async def answer(self, asked: Mapping[str, types.InputRequest]) -> dict[str, Any]:
        """Let the client's handlers answer questions of the server.

        Raises:
            InputNeeded: nobody here answers one of them.
        """
        return await self._session.answers(self.method, types.InputRequiredResult(dict(asked)))

    async def listen(self, **fields: bool | Sequence[str] | None) -> types.SubscriptionFilter:
        """Subscribe to notifications of the extension, as the client's `listen` does."""
        return await self._session.listen(**fields)
