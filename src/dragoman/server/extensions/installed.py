"""The extensions of one server, put together: what its machinery asks of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.config import is_async
from dragoman.errors import DefinitionError
from dragoman.protocol.extensions import ExtensionRow, ProtocolTable, check_extension_id, merge_objects, merge_settings
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import Version
from dragoman.server.define.definition import Definition
from dragoman.server.define.tools import Tool
from dragoman.server.extensions.contract import ExtensionHandler, Outcome, ServerExtension
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context
from dragoman.types import canonical_extension

if TYPE_CHECKING:
    from dragoman.server.server import Server

Extensions = Iterable[ServerExtension] | Mapping[str, types.Json]


class Installed:
    """The extensions that were given to a server.

    Raises:
        DefinitionError: what was given is no extension, or two extensions do not fit together.
    """

    def __init__(self, given: Extensions) -> None:
        self._declared = _settings(given) if isinstance(given, Mapping) else {}
        self._extensions = () if isinstance(given, Mapping) else tuple(_checked(given))
        self.rows: tuple[ExtensionRow, ...] = tuple(row for one in self._extensions for row in one.rows)
        self.table = ProtocolTable.of(self.rows)
        self.handlers = {
            name: _handler(function) for one in self._extensions for name, function in _handlers(one).items()
        }
        methods = (method for row in self.rows for method in row.methods)
        self.heard = frozenset(one.name for one in methods if _is_heard(one) and one.name in self.handlers)
        """The notifications that extensions hear."""
        self._around = tuple(one for one in self._extensions if _overrides(one, "around_call"))
        self._options = frozenset(name for one in self._extensions for name in one.tool_options)
        self._honouring = {
            field.name: one for one in self._extensions for row in one.rows for field in row.subscriptions
        }

    @property
    def is_around(self) -> bool:
        """Whether an extension stands around calls of tools."""
        return bool(self._around)

    def bind(self, server: Server) -> None:
        """Let the extensions take their server."""
        for one in self._extensions:
            one.bind(server)

    def declared(
        self, derived: types.ServerCapabilities, configured: Mapping[str, types.Json]
    ) -> types.ServerCapabilities:
        """Return what a server declares with its extensions: under their ids, over what is configured, or elsewhere."""
        said = [(one, settings) for one in self._extensions if (settings := one.settings()) is not None]
        own = {_id(one): settings for one, settings in said if any(not row.capability for row in one.rows)}
        entries = msgspec.to_builtins(derived)
        entries["extensions"] = merge_settings(configured, self._declared, own) or None
        for row in (row for one, _ in said for row in one.rows if row.capability):
            placed: types.Json = row.settings
            for name in reversed(row.capability):
                placed = {name: placed}
            entries = merge_objects(entries, placed)
        return msgspec.convert(entries, types.ServerCapabilities)

    def require_carried(self, pinned: Version) -> None:
        """See that each extension may be declared in the only version that is served.

        Raises:
            DefinitionError: one may not.
        """
        for one in self._extensions:
            if not any(row.exists_in(pinned) for row in one.rows):
                raise DefinitionError(
                    f"The extension {_id(one)!r} does not exist in the pinned protocol version {pinned.name};"
                    " leave it out, or do not pin the version"
                )

    def define(self, definition: Definition[..., Any]) -> None:
        """Give the further options of a tool to the extensions that they belong to.

        Raises:
            DefinitionError: an option belongs to no extension, has another type, or does not fit the tool.
        """
        if not isinstance(definition, Tool):
            return
        definition.require_options_known(self._options)
        for one in self._extensions:
            options = {name: getattr(definition, name) for name in one.tool_options if hasattr(definition, name)}
            for name, value in options.items():
                if not isinstance(value, one.tool_options[name]):
                    kind = getattr(one.tool_options[name], "__name__", one.tool_options[name])
                    raise DefinitionError(f"{name} of the tool {definition.name!r} must be {kind}, not {value!r}")
            if options:
                one.define_tool(definition, options)

    def entry(self, method: str, definition: Definition[..., Any], version: Version) -> Struct:
        """Return the entry of a list in a version: what is listed of a definition, with the fields that are added."""
        listed: Struct = definition.definition
        added: dict[str, Any] = {}
        for one in self._extensions:
            if any(method in row.entries and row.exists_in(version) for row in one.rows):
                fields = one.entry(definition)
                added |= {} if fields is None else msgspec.structs.asdict(fields)
        if not added:
            return listed
        kind = self.table.entry_type(method, type(listed), version)
        return kind(**msgspec.structs.asdict(listed), **added)

    async def around(self, call: Call, serve: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a call of a tool with the extensions around it, the first one outermost."""
        for one in reversed(self._around):
            serve = partial(one.around_call, Context(call), serve)
        result = await serve()
        if not isinstance(result, types.Result | dict):
            raise TypeError(f"around_call must return what call_next() gives, a result or a dict: {result!r}")
        return result

    async def honour(self, call: Call, honoured: types.SubscriptionFilter) -> types.SubscriptionFilter:
        """Return what is honoured of a filter after the extensions had their say on their fields."""
        told: dict[str, Any] = {}
        for name, one in self._honouring.items():
            wanted = getattr(honoured, name)
            if wanted is not None:
                told[name] = await one.honour(Context(call), name, wanted)
        return msgspec.structs.replace(honoured, **told) if told else honoured


def _settings(given: Mapping[str, types.Json]) -> dict[str, types.Json]:
    for id, settings in given.items():
        check_extension_id(id)
        if not isinstance(settings, Mapping):
            raise DefinitionError(f"The settings of the extension {id!r} must be a dict, not {settings!r}")
    return dict(given)


def _checked(given: Any) -> Iterable[ServerExtension]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(f"extensions must be a list of extensions, or a dict of settings, not {given!r}")
    seen: set[str] = set()
    options: set[str] = set()
    for one in given:
        if not isinstance(one, ServerExtension) or not one.rows:
            raise DefinitionError(f"{one!r} is no extension: give an object of a ServerExtension that has rows")
        ids = {canonical_extension(row.id) for row in one.rows}
        if len(ids) > 1:
            raise DefinitionError(f"The rows of an extension have one id, not several: {', '.join(sorted(ids))}")
        if ids & seen:
            raise DefinitionError(f"The extension {one.rows[0].id!r} is given twice")
        taken = [name for name in one.tool_options if hasattr(Tool, name) or name in options]
        if taken:
            raise DefinitionError(f"The extension {one.rows[0].id!r} cannot add {taken[0]!r}: tools have that already")
        seen |= ids
        options |= one.tool_options.keys()
        yield one


def _handlers(extension: ServerExtension) -> Mapping[str, ExtensionHandler]:
    """Return the handlers of an extension: one for each request of a client, and some for its notifications."""
    given, id = extension.handlers(), _id(extension)
    methods = [method for row in extension.rows for method in row.methods]
    wanted = {method.name for method in methods if _is_request(method)}
    heard = {method.name for method in methods if _is_heard(method)}
    for name in wanted ^ (given.keys() - heard):
        said = "has no handler for" if name in wanted else "handles a method that its rows lack:"
        raise DefinitionError(f"The extension {id!r} {said} {name!r}")
    for name, function in given.items():
        if not is_async(function):
            raise DefinitionError(f"The handler of {name!r} must be an `async def (ctx, params)`, not {function!r}")
    return given


def _is_request(method: Method) -> bool:
    return not method.is_notification and "client" in method.sender


def _is_heard(method: Method) -> bool:
    return method.is_notification and "client" in method.sender


def _handler(function: ExtensionHandler) -> Callable[[Any, Call], Any]:
    def handle(_server: Any, call: Call) -> Coroutine[Any, Any, Outcome]:
        return function(Context(call), call.request.params)  # type: ignore[return-value]

    return handle


def _id(extension: ServerExtension) -> str:
    return canonical_extension(extension.rows[0].id)


def _overrides(extension: ServerExtension, name: str) -> bool:
    return getattr(type(extension), name) is not getattr(ServerExtension, name)
