"""`Clients`: the blocking clients of many servers, which drive an `AsyncClients` on the shared loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client
from dragoman.client.catalog import Kind
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.group import AsyncClients, AsyncGroupTool, Group
from dragoman.client.group.members import Members, Servers
from dragoman.client.options import ClientOptions
from dragoman.runtime.callables import blocking, coroutine_of
from dragoman.runtime.offload import offload
from dragoman.runtime.portal import portal

if TYPE_CHECKING:
    from dragoman.client.extensions.skills import BoundSkill

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

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        loop = portal()
        loop.kept.update(member.async_client for member in self._members)
        return loop.run(coroutine_of(method, self._twin, *args, **kwargs))

    def start(self) -> Self:
        """Connect to every server that has no connection; `status` and `errors` show failures.

        Raises:
            DragomanError: a required server cannot be used; a group that was not started before is stopped again.
        """
        self._drive(AsyncClients.start)
        return self

    def stop(self) -> None:
        """End every connection; may be called from any task, in any state, and more than once."""
        self._drive(AsyncClients.stop)
        portal().kept.difference_update([member.async_client for member in self._members])

    def restart(self, name: str | None = None) -> Self:
        """End the connection to one server, or to all, and connect again.

        Raises:
            KeyError: the group has no server of that name.
            DragomanError: the named server, or a required one, cannot be used.
        """
        self._drive(AsyncClients.restart, name)
        return self

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

    def tools(
        self,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        *,
        refresh: bool = False,
    ) -> list[GroupTool]:
        """Return the tools of every server that is ready.

        Example:
            tools = clients.tools(include=["notes__*", "forecast"], exclude="*delete*")

        Names and patterns are compared with the tool's own name, with `server__tool`, and with its qualified name.
        """
        found = self._drive(AsyncClients.tools, include, exclude, refresh=refresh)
        return [GroupTool(self[tool.server], tool) for tool in found]

    def tool(self, name: str) -> GroupTool:
        """Return a tool, by its qualified name, as `server__tool`, or by its own name if no other server has it.

        Raises:
            NotFound: no server has such a tool, even after failed servers were tried again, or several have it.
        """
        found = self._drive(AsyncClients.tool, name)
        return GroupTool(self[found.server], found)

    def skills(self) -> list[BoundSkill]:
        """Return the skills of every server that is ready; the `origin` of each is the name of its server here."""
        from dragoman.client.extensions.skills import BoundSkill

        return [BoundSkill(self[skill.origin or ""], skill) for skill in self._drive(AsyncClients.skills)]

    def prompts(self, *, refresh: bool = False) -> list[BoundPrompt]:
        """Return the prompts of every server that is ready."""
        return self._list_all("prompts", BoundPrompt, refresh=refresh)

    def resources(self, *, refresh: bool = False) -> list[BoundResource]:
        """Return the resources of every server that is ready."""
        return self._list_all("resources", BoundResource, refresh=refresh)

    def resource_templates(self, *, refresh: bool = False) -> list[BoundResourceTemplate]:
        """Return the resource templates of every server that is ready."""
        return self._list_all("resource_templates", BoundResourceTemplate, refresh=refresh)

    def _list_all(self, kind: Kind, bound: Callable[[Client, Any], T], *, refresh: bool) -> list[T]:
        found = self._drive(AsyncClients._list_all, kind, refresh=refresh)
        return [bound(member.client, entry) for member, entry in found]
