"""The table of methods: parameters, result, sender, versions and capability of each.

`offered` makes the table of one version and one set of capabilities. A method that the version lacks, or whose
capability was not declared, is absent from it. So a single lookup decides whether a method may be called, and no other
module compares versions or capabilities for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import InvalidParams, MissingCapability
from dragoman.protocol.versions import (
    LATEST_HANDSHAKE,
    V2024_11_05,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Version,
    as_version,
)
from dragoman.types.decoding import decoders

Side = Literal["client", "server"]

ROOTS_CHANGED = "notifications/roots/list_changed"
"""The notification of a client whose roots changed (until 2025-11-25)."""


def name_versions(row: Struct) -> None:
    """Replace the names of versions in `since` and `until` of a row by the versions.

    Raises:
        DefinitionError: there is no version of that name.
    """
    for field in ("since", "until"):
        given = getattr(row, field)
        if isinstance(given, str):
            msgspec.structs.force_setattr(row, field, as_version(given))


class Method(Struct, frozen=True, kw_only=True):
    """One method of the protocol, of an extension, or of a server."""

    name: str
    params: type[types.Params] = types.Params
    result: type[types.Result] | None = None
    """None for a notification."""
    sender: tuple[Side, ...] = ("client",)
    since: Version | str = V2024_11_05
    """The first version that has the method; the name of a version becomes the version."""
    until: Version | str | None = None
    capability: tuple[str, ...] = ()
    """The capability that the receiver must have declared, as a path into its capabilities."""
    name_from: str | None = None
    """The parameter that the `Mcp-Name` header mirrors."""
    name_optional: bool = False
    """Whether a server accepts requests without `Mcp-Name`; a header that differs is always refused."""
    input_required: bool = False
    """The server may answer `input_required` (2026-07-28)."""
    progresses: bool = False
    """The server may send progress, so the client sends a progress token."""
    repeatable: bool = False
    """A client may send the request again after a lost connection, because serving it twice does no harm."""
    declared: tuple[str, ...] = ()
    """The capability that the sender must have declared, as a path into its capabilities."""
    name_in: str | None = None
    """The parameter with the name of what a request is about; if there is no such parameter, the field of each entry.

    The parameter may be an object with a `name` or a `uri`, such as the `ref` of a completion.
    """
    uri_in: str | None = None
    """The parameter with the URI of what a request is about; if there is no such parameter, the field of each entry."""
    uris: tuple[str, ...] = ()
    """The paths of the URIs in the result, in each entry of a list, or in a notification, such as `contents[].uri`."""
    listed_in: tuple[str, ...] = ()
    """The lists whose entries are what such requests may be about."""
    owner_from: str | None = None
    """The method that only a server answers which has what the request is about, such as a task."""

    def __post_init__(self) -> None:
        name_versions(self)

    @property
    def is_notification(self) -> bool:
        """Whether the method has no result."""
        return self.result is None

    def exists_in(self, version: Version) -> bool:
        """Whether a version has this method."""
        return self.since <= version and (self.until is None or version <= self.until)  # type: ignore[operator]

    def decode_params(self, params: bytes | Raw) -> Any:
        """Return the typed parameters.

        Raises:
            InvalidParams: the parameters do not fit; the message names the place.
        """
        try:
            return decoders[self.params].decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidParams(f"Invalid parameters for {self.name}: {error}") from None


CONTENT_URIS = ("content[].uri", "content[].resource.uri")
"""The URIs in the content of the result of a tool."""
_HANDSHAKE: dict[str, Any] = {"until": LATEST_HANDSHAKE}
_STATELESS: dict[str, Any] = {"since": V2026_07_28}


def _request(
    name: str,
    params: type[types.Params],
    result: type[types.Result],
    *capability: str,
    repeatable: bool = True,
    **row: Any,
) -> Method:
    return Method(name=name, params=params, result=result, capability=capability, repeatable=repeatable, **row)


def _list(name: str, result: type[types.Result], capability: str, **row: Any) -> Method:
    return _request(name, types.PaginatedRequestParams, result, capability, **row)


def _get(name: str, params: type[types.Params], result: type[types.Result], capability: str, **row: Any) -> Method:
    """Return the row of a request whose handler may report progress and ask for input."""
    return _request(name, params, result, capability, input_required=True, progresses=True, **row)


def _subscribing(name: str, params: type[types.Params]) -> Method:
    return _request(name, params, types.Result, "resources", "subscribe", uri_in="uri", **_HANDSHAKE)


def _ask(name: str, params: type[types.Params], result: type[types.Result], capability: str, **row: Any) -> Method:
    """Return the row of a request from server to client, which only the handshake era has."""
    return _request(name, params, result, capability, repeatable=False, sender=("server",), **_HANDSHAKE, **row)


def _notification(name: str, params: type[types.Params] = types.Params, *sender: Side, **row: Any) -> Method:
    return Method(name=name, params=params, sender=sender or ("server",), **row)


METHODS: tuple[Method, ...] = (
    _request("initialize", types.InitializeRequestParams, types.InitializeResult, **_HANDSHAKE),
    _request("server/discover", types.Params, types.DiscoverResult, **_STATELESS),
    _request("ping", types.Params, types.Result, sender=("client", "server"), **_HANDSHAKE),
    _list("tools/list", types.ListToolsResult, "tools", name_in="name"),
    _get(
        *("tools/call", types.CallToolRequestParams, types.CallToolResult, "tools"),
        name_from="name",
        repeatable=False,
        name_in="name",
        listed_in=("tools/list",),
        uris=CONTENT_URIS,
    ),
    _list("prompts/list", types.ListPromptsResult, "prompts", name_in="name"),
    _get(
        *("prompts/get", types.GetPromptRequestParams, types.GetPromptResult, "prompts"),
        name_from="name",
        name_in="name",
        listed_in=("prompts/list",),
        uris=("messages[].content.uri", "messages[].content.resource.uri"),
    ),
    _list("resources/list", types.ListResourcesResult, "resources", uri_in="uri"),
    _list("resources/templates/list", types.ListResourceTemplatesResult, "resources", uri_in="uriTemplate"),
    _get(
        *("resources/read", types.ReadResourceRequestParams, types.ReadResourceResult, "resources"),
        name_from="uri",
        uri_in="uri",
        uris=("contents[].uri",),
    ),
    _subscribing("resources/subscribe", types.SubscribeRequestParams),
    _subscribing("resources/unsubscribe", types.UnsubscribeRequestParams),
    _request(
        *("completion/complete", types.CompleteRequestParams, types.CompleteResult, "completions"),
        name_in="ref",
        listed_in=("prompts/list", "resources/templates/list"),
    ),
    _request("logging/setLevel", types.SetLevelRequestParams, types.Result, "logging", **_HANDSHAKE),
    _request(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, types.SubscriptionsListenResult, **_STATELESS
    ),
    _ask("sampling/createMessage", types.CreateMessageRequestParams, types.CreateMessageResult, "sampling"),
    _ask("elicitation/create", types.ElicitRequestParams, types.ElicitResult, "elicitation", since=V2025_06_18),
    _ask("roots/list", types.Params, types.ListRootsResult, "roots"),
    _notification("notifications/initialized", types.Params, "client", **_HANDSHAKE),
    _notification("notifications/cancelled", types.CancelledNotificationParams, "client", "server"),
    _notification("notifications/progress", types.ProgressNotificationParams),
    _notification("notifications/progress", types.ProgressNotificationParams, "client", **_HANDSHAKE),
    _notification(ROOTS_CHANGED, types.Params, "client", **_HANDSHAKE),
    _notification("notifications/message", types.LoggingMessageNotificationParams),
    _notification("notifications/resources/updated", types.ResourceUpdatedNotificationParams, uris=("uri",)),
    _notification("notifications/tools/list_changed"),
    _notification("notifications/prompts/list_changed"),
    _notification("notifications/resources/list_changed"),
    _notification(
        "notifications/elicitation/complete",
        types.ElicitationCompleteNotificationParams,
        since=V2025_11_25,
        **_HANDSHAKE,
    ),
    _notification(
        "notifications/subscriptions/acknowledged", types.SubscriptionsAcknowledgedNotificationParams, **_STATELESS
    ),
)

METHOD_NAMES = frozenset(method.name for method in METHODS)
"""The names of all methods of the protocol itself."""


def offered(
    methods: Iterable[Method],
    version: Version,
    sender: Side,
    capabilities: types.ServerCapabilities | types.ClientCapabilities,
) -> Mapping[str, Method]:
    """Return, by name, the methods that the sender may call on a receiver that declared these capabilities."""
    return {
        method.name: method
        for method in methods
        if sender in method.sender and method.exists_in(version) and declares(capabilities, method.capability)
    }


def declares(capabilities: Any, path: tuple[str, ...]) -> bool:
    """Tell whether capabilities have a path whose value is neither absent nor false."""
    if path[:1] == ("extensions",):
        return capabilities.extension(path[1]) is not None  # an id may have an alias
    for name in path:
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else getattr(capabilities, name, None)
        if capabilities is None or capabilities is False:
            return False
    return True


def require_declared(capabilities: types.ClientCapabilities, path: tuple[str, ...]) -> None:
    """Check that a client declared a capability.

    Raises:
        MissingCapability: the client did not declare it.
    """
    if not declares(capabilities, path):
        required: types.Json = {}
        for name in reversed(path):
            required = {name: required}
        raise MissingCapability(required)
