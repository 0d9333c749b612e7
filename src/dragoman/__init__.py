"""Servers, clients and chats for the Model Context Protocol.

Names are imported when they are first used, so that a server does not load what only clients need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat
    from dragoman.chat.chat import AsyncChat
    from dragoman.chat.policy import Policy
    from dragoman.client.approval import Approval
    from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Call, Client
    from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
    from dragoman.client.client import AsyncClient
    from dragoman.client.elicitation import Accept, Cancel, Decline, Elicitation, ElicitationRequest
    from dragoman.client.group import AsyncClients
    from dragoman.client.group_blocking import Clients
    from dragoman.client.notifications import LogMessage, Notification
    from dragoman.client.results import CallResult
    from dragoman.client.roots import Roots
    from dragoman.client.sampling import Rejected, Sampling, SamplingRequest
    from dragoman.client.target import register_transport
    from dragoman.config import Configuration, configure
    from dragoman.errors import (
        AuthError,
        AuthRequired,
        Cancelled,
        CapabilityNotAvailable,
        ConfigError,
        ConnectError,
        DefinitionError,
        DragomanError,
        HeaderMismatch,
        HttpError,
        InputNeeded,
        InsecureRedirectUri,
        InsecureUrl,
        InsufficientScope,
        InternalError,
        InvalidClientMetadataUrl,
        InvalidCredentials,
        InvalidParams,
        InvalidRequest,
        MethodAlreadyDefined,
        MethodNotFound,
        MissingCapability,
        ModelError,
        NotFound,
        PaginationLimit,
        ParseError,
        ResourceNotFound,
        RoundLimit,
        RpcError,
        ServerCrashed,
        SessionExpired,
        Timeout,
        TokenRefused,
        ToolError,
        ToolNotUnique,
        TransportError,
        UnregisteredRedirectUri,
        UnsupportedVersion,
        UrlElicitationRequired,
        ValidationError,
    )
    from dragoman.runtime.network import Network
    from dragoman.schema.compile import InputSchema, OutputSchema
    from dragoman.server.context import BlockingContext, Context
    from dragoman.server.httprequest import HttpRequest
    from dragoman.server.loghandler import LogHandler
    from dragoman.server.per_request import asgi
    from dragoman.server.prompts import Prompt, prompt
    from dragoman.server.questions import Elicit, ElicitResult, ElicitUrl, InputRequired, ListRoots, Sample
    from dragoman.server.resources import Resource, ResourceTemplate, resource
    from dragoman.server.results import Audio, Image, ToolResult
    from dragoman.server.server import Server
    from dragoman.server.tools import Tool, tool
    from dragoman.server.views import HttpReply

_HOMES = {
    "dragoman.errors": (
        "AuthError AuthRequired Cancelled CapabilityNotAvailable ConfigError ConnectError DefinitionError"
        " DragomanError HeaderMismatch HttpError InputNeeded InsecureRedirectUri InsecureUrl InsufficientScope"
        " InternalError InvalidClientMetadataUrl InvalidCredentials InvalidParams InvalidRequest MethodAlreadyDefined"
        " MethodNotFound MissingCapability ModelError NotFound PaginationLimit ParseError ResourceNotFound RoundLimit"
        " RpcError ServerCrashed SessionExpired Timeout TokenRefused ToolError ToolNotUnique TransportError"
        " UnregisteredRedirectUri UnsupportedVersion UrlElicitationRequired ValidationError"
    ),
    "dragoman.chat.blocking": "Chat",
    "dragoman.chat.chat": "AsyncChat",
    "dragoman.chat.policy": "Policy",
    "dragoman.client.approval": "Approval",
    "dragoman.client.blocking": "BoundPrompt BoundResource BoundResourceTemplate BoundTool Call Client",
    "dragoman.client.bound": "AsyncBoundPrompt AsyncBoundResource AsyncBoundResourceTemplate AsyncBoundTool",
    "dragoman.client.client": "AsyncClient",
    "dragoman.client.elicitation": "Accept Cancel Decline Elicitation ElicitationRequest",
    "dragoman.client.group": "AsyncClients",
    "dragoman.client.group_blocking": "Clients",
    "dragoman.client.notifications": "LogMessage Notification",
    "dragoman.client.results": "CallResult",
    "dragoman.client.roots": "Roots",
    "dragoman.client.sampling": "Rejected Sampling SamplingRequest",
    "dragoman.client.target": "register_transport",
    "dragoman.runtime.network": "Network",
    "dragoman.config": "Configuration configure",
    "dragoman.server.context": "BlockingContext Context",
    "dragoman.server.httprequest": "HttpRequest",
    "dragoman.server.loghandler": "LogHandler",
    "dragoman.server.per_request": "asgi",
    "dragoman.server.questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
    "dragoman.server.prompts": "Prompt prompt",
    "dragoman.server.resources": "Resource ResourceTemplate resource",
    "dragoman.server.results": "Audio Image ToolResult",
    "dragoman.schema.compile": "InputSchema OutputSchema",
    "dragoman.server.server": "Server",
    "dragoman.server.tools": "Tool tool",
    "dragoman.server.views": "HttpReply",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Accept",
    "Approval",
    "AsyncBoundPrompt",
    "AsyncBoundResource",
    "AsyncBoundResourceTemplate",
    "AsyncBoundTool",
    "AsyncChat",
    "AsyncClient",
    "AsyncClients",
    "Audio",
    "AuthError",
    "AuthRequired",
    "BlockingContext",
    "BoundPrompt",
    "BoundResource",
    "BoundResourceTemplate",
    "BoundTool",
    "Call",
    "CallResult",
    "Cancel",
    "Cancelled",
    "CapabilityNotAvailable",
    "Chat",
    "Client",
    "Clients",
    "ConfigError",
    "Configuration",
    "ConnectError",
    "Context",
    "Decline",
    "DefinitionError",
    "DragomanError",
    "Elicit",
    "ElicitResult",
    "ElicitUrl",
    "Elicitation",
    "ElicitationRequest",
    "HeaderMismatch",
    "HttpError",
    "HttpReply",
    "HttpRequest",
    "Image",
    "InputNeeded",
    "InputRequired",
    "InputSchema",
    "InsecureRedirectUri",
    "InsecureUrl",
    "InsufficientScope",
    "InternalError",
    "InvalidClientMetadataUrl",
    "InvalidCredentials",
    "InvalidParams",
    "InvalidRequest",
    "ListRoots",
    "LogHandler",
    "LogMessage",
    "MethodAlreadyDefined",
    "MethodNotFound",
    "MissingCapability",
    "ModelError",
    "Network",
    "NotFound",
    "Notification",
    "OutputSchema",
    "PaginationLimit",
    "ParseError",
    "Policy",
    "Prompt",
    "Rejected",
    "Resource",
    "ResourceNotFound",
    "ResourceTemplate",
    "Roots",
    "RoundLimit",
    "RpcError",
    "Sample",
    "Sampling",
    "SamplingRequest",
    "Server",
    "ServerCrashed",
    "SessionExpired",
    "Timeout",
    "TokenRefused",
    "Tool",
    "ToolError",
    "ToolNotUnique",
    "ToolResult",
    "TransportError",
    "UnregisteredRedirectUri",
    "UnsupportedVersion",
    "UrlElicitationRequired",
    "ValidationError",
    "asgi",
    "configure",
    "prompt",
    "register_transport",
    "resource",
    "tool",
]

# A module-level __getattr__ makes type checkers accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted([*globals(), *__all__])
