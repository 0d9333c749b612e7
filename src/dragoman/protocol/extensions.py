"""Protocol extensions: rows that join the tables of the core protocol.

Both sides declare an extension before they use it. The row of an extension lists its additions to the wire: methods,
parameters of core methods, fields of list entries, result types and subscription fields. A row is data;
`server.extensions` and `client.extensions` hold the code. A `ProtocolTable` joins the rows of the core and of the
extensions. Every module that asks whether a method exists, or what it accepts, asks the table.

Rejected: a hook for extensions in each such module. Each module would need a case for extensions, and each new question
a new hook.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from itertools import groupby
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType, field

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.methods import METHOD_NAMES, METHODS, Method, name_versions
from dragoman.protocol.subscriptions import CORE_FIELDS, SubscriptionField
from dragoman.protocol.versions import V2025_06_18, VERSIONS, Version, as_version
from dragoman.types import ResultType, canonical_extension

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ID = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
CORE_RESULT_TYPES = tuple(member.value for member in ResultType)
_LISTEN = "subscriptions/listen"
_ENCODED = Raw | UnsetType


class ExtensionRow(Struct, frozen=True, kw_only=True):
    """The additions of one extension to the protocol.

    Example:
        row = ExtensionRow(
            id="com.example/prices",
            methods=(Method(name="prices/get", params=GetPriceParams, result=Price, name_from="item"),),
            result_types={"quote": ("tools/call",)},
        )

    `id` follows the rules of `_meta` keys and needs a prefix. The extension may be declared in the versions from
    `since` to `until`, given by names such as "2025-11-25". Both sides must declare it before its methods are used;
    with `one_sided=True` only the server declares it, and every client may use it. `params` maps a core method to a
    Struct whose fields are added to the parameters of the method; `entries` maps a list method to fields of its
    entries. All these fields are optional. A Struct may name a field that the core has, with the same type, to set it.
    `result_types` maps each further `resultType` to the methods whose result may have it. `capability` is the path of
    the declaration if that is not `extensions.<id>`; then only the receiver of a method declares the extension, as for
    core methods. `uris` maps core methods to the paths of the URIs that the extension adds to their results or entries
    (see `Method.uris`), which a server with mounts renames.

    Raises:
        DefinitionError: the id is malformed, a version is unknown, or a method or result type exists in the core
            protocol.
    """

    id: str
    settings: types.Json = field(default_factory=dict)
    since: Version | str = V2025_06_18
    until: Version | str | None = None
    capability: tuple[str, ...] = ()
    one_sided: bool = False
    methods: tuple[Method, ...] = ()
    params: Mapping[str, type[Struct]] = field(default_factory=dict)
    entries: Mapping[str, type[Struct]] = field(default_factory=dict)
    result_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subscriptions: tuple[SubscriptionField, ...] = ()
    uris: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_extension_id(self.id)
        name_versions(self)
        self._refuse_core_names("result type", self.result_types, CORE_RESULT_TYPES)
        self._refuse_core_names("method", [method.name for method in self.methods], METHOD_NAMES)

    def _refuse_core_names(self, noun: str, names: Iterable[str], core: Container[str]) -> None:
        for name in names:
            if name in core:
                raise DefinitionError(f"{self.id}: the {noun} {name!r} belongs to the protocol itself")

    @property
    def path(self) -> tuple[str, ...]:
        """The declaration, as a path into capabilities."""
        return self.capability or ("extensions", self.id)

    def exists_in(self, version: Version) -> bool:
        """Tell whether the extension may be declared in a version."""
        return self.since <= version and (self.until is None or version <= self.until)  # type: ignore[operator]

    @property
    def shared(self) -> tuple[str, ...]:
        """The declaration that a client makes as well, as a path into capabilities; empty if it need not make it."""
        return () if self.capability or self.one_sided else self.path

    def joined_methods(self) -> tuple[Method, ...]:
        """Return the methods, limited to the versions of the extension, with its declaration as their capability."""
        return tuple(self._joined(method) for method in self.methods)

    def _joined(self, method: Method) -> Method:
        is_undeclared = self.one_sided and "client" not in method.sender
        return msgspec.structs.replace(
            method,
            since=max(as_version(one) for one in (method.since, self.since)),
            until=min((as_version(one) for one in (method.until, self.until) if one is not None), default=None),
            capability=() if is_undeclared else self.path,
            declared=self.path if is_undeclared else self.shared,
        )


def check_extension_id(id: object) -> str:
    """Return the id of an extension if it is well-formed.

    Raises:
        DefinitionError: the id is not a prefix and a name, such as `com.example/prices`.
    """
    # MUST (2026-07-28): extension ids follow the rules of `_meta` keys, and the prefix is mandatory.
    if not isinstance(id, str) or re.fullmatch(_ID, id) is None:
        raise DefinitionError(
            f"The id of an extension is a prefix and a name, such as 'com.example/prices', not {id!r}"
        )
    return id


def merge_settings(*given: Mapping[str, types.Json] | None) -> dict[str, types.Json]:
    """Merge settings of extensions by id; later settings override earlier ones, at every depth.

    An id and its alias name the same extension; the result has the id.
    """
    merged: dict[str, types.Json] = {}
    for one in given:
        merged = merge_objects(merged, {canonical_extension(id): settings for id, settings in (one or {}).items()})
    return merged


def merge_objects(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return `one` with the members of `other` over it, at every depth."""
    merged = dict(one)
    for name, value in other.items():
        if isinstance(value, Mapping):
            before = merged.get(name)
            value = merge_objects(before if isinstance(before, Mapping) else {}, value)
        merged[name] = value
    return merged


class ProtocolTable(Struct, frozen=True):
    """The methods of the core protocol and of extensions, with lookups by method.

    Example:
        table = ProtocolTable.of([row])
        table.named_by["prices/get"]  # "item"
    """

    methods: tuple[Method, ...]
    extensions: tuple[ExtensionRow, ...]
    named_by: Mapping[str, str]
    """The parameter that the `Mcp-Name` header mirrors, by method."""
    progressing: frozenset[str]
    repeatable: frozenset[str]

    @classmethod
    def of(cls, extensions: Iterable[ExtensionRow] = (), own: Iterable[Method] = ()) -> ProtocolTable:
        """Return the table of the core, of extensions, and of `own` methods, which need no declaration.

        Raises:
            DefinitionError: two extensions add the same method or field, or an extension adds one that the core has
                with another type.
        """
        rows = tuple(extensions)
        added = [*(method for row in rows for method in row.joined_methods()), *own]
        for version in VERSIONS:  # two generations of an extension may share names if their versions differ
            _require_once((method.name for method in added if method.exists_in(version)), "method")
        methods = (*(one for method in METHODS for one in _with_params(method, rows)), *added)
        table = cls(
            methods,
            rows,
            {method.name: method.name_from for method in methods if method.name_from is not None},
            frozenset(method.name for method in methods if method.progresses),
            frozenset(method.name for method in methods if method.repeatable),
        )
        for name in dict.fromkeys(name for row in rows for name in row.entries):
            for version in VERSIONS:
                table.page_type(name, version)  # refuses fields that do not fit
        return table

    def exists(self, method: str, version: Version) -> bool:
        """Tell whether a version has a method."""
        return any(row.name == method and row.exists_in(version) for row in self.methods)

    def uris(self, method: str) -> tuple[str, ...]:
        """Return the paths of the URIs in the result of a method, in each entry of a list, or in a notification."""
        of_rows = (row.uris for row in self.methods if row.name == method)
        added = (row.uris.get(method, ()) for row in self.extensions)
        return tuple(dict.fromkeys(path for paths in (*of_rows, *added) for path in paths))

    def answering(self, method: str, result_type: str, version: Version) -> ExtensionRow | None:
        """Return the extension that permits this `resultType` for a method in a version, None if there is none."""
        for row in self.extensions:
            if row.exists_in(version) and method in row.result_types.get(result_type, ()):
                return row
        return None

    def declarable(self, settings: Mapping[str, types.Json], version: Version) -> dict[str, types.Json]:
        """Return the settings of the extensions that may be declared under their ids in a version.

        An id without a row may be declared in every version.
        """
        here = {row.id for row in self.extensions if row.exists_in(version) and not row.capability}
        elsewhere = {row.id for row in self.extensions} - here
        return {id: given for id, given in settings.items() if canonical_extension(id) not in elsewhere}

    def entry_type(self, method: str, version: Version) -> type[Struct]:
        """Return the type of the entries of a list, with the fields that extensions add in a version."""
        return entries_of(self.page_type(method, version))[1]

    def page_type(self, method: str, version: Version) -> type[types.PaginatedResult]:
        """Return the type of the pages of a list, with the fields that extensions add to entries in a version."""
        rows = (row for row in self.extensions if method in row.entries and row.exists_in(version))
        return _page_type(method, *(row.entries[method] for row in rows))

    def subscription_fields(self) -> tuple[SubscriptionField, ...]:
        """Return the fields of a subscription filter; the fields of an extension need its declaration."""
        added = (
            msgspec.structs.replace(one, capability=row.path, declared=row.shared)
            for row in self.extensions
            for one in row.subscriptions
        )
        return (*CORE_FIELDS, *added)


def _require_once(names: Iterable[str], noun: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DefinitionError(f"The {noun} {name!r} is added by two extensions")
        seen.add(name)


def _with_params(method: Method, rows: tuple[ExtensionRow, ...]) -> Iterable[Method]:
    """Return the rows of a core method: one for each range of versions in which the parameters are the same."""
    if method.name != _LISTEN and all(method.name not in row.params for row in rows):
        return [method]
    versions = sorted(version for version in VERSIONS if method.exists_in(version))
    ranges = [(params, list(same)) for params, same in groupby(versions, lambda one: _params_type(method, rows, one))]
    if len(ranges) == 1:
        params = ranges[0][0]
        return [method if params is method.params else msgspec.structs.replace(method, params=params)]
    return [msgspec.structs.replace(method, params=params, since=same[0], until=same[-1]) for params, same in ranges]


def _params_type(method: Method, rows: tuple[ExtensionRow, ...], version: Version) -> type[types.Params]:
    here = [row for row in rows if row.exists_in(version)]
    params: type[types.Params] = extended(
        method.params, *(row.params[method.name] for row in here if method.name in row.params)
    )
    if method.name == _LISTEN:
        params = _with_subscription_fields(params, tuple(one.name for row in here for one in row.subscriptions))
    return params


@cache
def _page_type(method: str, *additions: type[Struct]) -> type[types.PaginatedResult]:
    kind = next((one.result for one in METHODS if one.name == method), None)
    if kind is None or not issubclass(kind, types.PaginatedResult):
        raise DefinitionError(f"{method!r} is no list of the protocol, so its entries can have no further fields")
    if not additions:
        return kind
    name, entry = entries_of(kind)
    added: Any = extended(entry, *additions)
    page: Any = msgspec.defstruct(kind.__name__, [(name, list[added])], bases=(kind,), kw_only=True)
    return page  # type: ignore[no-any-return]


def entries_of(page: type[types.PaginatedResult]) -> tuple[str, type[Struct]]:
    """Return the field of a page that holds the entries, and the type of an entry."""
    field = next(field for field in msgspec.structs.fields(page) if get_origin(field.type) is list)
    return field.name, get_args(field.type)[0]


@cache
def _with_subscription_fields(params: type[Struct], names: tuple[str, ...]) -> Any:
    """Return the parameters of `subscriptions/listen` with further fields in the filter."""
    if not names:
        return params
    _require_once(names, "subscription")
    added = [(name, bool | list[str] | None, None) for name in names]
    filter_type = msgspec.defstruct("SubscriptionFilter", added, bases=(types.SubscriptionFilter,))
    return msgspec.defstruct(params.__name__, [("notifications", filter_type)], bases=(params,), kw_only=True)


@cache
def extended(kind: type[Struct], *additions: type[Struct]) -> Any:
    """Return a wire type with the fields of other Structs added to it; the same type if none are added.

    An addition may have a field that the wire type has with the same type. It may have one that the wire type leaves
    encoded (`Raw`); the addition then decodes it.

    Raises:
        DefinitionError: a field exists already, or has no default.
    """
    core = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for addition in additions:
        known = {field.name: field.type for field in msgspec.structs.fields(kind)}
        added = [_added(kind, one) for one in msgspec.structs.fields(addition) if core.get(one.name) != one.type]
        taken = [name for name, *_ in added if known.get(name, _ENCODED) != _ENCODED]
        if taken:
            raise DefinitionError(f"{kind.__name__} has a field {taken[0]!r} already")
        kind = msgspec.defstruct(kind.__name__, added, bases=(kind,))
    return kind


def _added(kind: type[Struct], one: msgspec.structs.FieldInfo) -> tuple[str, Any, Any]:
    if one.required:
        raise DefinitionError(f"The field {one.name!r} that is added to {kind.__name__} must have a default")
    default = (
        {"default": one.default} if one.default is not msgspec.NODEFAULT else {"default_factory": one.default_factory}
    )
    return one.name, one.type, field(name=one.encode_name, **default)


CORE = ProtocolTable.of()
"""The table without extensions."""
