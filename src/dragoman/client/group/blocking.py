"""`Clients`: the blocking clients of many servers, which drive an `AsyncClients` on the shared loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar, Unpack, cast

from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client, bound_skill
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.group import AsyncClients, AsyncGroupTool, Group
from dragoman.client.group.members import Members, Servers
from dragoman.client.options import ClientOptions
from dragoman.client.twins import BelongsToClient, blocking_self, blocking_twin, blocking_twins
from dragoman.errors import ConnectError
from dragoman.runtime.callables import blocking, coroutine_of
from dragoman.runtime.offload import offload
from dragoman.runtime.portal import portal

T = TypeVar("T")


class GroupTool(BoundTool):
    """A tool of one server among many.

    Example:
        search = clients.tool("notes__search")
        result = search(text="tea")
    """

    _twin: AsyncGroupTool

    @property
    def server(self) -> str:
        """The name of the server in the group."""
        return self._twin.server

    @property
    def qualified_name(self) -> str:
        """A name that is unique in the group and valid for every model."""
        return self._twin.qualified_name


class Clients(Group[Client]):
    """Blocking clients of many servers, by their names.

    Example:
        with Clients({"notes": "notes.py", "weather": "https://example.com/mcp"}) as clients:
            print([tool.qualified_name for tool in clients.tools()])
            result = clients.call_tool("weather__forecast", {"city": "Oslo"})

    The methods and options are those of `AsyncClients`. A group may be used from several threads, and after a fork.

    Raises:
        TypeError: an option is unknown, or a target is of an unsupported type.
        ValueError: an option has an invalid value, or two servers have the same name.
    """

    def __init__(
        self, servers: Servers[Client] = (), *, required: Iterable[str] = (), **options: Unpack[ClientOptions]
    ) -> None:
        self._members = Members(Client, servers, required, cast("dict[str, Any]", options))
        self._twin = AsyncClients()
        self._twin._members = cast("Any", self._members)

    @property
    def asynchronous(self) -> AsyncClients:
        """The asynchronous group that this one drives, for code that runs on the loop of all blocking clients."""
        return self._twin

    def _client_of(self, twin: BelongsToClient) -> Client:
        for member in self._members:
            if member.async_client is twin._client:
                return member.client
        raise ConnectError("The server was removed from the group while it was listed")

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        loop = portal()
        loop.kept.update(member.async_client for member in self._members)
        return loop.run(coroutine_of(method, self._twin, *args, **kwargs))

    start = blocking_self(AsyncClients.start)
    restart = blocking_self(AsyncClients.restart)

    def stop(self) -> None:
        """End every connection; may be called from any task, in any state, and more than once."""
        self._drive(AsyncClients.stop)
        portal().kept.difference_update([member.async_client for member in self._members])

    def add(self, name: str, target: Target, /, *, required: bool = False, **options: Unpack[ClientOptions]) -> Client:
        """Add a server, and return its client; the group connects to it if it was started.

        Example:
            clients.add("files", ["npx", "-y", "@acme/files"], timeout=5)

        Raises:
            TypeError: an option is unknown, or the target is of an unsupported type.
            ValueError: the group has a server of that name already, or an option has an invalid value.
            DragomanError: the server is required and cannot be used.
        """
        self._drive(AsyncClients.add, name, target, required=required, **options)
        return self[name]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:  # noqa: ARG002
        """Connect while a web application runs.

        Example:
            app = FastAPI(lifespan=clients.lifespan)
        """
        await offload(self.start)
        try:
            yield
        finally:
            await offload(self.stop)

    remove = blocking(AsyncClients.remove)
    call_tool = blocking(AsyncClients.call_tool)

    tools = blocking_twins(AsyncClients.tools, GroupTool)
    tool = blocking_twin(AsyncClients.tool, GroupTool)
    skills = blocking_twins(AsyncClients.skills, bound_skill)
    prompts = blocking_twins(AsyncClients.prompts, BoundPrompt)
    resources = blocking_twins(AsyncClients.resources, BoundResource)
    resource_templates = blocking_twins(AsyncClients.resource_templates, BoundResourceTemplate)
