"""`ReceivedTasks`: the tasks that a server makes of its requests to this client (2025-11-25).

A server may send `sampling/createMessage` and `elicitation/create` with the parameter `task`. The client then answers
with a task at once, and runs its handler in the background. The server reads the outcome by requests about the task.

A task is `working` until its handler returns (`completed`) or raises (`failed`), or until the server cancels the task
or the client is stopped (`cancelled`). These three are final. A task outlives the connection that brought it. The
client forgets a task and its outcome when the time to live has passed, and cancels a handler that still runs then.

These tasks are bounded in number and in bytes. To make room, the client forgets the oldest task whose result the server
has read. If there is none, it refuses a further task. Rejected: to forget a task whose result was not read, because the
client has told the server how long it keeps the task.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.client.connect.server_requests import MAX_PARAMS_BYTES
from dragoman.client.extensions.contract import AnswerNext, ExtensionClient, ExtensionHandler, ReceivedRequest
from dragoman.errors import InternalError, InvalidParams, RpcError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import CANCEL, GET, LIST, RESULT, TERMINAL, related
from dragoman.types.tasks import CreateTaskResult, ListTasksResult, Task, TaskMetadata, TaskRequestParams, TaskStatus

MAX_RECEIVED_TASKS = 1_000
PAGE = 100
DEFAULT_TTL_MS, MAX_TTL_MS = 3_600_000, 86_400_000
POLL_MS = 1_000
UNKNOWN = "There is no such task"
_AUGMENTED = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation"}
"""The capability of each request that may become a task."""
_logger = logging.getLogger("dragoman.client")


class ReceivedTask:
    """One task that a server made of a request to this client."""

    def __init__(self, number: int, ttl_ms: int, size: int) -> None:
        self.number = number
        self.id = secrets.token_urlsafe(16)
        self.ttl_ms = ttl_ms
        self.size = size
        """The bytes that the task holds: those of the parameters, later those of the result."""
        self.status: TaskStatus = "working"
        self.outcome: Raw | RpcError | None = None
        self.was_read = False
        """Whether the server has read the outcome."""
        self.ended = asyncio.Event()
        self.runner: asyncio.Task[Any] | None = None
        self.expires_at = time.monotonic() + ttl_ms / 1000
        self._created_at = self._updated_at = _now()

    @property
    def has_ended(self) -> bool:
        """Whether the task has a final status."""
        return self.status in TERMINAL

    def end(self, status: TaskStatus, outcome: Raw | RpcError) -> None:
        """End the task, unless it has ended."""
        if not self.has_ended:
            self.status, self.outcome, self._updated_at = status, outcome, _now()
            self.size = 0 if isinstance(outcome, RpcError) else len(outcome)
            self.ended.set()

    def as_wire(self) -> Task:
        """Return the state of the task for the server."""
        message = self.outcome.message if isinstance(self.outcome, RpcError) else None
        return Task(self.id, self.status, self._created_at, self._updated_at, self.ttl_ms, POLL_MS, message)


class ReceivedTasks:
    """The tasks of one client that its server made."""

    def __init__(self, client: ExtensionClient) -> None:
        self._client = client
        self._last_number = 0
        self._tasks: dict[str, ReceivedTask] = {}

    def capability(self) -> types.Json:
        """Return the capability `tasks` of 2025-11-25: the requests that have a handler may become tasks."""
        requests: types.Json = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        declared = {name: one for name, one in requests.items() if self._is_handled(name)}
        return {"list": {}, "cancel": {}, "requests": declared} if declared else {}

    def _is_handled(self, capability: str) -> bool:
        return getattr(self._client.own_capabilities, capability) is not None

    def requests(self) -> Mapping[str, ExtensionHandler]:
        """Return the functions that answer the requests of the server about its tasks."""
        return {GET: self._get, RESULT: self._result, LIST: self._page, CANCEL: self._cancel}

    def create(self, request: ReceivedRequest, answer: AnswerNext) -> CreateTaskResult | None:
        """Make a task of a request, and let `answer` run; return None if the request is not to become a task.

        Raises:
            InvalidParams: the parameter `task` is malformed.
            InternalError: the client has too many tasks of the server.
        """
        # MUST (2025-11-25): a receiver ignores `task` in a request for which it has not declared tasks.
        capability = _AUGMENTED.get(request.method)
        given = request.params.get("task") if capability is not None and self._is_handled(capability) else None
        if given is None:
            return None
        try:
            ttl = msgspec.convert(given, TaskMetadata).ttl
        except msgspec.ValidationError as error:
            raise InvalidParams(f"The parameter task does not fit: {error}") from None
        self._require_room(request.size)
        self._last_number += 1
        ttl_ms = DEFAULT_TTL_MS if ttl is None else min(max(ttl, 1), MAX_TTL_MS)
        task = ReceivedTask(self._last_number, ttl_ms, request.size)
        self._tasks[task.id] = task
        task.runner = self._client.run_later(partial(self._run, task, answer))
        return CreateTaskResult(task.as_wire())

    def _require_room(self, size: int) -> None:
        self._forget_expired()
        running = sum(not task.has_ended for task in self._tasks.values())
        read = [task.id for task in self._tasks.values() if task.was_read]
        while read and not self._has_room(size):
            del self._tasks[read.pop(0)]
        if running >= self._client.max_server_requests or not self._has_room(size):
            message = f"The client has {len(self._tasks)} tasks of the server, {running} at work; try again later"
            raise InternalError(message)

    def _has_room(self, size: int) -> bool:
        held = [task.size for task in self._tasks.values()]
        return not held or (len(held) < MAX_RECEIVED_TASKS and sum(held) + size <= MAX_PARAMS_BYTES)

    def _forget_expired(self) -> None:
        now = time.monotonic()
        for task in [task for task in self._tasks.values() if task.expires_at <= now]:
            del self._tasks[task.id]

    async def _run(self, task: ReceivedTask, answer: AnswerNext) -> None:
        try:
            with self._client.paused_clocks():
                async with asyncio.timeout(task.ttl_ms / 1000):
                    result = await answer()
            # MUST (2025-11-25): the result of a task names the task in its `_meta`.
            meta = related(task.id, getattr(result, "meta", None))
            task.end("completed", Raw(encode(msgspec.structs.replace(result, meta=meta))))  # type: ignore[type-var]
        except asyncio.CancelledError:
            task.end("cancelled", InternalError("The client was stopped"))
            raise
        except TimeoutError:
            task.end("failed", InternalError("The task has expired"))
        except RpcError as error:
            task.end("failed", error)
        except Exception:
            _logger.exception("A task of the server failed")
            task.end("failed", InternalError("Internal error"))

    def _find(self, id: str) -> ReceivedTask:
        self._forget_expired()
        if id not in self._tasks:
            raise InvalidParams(UNKNOWN)
        return self._tasks[id]

    async def _get(self, params: TaskRequestParams) -> Task:
        return self._find(params.task_id).as_wire()

    async def _result(self, params: TaskRequestParams) -> Raw:
        """Wait until a task has ended, and return the result that the request would have had."""
        task = self._find(params.task_id)
        await task.ended.wait()
        task.was_read = True
        if isinstance(task.outcome, RpcError):
            raise task.outcome
        assert task.outcome is not None
        return task.outcome

    async def _page(self, params: types.PaginatedRequestParams) -> ListTasksResult:
        """Return a page of tasks; the cursor is the number of the last task of the page before."""
        self._forget_expired()
        cursor = params.cursor or "0"
        if not cursor.isdecimal() or len(cursor) > len(str(self._last_number)):
            raise InvalidParams(f"There is no page {cursor[:100]!r} of tasks")
        found = [task for task in self._tasks.values() if task.number > int(cursor)]
        following = str(found[PAGE - 1].number) if len(found) > PAGE else None
        return ListTasksResult([task.as_wire() for task in found[:PAGE]], next_cursor=following)

    async def _cancel(self, params: TaskRequestParams) -> Task:
        task = self._find(params.task_id)
        if task.has_ended:
            raise InvalidParams(f"The task cannot be cancelled, because it is {task.status} already")
        task.end("cancelled", InternalError("The task was cancelled"))
        if task.runner is not None:
            task.runner.cancel()
        return task.as_wire()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
