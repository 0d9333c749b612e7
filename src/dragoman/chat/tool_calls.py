"""ToolCalls: judges the tool calls of a model by the policy, gets approval, and makes the calls.

A call that is neither allowed nor approved is not made. Every failure becomes the result of the call, as text for the
model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from dragoman.chat.content import MAX_RESULT_CHARACTERS, result_parts
from dragoman.chat.messages import Message, Text, ToolCall
from dragoman.chat.options import ChatOptions
from dragoman.chat.policy import Policy
from dragoman.chat.replies import ChatToolProgress, ChatToolResult, PendingCall
from dragoman.chat.tools import ChatTool, ResourceLinks
from dragoman.client.answer.approval import CANCELLED, Approval, decide
from dragoman.client.answer.callbacks import HandlerSlots, call_handler
from dragoman.client.options import OnProgress
from dragoman.errors import DragomanError, ToolError

NOT_MADE = "The call was given up before it was made"
CANCELLED_CALL = "The call was given up, and may have been carried out or not"
_logger = logging.getLogger("dragoman.chat")


class ToolCalls:
    """The policy, approval and time-out of the calls of one conversation."""

    def __init__(self, options: ChatOptions) -> None:
        self._policy = options.get("policy") or Policy()
        self._on_approval = options.get("on_approval")
        self._approval_timeout = options.get("approval_timeout")
        self._approval_turns = None if options.get("parallel_approvals") else HandlerSlots(1)
        self._max_characters = options.get("max_result_characters", MAX_RESULT_CHARACTERS)
        self._timeout = options.get("tool_timeout")
        self.links = ResourceLinks(options.get("resource_links") or "offer")

    async def judge(self, pending: PendingCall, tools: Iterable[str]) -> None:
        """Decide whether a call is refused, allowed or needs approval; `tools` are the names of all tools."""
        if pending.is_judged:
            return
        if pending.tool is None:
            pending.refusal = f"There is no tool {pending.call.name!r}; there are: {', '.join(tools) or 'none'}"
        elif pending.call.arguments is None:
            pending.refusal = f"The arguments are no JSON object: {pending.call.raw[:200]}"
        else:
            await self._apply_policy(pending, pending.tool)

    async def _apply_policy(self, pending: PendingCall, known: ChatTool) -> None:
        tool, arguments = known.tool, known.arguments(pending.call)
        judged = known.judged(arguments)
        approval = Approval(known.name, arguments, tool=tool.definition, server=judged.server, id=pending.call.id)
        verdict = await self._policy.judge(judged.names, tool, approval.arguments, trusted=tool.is_trusted)
        if verdict == "deny":
            pending.refusal = "This tool may not be called"
        else:
            pending.is_allowed = verdict == "allow" or judged.is_approved
            pending.approval = approval

    async def make(
        self, pending: PendingCall, notify: Callable[[ToolCall], None], on_progress: OnProgress, *, asks: bool
    ) -> ChatToolResult:
        """Make a call, if it may be made, and return its outcome; with `asks`, `on_approval` decides if needed."""
        try:
            approval = await self._approved(pending, asks=asks)
            notify(pending.call)
            pending.is_begun = True
            known = pending.tool
            assert known is not None
            result = await known.tool.call(
                approval.arguments, raise_on_error=False, timeout=self._timeout, on_progress=on_progress
            )
            parts = result_parts(await self.links.receive(known, result, self._timeout), self._max_characters)
        except ToolError as error:
            return failed(pending.call, str(error))
        except Exception as error:
            if not isinstance(error, DragomanError):
                _logger.exception("A call of the tool %s failed", pending.call.name)
            return failed(pending.call, f"{type(error).__name__}: {error}")
        message = Message("tool", parts, tool_call_id=pending.call.id, is_error=result.is_error)
        return ChatToolResult(pending.call, message, result)

    async def _approved(self, pending: PendingCall, *, asks: bool) -> Approval:
        """Return the approval of a call.

        Raises:
            ToolError: the call may not be made.
        """
        approval = pending.approval
        if pending.refusal is not None or approval is None:
            raise ToolError(pending.refusal or CANCELLED)
        if pending.is_allowed:
            approval.approve()
        elif asks and not approval.decided:
            if self._on_approval is not None:
                await decide(self._on_approval, approval, self._approval_timeout, self._approval_turns)
            approval.deny("no approval handler is configured")
        if not approval.approved:
            raise ToolError(f"{CANCELLED}: {approval.reason}" if approval.reason else CANCELLED)
        return approval


class CallProgress:
    """The progress of calls that are made at the same time; of each call only the latest is kept until it is read."""

    def __init__(self) -> None:
        self._latest: dict[str, ChatToolProgress] = {}
        self._changed = asyncio.Event()

    def receiver(self, pending: PendingCall) -> OnProgress:
        """Return the function that receives the progress of a call; the client's `on_progress` receives it too."""

        async def receive(progress: float, total: float | None, message: str | None) -> None:
            self._latest[pending.call.id] = ChatToolProgress(pending.call, progress, total, message)
            self._changed.set()
            others = None if pending.tool is None else pending.tool.tool.on_progress
            if others is not None:
                await call_handler(others, progress, total, message)

        return receive

    async def until_ended(
        self, tasks: Sequence[asyncio.Task[ChatToolResult]]
    ) -> AsyncGenerator[list[ChatToolProgress], None]:
        """Yield progress until all tasks have ended; whoever is cancelled or closes this waits until they are."""
        for task in tasks:
            task.add_done_callback(lambda _: self._changed.set())
        try:
            while not all(task.done() for task in tasks):
                await self._changed.wait()
                self._changed.clear()
                found, self._latest = list(self._latest.values()), {}
                if found:
                    yield found
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)


def outcome(pending: PendingCall, task: asyncio.Task[ChatToolResult]) -> ChatToolResult:
    """Return the outcome of a call; a cancelled call has a failure."""
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    return failed(pending.call, CANCELLED_CALL if pending.is_begun else NOT_MADE)


def failed(call: ToolCall, text: str) -> ChatToolResult:
    """Return the outcome of a call that failed."""
    return ChatToolResult(call, Message("tool", [Text(f"Error: {text}")], tool_call_id=call.id, is_error=True))


def settle(messages: list[Message]) -> list[Message]:
    """Add a failure as the result of every call without a result, and return the added messages."""
    added: list[Message] = []
    place = 0
    while place < len(messages):
        calls = {call.id: call for call in messages[place].tool_calls}
        place += 1
        answered = set()
        while calls and place < len(messages) and messages[place].role == "tool":
            answered.add(messages[place].tool_call_id)
            place += 1
        missing = [failed(call, NOT_MADE).message for id, call in calls.items() if id not in answered]
        messages[place:place] = missing
        place += len(missing)
        added += missing
    return added
