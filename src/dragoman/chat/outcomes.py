"""What comes of a turn, as whoever has the conversation gets it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from dragoman.chat.messages import Message, ToolCall, Usage
from dragoman.chat.toolbox import ChatTool
from dragoman.client.answer.approval import Approval
from dragoman.client.results import CallResult


class ChatToolResult(Struct, frozen=True):
    """What came of a call: what the model was told, and the whole result if there is one."""

    call: ToolCall
    message: Message
    result: CallResult | None = None

    @property
    def text(self) -> str:
        """What the model was told, without the mark of a failure that its provider needs."""
        return self.message.text

    @property
    def is_error(self) -> bool:
        """Whether it went wrong."""
        return self.message.is_error


class Chunk(Struct, frozen=True):
    """A piece of a turn: some text, calls that begin, or results that came."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ChatToolResult] = field(default_factory=list)


class Reply(Struct, frozen=True):
    """What came of a turn.

    Example:
        reply = chat.ask("What should I wear in Oslo?")
        print(reply, reply.usage.total_tokens)
    """

    text: str
    messages: list[Message]
    """Everything that was said in this turn, the question included."""
    tool_results: list[ChatToolResult]
    usage: Usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        """What the model called."""
        return [result.call for result in self.tool_results]

    def __str__(self) -> str:
        return self.text


class PendingCall:
    """A call that the model wants and that is not made yet.

    Example:
        for pending in chat.pending_tool_calls:
            print(pending.call.name, pending.call.arguments)
            chat.approve(pending)
    """

    def __init__(self, call: ToolCall, tool: ChatTool | None) -> None:
        self.call = call
        self.tool = tool
        self.approval: Approval | None = None
        """What may be decided, with the arguments that will be sent; None where nothing is."""
        self.refusal: str | None = None
        """Why it is not made."""
        self.is_allowed = False
        """Whether it is made unless somebody denies it."""
        self.is_begun = False
        """Whether the server may have heard of it."""

    @property
    def is_judged(self) -> bool:
        """Whether the policy was asked about it."""
        return self.refusal is not None or self.approval is not None

    @property
    def waits(self) -> bool:
        """Whether somebody has to decide."""
        undecided = self.approval is not None and not self.approval.decided
        return undecided and self.refusal is None and not self.is_allowed

    def __repr__(self) -> str:
        return f"<PendingCall of {self.call.name!r} with {self.call.arguments!r}>"


class Step(Struct, frozen=True):
    """What one step of a conversation did: the model answered, tools were called, or somebody must decide first."""

    kind: Literal["answer", "tools", "waiting"]
    message: Message | None = None
    tool_results: list[ChatToolResult] = field(default_factory=list)
    pending: list[PendingCall] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """Whether the turn has come to its end."""
        return self.kind == "answer" and self.message is not None and not self.message.tool_calls
