"""Resources that results of tools link to: read for the model, or offered to it to be read.

A link is kept with the name of the tool that gave it. Before each answer the tools are listed anew, and each server
whose links are kept gets one more tool by which the model reads them. Only what was linked can be read, and it is read
from the server that gave the link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dragoman import types
from dragoman.chat.toolbox import ChatTool
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.results import CallResult
from dragoman.errors import DragomanError, ToolError
from dragoman.schema.naming import safe_name

LinkMode = Literal["offer", "follow", "name"]
READ = "read_resource"
MOST_FOLLOWED = 10
MOST_KEPT = 1_000


class Links:
    """The links of one conversation."""

    def __init__(self, mode: LinkMode) -> None:
        self._mode = mode
        self._kept: dict[tuple[str, str], None] = {}
        """The name of the tool that gave a link, and its URI; in the order in which they came."""

    async def take(self, known: ChatTool, result: CallResult, timeout: float | None) -> CallResult:
        """Return a result as the model is told it: with what its links lead to, if they are to be followed."""
        links = [block for block in result.content if isinstance(block, types.ResourceLink)]
        followed = links[:MOST_FOLLOWED] if self._mode == "follow" else []
        if self._mode != "name":
            self._keep(known.name, links[len(followed) :])
        if not followed:
            return result
        read = await asyncio.gather(*(_read(known.tool, link.uri, timeout) for link in followed))
        contents = {id(link): blocks for link, blocks in zip(followed, read, strict=True)}
        told = [shown for block in result.content for shown in (block, *contents.get(id(block), ()))]
        return CallResult(told, result.structured, result.is_error, result.meta, result.has_structured)

    def _keep(self, tool: str, links: Sequence[types.ResourceLink]) -> None:
        for link in links:
            self._kept.pop((tool, link.uri), None)
            self._kept[tool, link.uri] = None
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def with_readers(self, tools: Mapping[str, ChatTool]) -> dict[str, ChatTool]:
        """Return tools together with those that read what was linked."""
        readers: dict[int, LinkReader] = {}
        for name, uri in self._kept:
            if name in tools:
                tool = tools[name].tool
                readers.setdefault(id(tool._client), LinkReader(tool)).uris.append(uri)
        found = dict(tools)
        for reader in readers.values():
            name = safe_name(f"{reader.server}__{READ}" if reader.server else READ, found)
            found[name] = ChatTool(name, reader)
        return found


class LinkReader(AsyncBoundTool):
    """A tool by which a model reads the resources that a server's results link to."""

    def __init__(self, tool: AsyncBoundTool) -> None:
        super().__init__(tool._client, _DEFINITION)
        self._server = tool.server
        self.uris: list[str] = []

    @property
    def server(self) -> str | None:
        """The name of its server, as far as it is known."""
        return self._server

    async def call(self, /, arguments: Mapping[str, Any] | None = None, **options: Any) -> CallResult:
        """Read a resource.

        Raises:
            ToolError: no result links to it.
        """
        uri = (arguments or {}).get("uri")
        if uri not in self.uris:
            last = ", ".join(self.uris[-MOST_FOLLOWED:])
            raise ToolError(f"No result of a tool links to {uri!r}; the last links are: {last}")
        return CallResult(await _contents(self, uri, options.get("timeout")))


async def _read(tool: AsyncBoundTool, uri: str, timeout: float | None) -> list[types.ContentBlock]:
    try:
        return await _contents(tool, uri, timeout)
    except DragomanError as error:
        return [types.TextContent(f"[{uri} cannot be read: {error}]")]


async def _contents(tool: AsyncBoundTool, uri: str, timeout: float | None) -> list[types.ContentBlock]:
    result = await tool._client.read_resource(uri, timeout=timeout)
    return [types.EmbeddedResource(resource=contents) for contents in result.contents]


_DEFINITION = types.Tool(
    name=READ,
    description="Reads a resource that a result of a tool of this server links to as [name](uri).",
    input_schema={
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "The URI in the link."}},
        "required": ["uri"],
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)
