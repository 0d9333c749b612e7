"""The two eras of MCP: `open` makes an `McpRequest` of a request of either era, `seal` fits a result to a version.

An `McpRequest` names its `Caller`: the protocol version, the capabilities and the name of the client. In the stateless
era (2026-07-28) every request carries these three in its `_meta`. In the handshake era the client sends them once, in
`initialize`, and the session keeps them. The `_meta` of each message alone decides the era of that message: a
connection may carry messages of both eras, so no module stores the era of a connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from dragoman import types
from dragoman.errors import (
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    ResourceNotFound,
    RpcError,
    UnsupportedVersion,
)
from dragoman.protocol import jsonrpc
from dragoman.protocol.extensions import CORE, ProtocolTable
from dragoman.protocol.fields import trim
from dragoman.protocol.headers import McpHeaders, check_request, version_mismatch
from dragoman.protocol.methods import Method, offered, require_declared
from dragoman.protocol.versions import VERSIONS, Version, handshake_versions, stateless_versions, version_names
from dragoman.types import SERVER_INFO
from dragoman.types.decoding import decoders


class Caller(Struct, frozen=True):
    """The client that sent a request, as it described itself in `initialize` or in the `_meta` of the request."""

    version: Version
    capabilities: types.ClientCapabilities = field(default_factory=types.ClientCapabilities)
    info: types.Implementation | None = None
    log_level: types.LoggingLevel | None = None

    def extension(self, id: str) -> types.Json | None:
        """Return the settings with which the client declared an extension, None if it did not declare it."""
        return self.capabilities.extension(id)


class McpRequest(Struct, frozen=True, gc=False):
    """A request of either era, ready to be served."""

    id: types.RequestId
    method: Method
    params: Any
    """A Struct of the type `method.params`."""
    caller: Caller
    progress_token: types.ProgressToken | None = None
    meta: Raw | UnsetType = UNSET
    raw_params: Raw = jsonrpc.NO_PARAMS
    """The encoded parameters, for methods that the protocol does not define."""


class Offer(Struct, frozen=True):
    """The versions that a server serves, newest first, and the methods of each."""

    versions: tuple[Version, ...]
    methods: Mapping[str, Mapping[str, Method]]
    client_methods: Mapping[str, Method]
    """Every method that a client may call in some version, whether this server offers it or not."""
    stateless: Mapping[str, Version]
    """The served versions of the stateless era, by name."""
    default_caller: Caller | None
    """The caller of a request without `_meta` and without a session; None if only stateless versions are served."""
    table: ProtocolTable = CORE

    @classmethod
    def of(
        cls,
        capabilities: types.ServerCapabilities,
        served: Iterable[Version] = VERSIONS,
        table: ProtocolTable = CORE,
        *,
        notifications: bool = False,
    ) -> Offer:
        """Return the offer of a server with these capabilities: its requests, or the notifications that it receives."""
        newest_first = tuple(sorted(served, reverse=True))
        rows = tuple(
            method for method in table.methods if method.is_notification is notifications and "client" in method.sender
        )
        return cls(
            newest_first,
            {version.name: offered(rows, version, "client", capabilities) for version in newest_first},
            {method.name: method for method in rows},
            {version.name: version for version in newest_first if version.stateless},
            next((Caller(version) for version in handshake_versions(newest_first)), None),
            table,
        )

    def find(self, method: str, caller: Caller) -> Method:
        """Return the method.

        Raises:
            MethodNotFound: the caller's version has no such request, or its capability is not offered.
            MissingCapability: the caller did not declare the extension that the method belongs to.
        """
        try:
            found = self.methods[caller.version.name][method]
        except KeyError:
            raise MethodNotFound(f"Method not found: {method}", {"method": method}) from None
        if found.declared:
            try:
                require_declared(caller.capabilities, found.declared)
            except MissingCapability as missing:
                raise seal_error(missing, caller.version) from None
        return found

    def declared(self, capabilities: types.ServerCapabilities, version: Version) -> types.ServerCapabilities:
        """Return the capabilities that a server declares in a version; not every version allows every extension."""
        if capabilities.extensions is None:
            return capabilities
        declarable = self.table.declarable(capabilities.extensions, version)
        return msgspec.structs.replace(capabilities, extensions=declarable or None)


class _ParamsWithMeta(Struct):
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class _MetaWithVersion(Struct):
    version: Any = field(default=None, name=types.PROTOCOL_VERSION)


_params_with_meta = msgspec.json.Decoder(_ParamsWithMeta)
_meta_with_version = msgspec.json.Decoder(_MetaWithVersion)
_request_meta = msgspec.json.Decoder(types.RequestMeta)
_object = msgspec.json.Decoder(types.Json)
_NO_META = types.RequestMeta()
_NULL = Raw(b"null")
_DISCOVER = "server/discover"
_NO_METHODS: Mapping[str, Method] = {}


ReadParams = tuple[types.RequestMeta, Raw | UnsetType, types.Params | None]
"""The `_meta` of a request, decoded and encoded, and its parameters."""


def open(
    message: jsonrpc.Request,
    offer: Offer,
    session: Caller | None = None,
    already_read: ReadParams | None = None,
    headers: McpHeaders | None = None,
) -> McpRequest:
    """Return the request as an `McpRequest`: stateless if its `_meta` names a version, else part of the session.

    The checks have a fixed order, and the first that fails decides the error: `_meta`, version, mirrored headers,
    method, the capability that the client must have declared for the method, parameters. `headers` are those of a
    stateless request over HTTP; a duplex connection has none. `server/discover` without `_meta` gets the newest
    stateless version and a caller without capabilities.

    Raises:
        InvalidParams: `_meta` is malformed or lacks a required key, or the parameters do not fit the method.
        HeaderMismatch: a header differs from the body that it mirrors.
        UnsupportedVersion: the server does not serve the named version without a handshake.
        MethodNotFound: the version has no such method, or the server does not offer its capability.
        MissingCapability: the client did not declare the extension that the method belongs to.
    """
    meta, raw_meta, params = read_params(message, offer) if already_read is None else already_read
    caller = None
    if headers is None and meta.protocol_version is None:
        caller = offer.default_caller if session is None else session
    if caller is None:
        caller = stateless_caller(meta, offer, headers)
        if headers is not None:
            offered_there = offer.methods[caller.version.name].get(message.method)
            check_request(headers, message, offered_there or offer.client_methods.get(message.method), params)
    elif message.method == _DISCOVER:
        # Only stateless versions have this method. A client sends it without `_meta` to learn the versions.
        caller = next((Caller(version) for version in stateless_versions(offer.versions)), caller)
    method = offer.methods.get(caller.version.name, _NO_METHODS).get(message.method)
    if method is None or method.declared:
        method = offer.find(message.method, caller)
    if type(params) is not method.params:  # None, or the type of another version
        params = method.decode_params(message.params)
    return McpRequest(message.id, method, params, caller, meta.progress_token, raw_meta, message.params)


def refused_request(message: jsonrpc.Request, offer: Offer, session: Caller | None = None) -> McpRequest:
    """Return the readable parts of a request that `open` refuses, for middleware and hooks.

    Unreadable parameters are None. A method that does not exist is a `Method` with its name alone.
    """
    try:
        meta, raw_meta, params = read_params(message, offer)
    except InvalidParams:
        meta, raw_meta, params = _NO_META, UNSET, None
    caller = session or offer.default_caller or Caller(offer.versions[0])
    if meta.protocol_version is not None:
        newest = next(iter(offer.stateless.values()), caller.version)
        version = offer.stateless.get(meta.protocol_version, newest)
        capabilities = meta.client_capabilities or types.ClientCapabilities()
        caller = Caller(version, capabilities, meta.client_info or caller.info, meta.log_level)
    method = offer.client_methods.get(message.method) or Method(name=message.method, result=types.Result)
    return McpRequest(message.id, method, params, caller, meta.progress_token, raw_meta, message.params)


def read_params(message: jsonrpc.Request, offer: Offer) -> ReadParams:
    """Return the `_meta` of a request, decoded and encoded, and its parameters.

    The parameters are None if the method is unknown or if they do not fit the method. Both are errors of a later check:
    errors of `_meta` and of the version take precedence.

    Raises:
        InvalidParams: the parameters are not an object, or `_meta` is malformed.
    """
    method = offer.client_methods.get(message.method)
    try:
        params = None if method is None else decoders[method.params].decode(message.params)
    except (msgspec.DecodeError, RecursionError):
        params = None
    try:
        raw_meta = _params_with_meta.decode(message.params).meta if params is None else params.meta
        if raw_meta is UNSET or raw_meta == _NULL:
            return _NO_META, UNSET, params
        return _request_meta.decode(raw_meta), raw_meta, params
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"Invalid parameters: {error}") from None


def claims_stateless(message: jsonrpc.Request | jsonrpc.Notification) -> bool:
    """Tell whether the `_meta` of a message names a protocol version, even if the message is otherwise invalid."""
    try:
        raw = _params_with_meta.decode(message.params).meta
        return raw is not UNSET and _meta_with_version.decode(raw).version is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def stateless_caller(meta: types.RequestMeta, offer: Offer, headers: McpHeaders | None = None) -> Caller:
    """Return the caller of a stateless request. The version header, if there are headers, must agree with `_meta`.

    Raises:
        InvalidParams: `_meta` lacks a key that every stateless request carries.
        HeaderMismatch: a header is repeated, or names another version than `_meta`.
        UnsupportedVersion: the server does not serve the version without a handshake.
    """
    claimed, capabilities = meta.protocol_version, meta.client_capabilities
    if claimed is None or capabilities is None:
        # MUST (2026-07-28): "missing required _meta field -> -32602", before the version itself is checked.
        missing = types.PROTOCOL_VERSION if claimed is None else types.CLIENT_CAPABILITIES
        served = ", ".join(version_names(offer.versions))
        raise InvalidParams(f"_meta lacks {missing!r}, which every stateless request carries; served are {served}")
    if headers is not None and (headers.repeated is not None or headers.protocol_version != claimed):
        raise version_mismatch(headers, claimed)
    version = offer.stateless.get(claimed)
    if version is None:
        raise UnsupportedVersion(claimed, version_names(offer.versions))
    return Caller(version, capabilities, meta.client_info, meta.log_level)


def seal(result: types.Result, version: Version, server_info: Raw | None = None) -> types.Result:
    """Return a result in the form of a version.

    A stateless result gets its `resultType`, the name of the server in `_meta` and, if it is cacheable, `ttlMs` and
    `cacheScope`. For earlier versions, `trim` leaves out or replaces what they do not define.
    """
    if version.stateless:
        sealed: Any = trim(result, version).__copy__()  # type: ignore[attr-defined]
        if sealed.result_type is None:
            is_question = isinstance(result, types.InputRequiredResult)
            sealed.result_type = "input_required" if is_question else "complete"
        if isinstance(result, types.CacheableResult):
            sealed.ttl_ms = sealed.ttl_ms or 0
            sealed.cache_scope = sealed.cache_scope or "private"
        if server_info is not None:
            sealed.meta = {SERVER_INFO: server_info, **(result.meta or {})}
        return sealed  # type: ignore[no-any-return]
    return trim(result, version)


def seal_value(value: Any, version: Version, server_info: Raw | None = None) -> Any:
    """Return the value of a custom method: unchanged in the handshake era, as a result in the stateless era.

    Raises:
        ValidationError: JSON has no form for the value.
    """
    if not version.stateless:
        return value
    if isinstance(value, dict):
        sealed = dict(value)
    else:
        # The encoding shows whether the value is a JSON object; a dataclass, for example, is one.
        encoded = jsonrpc.encode(value)
        sealed = _object.decode(encoded) if encoded.startswith(b"{") else {"result": Raw(encoded)}
    sealed.setdefault("resultType", "complete")
    if server_info is not None:
        sealed["_meta"] = {SERVER_INFO: server_info, **(sealed.get("_meta") or {})}
    return sealed


def seal_error(error: RpcError, version: Version) -> RpcError:
    """Return an error with the code that a version defines for it."""
    if isinstance(error, ResourceNotFound):
        code = version.resource_not_found
    else:
        code = dict(version.replaced_errors).get(error.code, error.code)
    return error if code == error.code else RpcError(code, error.message, error.data)


def discover(
    offer: Offer, capabilities: types.ServerCapabilities, instructions: str | None = None
) -> types.DiscoverResult:
    """Return the result of `server/discover`, not sealed yet."""
    newest = max(offer.stateless.values())
    return types.DiscoverResult(version_names(offer.versions), offer.declared(capabilities, newest), instructions)


def initialize(
    params: types.InitializeRequestParams,
    offer: Offer,
    capabilities: types.ServerCapabilities,
    info: types.Implementation,
    instructions: str | None = None,
) -> tuple[types.InitializeResult, Caller]:
    """Return the result of `initialize`, sealed, and the caller of the requests in the session.

    Raises:
        UnsupportedVersion: the server serves no version that has a handshake.
    """
    version = negotiate(params.protocol_version, offer.versions)
    result = types.InitializeResult(version.name, offer.declared(capabilities, version), info, instructions)
    declared = trim(params.capabilities, version)
    if params.capabilities.extensions:  # each extension has versions of its own
        declarable = offer.table.declarable(params.capabilities.extensions, version)
        declared = msgspec.structs.replace(declared, extensions=declarable)
    return trim(result, version), Caller(version, declared, params.client_info)


def negotiate(requested: str, served: tuple[Version, ...]) -> Version:
    """Return the version of a handshake: the requested one if the server has it, else its newest with a handshake.

    Raises:
        UnsupportedVersion: no served version has a handshake.
    """
    candidates = handshake_versions(served)
    if not candidates:
        raise UnsupportedVersion(requested, version_names(served))
    return next((version for version in candidates if version.name == requested), candidates[0])
