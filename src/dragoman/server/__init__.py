"""What authors of servers use.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.listen import SubscriptionField as SubscriptionField
    from dragoman.protocol.methods import Method as Method
    from dragoman.schema.compile import InputSchema as InputSchema
    from dragoman.schema.compile import OutputSchema as OutputSchema
    from dragoman.server.carriers import HttpOptions as HttpOptions
    from dragoman.server.context import BlockingContext as BlockingContext
    from dragoman.server.context import Context as Context
    from dragoman.server.dispatch.middleware import CallNext as CallNext
    from dragoman.server.dispatch.middleware import Middleware as Middleware
    from dragoman.server.extensions.contract import ServerExtension as ServerExtension
    from dragoman.server.httprequest import Auth as Auth
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
    from dragoman.server.results import File as File
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
            "carriers": "HttpOptions",
            "context": "BlockingContext Context",
            "dispatch.middleware": "CallNext Middleware",
            "extensions.contract": "ServerExtension",
            "httprequest": "Auth HttpRequest",
            "loghandler": "LogHandler",
            "per_request": "asgi",
            "prompts": "Prompt prompt",
            "questions": "Elicit ElicitResult ElicitUrl InputRequired ListRoots Sample",
            "resources": "Resource ResourceTemplate resource",
            "results": "Audio File Image ToolResult",
            "server": "Server",
            "tools": "Tool tool",
            "views": "HttpReply",
            ".protocol.extensions": "ExtensionRow",
            ".protocol.listen": "SubscriptionField",
            ".protocol.methods": "Method",
            ".schema.compile": "InputSchema OutputSchema",
        },
    )
