"""`TaskOwners`: whose the tasks are that clients began through a proxy.

Clients of a proxy share its connections, so the target cannot tell their principals apart and would show each of them
the tasks of all. The proxy therefore records the principal of each task that a call began, in the store of the server,
and serves a request about a task only for the principal of the task; `require_unambiguous` has refused other spellings
of `taskId` before. A caller without a principal uses the tasks that
have no record, and a client on stdio uses all. If the credentials of a caller are forwarded, the target knows the
caller, and nothing is recorded.

Rejected: ids of tasks that name the principal. Ids stand in too many messages, and a proxy passes messages unchanged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import InvalidParams, StoreError, StoreUnreadable
from dragoman.forward.messages import RawObject, raw_object
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import CANCEL, GET, LIST, RESULT, UPDATE
from dragoman.types.memo import Recent

if TYPE_CHECKING:
    from dragoman.server.request.call import Call
    from dragoman.server.server import Server
    from dragoman.stores import State

ABOUT_TASKS = frozenset({GET, RESULT, UPDATE, CANCEL})
TASK_SECONDS = 30 * 86_400.0
"""How long the principal of a task is kept, if the target does not say how long the task is."""
MAX_SECONDS = 3_650 * 86_400.0
MAX_TASKS = 100_000
MAX_RECENT = 10_000
_MENTIONS_TASK = re.compile(rb'"taskId"')
_logger = logging.getLogger("dragoman.compose")


class _BegunTask(Struct, rename="camel"):
    task_id: str = ""
    ttl: Any = None
    ttl_ms: Any = None
    task: _BegunTask | None = None
    """The task itself in a result of 2025-11-25; a result of 2026-07-28 is the task."""

    @property
    def seconds(self) -> float:
        """How long the task is kept."""
        given = self.ttl if self.ttl_ms is None else self.ttl_ms
        return max(1.0, min(given, MAX_SECONDS * 1000) / 1000) if isinstance(given, int | float) else TASK_SECONDS


_begun = msgspec.json.Decoder(_BegunTask)


class TaskOwners:
    """The principals of the tasks of one proxy."""

    def __init__(self, server: Server, is_needed: Callable[[Call], bool]) -> None:
        self._server = server
        self._is_needed = is_needed
        """Tells whether the target does not know the caller of a call."""
        self.recent: Recent[str, str | None] = Recent(MAX_RECENT)
        """The principals of tasks that this process has looked up or recorded, by the ids of the tasks."""

    @cached_property
    def _records(self) -> State:
        return self._server.store.state(f"tasks of a proxy\0{self._server.name}", max_values=MAX_TASKS)

    async def passed(self, call: Call, raw: Raw) -> Raw:
        """Return the result of a request; record a task that it begins, and leave the tasks of others out of a list."""
        method = call.request.method.name
        if method == LIST and self._is_needed(call):
            return await self._shown(call, raw)
        if method == "tools/call" and self._is_needed(call):
            await self._record(call, raw)
        return raw

    async def _record(self, call: Call, raw: Raw) -> None:
        if _MENTIONS_TASK.search(raw) is None:
            return
        task = _task(raw)
        if not task.task_id:
            return
        key, principal = _key(task.task_id), encode(call.principal)
        try:
            is_new = await self._records.compare_and_set(key, principal, 0, ttl=task.seconds) is not None
        except StoreError as error:
            _logger.warning("Whose the task %s is cannot be recorded: %s", task.task_id, error)
            is_new = task.task_id not in self.recent
        if is_new:
            self.recent[task.task_id] = call.principal

    async def require(self, call: Call, params: RawObject) -> None:
        """Refuse a request about a task of another principal.

        Raises:
            InvalidParams: the task is not one of the caller's, or the id is not a string.
        """
        if call.request.method.name not in ABOUT_TASKS or not self._is_needed(call):
            return
        if not await self._is_owner(call, msgspec.json.decode(params.get("taskId", b"null"))):
            raise InvalidParams("There is no such task, or it has expired")

    async def _shown(self, call: Call, raw: Raw) -> Raw:
        fields: dict[str, Any] = raw_object(raw)
        tasks = msgspec.json.decode(fields.get("tasks", b"[]"), type=list[Raw])
        shown = [task for task in tasks if await self._is_owner(call, _task(task).task_id)]
        return Raw(encode({**fields, "tasks": shown}))

    async def heard(self, call: Call, params: RawObject) -> RawObject:
        """Return the parameters of `subscriptions/listen` without the tasks of other principals."""
        wanted: dict[str, Any] = raw_object(params.get("notifications", b""))
        if not self._is_needed(call) or "taskIds" not in wanted:
            return params
        ids = msgspec.json.decode(wanted["taskIds"], type=list[str])
        wanted["taskIds"] = [id for id in ids if await self._is_owner(call, id)]
        return {**params, "notifications": Raw(encode(wanted))}

    async def _is_owner(self, call: Call, id: Any) -> bool:
        if call.channel.carrier is not None:
            return True  # the user of this process can reach the target without the proxy
        if not isinstance(id, str):
            return False  # the target may take ["a"] for "a"
        if id not in self.recent:
            try:
                found = await self._records.get(_key(id))
            except StoreUnreadable:
                return False  # it was recorded with another secret, so nobody knows whose it is
            if found is None:
                return call.principal is None
            self.recent[id] = msgspec.json.decode(found.value)
        return self.recent[id] == call.principal


def _task(raw: Raw) -> _BegunTask:
    try:
        begun = _begun.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _BegunTask()
    return begun.task or begun


def _key(id: str) -> str:
    return sha256(id.encode()).hexdigest()
