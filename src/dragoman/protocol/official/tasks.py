"""Tasks: the rows of both generations, and the words that servers and clients share.

The first generation is the experimental `tasks` of 2025-11-25. A client asks for a task by `params.task`, both sides
declare `capabilities.tasks`, and either side may run requests of the other as tasks. The second generation is the
extension `io.modelcontextprotocol/tasks` of 2026-07-28. The server alone decides which calls become tasks.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.methods import CONTENT_URIS, Method, Side
from dragoman.protocol.subscriptions import SubscriptionField
from dragoman.protocol.versions import V2025_11_25, V2026_07_28
from dragoman.types.tasks import (
    DetailedTask,
    ListTasksResult,
    Task,
    TaskMetadata,
    TaskRequestParams,
    TaskStatus,
    UpdateTaskRequestParams,
)
from dragoman.types.tools import ToolExecution

ID = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
"""The key of `_meta` that names the task to which a message belongs (2025-11-25)."""
TASK = "task"
"""The `resultType` of a call that became a task (2026-07-28)."""
GET, RESULT, LIST, UPDATE, CANCEL = "tasks/get", "tasks/result", "tasks/list", "tasks/update", "tasks/cancel"
STATUS_CHANGED = "notifications/tasks/status"
"""The notification of 2025-11-25; its parameters are a `Task`."""
TASK_CHANGED = "notifications/tasks"
"""The notification of 2026-07-28; its parameters are a `DetailedTask`."""
TERMINAL: frozenset[TaskStatus] = frozenset({"completed", "failed", "cancelled"})
"""The statuses that never change."""

Generation = Literal[1, 2]


class TaskAugmented(Struct, rename="camel", omit_defaults=True):
    """The parameter of a request of 2025-11-25 that is to run as a task."""

    task: TaskMetadata | None = None


class TaskSupporting(Struct, rename="camel", omit_defaults=True):
    """The field of a tool of 2025-11-25 that says whether the tool runs as a task."""

    execution: ToolExecution | None = None


_EITHER: tuple[Side, ...] = ("client", "server")
_about_task = partial(Method, params=TaskRequestParams, owner_from=GET)
_FIRST = ExtensionRow(
    id=ID,
    capability=("tasks",),
    since=V2025_11_25,
    until=V2025_11_25,
    methods=(
        _about_task(name=GET, result=Task, sender=_EITHER, repeatable=True),
        _about_task(name=RESULT, result=types.Result, sender=_EITHER, repeatable=True, uris=CONTENT_URIS),
        Method(name=LIST, params=types.PaginatedRequestParams, result=ListTasksResult, sender=_EITHER, repeatable=True),
        _about_task(name=CANCEL, result=Task, sender=_EITHER),
        Method(name=STATUS_CHANGED, sender=_EITHER),
    ),
    params={
        "tools/call": TaskAugmented,
        "sampling/createMessage": TaskAugmented,
        "elicitation/create": TaskAugmented,
    },
    entries={"tools/list": TaskSupporting},
)
_OPERATIONS: types.Json = {"list": {}, "cancel": {}}
FIRST_OF_SERVERS = msgspec.structs.replace(_FIRST, settings={**_OPERATIONS, "requests": {"tools": {"call": {}}}})
"""The row of 2025-11-25, as a server declares it."""
FIRST_OF_CLIENTS = msgspec.structs.replace(
    _FIRST,
    settings={**_OPERATIONS, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
    result_types={TASK: ("tools/call",)},
)
"""The row of 2025-11-25, as a client declares it."""
# MUST (2026-07-28): clients send `Mcp-Name` with the id of the task. Widely used clients leave it out.
_about_named_task = partial(_about_task, name_from="taskId", name_optional=True, repeatable=True)
_RESULT_URIS = tuple(f"result.{path}" for path in CONTENT_URIS)
SECOND = ExtensionRow(
    id=ID,
    since=V2026_07_28,
    methods=(
        _about_named_task(name=GET, result=DetailedTask, uris=_RESULT_URIS),
        _about_named_task(name=UPDATE, params=UpdateTaskRequestParams, result=types.Result),
        _about_named_task(name=CANCEL, result=types.Result),
        Method(name=TASK_CHANGED, sender=("server",), uris=_RESULT_URIS),
    ),
    result_types={TASK: ("tools/call",)},
    subscriptions=(SubscriptionField(name="task_ids", method=TASK_CHANGED),),
)
"""The row of 2026-07-28, which both sides declare alike."""


def related(task_id: str, meta: types.Json | None = None) -> types.Json:
    """Return the `_meta` of a message that belongs to a task of 2025-11-25; `meta` is kept."""
    return {**(meta or {}), RELATED_TASK: {"taskId": task_id}}
