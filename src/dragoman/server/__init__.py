"""What authors of servers use.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.server.carriers import HttpOptions
    from dragoman.server.context import BlockingContext, Context
    from dragoman.server.httprequest import Auth, HttpRequest
    from dragoman.server.loghandler import LogHandler
    from dragoman.server.per_request import asgi
    from dragoman.server.prompts import Prompt, prompt
    from dragoman.server.questions import Elicit, ElicitResult, ElicitUrl, InputRequired, ListRoots, Sample
    from dragoman.server.resources import Resource, ResourceTemplate, resource
    from dragoman.server.results import Audio, File, Image, ToolResult
    from dragoman.server.schemas import InputSchema, OutputSchema
    from dragoman.server.server import Server
    from dragoman.server.tools import Tool, tool
    from dragoman.server.views import HttpReply

__all__ = [
    "Audio",
    "Auth",
    "BlockingContext",
    "Context",
    "Elicit",
    "ElicitResult",
    "ElicitUrl",
    "File",
    "HttpOptions",
    "HttpReply",
    "HttpRequest",
    "Image",
    "InputRequired",
    "InputSchema",
    "ListRoots",
    "LogHandler",
    "OutputSchema",
    "Prompt",
    "Resource",
    "ResourceTemplate",
    "Sample",
    "Server",
    "Tool",
    "ToolResult",
    "asgi",
    "prompt",
    "resource",
    "tool",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".carriers": "HttpOptions",
            ".context": "BlockingContext Context",
            ".httprequest": "Auth HttpRequest",
            ".loghandler": "LogHandler",
            ".per_request": "asgi",
            ".prompts": "Prompt prompt",
            ".questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
            ".resources": "Resource ResourceTemplate resource",
            ".results": "Audio File Image ToolResult",
            ".schemas": "InputSchema OutputSchema",
            ".server": "Server",
            ".tools": "Tool tool",
            ".views": "HttpReply",
        },
    )
