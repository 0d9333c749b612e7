"""What a proxy reads of results and parameters, and what it changes in them; everything else stays encoded.

Parameters that two readers may understand differently are refused: a name that occurs twice, and a name of the protocol
in another case, such as `Name`. Some targets ignore case or merge repeated members, so they would serve another request
than the proxy, its middleware and the `Mcp-Name` header have seen.

A result that passes between two clients of the same era is not touched. Between the eras, these members come and go:
`resultType`, `ttlMs` and `cacheScope`, and the name of the server in `_meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import JSONDecoder
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman import types
from dragoman.errors import HeaderMismatch, InvalidParams
from dragoman.forward.messages import RawObject, raw_object
from dragoman.forward.proxy.upstream import Upstream
from dragoman.protocol.eras import McpRequest
from dragoman.protocol.fields import trim
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import Version
from dragoman.types.decoding import decoders
from dragoman.types.memo import Memo

if TYPE_CHECKING:
    from dragoman.server.request.call import Call

AGE = "dragoman/age"
"""The key of `_meta` that says how many seconds old a list is, if the target of a proxy is away."""
TASK_BYTES = 4096
"""A result that says that a task has begun is short."""
_STATELESS_MEMBERS = ("resultType", "ttlMs", "cacheScope")
_CONTAINERS = (tuple, list)
_MAX_DEPTH = 3
"""How deep the protocol nests the objects of parameters."""


class InputQuestion(Struct):
    """A question of a stateless target."""

    method: str
    params: Raw = Raw(b"{}")


class _Asking(Struct, rename="camel"):
    result_type: str | None = None
    input_requests: dict[str, InputQuestion] = {}
    request_state: Raw | UnsetType = UNSET


class _KnownName(Struct):
    """A name that the protocol defines, and the names within its value."""

    name: str
    within: dict[str, _KnownName] = {}


def _known_names(kind: msgspec.inspect.Type, depth: int = _MAX_DEPTH) -> dict[str, _KnownName]:
    """Return the names of the members of a type, by their case-folded form."""
    names: dict[str, _KnownName] = {}
    for part in kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,):
        if isinstance(part, msgspec.inspect.StructType) and depth:
            if part.tag_field is not None:
                names[part.tag_field.casefold()] = _KnownName(part.tag_field)
            for member in part.fields:
                within = _known_names(member.type, depth - 1)
                names[member.encode_name.casefold()] = _KnownName(member.encode_name, within)
    return names


def _names_in_params(key: tuple[str, type[types.Params]]) -> dict[str, _KnownName]:
    method, own = key
    names: dict[str, _KnownName] = {}
    for kind in (own, *(row.params for row in Upstream.table.methods if row.name == method)):
        for folded, known in _known_names(msgspec.inspect.type_info(kind)).items():
            within = names[folded].within if folded in names else {}
            names[folded] = _KnownName(known.name, {**within, **known.within})
    names["_meta"] = _KnownName("_meta", _known_names(msgspec.inspect.type_info(types.RequestMeta)))
    return names


_names_of = Memo(_names_in_params)
"""The names in the parameters of a method with a type, also those that official extensions define."""
_tree = JSONDecoder(object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=str)
"""Decodes an object to a tuple of names and values, which keeps repeated names."""


def require_unambiguous(request: McpRequest) -> None:
    """Refuse a request whose parameters a target may read differently than this proxy.

    Names that the protocol does not define, such as those of arguments, may differ only in case.

    Raises:
        InvalidParams: a name occurs twice, or is a name of the protocol in another case.
    """
    known_names = _names_of[request.method.name, request.method.params]
    try:
        tree = _tree.decode(bytes(request.raw_params).decode())
    except RecursionError:
        raise InvalidParams("The parameters are nested too deeply") from None
    parts: list[tuple[Any, dict[str, _KnownName] | None]] = [(tree, known_names)]
    while parts:
        part, known = parts.pop()
        members = part if type(part) is tuple else ()
        spellings: dict[str, str] = {}
        for name, value in members:
            folded = name if known is None else name.casefold()
            expected = None if known is None else known.get(folded)
            other = spellings.get(folded) if expected is None or name == expected.name else expected.name
            if other is not None:
                how = "occurs twice" if name == other else f"differs from {other!r} only in case"
                raise InvalidParams(f"The parameter {name!r} {how}")
            spellings[folded] = name
            if type(value) in _CONTAINERS:
                parts.append((value, None if expected is None else expected.within or None))
        if type(part) is list:
            parts += [(item, None) for item in part if type(item) in _CONTAINERS]


def check_mirrored(plan: HeaderPlan, raw_arguments: Raw | bytes, headers: Mapping[str, str]) -> None:
    """Compare the `Mcp-Param-*` headers of a client with the arguments, as the listed tool says.

    Raises:
        HeaderMismatch: a header is missing, superfluous, malformed or different, or an argument that a header repeats
            has a second spelling, which a target that ignores case may read instead.
    """
    tree = msgspec.json.decode(raw_arguments)
    arguments = tree if isinstance(tree, dict) else {}
    plan.check(arguments, headers)
    for mirrored in plan.params:
        members: Any = arguments
        for name in mirrored.path:
            members = members if isinstance(members, dict) else {}
            if any(key != name and key.casefold() == name.casefold() for key in members):
                raise HeaderMismatch(f"Mcp-Param-{mirrored.header} repeats {name!r}, which has another spelling too")
            members = members.get(name)


def params_of(request: McpRequest) -> tuple[RawObject, RawObject]:
    """Return the parameters of a request without `_meta`, and `_meta`.

    Raises:
        InvalidParams: the target may read the parameters differently.
    """
    require_unambiguous(request)
    return split_meta(request.raw_params)


def split_meta(params: Raw) -> tuple[RawObject, RawObject]:
    """Return parameters without `_meta`, and `_meta`."""
    fields = raw_object(params)
    meta = fields.pop("_meta", None)
    return fields, {} if meta is None else raw_object(meta)


def translated(raw: Raw, source: Version, version: Version, method: Method, info: types.Implementation | None) -> Raw:
    """Return a result of one version in another; a stateless result names the server as `info`, if that is given."""
    if source.stateless is version.stateless and (info is None or not version.stateless):
        return raw
    if bytes(memoryview(raw)[:1]) != b"{":
        return Raw(encode({"result": raw, "resultType": "complete"})) if version.stateless else raw
    fields: dict[str, Any] = raw_object(raw)
    meta: dict[str, Any] = raw_object(fields.pop("_meta", b""))
    if version.stateless:
        fields.setdefault("resultType", "complete")
        if method.result is not None and issubclass(method.result, types.CacheableResult):
            fields = {"ttlMs": 0, "cacheScope": "private", **fields}
        if info is not None:
            meta[types.SERVER_INFO] = info
    else:
        fields = {key: value for key, value in fields.items() if key not in _STATELESS_MEMBERS}
        meta.pop(types.SERVER_INFO, None)
    return Raw(encode({**fields, "_meta": meta} if meta else fields))


def declaration(
    raw: Raw, result: types.InitializeResult, found: types.Implementation | None, named: types.Implementation | None
) -> Raw:
    """Return the result of `initialize`: what the target declared, in the version of the client."""
    fields = msgspec.json.decode(raw, type=RawObject)
    declared = {key: value for key, value in fields.items() if key in ("capabilities", "instructions", "_meta")}
    if "protocolVersion" in fields:
        declared = fields
    version: Any = result.protocol_version
    info = named or found or result.server_info
    declared["protocolVersion"] = Raw(encode(version))
    if named is not None or "serverInfo" not in declared:
        declared["serverInfo"] = Raw(encode(info))
    return Raw(encode(declared))


def with_age(raw: Raw, seconds: int) -> Raw:
    """Return a list that says in `_meta` how old it is."""
    fields: dict[str, Any] = raw_object(raw)
    return Raw(encode({**fields, "_meta": {**raw_object(fields.get("_meta", b"")), AGE: seconds}}))


def with_tools(raw: Raw, shows: Callable[[str], bool]) -> Raw:
    """Return a list of tools without those that are not shown."""
    fields: dict[str, Any] = raw_object(raw)
    try:
        tools = msgspec.json.decode(fields.get("tools", b"[]"), type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        tools = []
    names = (msgspec.json.decode(raw_object(tool).get("name", b"null")) for tool in tools)
    shown = [tool for tool, name in zip(tools, names, strict=True) if isinstance(name, str) and shows(name)]
    return Raw(encode({**fields, "tools": shown}))


def with_versions(raw: Raw, names: list[str]) -> Raw:
    """Return the result of `server/discover` with the versions of the proxy, which speaks more than the target may."""
    return Raw(encode({**raw_object(raw), "supportedVersions": names}))


def with_subscription(params: RawObject, call: Call) -> Raw:
    """Return the parameters or the result of a subscription with the id that its client gave it."""
    meta: dict[str, Any] = raw_object(params.get("_meta", b""))
    return Raw(encode({**params, "_meta": {**meta, types.SUBSCRIPTION_ID: call.request.id}}))


def input_requests(raw: Raw) -> tuple[dict[str, InputQuestion] | None, Raw | UnsetType]:
    """Return the questions and the state of an `input_required` result; None for any other result."""
    try:
        asking = msgspec.json.decode(raw, type=_Asking)
    except (msgspec.DecodeError, RecursionError):
        return None, UNSET
    return (asking.input_requests, asking.request_state) if asking.result_type == "input_required" else (None, UNSET)


def fits(raw: Raw, kind: Any) -> bool:
    """Tell whether a result is complete and has a type, so that it can be decoded and encoded again."""
    try:
        return decoders[kind].decode(raw).result_type in (None, "complete")
    except (msgspec.DecodeError, RecursionError):
        return False


def is_begun_task(request: McpRequest, raw: Raw) -> bool:
    """Tell whether the result of a request that asked for a task says that the task has begun (2025-11-25)."""
    is_asked = getattr(request.params, "task", UNSET) is not UNSET
    return is_asked and b'"task"' in bytes(memoryview(raw)[:TASK_BYTES]) and "task" in raw_object(raw)


def report_progress(
    call: Call, token: types.ProgressToken, progress: float, total: float | None, message: str | None
) -> None:
    """Pass the progress of a request to its client, under the token of the client."""
    if call.progress is not None and progress <= call.progress:
        return  # MUST: progress increases. A call that is sent again after a question begins at the start.
    call.progress = progress
    params = types.ProgressNotificationParams(token, progress, total, message)
    call.channel.notify_session("notifications/progress", trim(params, call.request.caller.version))
