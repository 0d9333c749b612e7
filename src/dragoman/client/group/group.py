"""Many servers at once, each with a client of its own.

All are connected to at the same time, and one that cannot be reached harms no other: what went wrong is kept and
logged, and it is tried again when it is asked for, or by `start`. Nobody waits for a server longer than its own
`connect_timeout`; one that is slower goes on connecting in the background, for five minutes at most.

Tools are called by names that are unique among all servers. Which name leads to which server is noted whenever the
tools are listed, so that a call needs no list.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast, runtime_checkable

from dragoman import types
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import Kind
from dragoman.client.client import AsyncClient, ToolLike
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.config import load
from dragoman.client.group.expansion import Inputs
from dragoman.client.group.members import F, GroupMember, Members, Servers, ServerStatus
from dragoman.client.options import CallOptions, ClientOptions
from dragoman.client.properties import Blocks
from dragoman.client.results import CallResult, Structured
from dragoman.errors import ConfigError, ConnectError, DragomanError, NotFound, Timeout
from dragoman.runtime.tasks import is_pending_here
from dragoman.schema.naming import matches, tool_names

if TYPE_CHECKING:
    from typing import Self, Unpack

_logger = logging.getLogger("dragoman.client")


@runtime_checkable
class Qualified(Protocol):
    """A tool of a group, blocking or not."""

    @property
    def name(self) -> str:
        """Its name at its server."""

    @property
    def server(self) -> str:
        """The name of its server in the group."""

    @property
    def qualified_name(self) -> str:
        """The name that no other tool of the group has."""


class AsyncGroupTool(AsyncBoundTool):
    """A tool of one server among many.

    Example:
        search = await clients.tool("notes__search")
        result = await search(text="tea")
    """

    def __init__(self, client: AsyncClient, definition: types.Tool, server: str, qualified_name: str) -> None:
        super().__init__(client, definition)
        self._server = server
        self._qualified_name = qualified_name

    def _with(self, client: AsyncClient) -> Self:
        return type(self)(client, self.definition, self._server, self._qualified_name)

    @property
    def server(self) -> str:
        """The name of its server in the group."""
        return self._server

    @property
    def qualified_name(self) -> str:
        """The name that no other tool of the group has, fit for every model."""
        return self._qualified_name


class Group(Blocks, Mapping[str, F], Generic[F]):
    """What both faces of a group show without waiting: the clients by name, and how they are."""

    _members: Members[F]

    def __getitem__(self, name: str) -> F:
        return self._members[name].face

    def __iter__(self) -> Iterator[str]:
        return iter(self._members.names)

    def __len__(self) -> int:
        return len(self._members)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def status(self) -> dict[str, ServerStatus]:
        """How each is: new, connecting, ready, lost, failed, needs_auth, disabled or stopped."""
        return {member.name: member.status for member in self._members}

    @property
    def errors(self) -> dict[str, Exception]:
        """What went wrong with those that cannot be used."""
        return {member.name: member.error for member in self._members if member.error is not None}

    def __repr__(self) -> str:
        told = ", ".join(f"{name}: {status}" for name, status in self.status.items())
        return f"<{type(self).__name__} {told or 'of nothing'}>"


class AsyncClients(Group[AsyncClient]):
    """Clients of many servers, by their names.

    Example:
        async with AsyncClients({"notes": "notes.py", "weather": "https://example.com/mcp"}) as clients:
            print([tool.qualified_name for tool in await clients.tools()])
            result = await clients.call_tool("weather__forecast", {"city": "Oslo"})

    A server is given as what a client is pointed at, as an entry of a configuration file, or as a client; the options
    are those of `ClientOptions`, for all of them. One that cannot be reached harms no other, unless its name is among
    `required`.

    Raises:
        TypeError: there is no such option, or something is nothing that a client can be pointed at.
        ValueError: an option has a value that makes no sense, or two servers have one name.
    """

    def __init__(
        self, servers: Servers[AsyncClient] = (), *, required: Iterable[str] = (), **options: Unpack[ClientOptions]
    ) -> None:
        self._begin(Members(AsyncClient, servers, required, cast("dict[str, Any]", options)))

    def _begin(self, members: Members[Any]) -> None:
        self._members = members
        self._routes: dict[str, tuple[GroupMember[Any], str]] = {}
        self._state = "new"

    @classmethod
    def _over(cls, members: Members[Any]) -> AsyncClients:
        """Return a group whose servers somebody else keeps."""
        group = cls.__new__(cls)
        group._begin(members)
        return group

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        inputs: Inputs | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return clients of the servers in a configuration file: the one that is named, or the first that is found.

        Example:
            clients = AsyncClients.from_config("mcp.json")

        Such a file says which programs are started: use none that you do not trust.

        Raises:
            ConfigError: the file cannot be read, or is no configuration.
        """
        return cls(load(path, inputs=inputs), **options)

    # Their lives.

    async def start(self) -> Self:
        """Connect to every server that there is no connection to; failures are told by `status` and `errors`.

        Raises:
            DragomanError: a required server cannot be used; what was opened for it is closed again.
        """
        was_started, self._state = self._state == "started", "started"
        try:
            await self._connect_all([member for member in self._members if member.status != "disabled"])
            self._require(self._members)
        except BaseException:
            if not was_started:
                await self.stop()
            raise
        return self

    def _require(self, members: Iterable[GroupMember[Any]]) -> None:
        for member in members:
            if member.required and member.status not in ("ready", "disabled"):
                raise _needed(member)

    async def _connect_all(self, members: Iterable[GroupMember[Any]]) -> None:
        waits = [asyncio.ensure_future(self._connect_in_time(member)) for member in members]
        await asyncio.gather(*waits)

    async def _connect_in_time(self, member: GroupMember[Any]) -> None:
        connecting = member.connecting
        if not is_pending_here(connecting):
            connecting = member.connecting = asyncio.get_running_loop().create_task(self._connect(member))
        done, _ = await asyncio.wait([connecting], timeout=member.patience)
        if not done:
            text = f"The server {member.name!r} is not connected after {member.patience:g} seconds, and goes on trying"
            member.connect_error = Timeout(text)
            _logger.warning("%s", text)

    async def _connect(self, member: GroupMember[Any]) -> None:
        try:
            await member.client._start_patiently()
        except Exception as error:
            if member.client.status == "stopped":
                return
            member.connect_error = error
            _logger.warning("The server %r cannot be used: %s", member.name, error)
        else:
            member.connect_error = member.list_error = None

    async def stop(self) -> None:
        """End every connection; safe from any task, in any state, more than once."""
        self._state = "stopped"
        await asyncio.gather(*(_stop(member) for member in self._members))

    async def restart(self, name: str | None = None) -> Self:
        """End the connection to one server, or to all, and connect anew.

        Raises:
            KeyError: there is no server of that name.
            DragomanError: the one server, or a required one, cannot be used.
        """
        if name is None:
            await self.stop()
            return await self.start()
        member = self._members[name]
        await _stop(member)
        await self._connect_all([member])
        if member.connect_error is not None:
            raise member.connect_error
        return self

    async def add(
        self, name: str, target: Target, /, *, required: bool = False, **options: Unpack[ClientOptions]
    ) -> AsyncClient:
        """Take another server in, and return its client; it is connected to if the others are.

        Example:
            await clients.add("files", ["npx", "-y", "@acme/files"], timeout=5)

        Raises:
            TypeError: there is no such option, or the target is nothing that a client can be pointed at.
            ValueError: there is a server of that name, or an option has a value that makes no sense.
            DragomanError: it is required, and cannot be used.
        """
        member = self._members.add(name, target, cast("dict[str, Any]", options))
        member.required = member.required or required
        if self._state == "started" and not member.disabled:
            try:
                await self._connect_all([member])
                self._require([member])
            except BaseException:
                await self.remove(name)
                raise
        return member.face

    async def remove(self, name: str, /) -> None:
        """End the connection to a server, and forget the server.

        Raises:
            KeyError: there is no server of that name.
        """
        member = self._members.remove(name)
        self._routes = {known: route for known, route in self._routes.items() if route[0] is not member}
        await _stop(member)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:  # noqa: ARG002
        """Connect while a web application runs.

        Example:
            app = FastAPI(lifespan=clients.lifespan)
        """
        async with self:
            yield

    # What the servers have.

    async def tools(
        self,
        include: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        *,
        refresh: bool = False,
    ) -> list[AsyncGroupTool]:
        """Return the tools of every server that is ready.

        Example:
            tools = await clients.tools(include=["notes__*", "forecast"], exclude="*delete*")

        Names and patterns are compared with the tool's own name, with `server__tool`, and with its qualified name.
        """
        tools = await self._index(refresh=refresh)
        wanted, unwanted = _patterns(include), _patterns(exclude) or []
        return [
            tool
            for tool in tools
            if (wanted is None or matches(wanted, *_names_of(tool))) and not matches(unwanted, *_names_of(tool))
        ]

    async def tool(self, name: str) -> AsyncGroupTool:
        """Return a tool, by its qualified name, as `server__tool`, or by its own name if no other server has it.

        Raises:
            NotFound: there is none of that name, or several servers have it; servers that failed were tried again.
        """
        return await self._found(name)

    async def call_tool(
        self,
        /,
        tool: ToolLike,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        **options: Unpack[CallOptions],
    ) -> CallResult[Structured]:
        """Call a tool, by one of the names that `tool` takes, with the options of a client's `call_tool`.

        Example:
            result = await clients.call_tool("notes__search", {"text": "tea"}, timeout=5)

        Raises:
            NotFound: there is none of that name, or several servers have it.
            ToolError: the tool failed; and whatever else a client's `call_tool` raises.
        """
        if not isinstance(tool, str) and isinstance(tool, Qualified):
            member, own_name = self._members[tool.server], tool.name
        else:
            member, own_name = await self._route(tool if isinstance(tool, str) else tool.name)
        return await member.client.call_tool(own_name, arguments, result_type=result_type, **options)

    async def prompts(self, *, refresh: bool = False) -> list[AsyncBoundPrompt]:
        """Return the prompts of every server that is ready."""
        return [prompt for _, prompt in await self._listed("prompts", refresh=refresh)]

    async def resources(self, *, refresh: bool = False) -> list[AsyncBoundResource]:
        """Return the resources of every server that is ready."""
        return [resource for _, resource in await self._listed("resources", refresh=refresh)]

    async def resource_templates(self, *, refresh: bool = False) -> list[AsyncBoundResourceTemplate]:
        """Return the resource templates of every server that is ready."""
        return [template for _, template in await self._listed("resource_templates", refresh=refresh)]

    async def _listed(self, kind: Kind, *, refresh: bool = False) -> list[tuple[GroupMember[Any], Any]]:
        if self._state == "stopped":
            raise ConnectError("The clients were stopped; start() them again")
        if self._state == "new":
            await self.start()
        # After a fork all are new again.
        await self._connect_all([member for member in self._members if member.status == "new"])
        members = [member for member in self._members if member.status in ("ready", "lost")]
        lists = await asyncio.gather(*(_list(member, kind, refresh=refresh) for member in members))
        return [(member, item) for member, items in zip(members, lists, strict=True) for item in items]

    async def _index(self, *, refresh: bool = False) -> list[AsyncGroupTool]:
        """Return every tool, and note where the names lead."""
        found = [(member, tool) for member, tool in await self._listed("tools", refresh=refresh)]
        found = [(member, tool) for member, tool in found if member.shows(tool.name)]
        servers = Counter(name for _, name in {(member.name, tool.name) for member, tool in found})
        names = tool_names((member.name, _prefixed(member, tool.name)) for member, tool in found)
        routes = {name: (member, tool.name) for name, (member, tool) in zip(names, found, strict=True)}
        for member, tool in found:
            routes.setdefault(f"{member.name}__{tool.name}", (member, tool.name))
        for member, tool in found:
            if servers[tool.name] == 1:
                routes.setdefault(tool.name, (member, tool.name))
        self._routes = routes
        return [
            AsyncGroupTool(tool._client, tool.definition, member.name, name)
            for name, (member, tool) in zip(names, found, strict=True)
        ]

    async def _route(self, name: str) -> tuple[GroupMember[Any], str]:
        if self._state != "stopped" and name in self._routes:
            return self._routes[name]
        await self._found(name)
        return self._routes[name]

    async def _found(self, name: str) -> AsyncGroupTool:
        tools = await self._index()
        is_unknown = name not in self._routes and not any(tool.name == name for tool in tools)
        if is_unknown and await self._retry(name):
            tools = await self._index()
        if name in self._routes:
            member, own_name = self._routes[name]
            return next(tool for tool in tools if (tool.server, tool.name) == (member.name, own_name))
        raise self._not_found(name, tools)

    async def _retry(self, name: str) -> bool:
        """Try the servers again that failed and may have a tool; return whether there are any."""
        failed = [member for member in self._members if member.status in ("failed", "needs_auth")]
        meant = [member for member in failed if name.startswith(f"{member.name}__")]
        # Nobody is to be asked for credentials because of a name that nobody has.
        failed = meant or [member for member in failed if member.status == "failed"]
        await self._connect_all(failed)
        return bool(failed)

    def _not_found(self, name: str, tools: list[AsyncGroupTool]) -> DragomanError:
        from difflib import get_close_matches

        same = [tool.qualified_name for tool in tools if tool.name == name]
        return NotFound("tool", name, same or get_close_matches(name, [tool.qualified_name for tool in tools]))


async def _list(member: GroupMember[Any], kind: Kind, *, refresh: bool) -> list[Any]:
    try:
        items: list[Any] = await getattr(member.client, kind)(refresh=refresh)
    except Exception as error:
        member.connect_error = member.list_error = error
        _logger.warning("The %s of the server %r cannot be listed: %s", kind, member.name, error)
        return []
    member.list_error = None
    return items


async def _stop(member: GroupMember[Any]) -> None:
    connecting, member.connecting = member.connecting, None
    is_here = connecting is not None and connecting.get_loop() is asyncio.get_running_loop()
    if connecting is not None and is_here:  # else it might start after the stop
        connecting.cancel()
    await member.client.stop()
    if connecting is not None and is_here:
        await asyncio.wait([connecting])
    member.connect_error = member.list_error = None


def _needed(member: GroupMember[Any]) -> DragomanError:
    """Return the error of a required server, which says that it is."""
    error = member.error
    if isinstance(error, ConfigError):
        return error
    text = f"The server {member.name!r} is required, and cannot be used: {error or 'it was stopped'}"
    if not isinstance(error, DragomanError):
        needed: DragomanError = ConnectError(text)
    else:
        needed = copy.copy(error)
        needed.args = (text, *error.args[1:])
    needed.__cause__ = error
    return needed


def _patterns(given: str | Iterable[str] | None) -> list[str] | None:
    return given if given is None else [given] if isinstance(given, str) else list(given)


def _prefixed(member: GroupMember[Any], name: str) -> str:
    return name if member.prefix is None else f"{member.prefix}__{name}"


def _names_of(tool: AsyncGroupTool) -> tuple[str, str, str]:
    return tool.name, f"{tool.server}__{tool.name}", tool.qualified_name
