"""`TaskRunner`: runs tasks in one process and loop; it claims those that no process runs.

The runner begins and ends with serving. It runs the tasks that its own process makes at once. It claims a task that an
answer made ready, that another process gave back, or whose process was lost. When serving ends it claims nothing more,
lets its runs end within some seconds, and gives back the tasks of the others.

A task whose process was lost runs again only if its author allows it. Otherwise it fails, because its tool may have
done its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from dragoman.errors import InternalError, InvalidParams, StoreError, StoreFull, StoreUnavailable
from dragoman.runtime.backoff import backoff
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.server.extensions.tasks.book import WAY_BACK, TaskBook
from dragoman.server.extensions.tasks.options import LEASE
from dragoman.server.extensions.tasks.run import MAY_HAVE_RUN, RunTool, TaskRun
from dragoman.server.extensions.tasks.stored import StoredTask, TaskEntry
from dragoman.stores.contract import TaskPhase, TaskRecord

T = TypeVar("T")
MAX_RUNS = 1000
"""How many tasks one process runs at a time."""
DRAIN_SECONDS = 5.0
"""How many seconds running tasks have to end when serving ends."""
GIVE_BACK_SECONDS = 3.0
"""How many seconds the tasks of the others have to be given back."""
SWEEP_SECONDS = 60.0
FOREIGN_SECONDS = 1.0
"""The pause after a task was given back that this process cannot read."""
_logger = logging.getLogger("dragoman.server.tasks")


class RunnableTool(NamedTuple):
    """What the runner needs to know of a tool."""

    signature: str
    lease: float
    retries: int


FindTool = Callable[[str], RunnableTool | None]


class TaskRunner:
    """Runs the tasks of one server in one loop."""

    def __init__(self, book: TaskBook, find_tool: FindTool, run_tool: RunTool, shortest_lease: Callable[[], float]):
        self._book = book
        self._find_tool = find_tool
        self._run_tool = run_tool
        self._shortest_lease = shortest_lease
        self._loop = asyncio.get_running_loop()
        self._runs: dict[str, TaskRun] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._claiming = self._loop.create_task(self._claim_tasks())
        self._swept_at = self._loop.time()
        self._is_closing = False

    @property
    def has_room(self) -> bool:
        """Whether this process may run one more task."""
        return not self._is_closing and len(self._runs) < MAX_RUNS

    def start(self, entry: TaskEntry, tool: RunnableTool) -> None:
        """Run a task that this process has claimed."""
        run = TaskRun(self._book, entry, lease=tool.lease, can_repeat=tool.retries > 0)
        self._runs[entry.id] = run
        serving = self._loop.create_task(self._serve(run))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    def stop(self, id: str) -> None:
        """Cancel the tool of a task that has ended, if this process runs it."""
        if id in self._runs:
            self._runs[id].stop("lost")

    async def close(self) -> None:
        """Claim no more tasks, let the running ones end, and give back those that do not."""
        self._is_closing = True
        await cancel_and_wait(self._claiming)
        if self._serving:
            await asyncio.wait(self._serving, timeout=DRAIN_SECONDS)
        for run in self._runs.values():
            run.stop("drained")
        if self._serving:
            await asyncio.wait(self._serving, timeout=GIVE_BACK_SECONDS)
        for serving in list(self._serving):
            await cancel_and_wait(serving)

    async def _serve(self, run: TaskRun) -> None:
        try:
            await run.serve(self._run_tool)
        except Exception:
            _logger.exception("The task %s could not be run to its end", run.id)
        finally:
            if self._runs.get(run.id) is run:  # else this process lost the task, and has claimed it again
                del self._runs[run.id]

    async def _claim_tasks(self) -> None:
        """Claim tasks while there is room, forever."""
        failures = 0
        while True:
            try:
                pause = self._shortest_lease() / 3
                await self._book.tasks.wait(pause)
                foreign = await self._claim_ready()
                await self._sweep()
                failures = 0
                if foreign:
                    await asyncio.sleep(FOREIGN_SECONDS)
            except StoreUnavailable:
                await asyncio.sleep(backoff(failures, *WAY_BACK))
                failures += 1
            except StoreError as error:
                _logger.warning("Tasks cannot be claimed: %s", error)
                await asyncio.sleep(WAY_BACK[1])

    async def _sweep(self) -> None:
        if self._loop.time() - self._swept_at > SWEEP_SECONDS:
            self._swept_at = self._loop.time()
            await self._book.tasks.sweep()

    async def _claim_ready(self) -> bool:
        """Claim all tasks that there is room for; tell whether some are of others, which this process cannot read.

        A task of others keeps its lease until the rest is claimed. Otherwise it would be claimed again and again.
        """
        foreign: list[TaskRecord] = []
        try:
            while self.has_room and await self._finish(self._claim(foreign)):
                pass
        finally:
            for record in foreign:
                await self._finish(self._give_back(record))
        return bool(foreign)

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await some work to its end, for some seconds also if the runner closes.

        A claimed task that nobody runs counts as lost.
        """
        working = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working], timeout=GIVE_BACK_SECONDS)
            await cancel_and_wait(working)
            raise

    async def _give_back(self, record: TaskRecord) -> None:
        """Give back a task that another release or other keys wrote; one that was lost stays lost."""
        tasks = self._book.tasks
        if record.was_lost:
            await self._until_the_lease_ends(partial(tasks.renew, record.id, record.token, FOREIGN_SECONDS))
        else:
            await self._until_the_lease_ends(partial(tasks.release, record.id, record.token))

    async def _until_the_lease_ends(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask the store about a claimed task while the claim lasts, because nobody else can."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEASE):
                await self._book.insist(ask)

    async def _claim(self, foreign: list[TaskRecord]) -> bool:
        """Claim a task, and run it or end it; tell whether there was one. A task of others is added to `foreign`."""
        record = await self._book.tasks.claim(LEASE)
        if record is None:
            return False
        entry = TaskEntry.read(record)
        if entry is None:
            foreign.append(record)
        elif (problem := _problem(entry, self._find_tool(entry.task.tool))) is not None:
            await self._until_the_lease_ends(partial(self._fail, entry, problem))
        else:
            entry.task.losses += record.was_lost
            await self._until_the_lease_ends(partial(self._take, entry))
        return True

    async def _fail(self, entry: TaskEntry, problem: str) -> None:
        try:
            found = await self._book.find(entry.id, entry.task.principal)
            await self._book.change(found, partial(_fail, problem))
        except InvalidParams:
            return  # the task has expired
        except InternalError as error:
            _logger.warning("The task %s could not be ended: %s", entry.id, error)

    async def _take(self, entry: TaskEntry) -> None:
        """Run a claimed task, unless it has ended; a loss of its process is written before the tool runs again."""
        record, task = entry
        tool = self._find_tool(task.tool)
        if tool is None or not await self._book.tasks.renew(record.id, record.token, tool.lease):
            return
        if record.was_lost:
            task.message = "The process that ran the task was lost; the tool runs again"
            task.updated_at = await self._book.now()
            try:
                written = await self._book.write(record.id, task, None, revision=record.revision, token=record.token)
            except StoreFull as error:
                await self._fail(entry, str(error))
                return
            # A refused change may be our own, if the store made it and its answer was lost.
            found = written or await self._book.tasks.get(record.id)
            if found is None or found.token != record.token or found.phase != "running":
                return
            record = found
        self.start(TaskEntry(record, task), tool)


def _fail(problem: str, task: StoredTask) -> TaskPhase:
    task.fail(InternalError(problem))
    return "finished"


def _problem(entry: TaskEntry, tool: RunnableTool | None) -> str | None:
    """Return why a claimed task cannot run; None if it can."""
    task = entry.task
    if tool is None:
        return f"The tool {task.tool!r} does not exist any more"
    if tool.signature != task.signature:
        return (
            f"The parameters of the tool {task.tool!r} changed before the task ran: they had the digest"
            f" {task.signature}, and have {tool.signature}"
        )
    if entry.record.was_lost and task.losses >= tool.retries:
        step = "" if task.step is None else f", up to or including the step {task.step!r}"
        return f"{MAY_HAVE_RUN}{step}"
    return None
