"""`FollowedTask`: what this client knows of one task of a server, and how it follows the task to its end.

A client polls the task at the interval that the server asks for; without one it waits 250 ms, and twice as long each
time, up to 5 seconds. A notification of the task ends the wait. While the server has acknowledged a subscription to the
task, the client polls only every 15 seconds, because a lost notification would leave the call without an end.

The statuses are those of the specification: `working` and `input_required` follow each other, and `completed`, `failed`
and `cancelled` are final. What arrives after a final status is ignored.

In 2026-07-28 the questions of a task are in its state, and the client answers each key once. In 2025-11-25 the
questions are requests of the server, which may need an open `tasks/result` to send them. The client opens one when the
task asks. One from the beginning was rejected: it holds a connection for as long as the task runs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from dragoman import types
from dragoman.client.extensions.contract import ExtensionClient
from dragoman.errors import (
    AuthError,
    Cancelled,
    DragomanError,
    HttpError,
    InvalidParams,
    NotFound,
    RpcError,
    Timeout,
    TransportError,
    ValidationError,
)
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import CANCEL, GET, RESULT, TERMINAL, UPDATE, Generation
from dragoman.protocol.versions import V2025_11_25
from dragoman.runtime.tasks import cancel_and_wait, retrieve_exception
from dragoman.types import decode
from dragoman.types.tasks import TaskStatus
from dragoman.types.wire import Wire

FIRST_PAUSE, MAX_PAUSE, SHORTEST_PAUSE = 0.25, 5.0, 0.02
SUBSCRIBED_PAUSE = 15
UNLIMITED_SECONDS = 30 * 86_400.0
"""The time-out of `tasks/result`, which waits as long as the task runs."""


class TaskFailure(Wire):
    """The JSON-RPC error of a task that failed (2026-07-28)."""

    code: int
    message: str
    data: Any = UNSET


class TaskState(Wire):
    """The state of a task in either generation; durations are in milliseconds, as the server sends them."""

    task_id: str
    status: TaskStatus
    created_at: str = ""
    last_updated_at: str = ""
    ttl: int | None = None
    ttl_ms: int | None = None
    poll_interval: int | None = None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: dict[str, types.InputRequest] | None = None
    result: types.Json | None = None
    error: TaskFailure | None = None

    @property
    def ttl_seconds(self) -> float | None:
        """The seconds that the server keeps the task, from its creation; None without a limit."""
        ttl = self.ttl if self.ttl_ms is None else self.ttl_ms
        return None if ttl is None else ttl / 1000

    @property
    def poll_seconds(self) -> float | None:
        """The seconds to wait between two polls; None if the server does not say."""
        poll = self.poll_interval if self.poll_interval_ms is None else self.poll_interval_ms
        return None if poll is None else poll / 1000

    @classmethod
    def read(cls, fields: types.Json) -> TaskState:
        """Read a state from the fields of a message.

        Raises:
            ValidationError: the fields are not those of a task.
        """
        return decode(encode(fields), cls)


def generation_of(client: ExtensionClient) -> Generation:
    """Return the generation of tasks that a connection uses."""
    return 1 if client.protocol_version == V2025_11_25.name else 2


class FollowedTask:
    """One task of a server, which may be polled, followed, answered and cancelled."""

    def __init__(self, client: ExtensionClient, state: TaskState) -> None:
        self._client = client
        self.state = state
        self.generation = generation_of(client)
        self.has_expired = False
        self._changed = asyncio.Event()
        """Set, and replaced, when something about the task may have changed."""
        self._seen_at = asyncio.get_running_loop().time()
        self._asked: dict[str, bytes] = {}
        """The questions that the client's handlers answer or have answered, by key."""

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.state.task_id

    @property
    def has_ended(self) -> bool:
        """Whether the task has a final status, or does not exist any more."""
        return self.has_expired or self.state.status in TERMINAL

    @property
    def _is_known(self) -> bool:
        """Whether the task has ended and its outcome is known, or can be asked for (2025-11-25)."""
        state = self.state
        outcome = state.result if state.status == "completed" else state.error
        is_whole = self.generation == 1 or state.status == "cancelled" or outcome is not None
        return state.status in TERMINAL and is_whole

    def note(self, fields: types.Json) -> None:
        """Note a state that the server sent."""
        if not self._is_known:
            self.state = TaskState.read(fields)
        self.wake()

    def wake(self) -> None:
        """Let everybody who follows the task ask for its state at once."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def refresh(self, patience: float | None = 0) -> None:
        """Ask the server for the state of the task.

        `patience` is how many seconds network errors are retried, None for as long as the server keeps the task.

        Raises:
            NotFound: the task does not exist, or has expired.
        """
        fields = await self._send(GET, patience=patience)
        if fields.get("taskId") != self.id:
            raise ValidationError(f"The server answered {GET} with another task than {self.id!r}")
        if not self._is_known:
            self.state = TaskState.read(fields)
        if self.has_ended:
            self.wake()

    async def follow(self, patience: float | None, report: Callable[[str], object] | None = None) -> None:
        """Follow the task until it has ended, and answer its questions; `report` receives each status message.

        Raises:
            NotFound: the task has expired.
            InputNeeded: the client has no handler for a question.
            TransportError: the server could not be reached for `patience` seconds, or for the life of the task.
        """
        asking: asyncio.Task[types.Json] | None = None
        polls, told, changed = 0, None, self._changed
        try:
            while True:
                if report is not None and self.state.status_message not in (None, told):
                    told = self.state.status_message
                    report(str(told))
                await self._answer_questions(patience)
                if self._is_known:
                    return
                if self._asks_by_result and (asking is None or asking.done()):
                    asking = asyncio.get_running_loop().create_task(self._client.send(*self._result_request()))
                    asking.add_done_callback(self._has_answered)
                if self.state.status not in TERMINAL:  # else only the outcome is missing
                    await self._pause(polls, changed)
                polls, changed = polls + 1, self._changed  # a notification during the poll may be newer than its answer
                if not self._is_known:
                    await self.refresh(patience)
                if self.state.status in TERMINAL and not self._is_known:
                    raise ValidationError(f"The task {self.id!r} is {self.state.status}, and has no outcome")
        finally:
            if asking is not None:
                await cancel_and_wait(asking)

    @property
    def _asks_by_result(self) -> bool:
        return self.generation == 1 and self.state.status == "input_required"

    def _has_answered(self, asking: asyncio.Task[types.Json]) -> None:
        retrieve_exception(asking)
        self.wake()

    def _result_request(self) -> tuple[str, types.Json, float]:
        return RESULT, {"taskId": self.id}, UNLIMITED_SECONDS

    async def _pause(self, polls: int, changed: asyncio.Event) -> None:
        wanted = self.state.poll_seconds
        pause = min(FIRST_PAUSE * 2.0 ** min(polls, 10), MAX_PAUSE) if wanted is None else max(wanted, SHORTEST_PAUSE)
        seconds_left = SUBSCRIBED_PAUSE if self._is_subscribed else 0
        while not changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1 if seconds_left else pause):
                    await changed.wait()
            seconds_left -= 1
            if seconds_left <= 0 or not self._is_subscribed:
                break

    @property
    def _is_subscribed(self) -> bool:
        """Whether the server has acknowledged that it notifies of the task (2026-07-28)."""
        return self.id in (getattr(self._client.acknowledged, "task_ids", None) or ())

    async def _answer_questions(self, patience: float | None) -> None:
        """Answer the questions of the state that have not been answered."""
        asked = (self.state.input_requests or {}) if self.state.status == "input_required" else {}
        said = {key: encode(question) for key, question in asked.items()}
        if any(self._asked.get(key, text) != text for key, text in said.items()):
            raise ValidationError(f"The task {self.id!r} used the key of a question for another question")
        new = {key: question for key, question in asked.items() if key not in self._asked}
        if new:
            self._asked |= {key: said[key] for key in new}  # before they are answered: others may follow the task too
            try:
                responses = await self._client.answer(new)
            except BaseException:
                for key in new:
                    self._asked.pop(key, None)
                raise
            await self.update(responses, patience)

    async def update(self, responses: types.Json, patience: float | None = 0) -> None:
        """Send answers to questions of the task (2026-07-28).

        Raises:
            NotFound: the task has expired.
        """
        await self._send(UPDATE, {"inputResponses": responses}, patience=patience)
        asked = self.state.input_requests or {}
        self._asked |= {key: encode(asked[key]) for key in responses.keys() & asked.keys()}
        self.wake()

    async def cancel(self) -> None:
        """Cancel the task.

        Raises:
            NotFound: the task has expired.
        """
        fields = await self._send(CANCEL)
        if self.generation == 1:
            self.note(fields)

    def cancel_later(self) -> None:
        """Cancel the task, if it has not ended, without waiting for the answer of the server."""
        if not self.has_ended:
            self._client.send_later(CANCEL, {"taskId": self.id})

    async def result(self, patience: float | None = 0) -> types.Json:
        """Return the result of a task that has ended, as the call would have had it.

        Raises:
            Cancelled: the task was cancelled.
            RpcError: the call failed.
        """
        state = self.state
        if state.status == "cancelled":
            raise Cancelled(f"The task {self.id!r} was cancelled")
        if self.generation == 1:
            return await self._send(RESULT, patience=patience, timeout=UNLIMITED_SECONDS)
        if state.error is not None and state.status == "failed":
            raise RpcError.of(state.error.code, state.error.message, state.error.data)
        return state.result or {}

    async def _send(
        self, method: str, params: types.Json | None = None, *, patience: float | None = 0, timeout: float | None = None
    ) -> types.Json:
        """Send a request about the task, again and again while the server cannot be reached."""
        clock = asyncio.get_running_loop().time
        began, attempt = clock(), 0
        while True:
            try:
                return await self._client.send(method, {"taskId": self.id, **(params or {})}, timeout)
            except InvalidParams as error:
                if method != GET:
                    raise
                self.has_expired = True
                raise NotFound("task (it may have expired)", self.id) from error
            except TransportError as error:
                ttl = self.state.ttl_seconds
                ends = [began + patience] if patience is not None else []
                ends += [] if ttl is None else [self._seen_at + ttl]
                if self._client.is_stopped or not _may_pass(error) or clock() > min(ends, default=math.inf):
                    raise
            await asyncio.sleep(min(FIRST_PAUSE * 2.0 ** min(attempt, 10), MAX_PAUSE))
            attempt += 1


def _may_pass(error: DragomanError) -> bool:
    is_refusal = isinstance(error, HttpError) and error.status < 500
    return not is_refusal and not isinstance(error, AuthError | Timeout)
