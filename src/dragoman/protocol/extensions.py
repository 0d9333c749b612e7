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
from typing import Any

import msgspec
from msgspec import Struct, field

from dragoman import types
from dragoman.errors import DefinitionError
from dragoman.protocol.methods import METHODS, Method
from dragoman.protocol.subscriptions import CORE_FIELDS, SubscriptionField
from dragoman.protocol.versions import V2025_06_18, VERSIONS, Version
from dragoman.types import canonical_extension

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ID = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
CORE_RESULT_TYPES = ("complete", "input_required")
_LISTEN = "subscriptions/listen"


class ExtensionRow(Struct, frozen=True, kw_only=True):
    """The additions of one extension to the protocol.

    Example:
        row = ExtensionRow(
            id="com.example/prices",
            methods=(Method(name="prices/get", params=GetPriceParams, result=Price, name_from="item"),),
            result_types={"quote": ("tools/call",)},
        )

    `id` follows the rules of `_meta` keys and needs a prefix. The extension may be declared in the versions from
    `since` to `until`. Both sides must declare it before its methods are used. `params` maps a core method to a Struct
    whose fields are added to the parameters of the method; `entries` maps a list method to fields of its entries. All
    these fields are optional. `result_types` maps each further `resultType` to the methods whose result may have it.
    `capability` is the path of the declaration if that is not `extensions.<id>`; then only the receiver of a method
    declares the extension, as for core methods. `one_sided` says the same of a declaration under `extensions.<id>`.

    Raises:
        DefinitionError: the id is malformed, or a method or result type exists in the core protocol.
    """

    id: str
    settings: types.Json = field(default_factory=dict)
    since: Version = V2025_06_18
    until: Version | None = None
    capability: tuple[str, ...] = ()
    one_sided: bool = False
    methods: tuple[Method, ...] = ()
    params: Mapping[str, type[Struct]] = field(default_factory=dict)
    entries: Mapping[str, type[Struct]] = field(default_factory=dict)
    result_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    subscriptions: tuple[SubscriptionField, ...] = ()

    def __post_init__(self) -> None:
        check_extension_id(self.id)
        self._refuse_core_names("result type", self.result_types, CORE_RESULT_TYPES)
        self._refuse_core_names("method", [method.name for method in self.methods], {one.name for one in METHODS})

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
        return self.since <= version and (self.until is None or version <= self.until)

    @property
    def shared(self) -> tuple[str, ...]:
        """The declaration that both sides make, as a path into capabilities; empty if only the receiver declares."""
        return () if self.capability or self.one_sided else self.path

    def joined_methods(self) -> tuple[Method, ...]:
        """Return the methods, limited to the versions of the extension, with its declaration as their capability."""
        return tuple(
            msgspec.structs.replace(
                method,
                since=max(method.since, self.since),
                until=min((one for one in (method.until, self.until) if one is not None), default=None),
                capability=self.path,
                declared=self.shared,
            )
            for method in self.methods
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
            DefinitionError: two extensions add the same method or field, or an extension adds one that the core has.
        """
        rows = tuple(extensions)
        added = [*(method for row in rows for method in row.joined_methods()), *own]
        for version in VERSIONS:  # two generations of an extension may share names if their versions differ
            _require_once((method.name for method in added if method.exists_in(version)), "method")
        methods = (*(_with_params(method, rows) for method in METHODS), *added)
        return cls(
            methods,
            rows,
            {method.name: method.name_from for method in methods if method.name_from is not None},
            frozenset(method.name for method in methods if method.progresses),
            frozenset(method.name for method in methods if method.repeatable),
        )

    def exists(self, method: str, version: Version) -> bool:
        """Tell whether a version has a method."""
        return any(row.name == method and row.exists_in(version) for row in self.methods)

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

    def entry_type(self, method: str, kind: type[Struct], version: Version) -> type[Struct]:
        """Return the type of the entries of a list, with the fields that extensions add in a version."""
        added = (row.entries[method] for row in self.extensions if method in row.entries and row.exists_in(version))
        return extended(kind, *added)

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


def _with_params(method: Method, rows: tuple[ExtensionRow, ...]) -> Method:
    # Two generations of an extension may add the same fields.
    added = dict.fromkeys(row.params[method.name] for row in rows if method.name in row.params)
    params = extended(method.params, *added)
    if method.name == _LISTEN:
        params = _with_subscription_fields(params, tuple(one.name for row in rows for one in row.subscriptions))
    return method if params is method.params else msgspec.structs.replace(method, params=params)


@cache
def _with_subscription_fields(params: type[Struct], names: tuple[str, ...]) -> type[Struct]:
    """Return the parameters of `subscriptions/listen` with further fields in the filter."""
    if not names:
        return params
    _require_once(names, "subscription")
    added = [(name, bool | list[str] | None, None) for name in names]
    filter_type = msgspec.defstruct("SubscriptionFilter", added, bases=(types.SubscriptionFilter,))
    return msgspec.defstruct(params.__name__, [("notifications", filter_type)], bases=(params,), kw_only=True)


@cache
def extended(kind: type[Struct], *additions: type[Struct]) -> type[Struct]:
    """Return a wire type with the fields of other Structs added to it; the same type if none are added.

    Raises:
        DefinitionError: a field exists already, or has no default.
    """
    for addition in additions:
        kind = msgspec.defstruct(
            kind.__name__, [_added(kind, one) for one in msgspec.structs.fields(addition)], bases=(kind,)
        )
    return kind


def _added(kind: type[Struct], one: msgspec.structs.FieldInfo) -> tuple[str, Any, Any]:
    if one.name in kind.__struct_fields__:
        raise DefinitionError(f"{kind.__name__} has a field {one.name!r} already")
    if one.required:
        raise DefinitionError(f"The field {one.name!r} that is added to {kind.__name__} must have a default")
    default = (
        {"default": one.default} if one.default is not msgspec.NODEFAULT else {"default_factory": one.default_factory}
    )
    return one.name, one.type, field(name=one.encode_name, **default)


CORE = ProtocolTable.of()
"""The table without extensions."""
