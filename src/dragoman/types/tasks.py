"""The types of tasks: the experimental tasks of 2025-11-25, and the extension of 2026-07-28.

The two generations are not compatible. `Task`, `CreateTaskResult`, `ListTasksResult` and `TaskMetadata` belong to
2025-11-25; `CreatedTask`, `DetailedTask` and `UpdateTaskRequestParams` to 2026-07-28.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.types.inputs import InputRequest
from dragoman.types.wire import Json, PaginatedResult, Params, Result, Wire

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskMetadata(Wire):
    """The request to run this request as a task, with its time to live."""

    ttl: int | None = None


class RelatedTaskMetadata(Wire):
    """The task that a message belongs to."""

    task_id: str


class Task(Result):
    """The state of a task, as a field, a whole result or the parameters of a notification; `ttl` null is unlimited."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


class CreateTaskResult(Result):
    """The task that runs a request."""

    task: Task


class ListTasksResult(PaginatedResult):
    """A page of tasks."""

    tasks: list[Task]


class TaskRequestParams(Params):
    """The task to get, to get the result of, or to cancel."""

    task_id: str


class CreatedTask(Result):
    """The task that runs a request (2026-07-28, `resultType` "task"); `ttlMs` null is unlimited."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None


class DetailedTask(CreatedTask):
    """The state of a task, as a result or the parameters of a notification (2026-07-28).

    Its status decides which field it has: `input_requests`, `result` or `error`.
    """

    input_requests: dict[str, InputRequest] | None = None
    result: Raw | UnsetType = UNSET
    """The result that the request would have had; it stays encoded until a later decoder reads it."""
    error: Json | None = None
    """The code, the message and the data of a JSON-RPC error."""


class UpdateTaskRequestParams(TaskRequestParams):
    """Answers to input requests of a task, by key (2026-07-28)."""

    input_responses: dict[str, Raw]
