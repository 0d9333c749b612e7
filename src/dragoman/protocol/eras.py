"""The two eras behind one request and one result.

`open` turns a request of either era into the same neutral `McpRequest`. Who calls (version, capabilities, name) comes
from the request's own `_meta` in the stateless era and from the session in the handshake era. `seal` turns a neutral
result into what a version carries. The era is decided by each message's `_meta` alone and never remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

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
from dragoman.protocol.versions import (
    VERSIONS,
    Version,
    handshake_versions,
    stateless_versions,
    version_names,
)
from dragoman.types.decoding import decoders
from dragoman.types.memo import Memo

T = TypeVar("T")


class Caller(Struct, frozen=True):
    """Who sent a request: what the client said of itself, in a session or in the request."""

    version: Version
    capabilities: types.ClientCapabilities = field(default_factory=types.ClientCapabilities)
    info: types.Implementation | None = None
    log_level: types.LoggingLevel | None = None

    def extension(self, id: str) -> types.Json | None:
        """Return the settings with which the client declared an extension; None if it did not."""
        return self.capabilities.extension(id)


class McpRequest(Struct, frozen=True, gc=False):
    """A request of either era, ready to be served."""

    id: types.RequestId
    method: Method
    params: Any
    """Typed, as the method takes them."""
    caller: Caller
    progress_token: types.ProgressToken | None = None
    meta: Raw | UnsetType = UNSET
    raw_params: Raw = jsonrpc.NO_PARAMS
    """As they came, for methods that the protocol does not know."""


class Offer(Struct, frozen=True):
    """What a server serves: its versions, newest first, and the methods that each of them has."""

    versions: tuple[Version, ...]
    methods: Mapping[str, Mapping[str, Method]]
    known: Mapping[str, Method]
    """Every request of a client that the table has, whether it is offered or not."""
    stateless: Mapping[str, Version]
    """Those that are served without a handshake, by name."""
    unintroduced: Caller | None
    """A client that sends requests by hand, without a handshake; None where no version has one."""
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
        """Return the offer of a server with these capabilities: of requests, or of notifications that it hears."""
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
        """Return what a server declares in a version: of its extensions, those that may be declared there."""
        if capabilities.extensions is None:
            return capabilities
        declarable = self.table.declarable(capabilities.extensions, version)
        return msgspec.structs.replace(capabilities, extensions=declarable or None)


class _Head(Struct):
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class _Claim(Struct):
    version: Any = field(default=None, name=types.PROTOCOL_VERSION)


_head = msgspec.json.Decoder(_Head)
_claim = msgspec.json.Decoder(_Claim)
_request_meta = msgspec.json.Decoder(types.RequestMeta)
_object = msgspec.json.Decoder(types.Json)
_NO_META = types.RequestMeta()
_NULL = Raw(b"null")
_DISCOVER = "server/discover"


Read = tuple[types.RequestMeta, Raw | UnsetType, types.Params | None]


def open(
    message: jsonrpc.Request,
    offer: Offer,
    session: Caller | None = None,
    *,
    read_already: Read | None = None,
    sent: McpHeaders | None = None,
) -> McpRequest:
    """Return the neutral request: stateless when the message says so itself, else in the session's name.

    This is the ladder of both carriers. Each rung comes before the next: `_meta`, version, mirrored headers, method,
    what the client must have declared for it, parameters. Over HTTP a stateless request comes with the headers that
    were `sent`; a duplex connection has none. A bare `server/discover` is served as the newest stateless version has
    it, to a client without capabilities.

    Raises:
        InvalidParams: `_meta` is malformed, or lacks what the stateless era requires; or the parameters do not fit.
        HeaderMismatch: a header does not say what the body says.
        UnsupportedVersion: it claims a version that is not served without a handshake.
        MethodNotFound: that version has no such method, or its capability is not offered.
        MissingCapability: the client did not declare the extension that the method belongs to.
    """
    meta, raw_meta, params = read(message, offer) if read_already is None else read_already
    caller = (session or offer.unintroduced) if meta.protocol_version is None and sent is None else None
    if caller is None:
        caller = stateless_caller(meta, offer, sent)
        if sent is not None:
            offered_there = offer.methods[caller.version.name].get(message.method)
            check_request(sent, message, offered_there or offer.known.get(message.method), params)
    elif message.method == _DISCOVER:
        # Only stateless versions have it, and who asks what is spoken cannot be asked to speak it already.
        caller = next((Caller(version) for version in stateless_versions(offer.versions)), caller)
    method = offer.find(message.method, caller)
    if type(params) is not method.params:  # they do not fit, or are those of the method in another version
        params = method.decode_params(message.params)
    return McpRequest(message.id, method, params, caller, meta.progress_token, raw_meta, message.params)


def unopened(message: jsonrpc.Request, offer: Offer, session: Caller | None = None) -> McpRequest:
    """Return what can be told of a request that `open` refuses, for those who are to know of it.

    Parameters that cannot be read are None, and a method that does not exist has its name alone.
    """
    try:
        meta, raw_meta, params = read(message, offer)
    except InvalidParams:
        meta, raw_meta, params = _NO_META, UNSET, None
    caller = session or offer.unintroduced or Caller(offer.versions[0])
    if meta.protocol_version is not None:
        newest = next(iter(offer.stateless.values()), caller.version)
        version = offer.stateless.get(meta.protocol_version, newest)
        capabilities = meta.client_capabilities or types.ClientCapabilities()
        caller = Caller(version, capabilities, meta.client_info or caller.info, meta.log_level)
    method = offer.known.get(message.method) or Method(name=message.method, result=types.Result)
    return McpRequest(message.id, method, params, caller, meta.progress_token, raw_meta, message.params)


def read(message: jsonrpc.Request, offer: Offer) -> Read:
    """Return a request's `_meta`, as the protocol reads it and as it came, and its parameters.

    The parameters are None where the method is unknown or they do not fit it: which error that is depends on what else
    is wrong, since `_meta` and the version come first.

    Raises:
        InvalidParams: the parameters are not an object, or `_meta` is malformed.
    """
    method = offer.known.get(message.method)
    try:
        params = None if method is None else decoders[method.params].decode(message.params)
    except (msgspec.DecodeError, RecursionError):
        params = None
    raw_meta = _decode(_head, message.params).meta if params is None else params.meta
    if raw_meta is UNSET or raw_meta == _NULL:
        return _NO_META, UNSET, params
    return _decode(_request_meta, raw_meta), raw_meta, params


def claims_stateless(message: jsonrpc.Request | jsonrpc.Notification) -> bool:
    """Tell whether a message names its own protocol version, whatever else is wrong with it."""
    try:
        raw = _head.decode(message.params).meta
        return raw is not UNSET and _claim.decode(raw).version is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def _decode(decoder: msgspec.json.Decoder[T], raw: Raw) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"Invalid parameters: {error}") from None


def stateless_caller(meta: types.RequestMeta, offer: Offer, sent: McpHeaders | None = None) -> Caller:
    """Return who sent a stateless request; the header that names its version is checked where headers were sent.

    Raises:
        InvalidParams: the request lacks what every stateless request carries.
        HeaderMismatch: a header is repeated, or names another version than the body.
        UnsupportedVersion: its version is not served without a handshake.
    """
    claimed, capabilities = meta.protocol_version, meta.client_capabilities
    if claimed is None or capabilities is None:
        # MUST (2026-07-28): "missing required _meta field -> -32602", before the version itself is judged.
        missing = types.PROTOCOL_VERSION if claimed is None else types.CLIENT_CAPABILITIES
        served = ", ".join(version_names(offer.versions))
        raise InvalidParams(f"_meta lacks {missing!r}, which every stateless request carries; served are {served}")
    if sent is not None and (sent.repeated is not None or sent.protocol_version != claimed):
        raise version_mismatch(sent, claimed)
    version = offer.stateless.get(claimed)
    if version is None:
        raise UnsupportedVersion(claimed, version_names(offer.versions))
    return Caller(version, capabilities, meta.client_info, meta.log_level)


def seal(result: types.Result, version: Version, server_info: Raw | None = None) -> types.Result:
    """Return the result as a version carries it.

    Stateless results get their type, cacheable ones their lifetime, and all of them the server's name; for earlier
    versions, what they lack is left out or said otherwise.
    """
    if version.stateless:
        sealed: Any = trim(result, version).__copy__()  # type: ignore[attr-defined]
        result_type, is_cacheable = _traits[type(result)]
        if sealed.result_type is None:
            sealed.result_type = result_type
        if is_cacheable:
            sealed.ttl_ms = sealed.ttl_ms or 0
            sealed.cache_scope = sealed.cache_scope or "private"
        if server_info is not None:
            sealed.meta = {types.SERVER_INFO: server_info, **(result.meta or {})}
        return sealed  # type: ignore[no-any-return]
    return trim(result, version)


_PLAIN = types.CallToolResult([types.TextContent("")], structured_content={})
carries_plainly: Memo[Version, bool] = Memo(lambda version: not version.stateless and trim(_PLAIN, version) is _PLAIN)
"""Whether a version carries what a tool says, and an object beside it, without anything being added or left out."""


def _traits_of(kind: type[types.Result]) -> tuple[str, bool]:
    """Return what type results of a kind say they have, and whether they say how long they may be kept."""
    result_type = "input_required" if issubclass(kind, types.InputRequiredResult) else "complete"
    return result_type, issubclass(kind, types.CacheableResult)


_traits = Memo(_traits_of)


def seal_value(value: Any, version: Version, server_info: Raw | None = None) -> Any:
    """Return what a method of the server's own gave back: as it is, or as a stateless result.

    Raises:
        ValidationError: it cannot be JSON.
    """
    if not version.stateless:
        return value
    sealed = dict(value) if isinstance(value, dict) else _as_object(value)
    sealed.setdefault("resultType", "complete")
    if server_info is not None:
        sealed["_meta"] = {types.SERVER_INFO: server_info, **(sealed.get("_meta") or {})}
    return sealed


def _as_object(value: Any) -> types.Json:
    """Whether a value is an object shows on the wire only: a dataclass is one there."""
    encoded = jsonrpc.encode(value)
    return _object.decode(encoded) if encoded.startswith(b"{") else {"result": Raw(encoded)}


def seal_error(error: RpcError, version: Version) -> RpcError:
    """Return the error with the code that a version has for it."""
    if isinstance(error, ResourceNotFound):
        code = version.resource_not_found
    else:
        code = dict(version.replaced_errors).get(error.code, error.code)
    return error if code == error.code else RpcError(code, error.message, error.data)


def discover(
    offer: Offer, capabilities: types.ServerCapabilities, instructions: str | None = None
) -> types.DiscoverResult:
    """Return the answer to `server/discover`, still to be sealed."""
    newest = max(offer.stateless.values())
    return types.DiscoverResult(version_names(offer.versions), offer.declared(capabilities, newest), instructions)


def initialize(
    params: types.InitializeRequestParams,
    offer: Offer,
    capabilities: types.ServerCapabilities,
    info: types.Implementation,
    instructions: str | None = None,
) -> tuple[types.InitializeResult, Caller]:
    """Return the answer to `initialize`, sealed, and who the session's requests come from.

    Raises:
        UnsupportedVersion: the server serves no version that has a handshake.
    """
    version = negotiate(params.protocol_version, offer.versions)
    result = types.InitializeResult(version.name, offer.declared(capabilities, version), info, instructions)
    return trim(result, version), Caller(version, _within(version, params.capabilities, offer), params.client_info)


def _within(version: Version, capabilities: types.ClientCapabilities, offer: Offer) -> types.ClientCapabilities:
    """Return what a version lets a server make of a client; extensions have versions of their own."""
    if not capabilities.extensions:
        return trim(capabilities, version)
    declarable = offer.table.declarable(capabilities.extensions, version)
    return msgspec.structs.replace(trim(capabilities, version), extensions=declarable)


def negotiate(requested: str, served: tuple[Version, ...]) -> Version:
    """Return the version of a handshake: the one asked for when it is served, else the newest that has a handshake.

    Raises:
        UnsupportedVersion: no served version has a handshake.
    """
    candidates = handshake_versions(served)
    if not candidates:
        raise UnsupportedVersion(requested, version_names(served))
    return next((version for version in candidates if version.name == requested), candidates[0])
