"""Servers, clients and chats for the Model Context Protocol.

Names are imported when they are first used, so that a server does not load what only clients need.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat as Chat
    from dragoman.chat.chat import AsyncChat as AsyncChat
    from dragoman.chat.policy import Policy as Policy
    from dragoman.client.approval import Approval as Approval
    from dragoman.client.blocking import BoundPrompt as BoundPrompt
    from dragoman.client.blocking import BoundResource as BoundResource
    from dragoman.client.blocking import BoundResourceTemplate as BoundResourceTemplate
    from dragoman.client.blocking import BoundTool as BoundTool
    from dragoman.client.blocking import Call as Call
    from dragoman.client.blocking import Client as Client
    from dragoman.client.bound import AsyncBoundPrompt as AsyncBoundPrompt
    from dragoman.client.bound import AsyncBoundResource as AsyncBoundResource
    from dragoman.client.bound import AsyncBoundResourceTemplate as AsyncBoundResourceTemplate
    from dragoman.client.bound import AsyncBoundTool as AsyncBoundTool
    from dragoman.client.client import AsyncClient as AsyncClient
    from dragoman.client.elicitation import Accept as Accept
    from dragoman.client.elicitation import Cancel as Cancel
    from dragoman.client.elicitation import Decline as Decline
    from dragoman.client.elicitation import Elicitation as Elicitation
    from dragoman.client.elicitation import ElicitationRequest as ElicitationRequest
    from dragoman.client.group import AsyncClients as AsyncClients
    from dragoman.client.group_blocking import Clients as Clients
    from dragoman.client.notifications import LogMessage as LogMessage
    from dragoman.client.notifications import Notification as Notification
    from dragoman.client.results import CallResult as CallResult
    from dragoman.client.roots import Roots as Roots
    from dragoman.client.sampling import Rejected as Rejected
    from dragoman.client.sampling import Sampling as Sampling
    from dragoman.client.sampling import SamplingRequest as SamplingRequest
    from dragoman.client.target import register_transport as register_transport
    from dragoman.config import Configuration as Configuration
    from dragoman.config import configure as configure
    from dragoman.errors import AuthError as AuthError
    from dragoman.errors import AuthRequired as AuthRequired
    from dragoman.errors import Cancelled as Cancelled
    from dragoman.errors import CapabilityNotAvailable as CapabilityNotAvailable
    from dragoman.errors import ConfigError as ConfigError
    from dragoman.errors import ConnectError as ConnectError
    from dragoman.errors import DefinitionError as DefinitionError
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.errors import HeaderMismatch as HeaderMismatch
    from dragoman.errors import HttpError as HttpError
    from dragoman.errors import InputNeeded as InputNeeded
    from dragoman.errors import InsecureRedirectUri as InsecureRedirectUri
    from dragoman.errors import InsecureUrl as InsecureUrl
    from dragoman.errors import InsufficientScope as InsufficientScope
    from dragoman.errors import InternalError as InternalError
    from dragoman.errors import InvalidClientMetadataUrl as InvalidClientMetadataUrl
    from dragoman.errors import InvalidCredentials as InvalidCredentials
    from dragoman.errors import InvalidParams as InvalidParams
    from dragoman.errors import InvalidRequest as InvalidRequest
    from dragoman.errors import MethodAlreadyDefined as MethodAlreadyDefined
    from dragoman.errors import MethodNotFound as MethodNotFound
    from dragoman.errors import MissingCapability as MissingCapability
    from dragoman.errors import ModelError as ModelError
    from dragoman.errors import NotFound as NotFound
    from dragoman.errors import PaginationLimit as PaginationLimit
    from dragoman.errors import ParseError as ParseError
    from dragoman.errors import ResourceNotFound as ResourceNotFound
    from dragoman.errors import RoundLimit as RoundLimit
    from dragoman.errors import RpcError as RpcError
    from dragoman.errors import ServerCrashed as ServerCrashed
    from dragoman.errors import SessionExpired as SessionExpired
    from dragoman.errors import Timeout as Timeout
    from dragoman.errors import TokenRefused as TokenRefused
    from dragoman.errors import ToolError as ToolError
    from dragoman.errors import ToolNotUnique as ToolNotUnique
    from dragoman.errors import TransportError as TransportError
    from dragoman.errors import UnregisteredRedirectUri as UnregisteredRedirectUri
    from dragoman.errors import UnsupportedVersion as UnsupportedVersion
    from dragoman.errors import UrlElicitationRequired as UrlElicitationRequired
    from dragoman.errors import ValidationError as ValidationError
    from dragoman.runtime.network import Network as Network
    from dragoman.schema.compile import InputSchema as InputSchema
    from dragoman.schema.compile import OutputSchema as OutputSchema
    from dragoman.server.context import BlockingContext as BlockingContext
    from dragoman.server.context import Context as Context
    from dragoman.server.httprequest import HttpRequest as HttpRequest
    from dragoman.server.loghandler import LogHandler as LogHandler
    from dragoman.server.per_request import asgi as asgi
    from dragoman.server.prompts import Prompt as Prompt
    from dragoman.server.prompts import prompt as prompt
    from dragoman.server.questions import Elicit as Elicit
    from dragoman.server.questions import ElicitResult as ElicitResult
    from dragoman.server.questions import ElicitUrl as ElicitUrl
    from dragoman.server.questions import InputRequired as InputRequired
    from dragoman.server.questions import ListRoots as ListRoots
    from dragoman.server.questions import Sample as Sample
    from dragoman.server.resources import Resource as Resource
    from dragoman.server.resources import ResourceTemplate as ResourceTemplate
    from dragoman.server.resources import resource as resource
    from dragoman.server.results import Audio as Audio
    from dragoman.server.results import Image as Image
    from dragoman.server.results import ToolResult as ToolResult
    from dragoman.server.server import Server as Server
    from dragoman.server.tools import Tool as Tool
    from dragoman.server.tools import tool as tool
    from dragoman.server.views import HttpReply as HttpReply
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "chat.blocking": "Chat",
            "chat.chat": "AsyncChat",
            "chat.policy": "Policy",
            "client.approval": "Approval",
            "client.blocking": "BoundPrompt BoundResource BoundResourceTemplate BoundTool Call Client",
            "client.bound": "AsyncBoundPrompt AsyncBoundResource AsyncBoundResourceTemplate AsyncBoundTool",
            "client.client": "AsyncClient",
            "client.elicitation": "Accept Cancel Decline Elicitation ElicitationRequest",
            "client.group": "AsyncClients",
            "client.group_blocking": "Clients",
            "client.notifications": "LogMessage Notification",
            "client.results": "CallResult",
            "client.roots": "Roots",
            "client.sampling": "Rejected Sampling SamplingRequest",
            "client.target": "register_transport",
            "config": "Configuration configure",
            "errors": (
                "AuthError AuthRequired Cancelled CapabilityNotAvailable ConfigError ConnectError DefinitionError"
                " DragomanError HeaderMismatch HttpError InputNeeded InsecureRedirectUri InsecureUrl"
                " InsufficientScope InternalError InvalidClientMetadataUrl InvalidCredentials InvalidParams"
                " InvalidRequest MethodAlreadyDefined MethodNotFound MissingCapability ModelError NotFound"
                " PaginationLimit ParseError ResourceNotFound RoundLimit RpcError ServerCrashed SessionExpired"
                " Timeout TokenRefused ToolError ToolNotUnique TransportError UnregisteredRedirectUri"
                " UnsupportedVersion UrlElicitationRequired ValidationError"
            ),
            "runtime.network": "Network",
            "server.context": "BlockingContext Context",
            "server.httprequest": "HttpRequest",
            "server.loghandler": "LogHandler",
            "server.per_request": "asgi",
            "server.prompts": "Prompt prompt",
            "server.questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
            "server.resources": "Resource ResourceTemplate resource",
            "server.results": "Audio Image ToolResult",
            "schema.compile": "InputSchema OutputSchema",
            "server.server": "Server",
            "server.tools": "Tool tool",
            "server.views": "HttpReply",
        },
    )
