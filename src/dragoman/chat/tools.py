"""Toolbox: the tools of a conversation, with the client of each tool and its name for the model.

Tool results may link to resources. The chat keeps each link with the name of the tool that returned it. Before each
answer of the model the tools are listed again, and each server with kept links gets one more tool, `read_resource`,
with which the model reads them. That tool reads only linked resources, and only from the server that returned the link.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from dragoman import types
from dragoman.chat.messages import ToolCall, ToolSpec
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.results import CallResult
from dragoman.errors import DragomanError, ToolError
from dragoman.schema.coerce import restore_arguments
from dragoman.schema.naming import safe_name, tool_names
from dragoman.types.memo import Recent


class HasTools(Protocol):
    """A client, or a group of clients."""

    async def tools(self) -> Sequence[AsyncBoundTool]:
        """Return the tools of the client or group."""


AsyncToolSource = AsyncBoundTool | HasTools
"""A tool, or a client with tools."""
LinkMode = Literal["offer", "follow", "name"]
READ_RESOURCE = "read_resource"
MAX_FOLLOWED_LINKS = 10
MAX_KEPT_LINKS = 1_000
_logger = logging.getLogger("dragoman.chat")


class Judged(Struct, frozen=True):
    """What the policy and a person judge of a call."""

    names: tuple[str, ...]
    server: str | None
    is_approved: bool = False
    """Whether a person need not be asked, because the same was approved before."""


class ChatTool:
    """A tool that a model may call."""

    def __init__(self, name: str, tool: AsyncBoundTool) -> None:
        self.name = name
        self.tool = tool

    def judged(self, arguments: types.Json) -> Judged:  # noqa: ARG002
        """Return the names of the tool, for the model, on the server, and as `server__tool`, and its server."""
        names = (self.name, self.tool.name, f"{self.tool.server or ''}__{self.tool.name}")
        return Judged(names, self.tool.server)

    @property
    def spec(self) -> ToolSpec:
        """The description for the model."""
        tool = self.tool
        return ToolSpec(self.name, tool.description or tool.title or tool.name, tool.input_schema)

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments of a call in the form of the tool's own schema."""
        return restore_arguments(call.arguments or {}, self.tool.input_schema)


class Toolbox:
    """The tools of one conversation.

    The tools of clients are listed before each answer, since they may change. If a listing fails, the client's last
    list is used: the model then gets the error as the result of a call, and the tools of other clients still work.
    """

    def __init__(self) -> None:
        self._sources: list[AsyncToolSource] = []
        self._last: dict[int, Sequence[AsyncBoundTool]] = {}
        self.size: int | None = 0
        """The number of tools at the last listing; None if tools or clients were added since."""

    def add(self, sources: Iterable[AsyncToolSource]) -> None:
        """Add tools, or all tools of clients.

        Raises:
            TypeError: a source is neither a tool nor a client, or is a blocking one.
        """
        given = list(sources)
        for source in given:
            if not isinstance(source, AsyncBoundTool) and not callable(getattr(source, "tools", None)):
                raise TypeError(f"{source!r} is neither a tool nor a client{_remedy(source)}")
            if hasattr(source, "asynchronous"):
                raise TypeError(f"{source!r} is blocking; use a Chat, or give this AsyncChat an AsyncClient")
        self._sources += given
        self.size = None if given else self.size

    async def list_tools(self) -> dict[str, ChatTool]:
        """Return every tool by its name for the model."""
        found: dict[str, list[AsyncBoundTool]] = {}
        tools: list[AsyncBoundTool] = []
        for place, source in enumerate(self._sources):
            for tool in await self._tools_of(place, source):
                alike = found.setdefault(tool.name, [])
                # MUST (apps): a tool without "model" in its visibility is not in the list of the model.
                if tool.ui.model_visible and not any(tool.is_same_as(known) for known in alike):
                    alike.append(tool)
                    tools.append(tool)
        self.size = len(tools)
        # The qualified name includes the prefix that the configuration of a group may set.
        names = tool_names((tool.server, getattr(tool, "qualified_name", tool.name)) for tool in tools)
        return {name: ChatTool(name, tool) for name, tool in zip(names, tools, strict=True)}

    async def _tools_of(self, place: int, source: AsyncToolSource) -> Sequence[AsyncBoundTool]:
        if isinstance(source, AsyncBoundTool):
            return [source]
        try:
            self._last[place] = await source.tools()
        except DragomanError as error:
            if place not in self._last:
                raise
            _logger.warning("Tools cannot be listed, and are taken to be what they were: %s", error)
        return self._last[place]


def _remedy(source: Any) -> str:
    if isinstance(source, list | tuple):
        return "; give several with a star: with_tools(*tools)"
    if isinstance(source, str):
        return f"; give a client: AsyncClient({source!r})"
    return " of AsyncChat, because it blocks; give it to a Chat" if hasattr(source, "asynchronous") else ""


class ResourceLinks:
    """The resource links of one conversation."""

    def __init__(self, mode: LinkMode) -> None:
        self._mode = mode
        self._kept: Recent[tuple[str, str], None] = Recent(MAX_KEPT_LINKS)
        """The name of the tool that returned a link, and the URI; the oldest first."""

    async def receive(self, known: ChatTool, result: CallResult, timeout: float | None) -> CallResult:
        """Keep the links of a result, and return the result, in the mode "follow" with the contents of the links."""
        links = [block for block in result.content if isinstance(block, types.ResourceLink)]
        followed = links[:MAX_FOLLOWED_LINKS] if self._mode == "follow" else []
        if self._mode != "name":
            self._keep(known.name, links[len(followed) :])
        if not followed:
            return result
        read = await asyncio.gather(*(_contents_or_error(known.tool, link.uri, timeout) for link in followed))
        contents = {id(link): blocks for link, blocks in zip(followed, read, strict=True)}
        content = [shown for block in result.content for shown in (block, *contents.get(id(block), ()))]
        return CallResult(content, result.structured, result.is_error, result.meta, result.has_structured)

    def _keep(self, tool: str, links: Sequence[types.ResourceLink]) -> None:
        for link in links:
            self._kept[tool, link.uri] = None

    def with_readers(self, tools: Mapping[str, ChatTool]) -> dict[str, ChatTool]:
        """Return the tools, and a tool for each server that reads the linked resources."""
        readers: dict[int, LinkReader] = {}
        for name, uri in self._kept:
            if name in tools:
                tool = tools[name].tool
                readers.setdefault(id(tool._client), LinkReader(tool)).uris.append(uri)
        found = dict(tools)
        for reader in readers.values():
            name = safe_name(f"{reader.server}__{READ_RESOURCE}" if reader.server else READ_RESOURCE, found)
            found[name] = ChatTool(name, reader)
        return found


class LinkReader(AsyncBoundTool):
    """A tool with which a model reads the resources that a server's results link to."""

    def __init__(self, tool: AsyncBoundTool) -> None:
        super().__init__(tool._client, _LINK_READER)
        self._server = tool.server
        self.uris: list[str] = []

    @property
    def server(self) -> str | None:
        """The name of the server, if it is known."""
        return self._server

    async def call(self, /, arguments: Mapping[str, Any] | None = None, **options: Any) -> CallResult:
        """Read a resource.

        Raises:
            ToolError: no result links to the resource.
        """
        uri = (arguments or {}).get("uri")
        if uri not in self.uris:
            last = ", ".join(self.uris[-MAX_FOLLOWED_LINKS:])
            raise ToolError(f"No result of a tool links to {uri!r}; the last links are: {last}")
        return CallResult(await _contents(self, uri, options.get("timeout")))


async def _contents_or_error(tool: AsyncBoundTool, uri: str, timeout: float | None) -> list[types.ContentBlock]:
    try:
        return await _contents(tool, uri, timeout)
    except DragomanError as error:
        return [types.TextContent(f"[{uri} cannot be read: {error}]")]


async def _contents(tool: AsyncBoundTool, uri: str, timeout: float | None) -> list[types.ContentBlock]:
    result = await tool._client.read_resource(uri, timeout=timeout)
    return [types.EmbeddedResource(resource=contents) for contents in result.contents]


_LINK_READER = types.Tool(
    name=READ_RESOURCE,
    description="Reads a resource that a result of a tool of this server links to as [name](uri).",
    input_schema={
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "The URI in the link."}},
        "required": ["uri"],
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)
