"""Servers, clients and chats for the Model Context Protocol.

Names are imported when they are first used, so that a server does not load what only clients need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from dragoman.config import Configuration, configure
    from dragoman.errors import (
        Cancelled,
        DefinitionError,
        DragomanError,
        InternalError,
        InvalidParams,
        InvalidRequest,
        MethodAlreadyDefined,
        MethodNotFound,
        MissingCapability,
        ParseError,
        ResourceNotFound,
        RpcError,
        Timeout,
        ToolError,
        ToolNotUnique,
        TransportError,
        UnsupportedVersion,
        UrlElicitationRequired,
        ValidationError,
    )
    from dragoman.server.context import BlockingContext, Context
    from dragoman.server.httprequest import HttpRequest
    from dragoman.server.loghandler import LogHandler
    from dragoman.server.per_request import asgi
    from dragoman.server.prompts import Prompt, prompt
    from dragoman.server.questions import Elicit, ElicitResult, ElicitUrl, InputRequired, ListRoots, Sample
    from dragoman.server.resources import Resource, ResourceTemplate, resource
    from dragoman.server.results import Audio, Image, ToolResult
    from dragoman.server.schemas import InputSchema, OutputSchema
    from dragoman.server.server import Server
    from dragoman.server.tools import Tool, tool
    from dragoman.server.views import HttpReply

_HOMES = {
    "dragoman.errors": (
        "Cancelled DefinitionError DragomanError InternalError InvalidParams InvalidRequest MethodAlreadyDefined"
        " MethodNotFound MissingCapability ParseError ResourceNotFound RpcError Timeout ToolError ToolNotUnique"
        " TransportError UnsupportedVersion UrlElicitationRequired ValidationError"
    ),
    "dragoman.config": "Configuration configure",
    "dragoman.server.context": "BlockingContext Context",
    "dragoman.server.httprequest": "HttpRequest",
    "dragoman.server.loghandler": "LogHandler",
    "dragoman.server.per_request": "asgi",
    "dragoman.server.questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
    "dragoman.server.prompts": "Prompt prompt",
    "dragoman.server.resources": "Resource ResourceTemplate resource",
    "dragoman.server.results": "Audio Image ToolResult",
    "dragoman.server.schemas": "InputSchema OutputSchema",
    "dragoman.server.server": "Server",
    "dragoman.server.tools": "Tool tool",
    "dragoman.server.views": "HttpReply",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Audio",
    "BlockingContext",
    "Cancelled",
    "Configuration",
    "Context",
    "DefinitionError",
    "DragomanError",
    "Elicit",
    "ElicitResult",
    "ElicitUrl",
    "HttpReply",
    "HttpRequest",
    "Image",
    "InputRequired",
    "InputSchema",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "ListRoots",
    "LogHandler",
    "MethodAlreadyDefined",
    "MethodNotFound",
    "MissingCapability",
    "OutputSchema",
    "ParseError",
    "Prompt",
    "Resource",
    "ResourceNotFound",
    "ResourceTemplate",
    "RpcError",
    "Sample",
    "Server",
    "Timeout",
    "Tool",
    "ToolError",
    "ToolNotUnique",
    "ToolResult",
    "TransportError",
    "UnsupportedVersion",
    "UrlElicitationRequired",
    "ValidationError",
    "asgi",
    "configure",
    "prompt",
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
