"""The types of the experimental tasks of 2025-11-25."""

from __future__ import annotations

from typing import Literal

from dragoman.types.wire import PaginatedResult, Params, Result, Wire

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
