"""What authors of applications with language models use: a conversation in which a model uses MCP servers.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

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
    __getattr__, __dir__ = lazy(
        __name__,
        {
            ".blocking": "Chat",
            ".chat": "AsyncChat",
            ".messages": ("Delta Media Message Model ModelOptions Part Text ToolCall ToolCallDelta ToolSpec Usage"),
            ".models": "AnyLlm",
            ".options": "ChatOptions",
            ".outcomes": "Chunk PendingCall Reply Step ToolResult",
            ".policy": "Policy",
        },
    )
