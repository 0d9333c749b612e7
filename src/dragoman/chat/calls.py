"""The calls that a model wants: judged, approved and made.

Whatever goes wrong with a call is told to the model in words. Whatever is not plainly allowed or approved is not made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from dragoman.chat.links import Links
from dragoman.chat.messages import Message, Text, ToolCall
from dragoman.chat.options import ChatOptions
from dragoman.chat.outcomes import ChatToolResult, PendingCall
from dragoman.chat.policy import Policy
from dragoman.chat.rendering import MOST_RESULT_CHARACTERS, result_parts
from dragoman.chat.toolbox import ChatTool
from dragoman.client.answer.approval import CANCELLED, Approval, decide
from dragoman.errors import DragomanError, ToolError

NOT_MADE = "The call was given up before it was made"
GIVEN_UP = "The call was given up, and may have been carried out or not"
_logger = logging.getLogger("dragoman.chat")


class Calls:
    """How the calls of one conversation are made."""

    def __init__(self, options: ChatOptions) -> None:
        self._policy = options.get("policy") or Policy()
        self._on_approval = options.get("on_approval")
        self._approval_timeout = options.get("approval_timeout")
        self._most = options.get("max_result_characters", MOST_RESULT_CHARACTERS)
        self._timeout = options.get("tool_timeout")
        self.links = Links(options.get("resource_links") or "offer")

    async def judge(self, pending: PendingCall, tools: Iterable[str]) -> None:
        """Find out what is to be done about a call; `tools` are the names that there are."""
        if pending.is_judged:
            return
        if pending.tool is None:
            there = ", ".join(tools) or "none"
            pending.refusal = f"There is no tool {pending.call.name!r}; there are: {there}"
        elif pending.call.arguments is None:
            pending.refusal = f"The arguments are no JSON object: {pending.call.raw[:200]}"
        else:
            await self._judge(pending, pending.tool)

    async def _judge(self, pending: PendingCall, known: ChatTool) -> None:
        tool = known.tool
        approval = Approval(
            known.name, known.arguments(pending.call), tool=tool.definition, server=tool.server, id=pending.call.id
        )
        verdict = await self._policy.judge(known.names, tool, approval.arguments, trusted=tool.is_trusted)
        if verdict == "deny":
            pending.refusal = "This tool may not be called"
        else:
            pending.is_allowed = verdict == "allow"
            pending.approval = approval

    async def make(self, pending: PendingCall, tell: Callable[[ToolCall], None], *, asks: bool) -> ChatToolResult:
        """Make a call, if it may be made, and return what came of it; `asks` says that somebody may yet be asked."""
        try:
            approval = await self._approved(pending, asks=asks)
            tell(pending.call)
            pending.is_begun = True
            known = pending.tool
            assert known is not None
            result = await known.tool.call(approval.arguments, raise_on_error=False, timeout=self._timeout)
            parts = result_parts(await self.links.take(known, result, self._timeout), self._most)
        except ToolError as error:
            return failed(pending.call, str(error))
        except DragomanError as error:
            return failed(pending.call, f"{type(error).__name__}: {error}")
        except Exception as error:
            _logger.exception("A call of the tool %s failed", pending.call.name)
            return failed(pending.call, f"{type(error).__name__}: {error}")
        message = Message("tool", parts, tool_call_id=pending.call.id, is_error=result.is_error)
        return ChatToolResult(pending.call, message, result)

    async def _approved(self, pending: PendingCall, *, asks: bool) -> Approval:
        """Return the approval of a call.

        Raises:
            ToolError: it may not be made.
        """
        approval = pending.approval
        if pending.refusal is not None or approval is None:
            raise ToolError(pending.refusal or CANCELLED)
        if pending.is_allowed:
            approval.approve()
        elif asks and not approval.decided:
            if self._on_approval is not None:
                await decide(self._on_approval, approval, self._approval_timeout)
            approval.deny("nobody is there to approve of it")
        if not approval.approved:
            raise ToolError(f"{CANCELLED}: {approval.reason}" if approval.reason else CANCELLED)
        return approval


async def all_ended(tasks: Sequence[asyncio.Task[ChatToolResult]]) -> None:
    """Wait for all; whoever is cancelled meanwhile cancels them, and still waits until the servers were told."""
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


def outcome(pending: PendingCall, task: asyncio.Task[ChatToolResult]) -> ChatToolResult:
    """Return what came of a call, also of one that was given up."""
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    return failed(pending.call, GIVEN_UP if pending.is_begun else NOT_MADE)


def failed(call: ToolCall, text: str) -> ChatToolResult:
    """Return what a model is told of a call that went wrong."""
    return ChatToolResult(call, Message("tool", [Text(f"Error: {text}")], tool_call_id=call.id, is_error=True))


def settle(messages: list[Message]) -> list[Message]:
    """Give every call that has no result one, for no provider takes a conversation without; return what was added."""
    added: list[Message] = []
    place = 0
    while place < len(messages):
        wanted: Mapping[str, ToolCall] = {call.id: call for call in messages[place].tool_calls}
        place += 1
        answered = set()
        while wanted and place < len(messages) and messages[place].role == "tool":
            answered.add(messages[place].tool_call_id)
            place += 1
        missing = [failed(call, NOT_MADE).message for id, call in wanted.items() if id not in answered]
        messages[place:place] = missing
        place += len(missing)
        added += missing
    return added
