"""`AsyncClients`: the clients of many servers, by name.

The group connects to all servers at the same time. A server that cannot be reached does not affect the others: the
group keeps and logs its error, and tries again at the next `start`, or when one of the server's tools is called by
name. Starting and listing wait for servers that are connecting, also after a crash, but no longer than the server's
`connect_timeout`; the attempt to connect then continues in the background, for up to five minutes in all.

Tools have names that are unique in the group. Each listing of the tools records which name belongs to which server, so
that a call needs no listing.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Unpack, cast

from dragoman import types
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate, AsyncBoundTool
from dragoman.client.catalog import Kind
from dragoman.client.client import AsyncClient, ToolLike
from dragoman.client.connect.endpoint import Target
from dragoman.client.group.config import load
from dragoman.client.group.members import ClientT, GroupMember, Members, Servers, ServerStatus
from dragoman.client.group.references import Inputs
from dragoman.client.options import CallOptions, ClientOptions, tool_name
from dragoman.client.properties import WithStatements
from dragoman.client.results import CallResult, Structured
from dragoman.errors import ConfigError, ConnectError, DragomanError, NotFound, Timeout
from dragoman.runtime.tasks import is_pending_here
from dragoman.schema.naming import matches, tool_names

if TYPE_CHECKING:
    from dragoman.client.extensions.skills import AsyncBoundSkill

_KNOWN_STATES = ("ready", "disabled")
_logger = logging.getLogger("dragoman.client")


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

    def _bound_to(self, client: AsyncClient) -> Self:
        return type(self)(client, self.definition, self._server, self._qualified_name)

    @property
    def server(self) -> str:
        """The name of the server in the group."""
        return self._server

    @property
    def qualified_name(self) -> str:
        """A name that is unique in the group and valid for every model."""
        return self._qualified_name


class Group(WithStatements, Mapping[str, ClientT], Generic[ClientT]):
    """The part of a group that `AsyncClients` and `Clients` share: the clients by name, and their states."""

    _members: Members[ClientT]

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        inputs: Inputs | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return clients of the servers in a configuration file: the named one, or the first one found.

        Example:
            clients = Clients.from_config("mcp.json")

        The file names programs that the clients start. Use only a file that you trust.

        Raises:
            ConfigError: the file cannot be read, or is not a configuration.
        """
        make: Callable[..., Self] = cls
        return make(load(path, inputs=inputs), **options)

    def __getitem__(self, name: str) -> ClientT:
        return self._members[name].client

    def __iter__(self) -> Iterator[str]:
        return iter(self._members.names)

    def __len__(self) -> int:
        return len(self._members)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def status(self) -> dict[str, ServerStatus]:
        """The state of each server: new, connecting, ready, lost, failed, needs_auth, disabled or stopped."""
        return {member.name: member.status for member in self._members}

    @property
    def errors(self) -> dict[str, Exception]:
        """The error of each server that cannot be used."""
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

    A server is given as the target of a client, as an entry of a configuration file, or as a client. The options are
    those of `ClientOptions`, and apply to all servers. A server that cannot be reached does not affect the others,
    unless its name is in `required`.

    Raises:
        TypeError: an option is unknown, or a target is of an unsupported type.
        ValueError: an option has an invalid value, or two servers have the same name.
    """

    def __init__(
        self, servers: Servers[AsyncClient] = (), *, required: Iterable[str] = (), **options: Unpack[ClientOptions]
    ) -> None:
        self._members = Members(AsyncClient, servers, required, cast("dict[str, Any]", options))
        self._routes: dict[str, tuple[GroupMember[Any], str]] = {}
        self._state = "new"

    # Connections.

    async def start(self) -> Self:
        """Connect to every server that has no connection; `status` and `errors` show failures.

        Raises:
            DragomanError: a required server cannot be used; a group that was not started before is stopped again.
        """
        was_started, self._state = self._state == "started", "started"
        try:
            await self._connect_all([member for member in self._members if member.status != "disabled"])
            self._check_required(self._members)
        except BaseException:
            if not was_started:
                await self.stop()
            raise
        return self

    def _check_required(self, members: Iterable[GroupMember[Any]]) -> None:
        for member in members:
            if member.required and member.status not in ("ready", "disabled"):
                raise _required_error(member)

    async def _connect_all(self, members: Iterable[GroupMember[Any]]) -> None:
        await asyncio.gather(*(self._connect_in_time(member) for member in members))

    async def _connect_in_time(self, member: GroupMember[Any]) -> None:
        """Wait for a server to connect, until `patience` seconds after the attempt began."""
        loop, connecting = asyncio.get_running_loop(), member.connecting
        if not is_pending_here(connecting):
            connecting = member.connecting = loop.create_task(self._connect(member))
            member.attempted_at = loop.time()
        timeout = None if member.patience is None else max(0, member.attempted_at + member.patience - loop.time())
        done, _ = await asyncio.wait([connecting], timeout=timeout)
        if not done and not isinstance(member.connect_error, Timeout):
            text = f"The server {member.name!r} is not connected after {member.patience:g} seconds, and goes on trying"
            member.connect_error = Timeout(text)
            _logger.warning("%s", text)

    async def _connect(self, member: GroupMember[Any]) -> None:
        try:
            await member.async_client._start_without_limit()
        except Exception as error:
            if member.async_client.status == "stopped":
                return
            member.connect_error = error
            _logger.warning("The server %r cannot be used: %s", member.name, error)
        else:
            member.connect_error = member.list_error = None

    async def stop(self) -> None:
        """End every connection; may be called from any task, in any state, and more than once."""
        self._state = "stopped"
        await asyncio.gather(*(_stop(member) for member in self._members))

    async def restart(self, name: str | None = None) -> Self:
        """End the connection to one server, or to all, and connect again.

        Raises:
            KeyError: the group has no server of that name.
            DragomanError: the named server, or a required one, cannot be used.
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
        """Add a server, and return its client; the group connects to it if it was started.

        Example:
            await clients.add("files", ["npx", "-y", "@acme/files"], timeout=5)

        Raises:
            TypeError: an option is unknown, or the target is of an unsupported type.
            ValueError: the group has a server of that name already, or an option has an invalid value.
            DragomanError: the server is required and cannot be used.
        """
        member = self._members.add(name, target, cast("dict[str, Any]", options))
        member.required = member.required or required
        if self._state == "started" and not member.disabled:
            try:
                await self._connect_all([member])
                self._check_required([member])
            except BaseException:
                await self.remove(name)
                raise
        return member.client

    async def remove(self, name: str, /) -> None:
        """End the connection to a server, and forget the server.

        Raises:
            KeyError: the group has no server of that name.
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

    # Tools, prompts and resources.

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
        included, excluded = _patterns(include), _patterns(exclude) or []
        return [
            tool
            for tool in await self._list_tools(refresh=refresh)
            if (included is None or matches(included, *_names_of(tool))) and not matches(excluded, *_names_of(tool))
        ]

    async def tool(self, name: str) -> AsyncGroupTool:
        """Return a tool, by its qualified name, as `server__tool`, or by its own name if no other server has it.

        Raises:
            NotFound: no server has such a tool, even after failed servers were tried again, or several have it.
        """
        tools = await self._list_tools()
        is_unknown = name not in self._routes and not any(tool.name == name for tool in tools)
        if is_unknown and await self._reconnect_failed(name):
            tools = await self._list_tools()
        if name in self._routes:
            member, own_name = self._routes[name]
            return next(tool for tool in tools if (tool.server, tool.name) == (member.name, own_name))
        from difflib import get_close_matches

        same = [tool.qualified_name for tool in tools if tool.name == name]
        error = NotFound("tool", name, same or get_close_matches(name, [tool.qualified_name for tool in tools]))
        absent = [f"{member.name} ({member.status})" for member in self._members if member.status not in _KNOWN_STATES]
        if absent:
            error.args = (f"{error}; the tools of these servers are not known now: {', '.join(absent)}",)
        raise error

    async def call_tool(
        self,
        /,
        tool: AsyncGroupTool | ToolLike,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: type[Structured] | None = None,
        **options: Unpack[CallOptions],
    ) -> CallResult[Structured]:
        """Call a tool, by one of the names that `tool` takes, with the options of a client's `call_tool`.

        Example:
            result = await clients.call_tool("notes__search", {"text": "tea"}, timeout=5)

        Raises:
            NotFound: no server has such a tool, or several servers have it.
            ToolError: the tool failed. All other errors of a client's `call_tool` are raised too.
        """
        if hasattr(tool, "qualified_name"):  # a tool of a group, blocking or not
            group_tool = cast("AsyncGroupTool", tool)
            member, own_name = self._members[group_tool.server], group_tool.name
        else:
            name = tool_name(tool)
            if self._state == "stopped" or name not in self._routes:
                await self.tool(name)
            member, own_name = self._routes[name]
        return await member.async_client.call_tool(own_name, arguments, result_type=result_type, **options)

    async def prompts(self, *, refresh: bool = False) -> list[AsyncBoundPrompt]:
        """Return the prompts of every server that is ready."""
        return [prompt for _, prompt in await self._list_all("prompts", refresh=refresh)]

    async def resources(self, *, refresh: bool = False) -> list[AsyncBoundResource]:
        """Return the resources of every server that is ready."""
        return [resource for _, resource in await self._list_all("resources", refresh=refresh)]

    async def resource_templates(self, *, refresh: bool = False) -> list[AsyncBoundResourceTemplate]:
        """Return the resource templates of every server that is ready."""
        return [template for _, template in await self._list_all("resource_templates", refresh=refresh)]

    async def skills(self) -> list[AsyncBoundSkill]:
        """Return the skills of every server that is ready; the `origin` of each is the name of its server here."""
        found = await self._list_all("skills")
        return [type(skill)(skill._client, skill.entry, member.name) for member, skill in found]

    async def _list_all(self, kind: Kind | Literal["skills"], **options: bool) -> list[tuple[GroupMember[Any], Any]]:
        self._require_running()
        if self._state == "new":
            await self.start()
        # Members are connecting while another task starts the group, or after a crash. After a fork all are new.
        await self._connect_all([member for member in self._members if member.status in ("new", "connecting")])
        members = [member for member in self._members if member.status in ("ready", "lost")]
        lists = await asyncio.gather(*(_list(member, kind, **options) for member in members))
        self._require_running()  # another task may have stopped the group meanwhile
        return [(member, item) for member, items in zip(members, lists, strict=True) for item in items]

    def _require_running(self) -> None:
        if self._state == "stopped":
            raise ConnectError("The clients were stopped; start() them again")

    async def _list_tools(self, *, refresh: bool = False) -> list[AsyncGroupTool]:
        """Return every tool, and record the server of each name."""
        listed = await self._list_all("tools", refresh=refresh)
        found = [(member, tool) for member, tool in listed if member.shows(tool.name)]
        servers = Counter(name for _, name in {(member.name, tool.name) for member, tool in found})
        names = tool_names(
            (member.name, tool.name if member.prefix is None else f"{member.prefix}__{tool.name}")
            for member, tool in found
        )
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

    async def _reconnect_failed(self, name: str) -> bool:
        """Connect again to the failed servers that may have a tool; return whether there are any."""
        failed = [member for member in self._members if member.status in ("failed", "needs_auth")]
        named = [member for member in failed if name.startswith(f"{member.name}__")]
        # A misspelt tool name must not start a login.
        failed = named or [member for member in failed if member.status == "failed"]
        await self._connect_all(failed)
        return bool(failed)


async def _list(member: GroupMember[Any], kind: str, **options: bool) -> list[Any]:
    try:
        items: list[Any] = await getattr(member.async_client, kind)(**options)
    except Exception as error:
        member.connect_error = member.list_error = error
        _logger.warning("The %s of the server %r cannot be listed: %s", kind, member.name, error)
        return []
    member.list_error = None
    return items


async def _stop(member: GroupMember[Any]) -> None:
    connecting, member.connecting = member.connecting, None
    if connecting is None or connecting.get_loop() is not asyncio.get_running_loop():
        await member.async_client.stop()
    else:
        connecting.cancel()  # the task must not connect after the stop
        await member.async_client.stop()
        await asyncio.wait([connecting])
    member.connect_error = member.list_error = None


def _required_error(member: GroupMember[Any]) -> DragomanError:
    """Return the error of a required server; its text names the server and says that it is required."""
    error = member.error
    if isinstance(error, ConfigError):
        return error
    text = f"The server {member.name!r} is required, and cannot be used: {error or 'it was stopped'}"
    if not isinstance(error, DragomanError):
        raised: DragomanError = ConnectError(text)
    else:
        raised = copy.copy(error)
        raised.args = (text, *error.args[1:])
    raised.__cause__ = error
    return raised


def _patterns(given: str | Iterable[str] | None) -> list[str] | None:
    return given if given is None else [given] if isinstance(given, str) else list(given)


def _names_of(tool: AsyncGroupTool) -> tuple[str, str, str]:
    return tool.name, f"{tool.server}__{tool.name}", tool.qualified_name
