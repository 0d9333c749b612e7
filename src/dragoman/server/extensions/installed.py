"""`InstalledExtensions`: the checked extensions of one server, behind one interface for the server and the runner."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.config import is_async
from dragoman.errors import DefinitionError
from dragoman.protocol.extensions import ExtensionRow, ProtocolTable, check_extension_id, merge_objects, merge_settings
from dragoman.protocol.versions import Version
from dragoman.server.define.definition import Definition
from dragoman.server.define.resources import Resource, ResourceTemplate
from dragoman.server.define.tools import Tool
from dragoman.server.dispatch.dispatcher import Dispatcher, Handler
from dragoman.server.extensions.contract import ExtensionHandler, Outcome, ServerExtension
from dragoman.server.request.call import Call
from dragoman.server.request.context import Context
from dragoman.types import canonical_extension

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from dragoman.server.server import Server

Extensions = Iterable[ServerExtension | Mapping[str, types.Json]] | Mapping[str, types.Json]
AROUND_METHODS = ("tools/call", "prompts/get", "resources/read", "completion/complete")
"""The requests that an extension may surround; the server answers others with bytes that it has encoded before."""
E = TypeVar("E", bound=ServerExtension)


class InstalledExtensions:
    """The extensions of a server, also those that it had `before`; it only declares the extensions of a dict.

    Raises:
        DefinitionError: an object is not an extension, or two extensions conflict.
    """

    def __init__(self, given: Extensions, before: InstalledExtensions | None = None) -> None:
        every = _several(given)
        declared = [_checked_settings(one) for one in every if isinstance(one, Mapping)]
        objects = [one for one in every if not isinstance(one, Mapping)]
        if before is not None:
            declared, objects = [before._only_declared, *declared], [*before._extensions, *objects]
        self._only_declared: dict[str, types.Json] = merge_settings(*declared)
        self._extensions: tuple[ServerExtension, ...] = tuple(_checked(objects))
        self.rows: tuple[ExtensionRow, ...] = tuple(row for one in self._extensions for row in one.rows)
        self.table = ProtocolTable.of(self.rows)
        self.handlers: Mapping[str, Handler] = {
            name: _handler(function) for one in self._extensions for name, function in _checked_handlers(one).items()
        }
        self.notifications = frozenset(self.handlers.keys() & _sent_by_client(self.rows, is_notification=True))
        """The methods of the client notifications that extensions handle."""
        self._around = self._overriding("around_call")
        self._showing = self._overriding("shows")
        self._options = frozenset(
            name for one in self._extensions for name in (*one.tool_options, *one.resource_options)
        )
        self._honouring = {
            field.name: one for one in self._extensions for row in one.rows for field in row.subscriptions
        }

        self.serving = tuple(one.serving for one in self._overriding("serving"))
        """The context managers of the extensions that begin and end with serving."""
        self.around_methods = frozenset(name for one in self._around for name in one.around_methods)
        """The requests that an extension surrounds."""
        self.hides = bool(self._showing)
        """Whether the lists depend on the client."""
        self.reads = bool(self._overriding("reader"))
        """Whether an extension reads resources that are not registered."""

    def _overriding(self, hook: str) -> tuple[ServerExtension, ...]:
        default = getattr(ServerExtension, hook)
        return tuple(one for one in self._extensions if getattr(type(one), hook) is not default)

    def has(self, extension: ServerExtension) -> bool:
        """Tell whether the server has an extension."""
        return extension in self._extensions

    def bind(self, server: Server) -> None:
        """Pass the server to each extension."""
        for one in self._extensions:
            one.bind(server)

    def managers(self, server: Server) -> list[AbstractAsyncContextManager[object]]:
        """Return the context managers that a loop of the server enters before it serves."""
        return [enter(server) for enter in self.serving]

    def find(self, kind: type[E]) -> E | None:
        """Return the extension of a class; None if the server does not have it."""
        return next((one for one in self._extensions if isinstance(one, kind)), None)

    def check(self) -> None:
        """Let each extension check the whole server.

        Raises:
            DefinitionError: the server cannot be served as it is.
        """
        for one in self._extensions:
            one.check()

    def declared(
        self, derived: types.ServerCapabilities, configured: Mapping[str, types.Json]
    ) -> types.ServerCapabilities:
        """Return the derived capabilities of a server, with those of its extensions added.

        The settings of an extension are declared under its id and override the configured settings. A row with a
        `capability` path is declared at that path.
        """
        active = [(one, settings) for one in self._extensions if (settings := one.settings()) is not None]
        own = {_id(one): settings for one, settings in active if any(not row.capability for row in one.rows)}
        entries = msgspec.to_builtins(derived)
        entries["extensions"] = merge_settings(configured, self._only_declared, own) or None
        for one, _ in active:
            for row in (row for row in one.rows if row.capability):
                placed = one.capability_settings(row)
                for name in reversed(row.capability) if placed is not None else ():
                    placed = {name: placed}
                entries = merge_objects(entries, placed or {})
        return msgspec.convert(entries, types.ServerCapabilities)

    def require_carried(self, pinned: Version) -> None:
        """Refuse extensions that do not exist in the pinned version.

        Raises:
            DefinitionError: an extension does not exist in the pinned version.
        """
        for one in self._extensions:
            if not any(row.exists_in(pinned) for row in one.rows):
                raise DefinitionError(
                    f"The extension {_id(one)!r} does not exist in the pinned protocol version {pinned.name};"
                    " leave it out, or do not pin the version"
                )

    def define(self, definition: Definition[..., Any]) -> None:
        """Pass the extension options of a tool or a resource to the extensions that own them.

        Raises:
            DefinitionError: an option belongs to no extension, has the wrong type, or does not fit the definition.
        """
        definition.require_options_known(self._options)
        for one in self._extensions:
            if isinstance(definition, Tool):
                if options := _options(definition, one.tool_options):
                    one.define_tool(definition, options)
            elif isinstance(definition, Resource | ResourceTemplate) and (
                options := _options(definition, one.resource_options)
            ):
                one.define_resource(definition, options)

    def forget(self, definition: Any) -> None:
        """Tell each extension that a definition was removed."""
        for one in self._extensions:
            one.forget(definition)

    def shows(self, call: Call, definition: Any) -> bool:
        """Tell whether a definition is in the list that a client gets."""
        ctx = Context(call)
        return all(one.shows(ctx, definition) for one in self._showing)

    def entry(self, method: str, definition: Any, version: Version) -> Struct:
        """Return the entry of a definition in the list of a method, with the fields that extensions add to it.

        The `_meta` of an extension is merged over that of the definition.
        """
        listed: Struct = definition.definition
        extending = [
            one for one in self._extensions if any(method in row.entries and row.exists_in(version) for row in one.rows)
        ]
        given = [msgspec.structs.asdict(entry) for one in extending if (entry := one.entry(definition)) is not None]
        if not given:
            return listed
        kind, fields = self.table.entry_type(method, version), msgspec.structs.asdict(listed)
        for added in given:
            if fields["meta"] and added.get("meta"):
                added["meta"] = merge_objects(fields["meta"], added["meta"])
            # None leaves a field of the author as it is. A generation of the extension may lack a field of another.
            present = {name for name, value in added.items() if value is not None and name in kind.__struct_fields__}
            fields |= {name: added[name] for name in present}
        return kind(**fields)

    async def around(self, call: Call, serve: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a request within the `around_call` of the extensions; the first extension is the outermost.

        A detached call has passed through the extension that runs it, and through those before that extension.
        """
        passed = 0 if call.within is None else self._extensions.index(call.within) + 1
        method = call.request.method.name
        around = [one for one in self._extensions[passed:] if one in self._around and method in one.around_methods]
        for one in reversed(around):
            serve = partial(one.around_call, Context(call), serve)
        result = await serve()
        if not isinstance(result, types.Result | dict):
            raise TypeError(f"around_call must return what call_next() gives, a result or a dict: {result!r}")
        return result

    def reading(self, call: Call, uri: str) -> Coroutine[Any, Any, Any] | None:
        """Return the reading of a resource that an extension has; None if no extension has it."""
        readers = (reader for one in self._extensions if (reader := one.reader(uri)) is not None)
        read = next(readers, None)
        return None if read is None else read(Context(call))  # type: ignore[return-value]

    async def honour(self, call: Call, honoured: types.SubscriptionFilter) -> types.SubscriptionFilter:
        """Return a subscription filter in which each extension has reduced its own fields."""
        decided: dict[str, Any] = {}
        for name, one in self._honouring.items():
            wanted = getattr(honoured, name)
            if wanted is not None:
                decided[name] = await one.honour(Context(call), name, wanted)
        return msgspec.structs.replace(honoured, **decided) if decided else honoured


def install(server: Dispatcher, extensions: Extensions) -> InstalledExtensions:
    """Add extensions to a server.

    Raises:
        DefinitionError: an object is not an extension, or an extension conflicts with another or with a method.
    """
    installed = InstalledExtensions(extensions, installed_in(server))
    server.install(installed)
    return installed


def installed_in(server: Dispatcher) -> InstalledExtensions | None:
    """Return the extensions of a server; None if it has none."""
    assert server.installed is None or isinstance(server.installed, InstalledExtensions)
    return server.installed


def extension_of(server: Dispatcher, kind: type[E]) -> E:
    """Return the extension of a class that a server has; without one, install `kind()`.

    Raises:
        DefinitionError: the extension conflicts with another, or with a method that the author registered.
    """
    installed = installed_in(server)
    extension = None if installed is None else installed.find(kind)
    if extension is None:
        extension = kind()
        install(server, [extension])
        extension.bind(server.owner)
        server.renew()
    return extension


def _options(definition: Definition[..., Any], kinds: Mapping[str, type | UnionType]) -> dict[str, Any]:
    """Return the options of an extension that a definition has.

    Raises:
        DefinitionError: an option has the wrong type.
    """
    options = {name: getattr(definition, name) for name in kinds if hasattr(definition, name)}
    for name, value in options.items():
        if not isinstance(value, kinds[name]):
            kind, noun = getattr(kinds[name], "__name__", kinds[name]), type(definition).__name__.lower()
            raise DefinitionError(f"{name} of the {noun} {definition.name!r} must be {kind}, not {value!r}")
    return options


def _several(given: Any) -> list[Any]:
    if isinstance(given, Mapping):
        return [given]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(f"extensions must be a list of extensions, or a dict of settings, not {given!r}")
    return list(given)


def _checked_settings(given: Mapping[str, types.Json]) -> dict[str, types.Json]:
    for id, settings in given.items():
        check_extension_id(id)
        if not isinstance(settings, Mapping):
            raise DefinitionError(f"The settings of the extension {id!r} must be a dict, not {settings!r}")
    return dict(given)


def _checked(given: Iterable[Any]) -> Iterable[ServerExtension]:
    seen: set[str] = set()
    options: set[tuple[type, str]] = set()
    for one in given:
        if not isinstance(one, ServerExtension) or not one.rows:
            raise DefinitionError(f"{one!r} is not an extension: give an object of a ServerExtension that has rows")
        ids = {canonical_extension(row.id) for row in one.rows}
        if len(ids) > 1:
            raise DefinitionError(f"The rows of an extension have one id, not several: {', '.join(sorted(ids))}")
        if ids & seen:
            raise DefinitionError(f"The extension {one.rows[0].id!r} is given twice")
        added = {*((Tool, name) for name in one.tool_options), *((Resource, name) for name in one.resource_options)}
        for kind, name in sorted(added, key=lambda option: option[1]):
            if hasattr(kind, name) or (kind, name) in options:
                noun = "tools" if kind is Tool else "resources"
                raise DefinitionError(f"The extension {one.rows[0].id!r} cannot add {name!r}: {noun} have that already")
        for name in one.around_methods:
            if name not in AROUND_METHODS:
                possible = ", ".join(AROUND_METHODS)
                raise DefinitionError(f"{type(one).__name__}.around_methods may have {possible}, not {name!r}")
        seen |= ids
        options |= added
        yield one


def _checked_handlers(extension: ServerExtension) -> Mapping[str, ExtensionHandler]:
    """Return the handlers of an extension.

    Raises:
        DefinitionError: a request has no handler, a method is in no row, or a handler is not an `async def`.
    """
    given = extension.handlers()
    requests = _sent_by_client(extension.rows, is_notification=False)
    notifications = _sent_by_client(extension.rows, is_notification=True)
    for name in requests ^ (given.keys() - notifications):
        problem = "has no handler for" if name in requests else "handles a method that its rows lack:"
        raise DefinitionError(f"The extension {_id(extension)!r} {problem} {name!r}")
    for name, function in given.items():
        if not is_async(function):
            raise DefinitionError(f"The handler of {name!r} must be an `async def (ctx, params)`, not {function!r}")
    return given


def _sent_by_client(rows: Iterable[ExtensionRow], *, is_notification: bool) -> set[str]:
    methods = (method for row in rows for method in row.methods)
    return {one.name for one in methods if one.is_notification is is_notification and "client" in one.sender}


def _handler(function: ExtensionHandler) -> Handler:
    def handle(_server: Dispatcher, call: Call) -> Coroutine[Any, Any, Outcome]:
        return function(Context(call), call.request.params)  # type: ignore[return-value]

    return handle


def _id(extension: ServerExtension) -> str:
    return canonical_extension(extension.rows[0].id)
