"""Servers, clients and chats for the Model Context Protocol.

What everybody uses is here. The rest is in `dragoman.server`, `dragoman.client`, `dragoman.chat`, `dragoman.auth`,
`dragoman.stores`, `dragoman.testing`, `dragoman.types` (what is on the wire) and `dragoman.errors`.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat as Chat
    from dragoman.chat.chat import AsyncChat as AsyncChat
    from dragoman.chat.policy import Policy as Policy
    from dragoman.client.blocking import Client as Client
    from dragoman.client.client import AsyncClient as AsyncClient
    from dragoman.client.group.blocking import Clients as Clients
    from dragoman.client.group.group import AsyncClients as AsyncClients
    from dragoman.config import Configuration as Configuration
    from dragoman.config import configure as configure
    from dragoman.errors import AuthError as AuthError
    from dragoman.errors import AuthRequired as AuthRequired
    from dragoman.errors import Cancelled as Cancelled
    from dragoman.errors import ConfigError as ConfigError
    from dragoman.errors import ConnectError as ConnectError
    from dragoman.errors import DefinitionError as DefinitionError
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.errors import InputNeeded as InputNeeded
    from dragoman.errors import InvalidParams as InvalidParams
    from dragoman.errors import ModelError as ModelError
    from dragoman.errors import NotAccepted as NotAccepted
    from dragoman.errors import NotFound as NotFound
    from dragoman.errors import Rejected as Rejected
    from dragoman.errors import ResourceNotFound as ResourceNotFound
    from dragoman.errors import RpcError as RpcError
    from dragoman.errors import ServerCrashed as ServerCrashed
    from dragoman.errors import Timeout as Timeout
    from dragoman.errors import ToolError as ToolError
    from dragoman.errors import TransportError as TransportError
    from dragoman.errors import UrlElicitationRequired as UrlElicitationRequired
    from dragoman.errors import ValidationError as ValidationError
    from dragoman.server.define.content import Audio as Audio
    from dragoman.server.define.content import File as File
    from dragoman.server.define.content import Image as Image
    from dragoman.server.define.prompts import Prompt as Prompt
    from dragoman.server.define.prompts import prompt as prompt
    from dragoman.server.define.resources import Resource as Resource
    from dragoman.server.define.resources import ResourceTemplate as ResourceTemplate
    from dragoman.server.define.resources import resource as resource
    from dragoman.server.define.sources import Depends as Depends
    from dragoman.server.define.sources import Lifespan as Lifespan
    from dragoman.server.define.tool_results import ToolResult as ToolResult
    from dragoman.server.define.tools import Tool as Tool
    from dragoman.server.define.tools import tool as tool
    from dragoman.server.request.context import BlockingContext as BlockingContext
    from dragoman.server.request.context import Context as Context
    from dragoman.server.request.questions import Elicit as Elicit
    from dragoman.server.request.questions import ElicitResult as ElicitResult
    from dragoman.server.request.questions import ElicitUrl as ElicitUrl
    from dragoman.server.request.questions import InputRequired as InputRequired
    from dragoman.server.request.questions import ListRoots as ListRoots
    from dragoman.server.request.questions import Sample as Sample
    from dragoman.server.server import Server as Server
    from dragoman.views.view import Argument as Argument
    from dragoman.views.view import View as View
else:
    __getattr__, __dir__ = lazy()
