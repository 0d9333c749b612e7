"""What a proxy reads of results and parameters, and what it changes in them; everything else stays encoded.

A result that passes between two clients of the same era is not touched. Between the eras, these members come and go:
`resultType`, `ttlMs` and `cacheScope`, and the name of the server in `_meta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from dragoman import types
from dragoman.compose.upstream import RawObject, raw_object
from dragoman.errors import DragomanError
from dragoman.protocol.eras import McpRequest
from dragoman.protocol.headers import HeaderPlan
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import Method
from dragoman.protocol.versions import Version
from dragoman.types.decoding import decoders

if TYPE_CHECKING:
    from dragoman.server.request.call import Call

AGE = "dragoman/age"
"""The key of `_meta` that says how many seconds old a list is, if the target of a proxy is away."""
TASK_BYTES = 4096
"""A result that says that a task has begun is short."""
_AFTER_VALUE = b",}"
_BEFORE_AND_AFTER = 2
(_BACKSLASH,) = b"\\"
_STATELESS_MEMBERS = ("resultType", "ttlMs", "cacheScope")


class InputQuestion(Struct):
    """A question of a stateless target."""

    method: str
    params: Raw = Raw(b"{}")


class _Asking(Struct, rename="camel"):
    result_type: str | None = None
    input_requests: dict[str, InputQuestion] = {}
    request_state: Raw | UnsetType = UNSET


class _ListedTool(Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any] = field(default_factory=dict)


class _ListedTools(Struct, rename="camel"):
    tools: list[Raw] = []
    next_cursor: str | None = None


def split_meta(params: Raw) -> tuple[RawObject, RawObject]:
    """Return parameters without `_meta`, and `_meta`."""
    fields = raw_object(params)
    meta = fields.pop("_meta", None)
    return fields, {} if meta is None else raw_object(meta)


def with_progress_token(params: Raw, token: types.ProgressToken | None, other: types.RequestId) -> Raw:
    """Return parameters whose progress token, if they have one, is another token.

    The target must not find the token of the client, under which it would report progress. So parameters in which a
    name may occur twice are encoded again: readers differ in which of two members counts.
    """
    data = bytes(params)
    if _BACKSLASH not in data:  # without escapes, a name that occurs once is that of the token itself
        parts, value = data.split(b'"progressToken"'), b":%d" % token if type(token) is int else b""
        if token is None and len(parts) == 1:
            return params
        if value and len(parts) == _BEFORE_AND_AFTER and parts[1].startswith(value):
            rest = parts[1][len(value) :]
            if rest[0] in _AFTER_VALUE and type(other) is int:
                return Raw(b'%b"progressToken":%d%b' % (parts[0], other, rest))
    fields, meta = split_meta(params)
    own: dict[str, Any] = {key: value for key, value in meta.items() if key != "progressToken"}
    own |= {} if token is None else {"progressToken": other}
    return Raw(encode({**fields, "_meta": own} if own else fields))


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


def listed_plans(raw: Raw) -> tuple[dict[str, HeaderPlan], str | None]:
    """Return which arguments of each listed tool are repeated in headers of HTTP, and the cursor of the next page."""
    plans: dict[str, HeaderPlan] = {}
    try:
        page = msgspec.json.decode(raw, type=_ListedTools)
    except (msgspec.DecodeError, RecursionError):
        return plans, None
    for one in page.tools:
        try:
            tool = msgspec.json.decode(one, type=_ListedTool)
            plans[tool.name] = HeaderPlan.of(tool.input_schema)
        except (DragomanError, ValueError, RecursionError):
            continue
    return plans, page.next_cursor
