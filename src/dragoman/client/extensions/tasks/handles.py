"""`AsyncTask` and `Task`: a tool that runs as a task of a server; and the tasks of a server, as `client.tasks`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from msgspec import Raw

from dragoman import types
from dragoman.client.catalog import MAX_PAGES
from dragoman.client.extensions.contract import ExtensionClient
from dragoman.client.extensions.installed import Extensions
from dragoman.client.extensions.tasks.extension import ClientTasks
from dragoman.client.extensions.tasks.followed import FollowedTask, TaskState, generation_of
from dragoman.client.options import CallOptions, tool_name
from dragoman.client.results import CallResult, FurtherResult, read
from dragoman.client.twins import BlockingTwin, blocking_self, blocking_twin, blocking_twins
from dragoman.errors import CapabilityNotAvailable, DragomanError, PaginationLimit, Timeout, ToolError
from dragoman.protocol.jsonrpc import encode
from dragoman.protocol.methods import declares
from dragoman.protocol.official.tasks import ID, LIST
from dragoman.runtime.callables import blocking
from dragoman.types.tasks import TaskStatus

if TYPE_CHECKING:
    from dragoman.client.blocking import Client
    from dragoman.client.client import AsyncClient, ToolLike

T = TypeVar("T")


class TaskView:
    """What a client knows of a task of a server; notifications and requests about the task keep it up to date."""

    _followed: FollowedTask

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}: {self.status}>"

    @property
    def id(self) -> str:
        """The id; `client.task(id)` finds the task by its id, also in another process.

        The id is empty if the server answered the call at once, without a task.
        """
        return self._followed.id

    @property
    def status(self) -> TaskStatus:
        """The status that the client knows; `refresh` asks the server."""
        return self._followed.state.status

    @property
    def status_message(self) -> str | None:
        """What the task does now, in the words of the server."""
        return self._followed.state.status_message

    @property
    def created_at(self) -> str:
        """When the task was made: ISO 8601, by the clock of the server."""
        return self._followed.state.created_at

    @property
    def last_updated_at(self) -> str:
        """When the task changed last: ISO 8601, by the clock of the server."""
        return self._followed.state.last_updated_at

    @property
    def ttl(self) -> float | None:
        """The seconds that the server keeps the task, from its creation; None without a limit."""
        return self._followed.state.ttl_seconds

    @property
    def poll_interval(self) -> float | None:
        """The seconds that the server wants between two polls; None if it does not say."""
        return self._followed.state.poll_seconds

    @property
    def input_requests(self) -> dict[str, types.InputRequest]:
        """The open questions by key (2026-07-28); `update` answers them."""
        return self._followed.state.input_requests or {}

    @property
    def working(self) -> bool:
        """Whether the task runs."""
        return self.status == "working"

    @property
    def input_required(self) -> bool:
        """Whether the task waits for answers."""
        return self.status == "input_required"

    @property
    def completed(self) -> bool:
        """Whether the task has ended with a result."""
        return self.status == "completed"

    @property
    def failed(self) -> bool:
        """Whether the task has ended with an error."""
        return self.status == "failed"

    @property
    def cancelled(self) -> bool:
        """Whether the task was cancelled."""
        return self.status == "cancelled"


class AsyncTask(TaskView):
    """A task of a server.

    Example:
        task = await client.start_tool("report", {"month": "May"})
        print(task.id, task.status)
        print((await task.result()).text)
    """

    def __init__(
        self,
        tasks: AsyncServerTasks,
        followed: FollowedTask,
        tool: str | None = None,
        outcome: CallResult | None = None,
    ) -> None:
        self._tasks = tasks
        self._followed = followed
        self._tool = tool
        self._outcome = outcome
        """The result of a call that the server answered without a task."""

    async def refresh(self) -> Self:
        """Ask the server for the state of the task.

        Raises:
            NotFound: the task does not exist, or has expired.
        """
        if self._outcome is None:
            await self._followed.refresh()
        return self

    async def wait(self, timeout: float | None = None, *, on_status: Callable[[str], object] | None = None) -> Self:
        """Wait until the task has ended; the client's handlers answer its questions.

        `on_status` is called with each status message that the client sees, in the event loop.

        Raises:
            Timeout: the task has not ended in time; it continues.
            NotFound: the task has expired.
            InputNeeded: the client has no handler for a question; `update` answers it.
            TransportError: the server could not be reached for as long as it keeps the task.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._tasks.own.follow_to_end(self._followed, report=on_status)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Timeout(f"The task {self.id!r} has not ended within {timeout:g} seconds; it continues") from None
        return self

    async def result(self, *, raise_on_error: bool = True) -> CallResult:
        """Wait until the task has ended, and return the result of the tool.

        Raises:
            ToolError: the tool failed, unless `raise_on_error` is False.
            RpcError: the call failed.
            Cancelled: the task was cancelled.
            NotFound: the task has expired.
        """
        outcome = self._outcome
        if outcome is None:
            await self.wait()
            raw = Raw(encode(await self._followed.result(None)))
            outcome = await self._tasks.checked(self._tool, read(raw, types.CallToolResult, "tools/call"))
        if outcome.is_error and raise_on_error:
            raise ToolError(outcome.failure, outcome)
        return outcome

    async def update(self, responses: Mapping[str, Any]) -> None:
        """Answer questions of the task, by key.

        Example:
            await task.update({"city": {"action": "accept", "content": {"value": "Oslo"}}})

        Raises:
            CapabilityNotAvailable: the server asks by requests, as in 2025-11-25.
        """
        if self._followed.generation == 1:
            raise CapabilityNotAvailable("The server sends questions as requests: give on_elicitation= or on_sampling=")
        await self._followed.update(dict(responses))

    async def cancel(self) -> None:
        """Cancel the task.

        Raises:
            CapabilityNotAvailable: the server does not let clients cancel tasks (tasks.cancel).
            RpcError: the task has ended already (2025-11-25), or does not exist.
        """
        if self._outcome is not None:
            return
        client = self._tasks.own.client
        if self._followed.generation == 1 and not declares(client.capabilities, ("tasks", "cancel")):
            raise CapabilityNotAvailable("The server does not let clients cancel tasks (tasks.cancel)")
        await self._followed.cancel()


class AsyncServerTasks:
    """The tasks of a server, as `client.tasks`.

    Example:
        for task in await client.tasks.list():
            print(task.id, task.status)
    """

    def __init__(
        self, client: AsyncClient, extensions: Extensions, outcome: Callable[..., Awaitable[CallResult]]
    ) -> None:
        self._client = client
        self._extensions = extensions
        self._outcome = outcome

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._client!r}>"

    @property
    def own(self) -> ClientTasks:
        """The extension of this client.

        Raises:
            DragomanError: the client does not use tasks.
        """
        found = self._extensions.find(ID)
        if not isinstance(found, ClientTasks):
            raise DragomanError("This client does not use tasks; make it with tasks=True")
        return found

    async def checked(self, tool: str | None, result: object) -> CallResult:
        """Return the result of a task, after it was compared with the schema of its tool."""
        return await self._outcome(tool or "", result, raises=False)

    async def start(
        self, tool: ToolLike, arguments: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> AsyncTask:
        """Call a tool with the options of `call_tool`, and return its task as soon as the server has made it.

        A call that the server answers without a task is returned as a task that has ended.
        """
        own, quiet = self.own, {**options, "raise_on_error": False}
        name = tool_name(tool)
        outcome = await self._client.call_tool_unfinished(name, arguments, **cast("CallOptions", quiet))
        if isinstance(outcome, FurtherResult):
            return AsyncTask(self, own.follow(own.client, outcome.fields), name)
        ended = FollowedTask(own.client, TaskState(task_id="", status="completed", result={}))
        return AsyncTask(self, ended, name, outcome)

    async def list(self) -> list[AsyncTask]:
        """Return the tasks of this client that the server lists; none if it lists none, as in 2026-07-28.

        Raises:
            PaginationLimit: the list has too many pages, or repeats a page.
        """
        own, cursor, seen = self.own, None, set[str | None]()
        await own.client.start()
        found: list[AsyncTask] = []
        while _lists(own.client):
            if cursor in seen or len(seen) == MAX_PAGES:
                raise PaginationLimit(f"There are more than {MAX_PAGES} pages of tasks, or a page is repeated")
            seen.add(cursor)
            page = await own.client.send(LIST, {} if cursor is None else {"cursor": cursor})
            for one in page.get("tasks") or ():
                task = own.follow(own.client, one)
                task.note(one)
                found.append(AsyncTask(self, task))
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    async def get(self, id: str, *, tool: str | None = None) -> AsyncTask:
        """Return a task by its id, also one of an earlier process; `tool` is the name of its tool, if it is known.

        The client compares the result with the schema of the tool, as it does after a call.

        Raises:
            NotFound: the task does not exist, or has expired.
        """
        own = self.own
        await own.client.start()
        task = AsyncTask(self, own.follow(own.client, {"taskId": id, "status": "working"}), tool)
        return await task.refresh()

    async def result(self, id: str) -> CallResult:
        """Wait until a task has ended, and return the result of the tool, as `AsyncTask.result` does."""
        return await (await self.get(id)).result()

    async def cancel(self, id: str) -> None:
        """Cancel a task, as `AsyncTask.cancel` does."""
        await (await self.get(id)).cancel()


def _lists(client: ExtensionClient) -> bool:
    return generation_of(client) == 1 and declares(client.capabilities, ("tasks", "list"))


class Task(BlockingTwin[AsyncTask], TaskView):
    """A task of a server; its methods block.

    Example:
        task = client.start_tool("report", {"month": "May"})
        print(task.id, task.status)
        print(task.result().text)
    """

    def __init__(self, client: Client, twin: AsyncTask) -> None:
        super().__init__(client, twin)
        self._followed = twin._followed

    refresh = blocking_self(AsyncTask.refresh)
    wait = blocking_self(AsyncTask.wait)
    result = blocking(AsyncTask.result)
    update = blocking(AsyncTask.update)
    cancel = blocking(AsyncTask.cancel)


class ServerTasks(BlockingTwin[AsyncServerTasks]):
    """The tasks of a server, as `client.tasks`; its methods block.

    Example:
        for task in client.tasks.list():
            print(task.id, task.status)
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._driver!r}>"

    @property
    def asynchronous(self) -> AsyncServerTasks:
        """The asynchronous twin, for code on the event loop of the blocking clients."""
        return self._driver.asynchronous.tasks

    list = blocking_twins(AsyncServerTasks.list, Task)
    get = blocking_twin(AsyncServerTasks.get, Task)
    start = blocking_twin(AsyncServerTasks.start, Task)
    result = blocking(AsyncServerTasks.result)
    cancel = blocking(AsyncServerTasks.cancel)
