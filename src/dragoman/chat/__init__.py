"""What authors of applications with language models use: a conversation in which a model uses MCP servers.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.chat.blocking import Chat as Chat
    from dragoman.chat.chat import AsyncChat as AsyncChat
    from dragoman.chat.messages import Delta as Delta
    from dragoman.chat.messages import Media as Media
    from dragoman.chat.messages import Message as Message
    from dragoman.chat.messages import Model as Model
    from dragoman.chat.messages import ModelOptions as ModelOptions
    from dragoman.chat.messages import Part as Part
    from dragoman.chat.messages import Text as Text
    from dragoman.chat.messages import ToolCall as ToolCall
    from dragoman.chat.messages import ToolCallDelta as ToolCallDelta
    from dragoman.chat.messages import ToolSpec as ToolSpec
    from dragoman.chat.messages import Usage as Usage
    from dragoman.chat.models import AnyLlm as AnyLlm
    from dragoman.chat.options import ChatOptions as ChatOptions
    from dragoman.chat.outcomes import ChatToolResult as ChatToolResult
    from dragoman.chat.outcomes import Chunk as Chunk
    from dragoman.chat.outcomes import PendingCall as PendingCall
    from dragoman.chat.outcomes import Reply as Reply
    from dragoman.chat.outcomes import Step as Step
    from dragoman.chat.policy import Policy as Policy
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "blocking": "Chat",
            "chat": "AsyncChat",
            "messages": "Delta Media Message Model ModelOptions Part Text ToolCall ToolCallDelta ToolSpec Usage",
            "models": "AnyLlm",
            "options": "ChatOptions",
            "outcomes": "Chunk PendingCall Reply Step ChatToolResult",
            "policy": "Policy",
        },
    )
