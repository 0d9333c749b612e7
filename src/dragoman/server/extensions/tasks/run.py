"""`TaskRun`: runs one task in this process while the process holds the lease of the task.

A run has these states:

    running    the handler runs; the lease is renewed at a third of its time
    settling   the handler has ended a round, and its outcome is written: a result, an error, or questions
    over       the outcome is written, or the task was given back, or another process has ended or claimed the task

The run writes with the fencing token of its claim. A refused write means that another process has ended or claimed the
task. The handler is then cancelled, and nothing of the run is kept.

A step is written before it begins. A process may be paused between the write and the answer of the store, and another
process may claim the task meanwhile. So a step begins only while the lease lasts by the clock of this process, or after
the store has renewed it. A paused process thus begins no step of a task that it lost; the step that ran when the
process was paused goes on to its next await.

If the store cannot be reached the handler goes on, and each write waits until the store is back.

Rejected: a task of the loop that looks after all runs. One slow answer of the store would delay every renewal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Raw

from dragoman import types
from dragoman.errors import InternalError, RpcError, StoreError, StoreFull, StoreUnavailable, ValidationError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import related
from dragoman.runtime.tasks import call_in_loop, cancel_and_wait
from dragoman.server.extensions.tasks.book import WAY_BACK, TaskBook, encoded
from dragoman.server.extensions.tasks.stored import StoredTask, TaskEntry
from dragoman.stores.contract import TaskPhase

if TYPE_CHECKING:
    from dragoman.server.request.asking import OnStep
    from dragoman.server.request.detached import DetachedCall, OnProgress

MAX_RESULT_BYTES = 8 * 1024 * 1024
MAX_ROUNDS = 1000
"""How often the handler of a task may run again to ask."""
STATUS_SECONDS = 0.5
"""The shortest time between two writes of a status message."""
GUARD_SECONDS = 0.1
"""The age at which a run begins to renew its lease and to watch its task; a shorter run ends without that."""
MAY_HAVE_RUN = "The process that ran the task was lost; the tool may have run"
STOPPED = "The server was stopped while the tool ran; the tool may have run"

RunTool = Callable[["DetachedCall", str, "OnProgress", "OnStep"], Awaitable[types.Result | types.Json]]
"""Runs the tool of a call as the task of an id."""
Reason = Literal["lost", "drained"]
_logger = logging.getLogger("dragoman.server.tasks")


class TaskRun:
    """One run of a task.

    Example:
        run = TaskRun(book, entry, lease=30, can_repeat=True)
        await run.serve(run_tool)
    """

    def __init__(
        self,
        book: TaskBook,
        entry: TaskEntry,
        *,
        lease: float,
        can_repeat: bool,
    ) -> None:
        self.id = entry.id
        self._book = book
        self._record, self._task = entry
        self._lease = lease
        self._held_until = asyncio.get_running_loop().time() + lease
        """The time of this loop until which no other process can claim the task."""
        self._can_repeat = can_repeat
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        self._handling: asyncio.Task[types.Result | types.Json] | None = None
        """The task that awaits the handler; None while the run settles."""
        self._stopped: Reason | None = None
        self._helping: list[asyncio.Task[None]] = []
        """The tasks that renew the lease, watch the task, and write status messages."""
        self._has_news = False
        """Whether there is a status message or progress that is not written yet."""
        self._is_telling = False

    def __repr__(self) -> str:
        return f"<TaskRun {self.id}>"

    def stop(self, reason: Reason) -> None:
        """Cancel the handler; a run that settles is not stopped."""
        if self._handling is not None and self._stopped is None:
            self._stopped = reason
            self._handling.cancel()

    async def serve(self, run_tool: RunTool) -> None:
        """Run the task until it has ended or waits for answers, or until the run is stopped."""
        timer = self._loop.call_later(min(GUARD_SECONDS, self._lease / 6), self._start_guards)
        try:
            for _ in range(MAX_ROUNDS):
                outcome = await self._outcome(run_tool)
                if outcome is None:
                    return await self._give_up()
                if isinstance(outcome, types.InputRequiredResult) and not outcome.input_requests:
                    continue  # the handler wants to run again, with a state
                return await self._settle(outcome)
            self._task.fail(InternalError(f"The tool asked in {MAX_ROUNDS} rounds without coming to an end"))
            await self._write("finished")
        finally:
            timer.cancel()
            for task in self._helping:
                await cancel_and_wait(task)

    def _start_guards(self) -> None:
        self._helping += [self._loop.create_task(guard) for guard in (self._renew(), self._watch())]

    async def _outcome(self, run_tool: RunTool) -> types.Result | types.Json | RpcError | None:
        """Run the handler once; return its result or its error, or None if the run was stopped."""
        self._handling = self._loop.create_task(self._handle(run_tool))
        try:
            await asyncio.wait([self._handling])
            return self._handling.result()
        except RpcError as error:
            return error
        except asyncio.CancelledError:
            if self._stopped is not None:
                return None
            await cancel_and_wait(self._handling)
            raise
        except Exception:
            _logger.exception("The task %s could not be run", self.id)
            return InternalError("The task could not be run; the log of the server says why")
        finally:
            self._handling = None

    async def _handle(self, run_tool: RunTool) -> types.Result | types.Json:
        assert self._task.call is not None
        return await run_tool(self._task.call, self.id, self._note_progress, self._note_step)

    async def _settle(self, outcome: types.Result | types.Json | RpcError) -> None:
        task = self._task
        task.step = None
        phase: TaskPhase = "finished"
        try:
            if isinstance(outcome, types.InputRequiredResult):
                task.ask(outcome.input_requests or {})
                phase = "parked"
            elif isinstance(outcome, RpcError):
                task.fail(outcome)
            else:
                _complete(task, self.id, outcome)
            await self._write(phase)
        except Exception as error:
            # Whatever cannot be written ends the task. Otherwise the task would count as lost, and the tool run again.
            if not isinstance(error, StoreError | ValidationError):
                _logger.exception("The outcome of the task %s could not be stored", self.id)
            reason = f" {error}" if isinstance(error, StoreError | ValidationError) else ""
            task.result, task.progress = msgspec.UNSET, None
            task.fail(InternalError(f"The outcome of the task could not be stored.{reason}"))
            await self._write("finished")

    async def _give_up(self) -> None:
        """End a run that was stopped: give the task back, or end it, if it is still ours."""
        if self._stopped == "lost":
            return
        if self._can_repeat:
            await self._book.insist(partial(self._book.tasks.release, self.id, self._record.token))
        else:
            self._task.fail(InternalError(STOPPED))
            await self._write("finished")

    async def _write(self, phase: TaskPhase | None = None) -> bool:
        """Write the task, and tell whether the task is still ours; while the store is away, wait for it."""
        async with self._writing:
            return await self._book.insist(partial(self._try_to_write, phase))

    async def _try_to_write(self, phase: TaskPhase | None) -> bool:
        self._task.updated_at = await self._book.now()
        revision, token = self._record.revision, self._record.token
        record = await self._book.write(self.id, self._task, phase, revision=revision, token=token)
        if record is None:
            return await self._find_again(phase)
        self._record = record
        return True

    async def _find_again(self, phase: TaskPhase | None) -> bool:
        """Handle a refused write: it is ours if the store made the change and its answer was lost."""
        record = await self._book.tasks.get(self.id)
        if record is None or record.token != self._record.token:
            return self._lose()
        if record.phase == (phase or "running"):
            self._record = record
            if phase is None and record.value != encoded(self._task):
                return await self._try_to_write(phase)
            return True
        if record.phase == "running":
            self._record = record
            return await self._try_to_write(phase)
        return self._lose()

    def _lose(self) -> bool:
        self.stop("lost")
        return False

    async def _note_step(self, name: str, raw: Raw | None) -> None:
        """Write that a step begins, or that it is done; the handler of a lost task goes no further."""
        self._task.step = name if raw is None else None
        is_ours = await self._write()
        while is_ours and raw is None and self._loop.time() >= self._held_until:
            is_ours = await self._book.insist(self._renew_once) or self._lose()
        if not is_ours:
            await self._loop.create_future()  # until the handler is cancelled

    def _note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        call_in_loop(self._loop, self._note_news, progress, total, message)

    def _note_news(self, progress: float, total: float | None, message: str | None) -> None:
        if self._handling is not None and self._task.note(progress, total, message):
            self._has_news = True
            if not self._is_telling:
                self._is_telling = True
                self._helping.append(self._loop.create_task(self._write_news()))

    async def _write_news(self) -> None:
        """Write the first status message and progress at once, and then the newest ones from time to time."""
        while True:
            if self._has_news and self._handling is not None:
                self._has_news = False
                try:
                    await self._write()
                except StoreFull as error:
                    self._task.message = self._task.progress = None  # the result may need the room
                    _logger.warning("The status of the task %s could not be stored: %s", self.id, error)
            await asyncio.sleep(STATUS_SECONDS)

    async def _renew_once(self) -> bool:
        asked_at = self._loop.time()
        is_held = await self._book.tasks.renew(self.id, self._record.token, self._lease)
        if is_held:
            self._held_until = asked_at + self._lease
        return is_held

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            if not await self._book.insist(self._renew_once):
                _logger.warning("The task %s is not this process's any more; its tool is cancelled", self.id)
                return self.stop("lost")

    async def _watch(self) -> None:
        """Stop the run when another process has ended or claimed the task."""
        while True:
            try:
                async with aclosing(self._book.watch(self.id)) as changes:
                    async for _ in changes:
                        record = await self._book.tasks.get(self.id)
                        if record is None or record.phase == "finished" or record.token != self._record.token:
                            return self.stop("lost")
            except StoreUnavailable:
                await asyncio.sleep(WAY_BACK[1])


def _complete(task: StoredTask, id: str, result: types.Result | types.Json) -> None:
    """End a task with a result, which may be too large."""
    value = encode(result)
    is_error = result.get("isError") if isinstance(result, dict) else getattr(result, "is_error", None)
    is_failed = bool(is_error) and task.generation == 1
    if task.generation == 1:
        # MUST (2025-11-25): the result of `tasks/result` names its task in `_meta`.
        given: types.Json = msgspec.json.decode(value)
        value = encode({**given, "_meta": related(id, given.get("_meta"))})
    if len(value) > MAX_RESULT_BYTES:
        limit = f"a task keeps at most {MAX_RESULT_BYTES}"
        task.fail(InternalError(f"The result of the tool has {len(value)} bytes; {limit}: return a link to it"))
        return
    task.result = Raw(value)
    task.end("failed" if is_failed else "completed")
