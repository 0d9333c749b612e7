"""The extensions that one client has: the rows of them all in one table, and who acts for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.answer.calling import handler
from dragoman.client.connect.connection import Options, ServerConnection
from dragoman.client.extensions.contract import ClientExtension, ExtendedRequest, ExtensionHandler
from dragoman.client.results import FurtherResult, read
from dragoman.config import PROCESS
from dragoman.errors import DefinitionError, MethodNotFound, TransportError
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import CORE, ExtensionRow, ProtocolTable, check_extension_id, merge_settings
from dragoman.protocol.methods import Method, declares
from dragoman.protocol.subscriptions import CORE_FIELDS, SubscriptionField
from dragoman.protocol.versions import Version
from dragoman.types import canonical_extension, decode

P = TypeVar("P", bound=types.PaginatedResult)
Given = Iterable[ClientExtension | Mapping[str, types.Json]] | Mapping[str, types.Json] | None
LISTEN = "subscriptions/listen"
OFFICIAL_RESULT_TYPES = {"task": "io.modelcontextprotocol/tasks"}
"""The extensions of the protocol's own that have further result types."""


class Extensions:
    """What one client has of extensions.

    Example:
        extensions = Extensions([Quotes(), {"com.example/maps": {"zoom": 3}}])
        extensions.table.named_by["quotes/get"]

    An object acts for its extension. A mapping only declares: settings by id, which are merged over those of an object.

    Raises:
        TypeError: something is neither an object of a `ClientExtension` nor a mapping of settings.
        DefinitionError: an id or a row does not fit, or an extension acts for what its rows do not have.
    """

    def __init__(self, given: Given = None) -> None:
        self._settings: dict[str, types.Json] = {}
        self._by_id: dict[str, ClientExtension] = {}
        self._pages: dict[tuple[str, Version], Any] = {}
        self._last_token = 0
        for one in [given] if isinstance(given, Mapping) else _iterable(given):
            self._add(one)
        acting = self._by_id.values()
        rows = [row for one in acting for row in one.rows]
        self.table = ProtocolTable.of(rows) if rows else CORE
        self.methods = frozenset(
            name for row in rows for names in (row.params, *row.result_types.values()) for name in names
        )
        """The methods of the core that an extension adds parameters to, or whose results it finishes."""
        self._names_types = any(type(one).result_type is not ClientExtension.result_type for one in acting)
        joined = (_readable(method) for row in rows for method in row.joined_methods())
        sent = [method for method in joined if "server" in method.sender]
        asked = {method.name: method for method in sent if not method.is_notification}
        told: dict[str, Any] = {field.method: types.Json for row in rows for field in row.subscriptions}
        told |= {method.name: method.params for method in sent if method.is_notification}
        self.served = {
            name: (function, asked[name].decode_params)
            for one in acting
            for name, function in _checked(one, one.requests(), asked)
        }
        """Who answers a request of the server, by method, and how the parameters are read."""
        self._heard = {
            name: (function, told[name])
            for one in acting
            for name, function in _checked(one, one.notifications(), told)
        }

    def _add(self, given: Any) -> None:
        if isinstance(given, Mapping) and all(isinstance(settings, Mapping) for settings in given.values()):
            named = {check_extension_id(id): settings for id, settings in given.items()}
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

    # What is declared.

    def declared(self, capabilities: types.ClientCapabilities, version: Version) -> types.ClientCapabilities:
        """Return the capabilities with the extensions that may be declared in a version."""
        own = {id: one.settings() for id, one in self._by_id.items()}
        settings = merge_settings(PROCESS.configuration.extensions, capabilities.extensions, own, self._settings)
        if not settings:
            return capabilities
        found: dict[str, Any] = {"extensions": self.table.declarable(settings, version) or None}
        for row in self.table.extensions:
            if row.capability and row.exists_in(version):
                top, *below = row.capability
                placed = row.settings
                for name in reversed(below):
                    placed = {name: placed}
                found[top] = {**(getattr(capabilities, top, None) or {}), **placed}
        return msgspec.structs.replace(capabilities, **found)

    # What is read.

    def read_tool(self, id: str, tool: types.Tool) -> Any:
        """Return what an extension reads of a tool; None where the client does not have the extension."""
        found = self._by_id.get(canonical_extension(id))
        return None if found is None else found.read_tool(tool)

    def read_resource(self, id: str, resource: types.Resource | types.ResourceTemplate) -> Any:
        """Return what an extension reads of a resource, or of a template."""
        found = self._by_id.get(canonical_extension(id))
        return None if found is None else found.read_resource(resource)

    def page_type(self, method: str, kind: type[P], entries: str, version: Version) -> type[P]:
        """Return the type of the pages of a list, whose entries have the fields that extensions add."""
        if all(method not in row.entries for row in self.table.extensions):
            return kind
        if (method, version) not in self._pages:
            field = next(field for field in msgspec.structs.fields(kind) if field.encode_name == entries)
            entry: Any = self.table.entry_type(method, field.type.__args__[0], version)
            added = [(field.name, list[entry])]
            self._pages[method, version] = msgspec.defstruct(kind.__name__, added, bases=(kind,), kw_only=True)
        found: type[P] = self._pages[method, version]
        return found

    # What happens around a request.

    def with_token(self, options: Options) -> Options:
        """Return options with a progress token, under which progress may go on after the request has an answer."""
        if options.progress_token is not None:
            return options
        self._last_token += 1
        return msgspec.structs.replace(options, progress_token=f"call-{self._last_token}")

    def with_params(self, request: ExtendedRequest, connection: ServerConnection) -> dict[str, Any]:
        """Return the parameters of a request, and those that extensions add to it where it does not have them."""
        params: dict[str, Any] = {}
        for row in self.table.extensions:
            if (
                request.method in row.params
                and row.exists_in(connection.version)
                and (not connection.has_introduced or declares(connection.capabilities, row.path))
            ):
                params |= self._acting(row).params(request)
        return {**params, **request.params}

    def named(self, method: str, raw: Raw) -> FurtherResult | None:
        """Return a result which does not name its type, if it is of one that an extension knows it by."""
        if self._names_types:
            with suppress(msgspec.DecodeError, RecursionError):
                result = msgspec.json.decode(raw, type=types.Json)
                for one in self._by_id.values() if "resultType" not in result else ():
                    result_type = one.result_type(method, result)
                    if result_type is not None:
                        return FurtherResult(result_type, raw)
        return None

    async def finish(
        self, connection: ServerConnection, request: ExtendedRequest, came: FurtherResult, kind: Any
    ) -> Any:
        """Return the ordinary result of a request, after one of a further type came.

        Raises:
            TransportError: no extension of the client has such results, or it did not finish this one.
        """
        row = self.table.answering(request.method, came.result_type, connection.version)
        if row is None:
            raise self._unknown(request.method, came.result_type, connection.capabilities)
        acting = self._acting(row)
        with connection.hearing_progress(request.options):
            finished = await acting.finish(request, msgspec.json.decode(came.raw, type=types.Json))
        result = finished if isinstance(finished, kind) else read(Raw(jsonrpc.encode(finished)), kind, request.method)
        if not isinstance(result, kind):
            raise TransportError(f"{row.id} did not finish the result of {request.method}: it gave {result!r}")
        return result

    def _acting(self, row: ExtensionRow) -> ClientExtension:
        return self._by_id[canonical_extension(row.id)]

    def _unknown(self, method: str, result_type: str, capabilities: types.ServerCapabilities) -> TransportError:
        unknown = f"The result of {method} is of the unknown type {result_type!r}"
        declared = {canonical_extension(id) for id in capabilities.extensions or {}} - self._by_id.keys()
        official = OFFICIAL_RESULT_TYPES.get(result_type)
        wanted = [official] if official is not None and official not in self._by_id else sorted(declared)
        if not wanted:
            return TransportError(f"{unknown}, which no extension that this client has lets answer {method}")
        ids = " or ".join(map(repr, wanted))
        return TransportError(
            f"{unknown}. It may belong to the extension {ids}, which this client does not have: give its"
            " ClientExtension to the client, as in Client(..., extensions=[...]); settings alone do not read results"
        )

    # What the server sends.

    def require_served(self, method: str, connection: ServerConnection) -> None:
        """See that the server of a connection may send a request of an extension.

        Raises:
            MethodNotFound: the version does not have it, or the server has not declared the extension.
        """
        is_known = connection.has_introduced
        rows = (row for row in self.table.methods if row.name == method and row.exists_in(connection.version))
        if not any(not is_known or declares(connection.capabilities, row.declared) for row in rows):
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
            TypeError: no extension of the client has it.
        """
        added = {field.name: field for field in self.table.subscription_fields() if field not in CORE_FIELDS}
        if name not in added:
            raise TypeError(f"No extension of this client has the subscription {name!r}; there are: {[*added]}")
        return added[name]

    def notified(self, method: str, raw: Raw, tell: Callable[..., None]) -> None:
        """Let a notification be told to the extension that hears it.

        Raises:
            ValidationError: the parameters do not fit.
        """
        if method in self._heard:
            function, kind = self._heard[method]
            tell(function, decode(raw, kind), size=len(raw))


def _readable(method: Method) -> Method:
    """Return a method whose parameters are a dict, if its row does not type them."""
    untyped: Any = types.Json
    return msgspec.structs.replace(method, params=untyped) if method.params is types.Params else method


def _iterable(given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"extensions must be objects of a ClientExtension, or a mapping of settings, not {given!r}")
    return given


def _checked(
    one: ClientExtension, given: Mapping[str, ExtensionHandler], known: Iterable[str]
) -> Iterable[tuple[str, Any]]:
    for name, function in given.items():
        if name not in known:
            raise DefinitionError(f"{type(one).__name__} takes {name!r}, which its rows do not let a server send")
        yield name, handler(function, f"{type(one).__name__}: {name}")
