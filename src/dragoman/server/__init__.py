"""The public names of the server package, each imported on first use."""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.protocol.extensions import ExtensionRow as ExtensionRow
    from dragoman.protocol.methods import Method as Method
    from dragoman.protocol.recording import Recording as Recording
    from dragoman.protocol.subscriptions import SubscriptionField as SubscriptionField
    from dragoman.schema.compile import InputSchema as InputSchema
    from dragoman.schema.compile import OutputSchema as OutputSchema
    from dragoman.server.define.content import Audio as Audio
    from dragoman.server.define.content import File as File
    from dragoman.server.define.content import Image as Image
    from dragoman.server.define.derived_tools import derived_tool as derived_tool
    from dragoman.server.define.log_handler import LogHandler as LogHandler
    from dragoman.server.define.prompts import Prompt as Prompt
    from dragoman.server.define.prompts import prompt as prompt
    from dragoman.server.define.resources import Resource as Resource
    from dragoman.server.define.resources import ResourceTemplate as ResourceTemplate
    from dragoman.server.define.resources import resource as resource
    from dragoman.server.define.sources import Depends as Depends
    from dragoman.server.define.sources import Header as Header
    from dragoman.server.define.sources import Lifespan as Lifespan
    from dragoman.server.define.tool_results import ToolResult as ToolResult
    from dragoman.server.define.tools import Tool as Tool
    from dragoman.server.define.tools import tool as tool
    from dragoman.server.dispatch.audit import Audit as Audit
    from dragoman.server.dispatch.audit import AuditFunction as AuditFunction
    from dragoman.server.dispatch.audit import AuditTarget as AuditTarget
    from dragoman.server.dispatch.middleware import CallNext as CallNext
    from dragoman.server.dispatch.middleware import Middleware as Middleware
    from dragoman.server.extensions.contract import AnyDefinition as AnyDefinition
    from dragoman.server.extensions.contract import ExtensionHandler as ExtensionHandler
    from dragoman.server.extensions.contract import NextCall as NextCall
    from dragoman.server.extensions.contract import Outcome as Outcome
    from dragoman.server.extensions.contract import ServerExtension as ServerExtension
    from dragoman.server.extensions.contract import Wanted as Wanted
    from dragoman.server.extensions.tasks.options import TaskOptions as TaskOptions
    from dragoman.server.http.views import HttpReply as HttpReply
    from dragoman.server.options import HttpOptions as HttpOptions
    from dragoman.server.per_request import asgi as asgi
    from dragoman.server.request.context import BlockingContext as BlockingContext
    from dragoman.server.request.context import Context as Context
    from dragoman.server.request.detached import DetachedCall as DetachedCall
    from dragoman.server.request.http_request import Auth as Auth
    from dragoman.server.request.http_request import HttpRequest as HttpRequest
    from dragoman.server.request.questions import Elicit as Elicit
    from dragoman.server.request.questions import ElicitResult as ElicitResult
    from dragoman.server.request.questions import ElicitUrl as ElicitUrl
    from dragoman.server.request.questions import InputRequired as InputRequired
    from dragoman.server.request.questions import ListRoots as ListRoots
    from dragoman.server.request.questions import Sample as Sample
    from dragoman.server.request.state import BlockingHandlerState as BlockingHandlerState
    from dragoman.server.request.state import HandlerState as HandlerState
    from dragoman.server.request.state import StateKey as StateKey
    from dragoman.server.request.tool_task import BlockingToolTask as BlockingToolTask
    from dragoman.server.request.tool_task import OfferedTask as OfferedTask
    from dragoman.server.request.tool_task import ToolTask as ToolTask
    from dragoman.server.routes.request import RouteRequest as RouteRequest
    from dragoman.server.routes.response import Response as Response
    from dragoman.server.server import Server as Server
else:
    __getattr__, __dir__ = lazy()
