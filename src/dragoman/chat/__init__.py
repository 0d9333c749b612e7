"""The public names of the chat, a conversation in which a model uses MCP servers. Each is imported at its first use."""

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
    from dragoman.chat.models.any_llm import AnyLlm as AnyLlm
    from dragoman.chat.options import ChatOptions as ChatOptions
    from dragoman.chat.policy import Policy as Policy
    from dragoman.chat.replies import ChatToolProgress as ChatToolProgress
    from dragoman.chat.replies import ChatToolResult as ChatToolResult
    from dragoman.chat.replies import Chunk as Chunk
    from dragoman.chat.replies import PendingCall as PendingCall
    from dragoman.chat.replies import Reply as Reply
    from dragoman.chat.replies import Step as Step
else:
    __getattr__, __dir__ = lazy()
