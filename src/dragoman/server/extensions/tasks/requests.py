"""`TaskRequests`: answers the requests of clients about their tasks, in both generations.

Every answer comes from the store, so any process answers. A task belongs to the principal that made it. A request of
another principal gets the same error as a request for a task that does not exist. So does a request of the same
principal that could not call the tool of the task, because the tool is hidden from it or not served to it. A request
whose token lacks a scope of the tool is refused as a call of the tool is (`TaskGate`).

In 2025-11-25 a client reads the result of a task by `tasks/result`, which waits for the end of the task. The questions
of the task are requests to the client, sent while such a `tasks/result` waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial

import msgspec
from msgspec import UNSET, Raw

from dragoman import types
from dragoman.errors import InsufficientScope, InternalError, InvalidParams, RpcError, TransportError
from dragoman.protocol.fields import trim
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.official.tasks import FIRST_OF_SERVERS, SECOND, Generation, related
from dragoman.protocol.versions import Version
from dragoman.runtime.tasks import cancel_and_wait
from dragoman.server.define.definition import Visible, is_visible
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.extensions.contract import Outcome
from dragoman.server.extensions.tasks.book import UNKNOWN, TaskBook
from dragoman.server.extensions.tasks.stored import ListedTask, StoredTask, TaskEntry, TaskOverview
from dragoman.server.request.context import Context
from dragoman.stores.contract import TaskPhase
from dragoman.types.tasks import ListTasksResult, TaskRequestParams, UpdateTaskRequestParams

PAGE = 100
QUESTION_SECONDS = 600.0
Follow = Callable[[Context, TaskEntry], object]
ANONYMOUS, LOCAL = "anonymous", "local"


class TaskGate:
    """Decides which tasks a request may use: those of tools that its caller sees and has the scopes for."""

    def __init__(self, ctx: Context) -> None:
        self._call = ctx._call
        self._answers: dict[Visible, bool] = {}

    async def shows(self, task: TaskOverview) -> bool:
        """Tell whether the caller sees the tool of a task; nobody sees a removed tool that had `visible`."""
        registry = dispatcher_of(self._call).registry
        tool = registry.tools.get(task.tool)
        if tool is None:
            return task.tool not in registry.disabled["tools"] and not task.has_visibility
        return await is_visible(self._call, tool, self._answers)

    def required_scopes(self, task: TaskOverview) -> frozenset[str]:
        """Return the scopes that a task requires: those that its tool has now, and had when the task was created."""
        tool = dispatcher_of(self._call).registry.tools.get(task.tool)
        return frozenset(task.scopes).union(() if tool is None else tool.scopes)

    def has_scopes(self, task: TaskOverview) -> bool:
        """Tell whether the caller has the scopes that a task requires."""
        return self._call.scopes is None or self._call.scopes.issuperset(self.required_scopes(task))

    async def admits(self, task: TaskOverview) -> bool:
        """Tell whether the caller may use a task."""
        return self.has_scopes(task) and await self.shows(task)


class TaskRequests:
    """The handlers of requests about tasks.

    `stop_tool` cancels the tool of a task that has ended. `follow` notifies a client of 2025-11-25 of a task.
    """

    def __init__(self, find_book: Callable[[], TaskBook], stop_tool: Callable[[str], object], follow: Follow) -> None:
        self._find_book = find_book
        self._stop_tool = stop_tool
        self._follow = follow
        self._asking: set[tuple[int, str, str]] = set()
        """The questions that clients of 2025-11-25 have not answered: the session, the id of the task, and the key."""

    @property
    def _book(self) -> TaskBook:
        return self._find_book()

    async def find(self, ctx: Context, id: str) -> TaskEntry:
        """Return a task that the caller may use.

        Raises:
            InvalidParams: the caller has no such task, or does not see its tool.
            InsufficientScope: the caller lacks a scope of the tool.
        """
        entry, gate = await self._book.find(id, ctx.principal), TaskGate(ctx)
        if not await gate.shows(entry.task):
            raise InvalidParams(UNKNOWN)
        if not gate.has_scopes(entry.task):
            raise InsufficientScope(gate.required_scopes(entry.task))
        return entry

    async def get(self, ctx: Context, params: TaskRequestParams) -> Outcome:
        """Answer `tasks/get`."""
        entry = await self.find(ctx, params.task_id)
        return entry.plain() if generation_of(ctx) == 1 else entry.detailed()

    async def update(self, ctx: Context, params: UpdateTaskRequestParams) -> Outcome:
        """Answer `tasks/update` (2026-07-28)."""
        await self._answer(await self.find(ctx, params.task_id), params.input_responses)
        return types.Result()

    async def _answer(self, entry: TaskEntry, responses: Mapping[str, Raw]) -> None:
        """Record answers; the task goes on when every question has one."""

        def answer(task: StoredTask) -> TaskPhase | None:
            if not task.answer(responses):
                return None
            return "parked" if task.asked else "ready"

        await self._book.change(entry, answer)

    async def cancel(self, ctx: Context, params: TaskRequestParams) -> Outcome:
        """Answer `tasks/cancel`.

        Raises:
            InvalidParams: the caller has no such task, or the task of 2025-11-25 has ended.
        """
        entry = await self.find(ctx, params.task_id)
        had_ended = entry.task.is_terminal
        entry = await self._book.change(entry, _cancel)
        if generation_of(ctx) == 1 and (had_ended or entry.task.status != "cancelled"):
            raise InvalidParams(f"The task cannot be cancelled, because it is {entry.task.status} already")
        self._stop_tool(entry.id)
        return entry.plain() if generation_of(ctx) == 1 else types.Result()

    async def page(self, ctx: Context, params: types.PaginatedRequestParams) -> Outcome:
        """Answer `tasks/list` (2025-11-25).

        Raises:
            InvalidParams: the cursor is not one of the caller's.
        """
        owner = owner_of(ctx)
        if owner == ANONYMOUS:  # the tasks of other clients are among them
            return ListTasksResult([])
        records = await self._book.tasks.list(owner, after=params.cursor, limit=PAGE + 1)
        if params.cursor is not None and not records:
            await self._book.find(params.cursor, ctx.principal)
        listed = [entry for record in records[:PAGE] if (entry := ListedTask.read(record)) is not None]
        cursor, gate = records[PAGE - 1].id if len(records) > PAGE else None, TaskGate(ctx)
        return ListTasksResult([entry.plain() for entry in listed if await gate.admits(entry.task)], next_cursor=cursor)

    async def result(self, ctx: Context, params: TaskRequestParams) -> Outcome:
        """Answer `tasks/result` (2025-11-25): wait until the task has ended, and ask its questions meanwhile.

        Raises:
            RpcError: the error with which the task ended.
            InvalidParams: the caller has no such task, or the task has expired.
        """
        entry = await self.find(ctx, params.task_id)
        self._follow(ctx, entry)
        expiry = asyncio.timeout_at(await self._book.expiry(entry.record))
        questions: set[asyncio.Task[None]] = set()
        try:
            async with aclosing(self._book.watch(entry.id)) as changes, expiry:
                async for _ in changes:
                    entry = await self._book.find(entry.id, ctx.principal)
                    if entry.task.is_terminal:
                        break
                    questions |= {asyncio.create_task(self._ask(ctx, entry, key)) for key in self._unasked(ctx, entry)}
            return _result_of(entry)
        except TimeoutError:
            if not expiry.expired():
                raise
            raise InvalidParams(UNKNOWN) from None
        finally:
            for question in questions:
                await cancel_and_wait(question)

    def _unasked(self, ctx: Context, entry: TaskEntry) -> list[str]:
        """Return the keys of the questions that were not sent in this session, and note that they are sent now.

        Another session may have a question that its client never answers, because the client is gone.
        """
        session = id(ctx.client)  # one object for all requests of a session
        keys = [key for key in entry.task.asked if (session, entry.id, key) not in self._asking]
        self._asking.update((session, entry.id, key) for key in keys)
        return keys

    async def _ask(self, ctx: Context, entry: TaskEntry, key: str) -> None:
        """Send a question to the client, and record the answer; a question without an answer is asked again later."""
        try:
            method, params = _question(entry, key, ctx.client.version)
            answer = await ctx.request(method, params, timeout=QUESTION_SECONDS)
            await self._answer(entry, {key: Raw(encode(answer))})
            self._follow(ctx, entry)
        except RpcError as error:
            await self._book.change(entry, partial(_refuse, error, key))
        except TransportError:
            return
        finally:
            self._asking.discard((id(ctx.client), entry.id, key))


def _refuse(error: RpcError, key: str, task: StoredTask) -> TaskPhase | None:
    if key not in task.asked:  # another session has answered it
        return None
    task.fail(InternalError(f"The client refused a question: {error.message} ({error.code})"))
    return "finished"


def _cancel(task: StoredTask) -> TaskPhase:
    task.end("cancelled", message="The task was cancelled")
    return "finished"


def _question(entry: TaskEntry, key: str, version: Version) -> tuple[str, types.Json]:
    """Return the request of a question to a client: its method and its parameters."""
    request = entry.task.asked[key].request
    params: types.Json = msgspec.to_builtins(trim(request.params or types.Params(), version))
    return str(type(request).__struct_config__.tag), {**params, "_meta": related(entry.id)}


def _result_of(entry: TaskEntry) -> Outcome:
    task = entry.task
    if task.error is not None:
        raise RpcError(task.error["code"], task.error["message"], task.error.get("data", UNSET))
    if task.result is UNSET:
        raise InternalError(task.message or "The task was cancelled")
    result: types.Json = msgspec.json.decode(task.result)
    return result


def generation_of(ctx: Context) -> Generation | None:
    """Return the generation of tasks that the version of a request has; None if it has none."""
    version = ctx.client.version
    if SECOND.exists_in(version):
        return 2
    return 1 if FIRST_OF_SERVERS.exists_in(version) else None


def owner_of(ctx: Context) -> str:
    """Return whose tasks a request makes and lists: those of a principal, of a session, or of an unknown client.

    A client over stdio has all the tasks that clients of this user have made over stdio.
    """
    if ctx.principal is not None:
        return f"principal {ctx.principal}"
    if ctx.session_id is not None:
        return f"session {ctx.session_id}"
    is_known = generation_of(ctx) == 1 and not ctx._call.channel.lacks_standalone_stream
    return LOCAL if is_known else ANONYMOUS
