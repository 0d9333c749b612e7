"""`ClientTasks`: tasks of a server, in both generations, for a client with `tasks=True`.

The result of a call may be a task. The extension then follows the task to its end, and the call has the result that the
task had. In 2025-11-25 the client asks for tasks: with each call of a tool that says that it runs as one. There the
server may also ask for tasks, with its requests to the client's handlers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from dragoman import types
from dragoman.client.extensions.contract import (
    AnswerNext,
    ClientExtension,
    ExtendedRequest,
    ExtensionClient,
    ExtensionHandler,
    ReceivedRequest,
)
from dragoman.client.extensions.tasks.followed import FollowedTask, TaskState, generation_of
from dragoman.client.extensions.tasks.received import ReceivedTasks
from dragoman.errors import DragomanError
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import declares
from dragoman.protocol.official.tasks import FIRST_OF_CLIENTS, SECOND, STATUS_CHANGED, TASK, TASK_CHANGED
from dragoman.runtime.tasks import cancel_and_wait

_logger = logging.getLogger("dragoman.client")


class ClientTasks(ClientExtension):
    """The tasks of one client; `followed` are those that a call or a `Task` of this client refers to."""

    rows = (FIRST_OF_CLIENTS, SECOND)

    client: ExtensionClient
    """The client that the tasks belong to, from `bind` on."""

    received: ReceivedTasks
    """The tasks that the server made of its requests to this client, from `bind` on."""

    def __init__(self) -> None:
        self._subscribed: Counter[str] = Counter()
        self.followed: WeakValueDictionary[str, FollowedTask] = WeakValueDictionary()

    def bind(self, client: ExtensionClient) -> ClientTasks:
        """Return the extension of one client."""
        bound = ClientTasks()
        bound.client, bound.received = client, ReceivedTasks(client)
        return bound

    def capability_settings(self, row: ExtensionRow) -> types.Json:  # noqa: ARG002
        """Declare tasks of 2025-11-25, with the requests of servers that this client answers as tasks."""
        return self.received.capability()

    def params(self, request: ExtendedRequest) -> Mapping[str, Any]:
        """Ask for a task, if the tool of a call says that it runs as one (2025-11-25)."""
        execution = None if request.tool is None else getattr(request.tool, "execution", None)
        support = None if execution is None else execution.task_support
        is_offered = declares(request.capabilities, ("tasks", "requests", "tools", "call"))
        return {"task": {}} if is_offered and support in ("optional", "required") else {}

    def result_type(self, method: str, result: types.Json) -> str | None:
        """Recognize a task of 2025-11-25, which is the field `task` of the result of a call."""
        return TASK if method == "tools/call" and isinstance(result.get("task"), dict) else None

    def follow(self, client: ExtensionClient, fields: types.Json) -> FollowedTask:
        """Return the task that a message describes: the known one, or a new one.

        Raises:
            ValidationError: the message does not describe a task.
        """
        nested = fields.get("task")
        seed = TaskState.read(nested if isinstance(nested, dict) else fields)
        known = self.followed.get(seed.task_id)
        if known is None:
            known = self.followed[seed.task_id] = FollowedTask(client, seed)
        return known

    async def follow_to_end(
        self, task: FollowedTask, patience: float | None = None, report: Callable[[str], object] | None = None
    ) -> None:
        """Follow a task until it has ended, as `FollowedTask.follow` does, and subscribe to it (2026-07-28)."""
        if task.generation == 1:  # the server sends its notifications unasked
            await task.follow(patience, report)
            return
        self._subscribed[task.id] += 1
        listening = asyncio.get_running_loop().create_task(self._listen(task))
        try:
            await task.follow(patience, report)
        finally:
            await cancel_and_wait(listening)
            self._unsubscribe(task.id)

    async def _listen(self, task: FollowedTask) -> None:
        try:
            await self._renew()
            task.wake()  # what changed before the acknowledgement was not notified
        except DragomanError as error:
            _logger.info("The server does not notify of the task %s, which is polled instead: %s", task.id, error)

    async def _renew(self) -> None:
        await self.client.listen(task_ids=sorted(self._subscribed) or None)

    def _unsubscribe(self, id: str) -> None:
        self._subscribed[id] -= 1
        if self._subscribed[id] == 0:
            del self._subscribed[id]
            if not self.client.is_stopped:
                self.client.run_later(self._renew)

    async def finish(self, request: ExtendedRequest, result: types.Json) -> types.Json:
        """Follow the task of a call to its end, and return the result of the call; a call that ends early cancels it.

        Raises:
            Cancelled: the task was cancelled.
            NotFound: the task has expired.
            RpcError: the call failed.
        """
        task = self.follow(request, result)
        told = 0

        def report(message: str) -> None:
            nonlocal told
            told += 1
            request.report_progress(told, None, message)

        try:
            # The server sends the progress of a task of 2025-11-25 itself, under the token of the call.
            await self.follow_to_end(task, request.options.timeout, report if task.generation == 2 else None)
            return await task.result(request.options.timeout)
        except BaseException:
            task.cancel_later()
            raise

    async def around_answer(self, request: ReceivedRequest, call_next: AnswerNext) -> object:
        """Answer a request of the server with a task, if it asks for one (2025-11-25)."""
        task = self.received.create(request, call_next) if generation_of(self.client) == 1 else None
        return await call_next() if task is None else task

    def requests(self) -> Mapping[str, ExtensionHandler]:
        """Answer the requests of the server about the tasks that it made (2025-11-25)."""
        return self.received.requests()

    def notifications(self) -> Mapping[str, ExtensionHandler]:
        """Receive the notifications of both generations."""
        return {STATUS_CHANGED: self._changed, TASK_CHANGED: self._changed}

    async def _changed(self, fields: types.Json) -> None:
        known = self.followed.get(str(fields.get("taskId")))
        if known is not None:
            known.note(fields)
