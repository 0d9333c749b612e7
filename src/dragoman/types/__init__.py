"""The objects on the wire, as msgspec Structs with the names of the specification; one set for all versions.

Example:
    from dragoman.types import TextContent

    TextContent("hello").text
"""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from dragoman.types.capabilities import ClientCapabilities as ClientCapabilities
from dragoman.types.capabilities import ElicitationCapability as ElicitationCapability
from dragoman.types.capabilities import ListChangedCapability as ListChangedCapability
from dragoman.types.capabilities import ResourcesCapability as ResourcesCapability
from dragoman.types.capabilities import RootsCapability as RootsCapability
from dragoman.types.capabilities import SamplingCapability as SamplingCapability
from dragoman.types.capabilities import ServerCapabilities as ServerCapabilities
from dragoman.types.capabilities import canonical_extension as canonical_extension
from dragoman.types.completion import CompleteRequestParams as CompleteRequestParams
from dragoman.types.completion import CompleteResult as CompleteResult
from dragoman.types.completion import Completion as Completion
from dragoman.types.completion import CompletionArgument as CompletionArgument
from dragoman.types.completion import CompletionContext as CompletionContext
from dragoman.types.completion import PromptReference as PromptReference
from dragoman.types.completion import ResourceTemplateReference as ResourceTemplateReference
from dragoman.types.content import AudioContent as AudioContent
from dragoman.types.content import ContentBlock as ContentBlock
from dragoman.types.content import EmbeddedResource as EmbeddedResource
from dragoman.types.content import ImageContent as ImageContent
from dragoman.types.content import ResourceContents as ResourceContents
from dragoman.types.content import ResourceLink as ResourceLink
from dragoman.types.content import SamplingMessageContentBlock as SamplingMessageContentBlock
from dragoman.types.content import TextContent as TextContent
from dragoman.types.content import ToolResultContent as ToolResultContent
from dragoman.types.content import ToolUseContent as ToolUseContent
from dragoman.types.content import UnknownContent as UnknownContent
from dragoman.types.decoding import Dropped as Dropped
from dragoman.types.decoding import decode as decode
from dragoman.types.elicitation import BooleanSchema as BooleanSchema
from dragoman.types.elicitation import ElicitationCompleteNotificationParams as ElicitationCompleteNotificationParams
from dragoman.types.elicitation import ElicitRequestParams as ElicitRequestParams
from dragoman.types.elicitation import ElicitResult as ElicitResult
from dragoman.types.elicitation import EnumItems as EnumItems
from dragoman.types.elicitation import EnumOption as EnumOption
from dragoman.types.elicitation import MultiSelectEnumSchema as MultiSelectEnumSchema
from dragoman.types.elicitation import NumberSchema as NumberSchema
from dragoman.types.elicitation import SingleSelectEnumSchema as SingleSelectEnumSchema
from dragoman.types.elicitation import StringSchema as StringSchema
from dragoman.types.inputs import CreateMessageRequest as CreateMessageRequest
from dragoman.types.inputs import ElicitRequest as ElicitRequest
from dragoman.types.inputs import InputRequest as InputRequest
from dragoman.types.inputs import InputRequiredResult as InputRequiredResult
from dragoman.types.inputs import ListRootsRequest as ListRootsRequest
from dragoman.types.inputs import SubscriptionFilter as SubscriptionFilter
from dragoman.types.inputs import (
    SubscriptionsAcknowledgedNotificationParams as SubscriptionsAcknowledgedNotificationParams,
)
from dragoman.types.inputs import SubscriptionsListenRequestParams as SubscriptionsListenRequestParams
from dragoman.types.inputs import SubscriptionsListenResult as SubscriptionsListenResult
from dragoman.types.lifecycle import BAGGAGE as BAGGAGE
from dragoman.types.lifecycle import CLIENT_CAPABILITIES as CLIENT_CAPABILITIES
from dragoman.types.lifecycle import CLIENT_INFO as CLIENT_INFO
from dragoman.types.lifecycle import LOG_LEVEL as LOG_LEVEL
from dragoman.types.lifecycle import PROTOCOL_VERSION as PROTOCOL_VERSION
from dragoman.types.lifecycle import SERVER_INFO as SERVER_INFO
from dragoman.types.lifecycle import SUBSCRIPTION_ID as SUBSCRIPTION_ID
from dragoman.types.lifecycle import TRACE_KEYS as TRACE_KEYS
from dragoman.types.lifecycle import TRACEPARENT as TRACEPARENT
from dragoman.types.lifecycle import TRACESTATE as TRACESTATE
from dragoman.types.lifecycle import CancelledNotificationParams as CancelledNotificationParams
from dragoman.types.lifecycle import DiscoverResult as DiscoverResult
from dragoman.types.lifecycle import InitializeRequestParams as InitializeRequestParams
from dragoman.types.lifecycle import InitializeResult as InitializeResult
from dragoman.types.lifecycle import LoggingMessageNotificationParams as LoggingMessageNotificationParams
from dragoman.types.lifecycle import ProgressNotificationParams as ProgressNotificationParams
from dragoman.types.lifecycle import RequestMeta as RequestMeta
from dragoman.types.lifecycle import SetLevelRequestParams as SetLevelRequestParams
from dragoman.types.prompts import GetPromptRequestParams as GetPromptRequestParams
from dragoman.types.prompts import GetPromptResult as GetPromptResult
from dragoman.types.prompts import ListPromptsResult as ListPromptsResult
from dragoman.types.prompts import Prompt as Prompt
from dragoman.types.prompts import PromptArgument as PromptArgument
from dragoman.types.prompts import PromptMessage as PromptMessage
from dragoman.types.resources import ListResourcesResult as ListResourcesResult
from dragoman.types.resources import ListResourceTemplatesResult as ListResourceTemplatesResult
from dragoman.types.resources import ReadResourceRequestParams as ReadResourceRequestParams
from dragoman.types.resources import ReadResourceResult as ReadResourceResult
from dragoman.types.resources import Resource as Resource
from dragoman.types.resources import ResourceTemplate as ResourceTemplate
from dragoman.types.resources import ResourceUpdatedNotificationParams as ResourceUpdatedNotificationParams
from dragoman.types.resources import SubscribeRequestParams as SubscribeRequestParams
from dragoman.types.resources import UnsubscribeRequestParams as UnsubscribeRequestParams
from dragoman.types.sampling import CreateMessageRequestParams as CreateMessageRequestParams
from dragoman.types.sampling import CreateMessageResult as CreateMessageResult
from dragoman.types.sampling import ListRootsResult as ListRootsResult
from dragoman.types.sampling import ModelHint as ModelHint
from dragoman.types.sampling import ModelPreferences as ModelPreferences
from dragoman.types.sampling import Root as Root
from dragoman.types.sampling import SamplingMessage as SamplingMessage
from dragoman.types.sampling import ToolChoice as ToolChoice
from dragoman.types.tools import CallToolRequestParams as CallToolRequestParams
from dragoman.types.tools import CallToolResult as CallToolResult
from dragoman.types.tools import ListToolsResult as ListToolsResult
from dragoman.types.tools import Tool as Tool
from dragoman.types.tools import ToolAnnotations as ToolAnnotations
from dragoman.types.tools import ToolExecution as ToolExecution
from dragoman.types.wire import Annotations as Annotations
from dragoman.types.wire import CacheableResult as CacheableResult
from dragoman.types.wire import CacheScope as CacheScope
from dragoman.types.wire import Icon as Icon
from dragoman.types.wire import Implementation as Implementation
from dragoman.types.wire import Json as Json
from dragoman.types.wire import LoggingLevel as LoggingLevel
from dragoman.types.wire import PaginatedRequestParams as PaginatedRequestParams
from dragoman.types.wire import PaginatedResult as PaginatedResult
from dragoman.types.wire import Params as Params
from dragoman.types.wire import ProgressToken as ProgressToken
from dragoman.types.wire import RequestId as RequestId
from dragoman.types.wire import Result as Result
from dragoman.types.wire import ResultType as ResultType
from dragoman.types.wire import Role as Role

_LATER = {
    "apps": ("AppPermissions", "Csp", "ResourceUi", "ToolUi", "UiVisibility"),
    "skills": (
        "GetSkillRequestParams",
        "GetSkillResult",
        "ListSkillsResult",
        "ReadDirectoryRequestParams",
        "ReadDirectoryResult",
        "Skill",
        "SkillResource",
    ),
    "tasks": (
        "CreatedTask",
        "CreateTaskResult",
        "DetailedTask",
        "ListTasksResult",
        "RelatedTaskMetadata",
        "Task",
        "TaskMetadata",
        "TaskRequestParams",
        "TaskStatus",
        "UpdateTaskRequestParams",
    ),
}
"""The modules of extensions, with their types. Most programs need none of them, so they are imported on first use."""
__all__ = [name for name, value in vars().items() if not (name.startswith("_") or isinstance(value, _ModuleType))]

if _TYPE_CHECKING:
    from dragoman.types.apps import AppPermissions as AppPermissions
    from dragoman.types.apps import Csp as Csp
    from dragoman.types.apps import ResourceUi as ResourceUi
    from dragoman.types.apps import ToolUi as ToolUi
    from dragoman.types.apps import UiVisibility as UiVisibility
    from dragoman.types.skills import GetSkillRequestParams as GetSkillRequestParams
    from dragoman.types.skills import GetSkillResult as GetSkillResult
    from dragoman.types.skills import ListSkillsResult as ListSkillsResult
    from dragoman.types.skills import ReadDirectoryRequestParams as ReadDirectoryRequestParams
    from dragoman.types.skills import ReadDirectoryResult as ReadDirectoryResult
    from dragoman.types.skills import Skill as Skill
    from dragoman.types.skills import SkillResource as SkillResource
    from dragoman.types.tasks import CreatedTask as CreatedTask
    from dragoman.types.tasks import CreateTaskResult as CreateTaskResult
    from dragoman.types.tasks import DetailedTask as DetailedTask
    from dragoman.types.tasks import ListTasksResult as ListTasksResult
    from dragoman.types.tasks import RelatedTaskMetadata as RelatedTaskMetadata
    from dragoman.types.tasks import Task as Task
    from dragoman.types.tasks import TaskMetadata as TaskMetadata
    from dragoman.types.tasks import TaskRequestParams as TaskRequestParams
    from dragoman.types.tasks import TaskStatus as TaskStatus
    from dragoman.types.tasks import UpdateTaskRequestParams as UpdateTaskRequestParams
else:
    __all__ += [name for names in _LATER.values() for name in names]

    def __getattr__(name: str) -> object:
        for module, names in _LATER.items():
            if name in names:
                return getattr(_import_module(f"dragoman.types.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
