"""How dragoman reads each definition of the official schemas, or why it is not read as a type of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Raw

from dragoman import types
from dragoman.types.resources import ResourceRequestParams
from dragoman.types.tasks import TaskStatus


class Reading(NamedTuple):
    """The types that a definition is decoded into, and the member of it that is decoded: none means the whole.

    Of several types it is the first that the strict decoder accepts.
    """

    kinds: tuple[Any, ...]
    member: str | None = None


def _whole(*kinds: Any) -> Reading:
    return Reading(kinds)


def _params(kind: Any) -> Reading:
    return Reading((kind,), "params")


def _result(*kinds: Any) -> Reading:
    return Reading(kinds, "result")


NAMED_AS_IN_THE_SCHEMAS = (
    "Annotations",
    "AudioContent",
    "BooleanSchema",
    "CacheableResult",
    "CallToolRequestParams",
    "CallToolResult",
    "CancelledNotificationParams",
    "ClientCapabilities",
    "CompleteRequestParams",
    "CompleteResult",
    "ContentBlock",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "CreateTaskResult",
    "DiscoverResult",
    "ElicitRequestParams",
    "ElicitResult",
    "EmbeddedResource",
    "GetPromptRequestParams",
    "GetPromptResult",
    "Icon",
    "ImageContent",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
    "InputRequest",
    "InputRequiredResult",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListRootsResult",
    "ListTasksResult",
    "ListToolsResult",
    "LoggingLevel",
    "LoggingMessageNotificationParams",
    "ModelHint",
    "ModelPreferences",
    "MultiSelectEnumSchema",
    "NumberSchema",
    "PaginatedRequestParams",
    "PaginatedResult",
    "ProgressNotificationParams",
    "ProgressToken",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "RelatedTaskMetadata",
    "RequestId",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "ResourceUpdatedNotificationParams",
    "Result",
    "Role",
    "Root",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "ServerCapabilities",
    "SetLevelRequestParams",
    "SingleSelectEnumSchema",
    "StringSchema",
    "SubscribeRequestParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "Task",
    "TaskMetadata",
    "TextContent",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolExecution",
    "ToolResultContent",
    "ToolUseContent",
    "UnsubscribeRequestParams",
)

MAPPED: dict[str, Reading] = {name: _whole(getattr(types, name)) for name in NAMED_AS_IN_THE_SCHEMAS} | {
    "BlobResourceContents": _whole(types.ResourceContents),
    "CancelTaskResult": _whole(types.Task),
    "ElicitRequestFormParams": _whole(types.ElicitRequestParams),
    "ElicitRequestURLParams": _whole(types.ElicitRequestParams),
    "EmptyResult": _whole(types.Result),
    "EnumSchema": _whole(types.SingleSelectEnumSchema, types.MultiSelectEnumSchema),
    "GetTaskPayloadResult": _whole(types.Result),
    "GetTaskResult": _whole(types.Task),
    "InputRequests": _whole(dict[str, types.InputRequest]),
    "InputResponse": _whole(types.CreateMessageResult, types.ListRootsResult, types.ElicitResult),
    "InputResponses": _whole(dict[str, Raw]),
    "LegacyTitledEnumSchema": _whole(types.SingleSelectEnumSchema),
    "MetaObject": _whole(types.Json),
    "NotificationMetaObject": _whole(types.Json),
    "NotificationParams": _whole(types.Params),
    "RequestMetaObject": _whole(types.RequestMeta),
    "RequestParams": _whole(types.Params),
    "ResourceReference": _whole(types.ResourceTemplateReference),
    "ResourceRequestParams": _whole(ResourceRequestParams),
    "ResultMetaObject": _whole(types.Json),
    "SubscriptionsListenResultMetaObject": _whole(types.Json),
    "TaskStatus": _whole(TaskStatus),
    "TaskStatusNotificationParams": _whole(types.Task),
    "TextResourceContents": _whole(types.ResourceContents),
    "TitledMultiSelectEnumSchema": _whole(types.MultiSelectEnumSchema),
    "TitledSingleSelectEnumSchema": _whole(types.SingleSelectEnumSchema),
    "UntitledMultiSelectEnumSchema": _whole(types.MultiSelectEnumSchema),
    "UntitledSingleSelectEnumSchema": _whole(types.SingleSelectEnumSchema),
    "CallToolRequest": _params(types.CallToolRequestParams),
    "CancelTaskRequest": _params(types.TaskRequestParams),
    "CancelledNotification": _params(types.CancelledNotificationParams),
    "CompleteRequest": _params(types.CompleteRequestParams),
    "CreateMessageRequest": _params(types.CreateMessageRequestParams),
    "DiscoverRequest": _params(types.Params),
    "ElicitRequest": _params(types.ElicitRequestParams),
    "ElicitationCompleteNotification": _params(types.ElicitationCompleteNotificationParams),
    "GetPromptRequest": _params(types.GetPromptRequestParams),
    "GetTaskPayloadRequest": _params(types.TaskRequestParams),
    "GetTaskRequest": _params(types.TaskRequestParams),
    "InitializeRequest": _params(types.InitializeRequestParams),
    "InitializedNotification": _params(types.Params),
    "ListPromptsRequest": _params(types.PaginatedRequestParams),
    "ListResourceTemplatesRequest": _params(types.PaginatedRequestParams),
    "ListResourcesRequest": _params(types.PaginatedRequestParams),
    "ListRootsRequest": _params(types.Params),
    "ListTasksRequest": _params(types.PaginatedRequestParams),
    "ListToolsRequest": _params(types.PaginatedRequestParams),
    "LoggingMessageNotification": _params(types.LoggingMessageNotificationParams),
    "PaginatedRequest": _params(types.PaginatedRequestParams),
    "PingRequest": _params(types.Params),
    "ProgressNotification": _params(types.ProgressNotificationParams),
    "PromptListChangedNotification": _params(types.Params),
    "ReadResourceRequest": _params(types.ReadResourceRequestParams),
    "ResourceListChangedNotification": _params(types.Params),
    "ResourceUpdatedNotification": _params(types.ResourceUpdatedNotificationParams),
    "RootsListChangedNotification": _params(types.Params),
    "SetLevelRequest": _params(types.SetLevelRequestParams),
    "SubscribeRequest": _params(types.SubscribeRequestParams),
    "SubscriptionsAcknowledgedNotification": _params(types.SubscriptionsAcknowledgedNotificationParams),
    "SubscriptionsListenRequest": _params(types.SubscriptionsListenRequestParams),
    "TaskStatusNotification": _params(types.Task),
    "ToolListChangedNotification": _params(types.Params),
    "UnsubscribeRequest": _params(types.UnsubscribeRequestParams),
    "CallToolResultResponse": _result(types.CallToolResult, types.InputRequiredResult),
    "CompleteResultResponse": _result(types.CompleteResult),
    "DiscoverResultResponse": _result(types.DiscoverResult),
    "GetPromptResultResponse": _result(types.GetPromptResult, types.InputRequiredResult),
    "ListPromptsResultResponse": _result(types.ListPromptsResult),
    "ListResourceTemplatesResultResponse": _result(types.ListResourceTemplatesResult),
    "ListResourcesResultResponse": _result(types.ListResourcesResult),
    "ListToolsResultResponse": _result(types.ListToolsResult),
    "ReadResourceResultResponse": _result(types.ReadResourceResult, types.InputRequiredResult),
    "SubscriptionsListenResultResponse": _result(types.SubscriptionsListenResult),
}

MAPPED_OTHERWISE: dict[tuple[str, str], Reading] = {
    ("2026-07-28", "CreateMessageRequest"): _whole(types.CreateMessageRequest),
    ("2026-07-28", "ElicitRequest"): _whole(types.ElicitRequest),
    ("2026-07-28", "ListRootsRequest"): _whole(types.ListRootsRequest),
}
"""Definitions that one version reads differently: from 2026-07-28 on what a server asks has no envelope."""

_BASE = "an abstract base: the definitions that extend it repeat its properties and are mapped"
_ENVELOPE = "the JSON-RPC envelope, which dragoman.protocol.jsonrpc reads"
_ERROR = "an error in its envelope, which dragoman.protocol.jsonrpc reads and dragoman.errors represents"
_UNION = "a union whose arms are mapped one by one; the method tells them apart"
_ALIAS = "a name for a JSON type, which needs no type of ours"

NOT_MAPPED: dict[str, str] = {
    "Annotated": _BASE,
    "BaseMetadata": _BASE,
    "Icons": _BASE,
    "InputResponseRequestParams": _BASE,
    "Notification": _BASE,
    "Request": _BASE,
    "TaskAugmentedRequestParams": _BASE,
    "JSONRPCBatchRequest": _ENVELOPE,
    "JSONRPCBatchResponse": _ENVELOPE,
    "JSONRPCError": _ENVELOPE,
    "JSONRPCErrorResponse": _ENVELOPE,
    "JSONRPCMessage": _ENVELOPE,
    "JSONRPCNotification": _ENVELOPE,
    "JSONRPCRequest": _ENVELOPE,
    "JSONRPCResponse": _ENVELOPE,
    "JSONRPCResultResponse": _ENVELOPE,
    "Error": _ERROR,
    "HeaderMismatchError": _ERROR,
    "InternalError": _ERROR,
    "InvalidParamsError": _ERROR,
    "InvalidRequestError": _ERROR,
    "MethodNotFoundError": _ERROR,
    "MissingRequiredClientCapabilityError": _ERROR,
    "ParseError": _ERROR,
    "URLElicitationRequiredError": _ERROR,
    "UnsupportedProtocolVersionError": _ERROR,
    "ClientNotification": _UNION,
    "ClientRequest": _UNION,
    "ClientResult": _UNION,
    "PrimitiveSchemaDefinition": "a union whose arms are mapped one by one; requested schemas stay JSON objects",
    "ServerNotification": _UNION,
    "ServerRequest": _UNION,
    "ServerResult": _UNION,
    "Cursor": _ALIAS,
    "JSONArray": _ALIAS,
    "JSONObject": _ALIAS,
    "JSONValue": _ALIAS,
    "ResultType": _ALIAS,
}


def reading(version: str, name: str) -> Reading | None:
    """Return how a definition of a version is read."""
    return MAPPED_OTHERWISE.get((version, name)) or MAPPED.get(name)
