"""Human approval of tool calls.

Each call is decided once: by the return value of the handler, by `approve()` or `deny()` from any thread, or by the
time-out. An unexpected return value denies the call. A denial ends the wait at once, even while the handler still runs.
An approval counts only after the handler has returned, because the handler may still fail.

The handler of a client or chat is called for one call at a time, in the order of the calls, unless it is parallel. A
handler that returns the approval, to decide later, has had its turn.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any

from msgspec import Struct

from dragoman import types
from dragoman.client.answer.callbacks import LOGGER, AnsweredBy, Handler, HandlerSlots, as_function, call_handler
from dragoman.client.results import CallResult
from dragoman.errors import Cancelled, ToolError
from dragoman.runtime.portal import INTERRUPTS
from dragoman.runtime.tasks import retrieve_exception

CANCELLED = "Tool call was cancelled by the client"


class Approval:
    """A tool call that waits for approval.

    Example:
        def on_approval(call: Approval) -> bool:
            return input(f"May {call.server!r} run {call.name!r} with {call.arguments!r}? ") == "yes"

    A handler that cannot decide at once returns the approval itself, and calls `approve()` or `deny()` later, from any
    thread or task:

        def on_approval(call: Approval) -> Approval:
            waiting[call.id] = call
            return call

    `arguments` are those that will be sent. Each access returns a copy, so that nothing changes them after they were
    approved. Show all of them, by `repr`, which escapes control characters. `server` is the name that the
    client or its group gave the server, else the name that the server gave itself. `tool` is the definition, if it is
    known; its annotations are only hints of the server.
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
        self._lock = Lock()
        self._reason: str | None = None
        self._decision: Future[bool] = Future()
        self._decision.set_running_or_notify_cancel()  # so a cancelled waiter cannot cancel the decision
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
        """Whether the call was approved or denied."""
        return self._decision.done()

    @property
    def approved(self) -> bool:
        """Whether the call was approved."""
        return self.decided and self._decision.result()

    @property
    def reason(self) -> str | None:
        """The reason that was given for a denial."""
        return self._reason

    def approve(self) -> bool:
        """Approve the call; return False if it was decided already."""
        return self._decide(approved=True)

    def deny(self, reason: str | None = None) -> bool:
        """Deny the call, with a reason for its caller; return False if it was decided already."""
        return self._decide(approved=False, reason=reason)

    def _decide(self, *, approved: bool, reason: str | None = None) -> bool:
        with self._lock:
            if self.decided:
                return False
            self._reason = reason
            self._decision.set_result(approved)
            return True

    async def outcome(self) -> bool:
        """Wait until the call is decided, and return whether it was approved."""
        return await asyncio.wrap_future(self._decision)

    def __repr__(self) -> str:
        return f"<Approval of {self._name!r} with {self._arguments!r}>"


ApprovalHandler = AnsweredBy[Approval, bool | Approval | None]
"""A function that decides about a tool call: returns True, False, or the approval itself to decide later."""


async def decide(
    on_approval: ApprovalHandler,
    approval: Approval,
    timeout: float | None = None,
    turns: HandlerSlots | None = None,
) -> None:
    """Return when a tool call is approved; the client may then send `approval.arguments`.

    `on_approval(approval)` is a function, plain or async, or an object that can be called or has an `execute` method.
    It returns True or False, an awaitable of either, or the approval itself, which `approve()` or `deny()` decides
    later. A handler that has called one of these may also return None. With `turns`, the handler is called when it has
    its turn, and `timeout` begins then.

    Raises:
        ToolError: the call is denied: by the handler, because the handler failed or returned an unexpected value, or
            because there was no decision within `timeout` seconds.
        TypeError: `on_approval` cannot be called.
    """
    function = as_function(on_approval, "on_approval")
    approved = False
    try:
        async with asyncio.timeout(None) as clock:
            approved = await _ask(_ApprovalQuestion(function, approval, turns, clock, timeout))
    except Cancelled as error:
        LOGGER.warning("%s, which denies the call of %s", error, approval.name)
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
    """The tool calls of one client that wait for approval, for any thread."""

    def __init__(self, *, parallel: bool = False) -> None:
        self._waiting: dict[str, Approval] = {}
        self._turns = None if parallel else HandlerSlots(1)

    @property
    def waiting(self) -> list[Approval]:
        """The undecided calls, the oldest first."""
        return [approval for approval in list(self._waiting.values()) if not approval.decided]

    async def decide(self, on_approval: ApprovalHandler, approval: Approval, timeout: float | None) -> None:
        """Return when a tool call is approved, as `decide` does; until then the call is in `waiting`."""
        self._waiting[approval.id] = approval
        try:
            await decide(on_approval, approval, timeout, self._turns)
        finally:
            del self._waiting[approval.id]

    async def denial(
        self, on_approval: ApprovalHandler, approval: Approval, timeout: float | None, *, raise_on_error: bool
    ) -> CallResult | None:
        """Decide about a call, and return the result of a denied call; None if the call is approved.

        Raises:
            ToolError: the call is denied, and `raise_on_error` is True.
        """
        try:
            await self.decide(on_approval, approval, timeout)
        except ToolError as error:
            if raise_on_error:
                raise
            return CallResult([types.TextContent(str(error))], is_error=True)
        return None

    def approve(self, id: str) -> bool:
        """Approve a call; return False if it does not wait."""
        approval = self._waiting.get(id)
        return approval is not None and approval.approve()

    def deny(self, id: str, reason: str | None = None) -> bool:
        """Deny a call; return False if it does not wait."""
        approval = self._waiting.get(id)
        return approval is not None and approval.deny(reason)

    def deny_all(self, reason: str) -> None:
        """Deny every call that waits."""
        for approval in self.waiting:
            approval.deny(reason)


class _ApprovalQuestion(Struct):
    """A question to the approval handler."""

    function: Handler
    approval: Approval
    turns: HandlerSlots | None
    clock: asyncio.Timeout
    timeout: float | None

    async def ask(self) -> Any:
        """Wait for the turn, and return the answer of the handler."""
        if self.turns is None:
            self._start_clock()
            return await call_handler(self.function, self.approval)
        interrupts = INTERRUPTS.count
        async with self.turns.acquire():
            if self.approval.decided:
                return self.approval
            INTERRUPTS.require_none_since(interrupts)
            from dragoman.client.answer.terminal_questions import ask_person

            self._start_clock()
            return await ask_person(call_handler, self.function, self.approval)

    def _start_clock(self) -> None:
        if self.timeout is not None:
            self.clock.reschedule(asyncio.get_running_loop().time() + self.timeout)


async def _ask(question: _ApprovalQuestion) -> bool:
    approval = question.approval
    answering = asyncio.ensure_future(question.ask())
    deciding = asyncio.ensure_future(approval.outcome())
    try:
        await asyncio.wait([answering, deciding], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and not deciding.result():
            return False
        answer = await answering
    finally:
        deciding.cancel()
        answering.cancel()
        answering.add_done_callback(retrieve_exception)
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
