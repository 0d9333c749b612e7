"""What authors of applications with language models use: a conversation in which a model uses MCP servers.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat
    from dragoman.chat.chat import AsyncChat
    from dragoman.chat.messages import (
        Delta,
        Media,
        Message,
        Model,
        ModelOptions,
        Part,
        Text,
        ToolCall,
        ToolCallDelta,
        ToolSpec,
        Usage,
    )
    from dragoman.chat.models import AnyLlm
    from dragoman.chat.options import ChatOptions
    from dragoman.chat.outcomes import Chunk, PendingCall, Reply, Step, ToolResult
    from dragoman.chat.policy import Policy

_HOMES = {
    "blocking": "Chat",
    "chat": "AsyncChat",
    "messages": "Delta Media Message Model ModelOptions Part Text ToolCall ToolCallDelta ToolSpec Usage",
    "models": "AnyLlm",
    "options": "ChatOptions",
    "outcomes": "Chunk PendingCall Reply Step ToolResult",
    "policy": "Policy",
}

__all__ = [
    "AnyLlm",
    "AsyncChat",
    "Chat",
    "ChatOptions",
    "Chunk",
    "Delta",
    "Media",
    "Message",
    "Model",
    "ModelOptions",
    "Part",
    "PendingCall",
    "Policy",
    "Reply",
    "Step",
    "Text",
    "ToolCall",
    "ToolCallDelta",
    "ToolResult",
    "ToolSpec",
    "Usage",
]

if not TYPE_CHECKING:
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name):
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
