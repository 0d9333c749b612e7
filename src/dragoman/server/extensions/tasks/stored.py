"""`StoredTask`: a task as the server keeps it in its store, and its forms on the wire.

A task has these statuses:

    working          the tool runs, or waits for a process that runs it
    input_required   the tool has asked; no process holds the task until every question is answered
    completed, failed, cancelled   final: the result or the error is kept, and what the tool was called with is dropped

The keys of questions are unique for the life of a task. The recording of the handler's runs may use a key again, for
another question. So a task gives each question a key of its own, and keeps which key of the recording it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from dragoman import types
from dragoman.errors import RpcError
from dragoman.protocol.official.tasks import TERMINAL, Generation
from dragoman.server.request.detached import DetachedCall
from dragoman.stores.contract import TaskRecord, TaskSummary
from dragoman.types.tasks import CreatedTask, DetailedTask, Task, TaskStatus

MAX_LISTED_MESSAGE = 1000
"""The characters of a status message that `tasks/list` shows; whole messages would make a list of any size."""


class AskedInput(Struct):
    """A question of a task that waits for its answer."""

    key: str
    """The key of the question in the recording."""
    request: types.InputRequest


class StoredProgress(Struct, array_like=True):
    """The progress that a tool reported last."""

    progress: float
    total: float | None
    message: str | None


class TaskOverview(Struct, kw_only=True, omit_defaults=True):
    """The part of a task that `tasks/list` needs; the store keeps it apart from the rest, which may be large."""

    tool: str
    scopes: list[str] = field(default_factory=list)
    """The scopes of the tool when the task was created."""
    has_visibility: bool = False
    """Whether only some callers saw the tool when the task was created."""
    ttl: float | None = None
    poll: float | None = None
    status: TaskStatus = "working"
    message: str | None = None
    updated_at: float | None = None
    """The time of the last change; None before the first."""


class StoredTask(TaskOverview, kw_only=True, omit_defaults=True):
    """A task as the store keeps it; JSON encodes and decodes it."""

    generation: Generation
    signature: str
    """A digest of the tool's parameters; a task runs only if the tool has the same ones."""
    principal: str | None = None
    call: DetachedCall | None = None
    """The call that the task runs; None once the task has ended."""
    progress_token: types.ProgressToken | None = None
    """The token of the call of 2025-11-25; it is valid until the task has ended."""
    progress: StoredProgress | None = None
    """The newest progress, if the call has a token."""
    asked: dict[str, AskedInput] = field(default_factory=dict)
    """The questions that wait for an answer, by key."""
    used_keys: list[str] = field(default_factory=list)
    step: str | None = None
    """The step that has begun and is not done."""
    losses: int = 0
    """How often the process that ran the task was lost."""
    result: Raw | UnsetType = UNSET
    error: types.Json | None = None

    @property
    def summary(self) -> bytes:
        """The summary that the store keeps of the task."""
        fields = {name: getattr(self, name) for name in TaskOverview.__struct_fields__}
        message = None if self.message is None else self.message[:MAX_LISTED_MESSAGE]
        return msgspec.json.encode(TaskOverview(**fields | {"message": message}))

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self.status in TERMINAL

    def note(self, progress: float, total: float | None, message: str | None) -> bool:
        """Note what the tool reports, and tell whether that changes the task; progress only increases, in all runs."""
        if message is not None:
            message = self.message = message.encode(errors="replace").decode()  # a lone surrogate would spoil the write
        is_further = self.progress is None or progress > self.progress.progress
        if self.progress_token is not None and is_further:
            self.progress = StoredProgress(progress, total, message)
            return True
        return message is not None

    def ask(self, requests: Mapping[str, types.InputRequest]) -> None:
        """Let the task wait for answers to questions; `requests` has the keys of the recording."""
        for key, request in requests.items():
            self.asked[self._unused_key(key)] = AskedInput(key, request)
        self.status = "input_required"

    def _unused_key(self, key: str) -> str:
        unused, number = key, 1
        while unused in self.used_keys:
            number += 1
            unused = f"{key}-{number}"
        self.used_keys.append(unused)
        return unused

    def answer(self, responses: Mapping[str, Raw]) -> bool:
        """Record the answers to questions that wait, and tell whether there were any.

        An answer to no waiting question is ignored. The task goes on when no question is left.
        """
        taken = [key for key in responses if key in self.asked]
        if not taken or self.call is None:
            return False
        self.call.recording.answer({self.asked.pop(key).key: responses[key] for key in taken})
        if not self.asked:
            self.status = "working"
        return True

    def end(self, status: TaskStatus, *, message: str | None = None) -> None:
        """End the task; what its tool was called with is dropped."""
        self.status, self.message = status, self.message if message is None else message
        self.call, self.step, self.asked = None, None, {}

    def fail(self, error: RpcError) -> None:
        """End the task with an error."""
        self.error = {"code": error.code, "message": error.message}
        if error.data is not UNSET:
            self.error["data"] = error.data
        self.end("failed", message=error.message)


_decoder = msgspec.json.Decoder(StoredTask)
_overview_decoder = msgspec.json.Decoder(TaskOverview)


class TaskEntry(NamedTuple):
    """A task, and the record in which the store keeps it."""

    record: TaskRecord
    task: StoredTask

    @classmethod
    def read(cls, record: TaskRecord) -> TaskEntry | None:
        """Return the task of a record; None if another release of the server wrote it in another form."""
        try:
            return cls(record, _decoder.decode(record.value))
        except msgspec.DecodeError:
            return None

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.record.id

    def created(self) -> CreatedTask:
        """Return the task as 2026-07-28 has it in the result of a call."""
        return CreatedTask(**self._common, result_type="task")

    def detailed(self) -> DetailedTask:
        """Return the task as 2026-07-28 has it in `tasks/get`."""
        task = self.task
        requests = {key: asked.request for key, asked in task.asked.items()}
        return DetailedTask(**self._common, input_requests=requests or None, result=task.result, error=task.error)

    def plain(self) -> Task:
        """Return the task as 2025-11-25 has it."""
        return _plain(self.record, self.task)

    @property
    def _common(self) -> types.Json:
        return _common(self.record, self.task)


class ListedTask(NamedTuple):
    """A task of a list, and the summary that the store keeps of it."""

    record: TaskSummary
    task: TaskOverview

    @classmethod
    def read(cls, record: TaskSummary) -> ListedTask | None:
        """Return the task of a summary; None if another release of the server wrote it in another form."""
        try:
            return cls(record, _overview_decoder.decode(record.summary))
        except msgspec.DecodeError:
            return None

    def plain(self) -> Task:
        """Return the task as 2025-11-25 has it."""
        return _plain(self.record, self.task)


def _plain(record: TaskRecord | TaskSummary, task: TaskOverview) -> Task:
    common = _common(record, task)
    ttl, poll_interval = common.pop("ttl_ms"), common.pop("poll_interval_ms")
    return Task(**common, ttl=ttl, poll_interval=poll_interval)


def _common(record: TaskRecord | TaskSummary, task: TaskOverview) -> types.Json:
    return {
        "task_id": record.id,
        "status": task.status,
        "status_message": task.message,
        "created_at": _timestamp(record.created_at),
        "last_updated_at": _timestamp(max(task.updated_at or 0, record.created_at)),
        "ttl_ms": _milliseconds(task.ttl),
        "poll_interval_ms": _milliseconds(task.poll),
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1000))


def _timestamp(seconds: float) -> str:
    """Return a time since the epoch as the wire has it: ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
