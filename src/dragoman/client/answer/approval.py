"""Human approval of tool calls.

A call that waits for approval is decided once: by what the handler returns, by `approve()` or `deny()` from anywhere,
or by the end of the wait. Whatever is not plainly a yes is a no. A denial ends the wait at once, also while the handler
still works; an approval is worth nothing until the handler has returned, for it may still fail.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any

from dragoman import types
from dragoman.client.answer.calling import LOGGER, AnsweredBy, call, handler
from dragoman.errors import ToolError
from dragoman.runtime.tasks import retrieve_exception

CANCELLED = "Tool call was cancelled by the client"


class Approval:
    """A tool call that waits for somebody to approve of it.

    Example:
        def on_approval(call: Approval) -> bool:
            return input(f"May {call.server!r} run {call.name!r} with {call.arguments!r}? ") == "yes"

    A handler that cannot decide at once returns the approval itself, and calls `approve()` or `deny()` later, from any
    thread or task:

        def on_approval(call: Approval) -> Approval:
            waiting[call.id] = call
            return call

    `arguments` are those that will be sent: each time that they are looked at they are a copy, so that nothing changes
    them after they were approved. Show all of them; `repr` escapes what a terminal would not show as it is. `server` is
    the name that the client or its group gave the server, else the one that the server gives itself. `tool` is the
    definition, if it is known, with annotations that are only hints of the server.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        tool: types.Tool | None = None,
        server: str | None = None,
        id: str | None = None,
    ) -> None:
        self._name = name
        self._arguments = copy.deepcopy(dict(arguments or {}))
        self._deciding = Lock()
        self._reason: str | None = None
        self._decision: Future[bool] = Future()
        self._decision.set_running_or_notify_cancel()  # whoever stops waiting for it must not cancel it
        self.tool = tool
        self.server = server
        self.id = id or uuid.uuid4().hex

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._name

    @property
    def arguments(self) -> dict[str, Any]:
        """A copy of the arguments."""
        return copy.deepcopy(self._arguments)

    @property
    def decided(self) -> bool:
        """Whether it was approved or denied."""
        return self._decision.done()

    @property
    def approved(self) -> bool:
        """Whether it was approved."""
        return self.decided and self._decision.result()

    @property
    def reason(self) -> str | None:
        """Why it was denied, if somebody said so."""
        return self._reason

    def approve(self) -> bool:
        """Let the call be made, and tell whether this decided it: what is decided stays so."""
        return self._decide(approved=True)

    def deny(self, reason: str | None = None) -> bool:
        """Refuse the call, and tell whether this decided it; the reason is told to the caller."""
        return self._decide(approved=False, reason=reason)

    def _decide(self, *, approved: bool, reason: str | None = None) -> bool:
        with self._deciding:
            if self.decided:
                return False
            self._reason = reason
            self._decision.set_result(approved)
            return True

    async def outcome(self) -> bool:
        """Wait until it is decided, and return whether it was approved."""
        return await asyncio.wrap_future(self._decision)

    def __repr__(self) -> str:
        return f"<Approval of {self._name!r} with {self._arguments!r}>"


ApprovalHandler = AnsweredBy[Approval, bool | Approval | None]
"""Says before a tool call whether it may be made: True, False, or the approval itself to decide later."""


async def decide(on_approval: ApprovalHandler, approval: Approval, timeout: float | None = None) -> None:
    """Return if a tool call is approved; `approval.arguments` are what may be sent.

    `on_approval(approval)` is a function, plain or async, or an object that can be called or has an `execute` method.
    It returns True or False, an awaitable of either, or the approval itself, which is then decided by its
    `approve()` or `deny()`. A handler that has called one of these may also return nothing.

    Raises:
        ToolError: the call is denied: by the handler, because the handler failed or returned something else, or because
            nobody decided within `timeout` seconds.
        TypeError: `on_approval` is nothing that can be called.
    """
    decider = handler(on_approval, "on_approval")
    approved = False
    try:
        async with asyncio.timeout(timeout) as clock:
            approved = await _verdict(decider, approval)
    except Exception:
        if clock.expired():
            approval.deny(f"nobody decided within {timeout:g} seconds")
        else:
            LOGGER.exception("on_approval failed, which denies the call of %s", approval.name)
    finally:
        approval.deny()
    if not approved:
        raise ToolError(f"{CANCELLED}: {approval.reason}" if approval.reason else CANCELLED)


class Approvals:
    """The tool calls of one client that wait for approval; may be used from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, Approval] = {}

    @property
    def waiting(self) -> list[Approval]:
        """Those that wait, the oldest first."""
        return [approval for approval in list(self._waiting.values()) if not approval.decided]

    async def decide(self, on_approval: ApprovalHandler, approval: Approval, timeout: float | None) -> None:
        """Return if a tool call is approved, as `decide` does; meanwhile it is among those that wait."""
        self._waiting[approval.id] = approval
        try:
            await decide(on_approval, approval, timeout)
        finally:
            del self._waiting[approval.id]

    def approve(self, id: str) -> bool:
        """Approve a call, and tell whether this decided it."""
        approval = self._waiting.get(id)
        return approval is not None and approval.approve()

    def deny(self, id: str, reason: str | None = None) -> bool:
        """Deny a call, and tell whether this decided it."""
        approval = self._waiting.get(id)
        return approval is not None and approval.deny(reason)

    def deny_all(self, reason: str) -> None:
        """Deny every call that waits."""
        for approval in self.waiting:
            approval.deny(reason)


async def _verdict(decider: Any, approval: Approval) -> bool:
    answering, deciding = asyncio.ensure_future(call(decider, approval)), asyncio.ensure_future(approval.outcome())
    try:
        await asyncio.wait([answering, deciding], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and not deciding.result():
            return False
        answer = await answering
    finally:
        deciding.cancel()
        answering.cancel()
        answering.add_done_callback(retrieve_exception)
    return await _meaning(answer, approval)


async def _meaning(answer: Any, approval: Approval) -> bool:
    if answer is approval or (answer is None and approval.decided):
        return await approval.outcome()
    if answer is True:
        approval.approve()
        return approval.approved
    if answer is not False:
        LOGGER.warning(
            "on_approval returned %s, which denies the call of %s: return True, False, or the approval itself to decide"
            " later",
            type(answer).__name__,
            approval.name,
        )
    return False
