"""The results of a turn that a chat returns: replies, chunks of a stream, steps, and pending calls."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from dragoman.chat.messages import Message, StopReason, ToolCall, Usage
from dragoman.chat.tools import ChatTool
from dragoman.client.answer.approval import Approval
from dragoman.client.results import CallResult


class ChatToolResult(Struct, frozen=True):
    """The outcome of a tool call: the message for the model, and the tool's result if the call was made."""

    call: ToolCall
    message: Message
    result: CallResult | None = None

    @property
    def text(self) -> str:
        """The text for the model, without the prefix that marks errors for some providers."""
        return self.message.text

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.message.is_error


class ChatToolProgress(Struct, frozen=True):
    """The progress of a tool call, as the server reports it; a tool that runs as a task reports its status message."""

    call: ToolCall
    progress: float
    total: float | None = None
    message: str | None = None


class Chunk(Struct, frozen=True):
    """A piece of a turn: text, tool calls that begin, progress of tool calls, or results of tool calls."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ChatToolResult] = field(default_factory=list)
    tool_progress: list[ChatToolProgress] = field(default_factory=list)
    """The latest progress of the calls that have reported since the last chunk."""
    stop_reason: StopReason | None = None
    """Why the model ended its answer; only the last chunk of an answer has it, together with its tool calls."""


class Reply(Struct, frozen=True):
    """The reply of a turn.

    Example:
        reply = chat.ask("What should I wear in Oslo?")
        print(reply, reply.usage.total_tokens)
    """

    text: str
    messages: list[Message]
    """The messages of this turn, including the question."""
    tool_results: list[ChatToolResult]
    usage: Usage
    stop_reason: StopReason | None = None
    """Why the model ended its last answer; None if it did not say."""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the model in this turn."""
        return [result.call for result in self.tool_results]

    def __str__(self) -> str:
        return self.text


class PendingCall:
    """A tool call that the model requested and that is not made yet.

    Example:
        for pending in chat.pending_tool_calls:
            print(pending.call.name, pending.call.arguments)
            chat.approve(pending)
    """

    def __init__(self, call: ToolCall, tool: ChatTool | None) -> None:
        self.call = call
        self.tool = tool
        self.approval: Approval | None = None
        """The approval to decide, with the arguments that will be sent; None if the call is refused."""
        self.refusal: str | None = None
        """Why the call will not be made; None if it may be."""
        self.is_allowed = False
        """Whether the policy allows the call without approval."""
        self.is_begun = False
        """Whether the call may have reached the server."""

    @property
    def is_judged(self) -> bool:
        """Whether the call was refused or judged by the policy."""
        return self.refusal is not None or self.approval is not None

    @property
    def waits(self) -> bool:
        """Whether the call needs an approval that is not decided yet."""
        undecided = self.approval is not None and not self.approval.decided
        return undecided and self.refusal is None and not self.is_allowed

    def __repr__(self) -> str:
        return f"<PendingCall of {self.call.name!r} with {self.call.arguments!r}>"


class Step(Struct, frozen=True):
    """The result of one step: the model answered, tools were called, or a call waits for approval."""

    kind: Literal["answer", "tools", "waiting"]
    message: Message | None = None
    tool_results: list[ChatToolResult] = field(default_factory=list)
    pending: list[PendingCall] = field(default_factory=list)
    stop_reason: StopReason | None = None
    """Why the model ended its answer, if the step was an answer and the model said why."""

    @property
    def is_last(self) -> bool:
        """Whether the turn has ended."""
        return self.kind == "answer" and self.message is not None and not self.message.tool_calls
