"""`TasksExtension`: tools that outlive their request, their connection and their process, in both generations.

A call of a tool with `task=` becomes a task. The task is in the store before the client hears of it. The process that
made it runs it at once, apart from its request (`runner`). Any process answers the requests about it, because all that
is known of a task is in the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct

from dragoman import types
from dragoman.errors import (
    DefinitionError,
    InsufficientScope,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    RpcError,
)
from dragoman.protocol.extensions import ExtensionRow
from dragoman.protocol.official.tasks import (
    CANCEL,
    FIRST_OF_SERVERS,
    GET,
    ID,
    LIST,
    RESULT,
    SECOND,
    UPDATE,
    Generation,
    TaskSupporting,
)
from dragoman.runtime.tasks import call_in_loop
from dragoman.server.define.tools import Tool
from dragoman.server.extensions.contract import (
    AnyDefinition,
    ExtensionHandler,
    NextCall,
    Outcome,
    ServerExtension,
    Wanted,
)
from dragoman.server.extensions.tasks.book import TaskBook
from dragoman.server.extensions.tasks.feed import TaskFeed
from dragoman.server.extensions.tasks.options import LEASE, TaskOptions, task_options
from dragoman.server.extensions.tasks.requests import TaskRequests, generation_of, owner_of
from dragoman.server.extensions.tasks.runner import RunnableTool, TaskRunner
from dragoman.server.extensions.tasks.stored import StoredTask, TaskEntry
from dragoman.server.request.context import Context
from dragoman.server.request.detached import DetachedCall, OnProgress
from dragoman.server.request.tool_task import OfferedTask
from dragoman.stores.contract import MAX_SECONDS
from dragoman.types.tasks import CreateTaskResult, TaskMetadata

if TYPE_CHECKING:
    from dragoman.server.request.asking import OnStep
    from dragoman.server.server import Server

RUN_TASKS = "DRAGOMAN_RUN_TASKS"
"""The environment variable that says whether a process runs tasks: not if it is "0"."""
MAX_SUBSCRIBED = 1000
"""To how many tasks one `subscriptions/listen` subscribes."""
MAX_TTL_MS = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
_sorted = msgspec.json.Encoder(order="sorted")


class TasksExtension(ServerExtension):
    """The tasks of a server; the option `task` of a tool installs it."""

    rows = (FIRST_OF_SERVERS, SECOND)
    tool_options: ClassVar[Mapping[str, type | UnionType]] = {"task": bool | str | TaskOptions}

    def __init__(self) -> None:
        self._options: dict[str, TaskOptions] = {}
        self._runners: dict[asyncio.AbstractEventLoop, TaskRunner] = {}
        self._feeds: dict[asyncio.AbstractEventLoop, TaskFeed] = {}
        self._requests = TaskRequests(lambda: self._book, self._stop_tool, self._follow)

    def bind(self, server: Server) -> None:
        """Keep the server, whose tools run and whose store keeps the tasks."""
        self._server = server
        self._late = server.lifecycle.beside(lambda: [self.serving(server)])
        """Begins in a loop that the server serves already, with another extension, when it gets its first such tool."""

    @cached_property
    def _book(self) -> TaskBook:
        return TaskBook(self._server.store, self._server.name)

    def settings(self) -> types.Json | None:
        """Declare tasks if a tool runs as one."""
        return {} if self._options else None

    def capability_settings(self, row: ExtensionRow) -> types.Json | None:
        """Declare the tasks of 2025-11-25 if a tool runs as one."""
        return dict(row.settings) if self._options else None

    def forget(self, definition: AnyDefinition) -> None:
        """Forget a tool that the server has removed; its tasks fail when they run again."""
        if isinstance(definition, Tool):
            self._options.pop(definition.name, None)

    def define_tool(self, tool: Tool[..., Any], options: Mapping[str, Any]) -> None:
        """Keep how a tool runs as a task."""
        wanted = task_options(options["task"], tool.name)
        if wanted is None:
            self._options.pop(tool.name, None)
            return
        if tool.inline:
            raise DefinitionError(
                f"The tool {tool.name!r} is inline, and inline tools cannot wait as tasks do: leave out inline or task"
            )
        self._options[tool.name] = wanted

    def entry(self, definition: AnyDefinition) -> Struct | None:
        """Say in the lists of 2025-11-25 whether a tool runs as a task."""
        options = self._options.get(definition.name) if isinstance(definition, Tool) else None
        if options is None:
            return None
        return TaskSupporting(types.ToolExecution("required" if options.required else "optional"))

    def handlers(self) -> Mapping[str, ExtensionHandler]:
        """Return the handlers of both generations."""
        asked = self._requests
        return {GET: asked.get, UPDATE: asked.update, CANCEL: asked.cancel, LIST: asked.page, RESULT: asked.result}

    @asynccontextmanager
    async def serving(self, server: Server) -> AsyncIterator[None]:  # noqa: ARG002
        """Run tasks while the server serves, and notify of their changes."""
        loop = asyncio.get_running_loop()
        feed = self._feeds[loop] = TaskFeed(self._server, lambda: self._book)
        runner = None
        if os.environ.get(RUN_TASKS) != "0":
            runner = TaskRunner(self._book, self._runnable, self._run_tool, self._shortest_lease)
            self._runners[loop] = runner
        try:
            yield
        finally:
            del self._feeds[loop]
            await feed.close()
            if runner is not None:
                await runner.close()
                del self._runners[loop]

    def _stop_tool(self, id: str) -> None:
        for loop, runner in list(self._runners.items()):
            call_in_loop(loop, runner.stop, id)

    def _follow(self, ctx: Context, entry: TaskEntry) -> None:
        feed = self._feeds.get(asyncio.get_running_loop())
        if feed is not None:
            feed.follow(ctx, entry)

    def _shortest_lease(self) -> float:
        return min((options.lease for options in self._options.values()), default=LEASE)

    def _runnable(self, name: str) -> RunnableTool | None:
        options, tool = self._options.get(name), self._server.registry.tools.get(name)
        return None if options is None or tool is None else _runnable(tool, options)

    async def _run_tool(self, call: DetachedCall, id: str, on_progress: OnProgress, on_step: OnStep) -> Outcome:
        task = OfferedTask(id=id)
        return await self.run_detached(self._server, call, task=task, on_progress=on_progress, on_step=on_step)

    async def around_call(self, ctx: Context, call_next: NextCall) -> Outcome:
        """Make a task of a call, if its tool and its client want that."""
        name = ctx.params.name  # type: ignore[union-attr]
        options, tool = self._options.get(name), self._server.registry.tools.get(name)
        if tool is None or (ctx.scopes is not None and not ctx.scopes.issuperset(tool.scopes)):
            return await call_next()  # refuses the call
        generation = generation_of(ctx)
        wanted: TaskMetadata | None = ctx.params.task if generation == 1 else None  # type: ignore[union-attr]
        if options is None:
            if wanted is not None:
                raise MethodNotFound(f"The tool {name!r} does not run as a task; call it without `task`")
            return await call_next()
        if wanted is None and not (generation == 2 and ctx.client.extension(ID) is not None):
            if options.required:
                raise _needs_task(name, generation)
            return await call_next()
        if options.begin == "later" and generation == 2:
            ctx.task.offer(partial(self._create, ctx, tool, options))
            return await call_next()
        return await self._create(ctx, tool, options, wanted)

    async def _runner_here(self) -> TaskRunner | None:
        """Return the runner of this loop, if it has room.

        A server that got its first such tool while it served has no runner yet.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._feeds:
            await self._server.lifecycle.begin_until_the_loop_ends()
        if loop not in self._feeds:
            await self._late.begin_until_the_loop_ends()
        runner = self._runners.get(loop)
        return runner if runner is not None and runner.has_room else None

    async def _create(
        self, ctx: Context, tool: Tool[..., Any], options: TaskOptions, wanted: TaskMetadata | None = None
    ) -> Outcome:
        """Make a task of a call, and return the result that answers the call; the task runs at once."""
        runner = await self._runner_here()
        runnable = _runnable(tool, options)
        call, generation = ctx._call, generation_of(ctx) or 2
        task = StoredTask(
            generation=generation,
            tool=tool.name,
            signature=runnable.signature,
            principal=ctx.principal,
            scopes=sorted(tool.scopes),
            has_visibility=tool.visible is not None,
            ttl=_granted_ttl(options, wanted),
            poll=options.poll,
            call=DetachedCall.of(ctx),
            progress_token=call.request.progress_token if generation == 1 else None,
        )
        lease = None if runner is None else options.lease
        entry = await self._book.create(task, owner=owner_of(ctx), account=call.holder, lease=lease)
        answer: Outcome = CreateTaskResult(entry.plain()) if generation == 1 else entry.created()
        if generation == 1:
            self._follow(ctx, entry)
        if runner is not None:
            runner.start(entry, runnable)
        return answer

    async def honour(self, ctx: Context, field: str, wanted: Wanted) -> Wanted | None:  # noqa: ARG002
        """Honour the ids of tasks that the caller may use, and watch these tasks."""
        feed = self._feeds.get(asyncio.get_running_loop())
        if isinstance(wanted, bool) or feed is None:
            return None
        found = []
        for id in dict.fromkeys(wanted[:MAX_SUBSCRIBED]):
            with suppress(InvalidParams, InsufficientScope):
                found.append((await self._requests.find(ctx, id)).id)
        return feed.watch(found)


def _needs_task(name: str, generation: Generation | None) -> RpcError:
    if generation == 1:
        # MUST (2025-11-25): -32601 for a tool with `required` that is called without a task.
        return MethodNotFound(f"The tool {name!r} runs only as a task; call it with `task`")
    return MissingCapability({"extensions": {ID: {}}})


def _granted_ttl(options: TaskOptions, wanted: TaskMetadata | None) -> float | None:
    """Return the seconds that a task lives: as many as its client wants, and not more than its tool allows.

    Raises:
        InvalidParams: the client wants a number that JSON cannot carry exactly, or that is not above 0.
    """
    if wanted is None or wanted.ttl is None:
        return options.ttl
    if not 0 < wanted.ttl <= MAX_TTL_MS:
        raise InvalidParams(f"`task.ttl` must be an integer of milliseconds from 1 to {MAX_TTL_MS}")
    return min(wanted.ttl / 1000, options.ttl or MAX_SECONDS)


def _runnable(tool: Tool[..., Any], options: TaskOptions) -> RunnableTool:
    hints = tool.definition.annotations
    is_idempotent = hints is not None and hints.idempotent_hint is True
    return RunnableTool(_signature(tool), options.lease, options.retries(is_idempotent=is_idempotent))


def _signature(tool: Tool[..., Any]) -> str:
    return hashlib.sha256(_sorted.encode(tool.definition.input_schema)).hexdigest()[:16]
