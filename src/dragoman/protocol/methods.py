"""The table of methods: what each takes, gives and needs, and in which versions it exists.

A method that a version lacks is absent from that version's table, and so is one whose capability is not offered: who
looks it up there finds nothing, and nobody else asks about versions or capabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from dragoman import types
from dragoman.errors import InvalidParams, MissingCapability
from dragoman.protocol.versions import (
    V2024_11_05,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Version,
)
from dragoman.types.decoding import decoders

Side = Literal["client", "server"]


class Method(Struct, frozen=True, kw_only=True):
    """One method of the protocol, or one that a server adds."""

    name: str
    params: type[types.Params] = types.Params
    result: type[types.Result] | None = None
    """None for a notification."""
    sender: tuple[Side, ...] = ("client",)
    since: Version = V2024_11_05
    until: Version | None = None
    capability: tuple[str, ...] = ()
    """What the receiver must have declared, as a path into its capabilities."""
    name_from: str | None = None
    """The parameter that the `Mcp-Name` header mirrors."""
    input_required: bool = False
    """The result may be that input is required first."""
    progresses: bool = False
    """The server may send progress before the result, so the client sends a progress token."""
    repeatable: bool = False
    """A client may send the request again after a connection broke: serving it twice does no harm."""
    declared: tuple[str, ...] = ()
    """What the sender must have declared too, as a path into its capabilities."""

    @property
    def is_notification(self) -> bool:
        """Whether it is never answered."""
        return self.result is None

    def exists_in(self, version: Version) -> bool:
        """Whether a version has this method."""
        return self.since <= version and (self.until is None or version <= self.until)

    def decode_params(self, params: bytes | Raw) -> Any:
        """Return the typed parameters.

        Raises:
            InvalidParams: they do not fit; the message says where.
        """
        try:
            return decoders[self.params].decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidParams(f"Invalid parameters for {self.name}: {error}") from None


def _list(name: str, result: type[types.Result], capability: str) -> Method:
    return Method(
        name=name, params=types.PaginatedRequestParams, result=result, capability=(capability,), repeatable=True
    )


_LEGACY = V2025_11_25

METHODS: tuple[Method, ...] = (
    Method(
        name="initialize",
        params=types.InitializeRequestParams,
        result=types.InitializeResult,
        until=_LEGACY,
        repeatable=True,
    ),
    Method(name="server/discover", result=types.DiscoverResult, since=V2026_07_28, repeatable=True),
    Method(name="ping", result=types.Result, sender=("client", "server"), until=_LEGACY, repeatable=True),
    _list("tools/list", types.ListToolsResult, "tools"),
    Method(
        name="tools/call",
        params=types.CallToolRequestParams,
        result=types.CallToolResult,
        capability=("tools",),
        name_from="name",
        input_required=True,
        progresses=True,
    ),
    _list("prompts/list", types.ListPromptsResult, "prompts"),
    Method(
        name="prompts/get",
        params=types.GetPromptRequestParams,
        result=types.GetPromptResult,
        capability=("prompts",),
        name_from="name",
        input_required=True,
        progresses=True,
        repeatable=True,
    ),
    _list("resources/list", types.ListResourcesResult, "resources"),
    _list("resources/templates/list", types.ListResourceTemplatesResult, "resources"),
    Method(
        name="resources/read",
        params=types.ReadResourceRequestParams,
        result=types.ReadResourceResult,
        capability=("resources",),
        name_from="uri",
        input_required=True,
        progresses=True,
        repeatable=True,
    ),
    Method(
        name="resources/subscribe",
        params=types.SubscribeRequestParams,
        result=types.Result,
        until=_LEGACY,
        capability=("resources", "subscribe"),
        repeatable=True,
    ),
    Method(
        name="resources/unsubscribe",
        params=types.UnsubscribeRequestParams,
        result=types.Result,
        until=_LEGACY,
        capability=("resources", "subscribe"),
        repeatable=True,
    ),
    Method(
        name="completion/complete",
        params=types.CompleteRequestParams,
        result=types.CompleteResult,
        capability=("completions",),
        repeatable=True,
    ),
    Method(
        name="logging/setLevel",
        params=types.SetLevelRequestParams,
        result=types.Result,
        until=_LEGACY,
        capability=("logging",),
        repeatable=True,
    ),
    Method(
        name="subscriptions/listen",
        params=types.SubscriptionsListenRequestParams,
        result=types.SubscriptionsListenResult,
        since=V2026_07_28,
        repeatable=True,
    ),
    Method(
        name="sampling/createMessage",
        params=types.CreateMessageRequestParams,
        result=types.CreateMessageResult,
        sender=("server",),
        until=_LEGACY,
        capability=("sampling",),
    ),
    Method(
        name="elicitation/create",
        params=types.ElicitRequestParams,
        result=types.ElicitResult,
        sender=("server",),
        since=V2025_06_18,
        until=_LEGACY,
        capability=("elicitation",),
    ),
    Method(name="roots/list", result=types.ListRootsResult, sender=("server",), until=_LEGACY, capability=("roots",)),
    Method(name="notifications/initialized", until=_LEGACY),
    Method(
        name="notifications/cancelled",
        params=types.CancelledNotificationParams,
        sender=("client", "server"),
    ),
    Method(name="notifications/progress", params=types.ProgressNotificationParams, sender=("server",)),
    Method(name="notifications/progress", params=types.ProgressNotificationParams, until=_LEGACY),
    Method(name="notifications/roots/list_changed", until=_LEGACY),
    Method(name="notifications/message", params=types.LoggingMessageNotificationParams, sender=("server",)),
    Method(
        name="notifications/resources/updated",
        params=types.ResourceUpdatedNotificationParams,
        sender=("server",),
    ),
    Method(name="notifications/tools/list_changed", sender=("server",)),
    Method(name="notifications/prompts/list_changed", sender=("server",)),
    Method(name="notifications/resources/list_changed", sender=("server",)),
    Method(
        name="notifications/elicitation/complete",
        params=types.ElicitationCompleteNotificationParams,
        sender=("server",),
        since=V2025_11_25,
        until=_LEGACY,
    ),
    Method(
        name="notifications/subscriptions/acknowledged",
        params=types.SubscriptionsAcknowledgedNotificationParams,
        sender=("server",),
        since=V2026_07_28,
    ),
)


def offered(
    methods: Iterable[Method],
    version: Version,
    sender: Side,
    capabilities: types.ServerCapabilities | types.ClientCapabilities,
) -> Mapping[str, Method]:
    """Return, by name, the methods that one side may call on another that declared these capabilities."""
    return {
        method.name: method
        for method in methods
        if sender in method.sender and method.exists_in(version) and declares(capabilities, method.capability)
    }


def declares(capabilities: Any, path: tuple[str, ...]) -> bool:
    """Tell whether a capability was declared: present, and not false."""
    if path[:1] == ("extensions",):
        return capabilities.extension(path[1]) is not None  # an id may have an alias
    for name in path:
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else getattr(capabilities, name, None)
        if capabilities is None or capabilities is False:
            return False
    return True


def require_declared(capabilities: types.ClientCapabilities, path: tuple[str, ...]) -> None:
    """See that a client declared a capability.

    Raises:
        MissingCapability: it did not.
    """
    if not declares(capabilities, path):
        required: types.Json = {}
        for name in reversed(path):
            required = {name: required}
        raise MissingCapability(required)
