"""Client: the blocking client. It drives an AsyncClient on the event loop that all blocking clients share.

After a fork, a client of the parent makes a new AsyncClient in the child, because the child cannot share the parent's
connection. A client is stopped when it is garbage-collected. Clients that are open when the interpreter exits are
stopped then, within three seconds.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast

from dragoman.client.bound import (
    AsyncBoundPrompt,
    AsyncBoundResource,
    AsyncBoundResourceTemplate,
    AsyncBoundTool,
    Bound,
    PromptView,
    ResourceTemplateView,
    ResourceView,
    ToolView,
)
from dragoman.client.client import AsyncClient, ToolLike
from dragoman.client.connect.endpoint import Target
from dragoman.client.options import CallOptions, ClientOptions, OnProgress, reusable
from dragoman.client.properties import ClientProperties
from dragoman.client.results import CallResult, Structured
from dragoman.client.twins import BoundTwin, blocking_self, blocking_twin, blocking_twins
from dragoman.runtime.callables import blocking, coroutine_of
from dragoman.runtime.portal import existing_portal, outcome, portal

if TYPE_CHECKING:
    from dragoman.client.extensions.skills import AsyncBoundSkill, BoundSkill
    from dragoman.client.extensions.tasks.handles import AsyncTask, ServerTasks, Task

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
Definition = TypeVar("Definition", bound=Bound[Any])
_fork_lock = threading.Lock()


class StartedCall(Generic[R]):
    """A running call. Any thread may wait for its result or cancel it.

    Example:
        call = client.start_call("slow", {"n": 3})
        call.cancel("The user closed the window")
    """

    def __init__(self, work: Coroutine[Any, Any, R]) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._future: Future[tuple[R | None, BaseException | None]] = portal().start(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, R]) -> R:
        self._task = asyncio.current_task()
        return await work

    def __repr__(self) -> str:
        return f"<StartedCall: {'ended' if self.done else 'under way'}>"

    @property
    def done(self) -> bool:
        """Whether the call has ended."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> R:
        """Wait for the result.

        Raises:
            TimeoutError: the call has not ended in time; it continues.
            concurrent.futures.CancelledError: the call was cancelled.
            ToolError: the tool failed. All other errors of the started method are raised too.
        """
        if not self.done:
            portal().require_other_thread()
        return outcome(self._future, timeout)

    def cancel(self, reason: str | None = None) -> bool:
        """Cancel the call, and send the server the reason. Return whether the call had not ended already."""
        if self.done:
            return False
        if reason is None or self._task is None:
            return self._future.cancel()
        self._task.get_loop().call_soon_threadsafe(self._task.cancel, reason)
        return True


class _DefinitionTwin(BoundTwin[Definition]):
    """The blocking twin of a bound tool, prompt, resource or template."""

    def __init__(self, client: Client, twin: Definition) -> None:
        super().__init__(client, twin)
        self.definition = twin.definition

    def extension(self, id: str) -> Any:
        """Return the value that an extension of the client reads from the definition; None if there is none."""
        return self.asynchronous.extension(id)


class BoundTool(_DefinitionTwin[AsyncBoundTool], ToolView):
    """A tool of a server.

    Example:
        forecast = client.tool("forecast")
        result = forecast(city="Oslo")
    """

    @property
    def server(self) -> str | None:
        """The name of the server: the client's `server_name`."""
        return self._twin.server

    @property
    def is_trusted(self) -> bool:
        """Whether the client trusts the server's annotations of the tool."""
        return self._twin.is_trusted

    @property
    def on_progress(self) -> OnProgress | None:
        """The function of the client that receives the progress of calls without an `on_progress` of their own."""
        return self._twin.on_progress

    def is_same_as(self, other: BoundTool) -> bool:
        """Tell whether another object is the same tool of the same client."""
        return self._driver is other._driver and self.name == other.name

    __call__ = blocking(AsyncBoundTool.__call__)
    call = blocking(AsyncBoundTool.call)


class BoundPrompt(_DefinitionTwin[AsyncBoundPrompt], PromptView):
    """A prompt of a server.

    Example:
        greet = client.prompt("greet")
        messages = greet.fetch(name="Jo").messages
    """

    fetch = blocking(AsyncBoundPrompt.fetch)
    complete = blocking(AsyncBoundPrompt.complete)


class BoundResource(_DefinitionTwin[AsyncBoundResource], ResourceView):
    """A resource of a server; its contents are cached until the server notifies of a change.

    Example:
        readme = client.resource("readme")
        print(readme.content())
    """

    contents = blocking(AsyncBoundResource.contents)
    content = blocking(AsyncBoundResource.content)
    subscribe = blocking(AsyncBoundResource.subscribe)
    unsubscribe = blocking(AsyncBoundResource.unsubscribe)

    def forget(self) -> None:
        """Drop the cached contents."""
        self._twin.forget()


class BoundResourceTemplate(_DefinitionTwin[AsyncBoundResourceTemplate], ResourceTemplateView):
    """A resource template of a server.

    Example:
        logs = client.resource_template("logs")
        print(logs.fetch(date="2026-07-28"))
    """

    contents = blocking(AsyncBoundResourceTemplate.contents)
    fetch = blocking(AsyncBoundResourceTemplate.fetch)
    complete = blocking(AsyncBoundResourceTemplate.complete)


def bound_skill(client: Client, twin: AsyncBoundSkill) -> BoundSkill:
    """Return the blocking twin of a skill."""
    from dragoman.client.extensions.skills import BoundSkill

    return BoundSkill(client, twin)


def _task(client: Client, twin: AsyncTask) -> Task:
    from dragoman.client.extensions.tasks.handles import Task

    return Task(client, twin)


class Client(ClientProperties):
    """A client of any MCP server, whose methods block.

    Example:
        with Client("python server.py") as client:
            print(client.call_tool("forecast", {"city": "Oslo"}).text)

    The methods and options are those of `AsyncClient`. A client may be used from several threads, and after a fork.

    Raises:
        TypeError: an option is unknown, or the target is of an unsupported type.
        ValueError: an option has an invalid value.
    """

    def __init__(self, target: Target, **options: Unpack[ClientOptions]) -> None:
        self._target = target
        self._options = reusable(options)
        self._process = os.getpid()
        self._client = self._make()

    def _make(self) -> AsyncClient:
        client = AsyncClient(self._target, **cast("ClientOptions", self._options))
        client._session.notifications.deliveries.shares_loop = True
        self._finalizer = weakref.finalize(self, _release, client)
        self._finalizer.atexit = False
        return client

    def _current_client(self) -> AsyncClient:
        if self._process != os.getpid():
            with _fork_lock:
                if self._process != os.getpid():
                    self._finalizer.detach()
                    self._options["roots"] = self._client.roots.as_wire()
                    self._client = self._make()
                    self._process = os.getpid()
        return self._client

    def _option_changed(self, name: str, value: Any) -> None:
        self._options[name] = value

    def _client_of(self, _: object) -> Client:
        return self

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        return self._run(coroutine_of(method, self._current_client(), *args, **kwargs))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = portal()
        loop.kept.add(self._client)
        return loop.run(work)

    start = blocking_self(AsyncClient.start)

    def stop(self) -> None:
        """End the connection, and deny the tool calls that wait for approval.

        It may be called from any task and thread, in any state, and more than once.
        """
        if self._process == os.getpid():
            self._drive(AsyncClient.stop)
            portal().kept.discard(self._client)

    def restart(self) -> Self:
        """End the connection, and connect again."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    ping = blocking(AsyncClient.ping)
    discover = blocking(AsyncClient.discover)
    list_tools = blocking(AsyncClient.list_tools)
    call_tool = blocking(AsyncClient.call_tool)
    call_tool_unfinished = blocking(AsyncClient.call_tool_unfinished)
    view = blocking(AsyncClient.view)
    call_from_app = blocking(AsyncClient.call_from_app)
    list_prompts = blocking(AsyncClient.list_prompts)
    get_prompt = blocking(AsyncClient.get_prompt)
    list_resources = blocking(AsyncClient.list_resources)
    list_resource_templates = blocking(AsyncClient.list_resource_templates)
    read_resource = blocking(AsyncClient.read_resource)
    subscribe = blocking(AsyncClient.subscribe)
    unsubscribe = blocking(AsyncClient.unsubscribe)
    complete = blocking(AsyncClient.complete)
    request = blocking(AsyncClient.request)
    notify = blocking(AsyncClient.notify)
    listen = blocking(AsyncClient.listen)
    set_log_level = blocking(AsyncClient.set_log_level)

    tools = blocking_twins(AsyncClient.tools, BoundTool)
    tool = blocking_twin(AsyncClient.tool, BoundTool)
    prompts = blocking_twins(AsyncClient.prompts, BoundPrompt)
    prompt = blocking_twin(AsyncClient.prompt, BoundPrompt)
    resources = blocking_twins(AsyncClient.resources, BoundResource)
    resource = blocking_twin(AsyncClient.resource, BoundResource)
    resource_templates = blocking_twins(AsyncClient.resource_templates, BoundResourceTemplate)
    resource_template = blocking_twin(AsyncClient.resource_template, BoundResourceTemplate)
    skills = blocking_twins(AsyncClient.skills, bound_skill)
    skill = blocking_twin(AsyncClient.skill, bound_skill)
    task = blocking_twin(AsyncClient.task, _task)
    start_tool = blocking_twin(AsyncClient.start_tool, _task)

    @property
    def tasks(self) -> ServerTasks:
        """The tasks of the server, for a client with `tasks=True`: `list`, `get`, `result` and `cancel`."""
        from dragoman.client.extensions.tasks.handles import ServerTasks

        return ServerTasks(self, self.asynchronous.tasks)

    @property
    def linked_resources(self) -> list[BoundResource]:
        """The resources that tool results linked to, even if the server does not list them."""
        return [BoundResource(self, resource) for resource in self._current_client().linked_resources]

    @property
    def asynchronous(self) -> AsyncClient:
        """The asynchronous client that this one drives, for code on the event loop of the blocking clients."""
        return self._current_client()

    def start_call(
        self,
        tool: ToolLike,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        **options: Unpack[CallOptions],
    ) -> StartedCall[CallResult[Structured]]:
        """Start a call of a tool, with the options of `call_tool`, and return at once.

        Example:
            call = client.start_call("slow", {"n": 3})
            result = call.result()
        """
        method: Callable[..., CallResult[Structured]] = self.call_tool
        return self.submit(method, tool, arguments, result_type=result_type, **options)

    def submit(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> StartedCall[R]:
        """Start a method of this client, or of one of its tools, prompts or resources, and return at once.

        Example:
            reading = client.submit(client.read_resource, "logs://today")
            reading.cancel("The user closed the window")

        Raises:
            TypeError: the method is not one that makes a single request; `tools` may make several.
        """
        owner, twin = getattr(method, "__self__", None), getattr(method, "__wrapped__", None)
        if not isinstance(owner, Client | _DefinitionTwin) or twin is None:
            raise TypeError(f"{method!r} is not a method that sends one request, such as client.read_resource")
        client = self._current_client()
        portal().kept.add(client)
        return StartedCall(twin(owner.asynchronous, *args, **kwargs))


def _release(client: AsyncClient) -> None:
    """Drop the reference that keeps a client alive; called in any thread, by the garbage collector."""
    loop = existing_portal()
    if loop is not None:
        loop.kept.discard(client)


def _renew_lock() -> None:
    global _fork_lock
    _fork_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
