"""Extensions: the extensions of one client, with one protocol table of all rows and one object per extension.

An extension without an object, given as settings alone, is declared to the server and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.callbacks import as_function
from dragoman.client.connect.connection import ServerConnection
from dragoman.client.extensions.contract import (
    ClientExtension,
    ExtendedRequest,
    ExtensionClient,
    ExtensionHandler,
    ReceivedRequest,
)
from dragoman.client.extensions.official import check_settings
from dragoman.client.options import RequestOptions
from dragoman.client.results import FurtherResult, read
from dragoman.config import PROCESS
from dragoman.errors import DefinitionError, MethodNotFound, TransportError
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import CORE, ExtensionRow, ProtocolTable, check_extension_id, merge_settings
from dragoman.protocol.methods import Method, declares
from dragoman.protocol.subscriptions import CORE_FIELDS, SubscriptionField
from dragoman.protocol.versions import Version
from dragoman.types import canonical_extension, decode

if TYPE_CHECKING:
    from dragoman.client.session import ClientSession

Given = Iterable[ClientExtension | Mapping[str, types.Json]] | Mapping[str, types.Json] | None
LISTEN = "subscriptions/listen"
ASKING_METHODS = frozenset({"sampling/createMessage", "elicitation/create", "roots/list"})
"""The requests of a server that the client's handlers answer."""
OFFICIAL_RESULT_TYPES = {"task": "io.modelcontextprotocol/tasks"}
"""The official extension of each further result type."""


class Extensions:
    """The extensions of one client.

    Example:
        extensions = Extensions([Quotes(), {"com.example/maps": {"zoom": 3}}])
        extensions.table.named_by["quotes/get"]

    An object acts for its extension. A mapping declares settings by id, which override those of an object.

    Raises:
        TypeError: an entry is neither an object of a `ClientExtension` nor a mapping of settings.
        DefinitionError: an id or a row is invalid, or an extension serves a method that its rows do not have.
    """

    def __init__(self, given: Given = None) -> None:
        self._settings: dict[str, types.Json] = {}
        self._by_id: dict[str, ClientExtension] = {}
        self._last_token = 0
        anything: Any = given
        if isinstance(anything, str) or not isinstance(anything, Iterable | None):
            raise TypeError(f"extensions must be objects of a ClientExtension, or a mapping of settings, not {given!r}")
        for one in [given] if isinstance(given, Mapping) else given or ():
            self._add(one)
        rows = [row for one in self._by_id.values() for row in one.rows]
        self.table = ProtocolTable.of(rows) if rows else CORE
        self.methods = frozenset(
            name for row in rows for names in (row.params, *row.result_types.values()) for name in names
        )
        """The methods of the core that an extension adds parameters to, or whose results it finishes."""
        self.tool_rows = [row for row in rows if "tools/call" in row.params and "tools/list" in row.entries]
        """The rows that add parameters to calls, and fields to listed tools."""
        self._recognizing: list[ClientExtension] = []
        self._around: list[ClientExtension] = []
        self.served: dict[str, tuple[Any, Callable[[bytes | Raw], Any]]] = {}
        """The function that answers each request of the server, by method, and the decoder of the parameters."""
        self._notified: dict[str, tuple[Any, Any]] = {}

    def bind(self, session: ClientSession) -> None:
        """Bind each extension to the client of a session, and collect what it does there.

        Raises:
            DefinitionError: an extension serves a method that its rows do not have.
        """
        if not self._by_id:
            return
        client = ExtensionClient(session)
        objects = [one.bind(client) or one for one in self._by_id.values()]
        self._by_id = dict(zip(self._by_id, objects, strict=True))
        self._recognizing = [one for one in objects if type(one).result_type is not ClientExtension.result_type]
        self._around = [one for one in objects if type(one).around_answer is not ClientExtension.around_answer]
        methods = [_with_params_type(method) for row in self.table.extensions for method in row.joined_methods()]
        sent = [method for method in methods if "server" in method.sender]
        requests = {method.name: method for method in sent if not method.is_notification}
        notifications: dict[str, Any] = {
            field.method: types.Json for row in self.table.extensions for field in row.subscriptions
        }
        notifications |= {method.name: method.params for method in sent if method.is_notification}
        for one in objects:
            for name, function in _checked(one, one.requests(), requests):
                self.served[name] = function, requests[name].decode_params
            for name, function in _checked(one, one.notifications(), notifications):
                self._notified[name] = function, notifications[name]

    def _add(self, given: Any) -> None:
        if isinstance(given, Mapping) and all(isinstance(settings, Mapping) for settings in given.values()):
            named = {check_extension_id(id): settings for id, settings in given.items()}
            check_settings(named)
            self._settings = merge_settings(self._settings, named)
        elif isinstance(given, ClientExtension):
            ids = {row.id for row in given.rows}
            if len(ids) != 1:
                raise DefinitionError(f"{type(given).__name__}.rows must be rows of one extension, not of {len(ids)}")
            id = canonical_extension(ids.pop())
            if id in self._by_id:
                raise DefinitionError(f"The extension {id!r} is given twice")
            self._by_id[id] = given
        else:
            raise TypeError(
                "extensions must be objects of a ClientExtension, or map the id of each extension to its settings,"
                f" which are a mapping, not {given!r}"
            )

    # Capabilities.

    def declared(self, capabilities: types.ClientCapabilities, version: Version) -> types.ClientCapabilities:
        """Return the capabilities, with the extensions that a version lets a client declare."""
        own = {id: one.settings() for id, one in self._by_id.items() if not all(row.one_sided for row in one.rows)}
        settings = merge_settings(PROCESS.configuration.extensions, capabilities.extensions, own, self._settings)
        if not settings:
            return capabilities
        found: dict[str, Any] = {"extensions": self.table.declarable(settings, version) or None}
        for row in self.table.extensions:
            placed = self._object(row).capability_settings(row) if row.capability and row.exists_in(version) else None
            if placed is not None:
                top, *below = row.capability
                for name in reversed(below):
                    placed = {name: placed}
                found[top] = {**(getattr(capabilities, top, None) or {}), **placed}
        return msgspec.structs.replace(capabilities, **found)

    def find(self, id: str) -> ClientExtension | None:
        """Return the object of an extension; None if the client does not have one."""
        return self._by_id.get(canonical_extension(id))

    # Entries of lists.

    def read_tool(self, id: str, tool: types.Tool) -> Any:
        """Return the value that an extension reads from a tool; None if the client does not have the extension."""
        found = self._by_id.get(canonical_extension(id))
        return None if found is None else found.read_tool(tool)

    def read_resource(self, id: str, resource: types.Resource | types.ResourceTemplate) -> Any:
        """Return the value that an extension reads from a resource or a resource template; else None."""
        found = self._by_id.get(canonical_extension(id))
        return None if found is None else found.read_resource(resource)

    def reads_tools(self, version: Version) -> bool:
        """Tell whether the parameters of a call depend on the listed tool in a version."""
        return any(row.exists_in(version) for row in self.tool_rows)

    # Requests of the client.

    def extended(self, request: ExtendedRequest, connection: ServerConnection) -> tuple[dict[str, Any], RequestOptions]:
        """Return the parameters and options with which a request is sent; its own parameters take precedence.

        The options have a progress token, generated if there is none, that stays valid after the first answer.
        """
        if request.options.progress_token is None:
            self._last_token += 1
            token = f"call-{self._last_token}"
            request.options = msgspec.structs.replace(request.options, progress_token=token)
        return {**self._added_params(request, connection), **request.params}, request.options

    def _added_params(self, request: ExtendedRequest, connection: ServerConnection) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for row in self.table.extensions:
            if (
                request.method in row.params
                and row.exists_in(connection.version)
                and (not connection.knows_capabilities or declares(connection.capabilities, row.path))
            ):
                params |= self._object(row).params(request)
        return params

    def recognized(self, method: str, raw: Raw) -> FurtherResult | None:
        """Return a result without `resultType` as a `FurtherResult`, if an extension recognizes it; else None."""
        if self._recognizing:
            with suppress(msgspec.DecodeError, RecursionError):
                result = msgspec.json.decode(raw, type=types.Json)
                for one in self._recognizing if "resultType" not in result else ():
                    result_type = one.result_type(method, result)
                    if result_type is not None:
                        return FurtherResult(result_type, raw)
        return None

    async def finish(
        self, connection: ServerConnection, request: ExtendedRequest, further: FurtherResult, kind: Any
    ) -> Any:
        """Return the ordinary result of a request that was answered with a result of a further type.

        A request whose options do not finish it has the result of the further type itself.

        Raises:
            TransportError: no extension of the client has that type, or the extension gave no ordinary result.
        """
        row = self.table.answering(request.method, further.result_type, connection.version)
        if row is None:
            raise self._unknown_type(request.method, further.result_type, connection.capabilities)
        if not request.options.finish:
            return further
        with connection.receiving_progress(request.options):
            finished = await self._object(row).finish(request, further.fields)
        result = finished if isinstance(finished, kind) else read(Raw(jsonrpc.encode(finished)), kind, request.method)
        if not isinstance(result, kind):
            raise TransportError(f"{row.id} did not finish the result of {request.method}: it gave {result!r}")
        return result

    def _object(self, row: ExtensionRow) -> ClientExtension:
        return self._by_id[canonical_extension(row.id)]

    def _unknown_type(self, method: str, result_type: str, capabilities: types.ServerCapabilities) -> TransportError:
        unknown = f"The result of {method} is of the unknown type {result_type!r}"
        declared = {canonical_extension(id) for id in capabilities.extensions or {}} - self._by_id.keys()
        official = OFFICIAL_RESULT_TYPES.get(result_type)
        missing = [official] if official is not None and official not in self._by_id else sorted(declared)
        if not missing:
            return TransportError(f"{unknown}, and no extension of this client allows it for {method}")
        ids = " or ".join(map(repr, missing))
        return TransportError(
            f"{unknown}. It may belong to the extension {ids}, which this client does not have: give its"
            " ClientExtension to the client, as in Client(..., extensions=[...]); settings alone do not read results"
        )

    # Requests and notifications of the server.

    def around(self, method: str, params: bytes | Raw, answer: Any) -> Any:
        """Return the answer of the client's handlers to a request of the protocol, within `around_answer`.

        The answer is a result, or a function to await for the result.
        """
        if not self._around or method not in ASKING_METHODS:
            return answer

        async def call_next() -> Any:
            return await answer() if callable(answer) else answer

        request = ReceivedRequest(method, params)
        for one in reversed(self._around):
            call_next = partial(one.around_answer, request, call_next)
        return call_next

    def require_served(self, method: str, connection: ServerConnection) -> None:
        """Check that the server of a connection may send a request of an extension.

        Raises:
            MethodNotFound: the version does not have the method, or the server has not declared the extension.
        """
        rows = (row for row in self.table.methods if row.name == method and row.exists_in(connection.version))
        is_new = not connection.knows_capabilities  # the capabilities of the server are not known yet
        if not any(is_new or declares(connection.capabilities, row.declared) for row in rows):
            raise MethodNotFound(f"This client does not serve {method} here", {"method": method})

    @property
    def filter_type(self) -> type[types.SubscriptionFilter]:
        """The type of the filter of `subscriptions/listen`, with the fields of extensions."""
        if self.table is CORE:
            return types.SubscriptionFilter
        listen = next(method for method in self.table.methods if method.name == LISTEN)
        found: Mapping[str, Any] = {field.name: field.type for field in msgspec.structs.fields(listen.params)}
        kind: type[types.SubscriptionFilter] = found["notifications"]
        return kind

    def subscription(self, name: str) -> SubscriptionField:
        """Return a field that an extension adds to the filter of `subscriptions/listen`.

        Raises:
            TypeError: no extension of the client adds that field.
        """
        added = {field.name: field for field in self.table.subscription_fields() if field not in CORE_FIELDS}
        if name not in added:
            raise TypeError(f"No extension of this client has the subscription {name!r}; there are: {[*added]}")
        return added[name]

    def notified(self, method: str, raw: Raw, notify: Callable[..., None]) -> None:
        """Pass a notification to the extension that handles its method, by `notify(function, params)`.

        Raises:
            ValidationError: the parameters do not fit.
        """
        if method in self._notified:
            function, kind = self._notified[method]
            notify(function, decode(raw, kind), size=len(raw))


def _with_params_type(method: Method) -> Method:
    """Return a method whose parameters are decoded as a dict, if its row has no type for them."""
    untyped: Any = types.Json
    return msgspec.structs.replace(method, params=untyped) if method.params is types.Params else method


def _checked(
    one: ClientExtension, given: Mapping[str, ExtensionHandler], known: Iterable[str]
) -> Iterable[tuple[str, Any]]:
    for name, function in given.items():
        if name not in known:
            raise DefinitionError(f"{type(one).__name__} takes {name!r}, which its rows do not let a server send")
        yield name, as_function(function, f"{type(one).__name__}: {name}")
