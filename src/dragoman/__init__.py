"""Servers, clients and chats for the Model Context Protocol.

What everybody uses is here. The rest is in `dragoman.server`, `dragoman.client`, `dragoman.chat`, `dragoman.auth`,
`dragoman.stores`, `dragoman.testing`, `dragoman.types` (what is on the wire) and `dragoman.errors`.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat
    from dragoman.chat.chat import AsyncChat
    from dragoman.chat.policy import Policy
    from dragoman.client.blocking import Client
    from dragoman.client.client import AsyncClient
    from dragoman.client.group import AsyncClients
    from dragoman.client.group_blocking import Clients
    from dragoman.config import Configuration, configure
    from dragoman.errors import (
        AuthError,
        AuthRequired,
        Cancelled,
        ConfigError,
        ConnectError,
        DefinitionError,
        DragomanError,
        InputNeeded,
        InvalidParams,
        ModelError,
        NotAccepted,
        NotFound,
        Rejected,
        ResourceNotFound,
        RpcError,
        ServerCrashed,
        Timeout,
        ToolError,
        TransportError,
        UrlElicitationRequired,
        ValidationError,
    )
    from dragoman.server.context import BlockingContext, Context
    from dragoman.server.prompts import Prompt, prompt
    from dragoman.server.questions import Elicit, ElicitResult, ElicitUrl, InputRequired, ListRoots, Sample
    from dragoman.server.resources import Resource, ResourceTemplate, resource
    from dragoman.server.results import Audio, File, Image, ToolResult
    from dragoman.server.server import Server
    from dragoman.server.tools import Tool, tool

__all__ = [
    "AsyncChat",
    "AsyncClient",
    "AsyncClients",
    "Audio",
    "AuthError",
    "AuthRequired",
    "BlockingContext",
    "Cancelled",
    "Chat",
    "Client",
    "Clients",
    "ConfigError",
    "Configuration",
    "ConnectError",
    "Context",
    "DefinitionError",
    "DragomanError",
    "Elicit",
    "ElicitResult",
    "ElicitUrl",
    "File",
    "Image",
    "InputNeeded",
    "InputRequired",
    "InvalidParams",
    "ListRoots",
    "ModelError",
    "NotAccepted",
    "NotFound",
    "Policy",
    "Prompt",
    "Rejected",
    "Resource",
    "ResourceNotFound",
    "ResourceTemplate",
    "RpcError",
    "Sample",
    "Server",
    "ServerCrashed",
    "Timeout",
    "Tool",
    "ToolError",
    "ToolResult",
    "TransportError",
    "UrlElicitationRequired",
    "ValidationError",
    "configure",
    "prompt",
    "resource",
    "tool",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "dragoman.chat.blocking": "Chat",
            "dragoman.chat.chat": "AsyncChat",
            "dragoman.chat.policy": "Policy",
            "dragoman.client.blocking": "Client",
            "dragoman.client.client": "AsyncClient",
            "dragoman.client.group": "AsyncClients",
            "dragoman.client.group_blocking": "Clients",
            "dragoman.config": "Configuration configure",
            "dragoman.errors": (
                "AuthError AuthRequired Cancelled ConfigError ConnectError DefinitionError"
                " DragomanError InputNeeded InvalidParams ModelError NotAccepted NotFound Rejected"
                " ResourceNotFound RpcError ServerCrashed Timeout ToolError TransportError"
                " UrlElicitationRequired ValidationError"
            ),
            "dragoman.server.context": "BlockingContext Context",
            "dragoman.server.prompts": "Prompt prompt",
            "dragoman.server.questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
            "dragoman.server.resources": "Resource ResourceTemplate resource",
            "dragoman.server.results": "Audio File Image ToolResult",
            "dragoman.server.server": "Server",
            "dragoman.server.tools": "Tool tool",
        },
    )
