"""The blocking client: the asynchronous one, driven from any thread on the loop that all blocking faces share.

A client that was made before a fork is made anew in the child, which cannot share its parent's connection. At the exit
of the interpreter, clients that are still open are ended, within a bound.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from dragoman import types
from dragoman.client.bound import (
    AsyncBoundPrompt,
    AsyncBoundResource,
    AsyncBoundResourceTemplate,
    AsyncBoundTool,
    PromptView,
    ResourceTemplateView,
    ResourceView,
    ToolView,
)
from dragoman.client.client import AsyncClient, ToolLike
from dragoman.client.options import ClientOptions
from dragoman.client.results import CallResult
from dragoman.client.target import Target
from dragoman.errors import TransportError
from dragoman.runtime.blocking import blocking
from dragoman.runtime.portal import portal, run_blocking

if TYPE_CHECKING:
    from typing import Self, Unpack

    from dragoman.client.lifeline import Status
    from dragoman.client.roots import Roots

T = TypeVar("T")
EXIT_SECONDS = 3.0
_open: WeakSet[Client] = WeakSet()


class Call:
    """A call that was started, to be waited for or cancelled from any thread.

    Example:
        call = client.start_call("slow", {"n": 3})
        call.cancel()
    """

    def __init__(self, future: Future[CallResult]) -> None:
        self._future = future

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> CallResult:
        """Wait for the result.

        Raises:
            TimeoutError: it has not ended in time, and goes on.
            concurrent.futures.CancelledError: it was cancelled.
            ToolError: the tool failed; and whatever else `call_tool` raises.
        """
        return self._future.result(timeout)

    def cancel(self) -> bool:
        """Give the call up; the server is told so. Return whether it had not ended already."""
        return self._future.cancel()


class Client:
    """A client of any MCP server, whose methods block.

    Example:
        with Client("python server.py") as client:
            print(client.call_tool("forecast", {"city": "Oslo"}).text)

    It has the methods and options of `AsyncClient`. It may be used from several threads, and after a fork.

    Raises:
        TypeError: there is no such option, or the target is nothing that a client can be pointed at.
        ValueError: an option has a value that makes no sense.
    """

    def __init__(self, target: Target, **options: Unpack[ClientOptions]) -> None:
        self._target = target
        self._options = options
        self._making = threading.Lock()
        self._process = os.getpid()
        self._client = self._make()

    def _make(self) -> AsyncClient:
        client = AsyncClient(self._target, **self._options)
        client.call_in_threads()
        return client

    def _living(self) -> AsyncClient:
        """Return the asynchronous client of this process."""
        if self._process != os.getpid():
            self._making = threading.Lock()
            self._process = os.getpid()
            self._client = self._make()
        _open.add(self)
        return self._client

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return run_blocking(method(self._living(), *args, **kwargs))

    def start(self) -> Self:
        """Connect, if there is no connection.

        Raises:
            TransportError: the server cannot be reached, or does not answer.
            RpcError: it refuses.
        """
        self._drive(AsyncClient.start)
        return self

    def stop(self) -> None:
        """End the connection; safe from any task, in any state, more than once."""
        if self._process == os.getpid():
            self._drive(AsyncClient.stop)
        _open.discard(self)

    def restart(self) -> Self:
        """End the connection, and connect anew."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def roots(self) -> Roots:
        """The folders that the server may work in."""
        return self._client.roots

    @property
    def status(self) -> Status:
        """How it is: new, connecting, ready, lost, failed or stopped."""
        return self._client.status

    @property
    def alive(self) -> bool:
        """Whether there is a connection."""
        return self._process == os.getpid() and self._client.alive

    @property
    def server_info(self) -> types.Implementation | None:
        """Who the server says it is, while there is a connection."""
        return self._client.server_info

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server offers, while there is a connection."""
        return self._client.capabilities

    @property
    def instructions(self) -> str | None:
        """What the server wants the model to know, while there is a connection."""
        return self._client.instructions

    @property
    def protocol_version(self) -> str | None:
        """The version that is spoken, while there is a connection."""
        return self._client.protocol_version

    ping = blocking(AsyncClient.ping)
    list_tools = blocking(AsyncClient.list_tools)
    call_tool = blocking(AsyncClient.call_tool)
    list_prompts = blocking(AsyncClient.list_prompts)
    get_prompt = blocking(AsyncClient.get_prompt)
    list_resources = blocking(AsyncClient.list_resources)
    list_resource_templates = blocking(AsyncClient.list_resource_templates)
    read_resource = blocking(AsyncClient.read_resource)
    subscribe = blocking(AsyncClient.subscribe)
    unsubscribe = blocking(AsyncClient.unsubscribe)
    complete = blocking(AsyncClient.complete)
    request = blocking(AsyncClient.request)
    set_log_level = blocking(AsyncClient.set_log_level)

    def tools(self, *, refresh: bool = False) -> list[BoundTool]:
        """Return every tool of the server; kept as long as the server says that it holds.

        Raises:
            PaginationLimit: there are too many pages.
        """
        return [BoundTool(self, tool) for tool in self._drive(AsyncClient.tools, refresh=refresh)]

    def tool(self, name: str) -> BoundTool:
        """Return a tool.

        Raises:
            NotFound: the server has none of that name.
        """
        return BoundTool(self, self._drive(AsyncClient.tool, name))

    def prompts(self, *, refresh: bool = False) -> list[BoundPrompt]:
        """Return every prompt of the server; kept as long as the server says that it holds."""
        return [BoundPrompt(self, prompt) for prompt in self._drive(AsyncClient.prompts, refresh=refresh)]

    def prompt(self, name: str) -> BoundPrompt:
        """Return a prompt.

        Raises:
            NotFound: the server has none of that name.
        """
        return BoundPrompt(self, self._drive(AsyncClient.prompt, name))

    def resources(self, *, refresh: bool = False) -> list[BoundResource]:
        """Return every resource of the server; kept as long as the server says that it holds."""
        return [BoundResource(self, resource) for resource in self._drive(AsyncClient.resources, refresh=refresh)]

    def resource(self, name: str) -> BoundResource:
        """Return a resource, by its name or URI.

        Raises:
            NotFound: the server has none of that name.
        """
        return BoundResource(self, self._drive(AsyncClient.resource, name))

    def resource_templates(self, *, refresh: bool = False) -> list[BoundResourceTemplate]:
        """Return every resource template of the server; kept as long as the server says that it holds."""
        found = self._drive(AsyncClient.resource_templates, refresh=refresh)
        return [BoundResourceTemplate(self, template) for template in found]

    def resource_template(self, name: str) -> BoundResourceTemplate:
        """Return a resource template, by its name or URI template.

        Raises:
            NotFound: the server has none of that name.
        """
        return BoundResourceTemplate(self, self._drive(AsyncClient.resource_template, name))

    def start_call(self, tool: ToolLike, arguments: Mapping[str, Any] | None = None, **options: Any) -> Call:
        """Begin to call a tool, with the options of `call_tool`, and return at once.

        Example:
            call = client.start_call("slow", {"n": 3})
            result = call.result()
        """
        work = self._living().call_tool(tool, arguments, **options)
        return Call(asyncio.run_coroutine_threadsafe(work, portal().loop))


class _Driven:
    """What drives the twin of something bound."""

    def __init__(self, client: Client, twin: Any) -> None:
        self._driver = client
        self._twin = twin
        self.definition = twin.definition

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        self._twin._client = self._driver._living()
        return run_blocking(method(self._twin, *args, **kwargs))


class BoundTool(_Driven, ToolView):
    """A tool of a server.

    Example:
        forecast = client.tool("forecast")
        result = forecast(city="Oslo")
    """

    __call__ = blocking(AsyncBoundTool.__call__)
    call = blocking(AsyncBoundTool.call)


class BoundPrompt(_Driven, PromptView):
    """A prompt of a server.

    Example:
        greet = client.prompt("greet")
        messages = greet.fetch(name="Jo").messages
    """

    fetch = blocking(AsyncBoundPrompt.fetch)
    complete = blocking(AsyncBoundPrompt.complete)


class BoundResource(_Driven, ResourceView):
    """A resource of a server; what it holds is kept until the server says that it changed.

    Example:
        readme = client.resource("readme")
        print(readme.content())
    """

    contents = blocking(AsyncBoundResource.contents)
    content = blocking(AsyncBoundResource.content)
    subscribe = blocking(AsyncBoundResource.subscribe)
    unsubscribe = blocking(AsyncBoundResource.unsubscribe)


class BoundResourceTemplate(_Driven, ResourceTemplateView):
    """A family of resources of a server.

    Example:
        logs = client.resource_template("logs")
        print(logs.fetch(date="2026-07-28"))
    """

    fetch = blocking(AsyncBoundResourceTemplate.fetch)
    complete = blocking(AsyncBoundResourceTemplate.complete)


def _end_all() -> None:
    """End the clients that are still open, all at once."""
    clients = [client for client in _open if client._process == os.getpid()]
    if not clients:
        return

    async def end() -> None:
        ending = [asyncio.ensure_future(client._client.stop()) for client in clients]
        await asyncio.wait(ending, timeout=EXIT_SECONDS)

    try:
        asyncio.run_coroutine_threadsafe(end(), portal().loop).result(EXIT_SECONDS + 1)
    except (TimeoutError, RuntimeError, TransportError):
        return


atexit.register(_end_all)
