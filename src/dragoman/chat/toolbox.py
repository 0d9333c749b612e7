"""The tools of a conversation: whose they are, what the model calls them, and how they are called."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from dragoman.chat.messages import ToolCall, ToolSpec
from dragoman.client.bound import AsyncBoundTool
from dragoman.errors import DragomanError
from dragoman.schema.coerce import restore_arguments
from dragoman.schema.naming import tool_names


class HasTools(Protocol):
    """A client, or a group of clients."""

    async def tools(self) -> Sequence[AsyncBoundTool]:
        """Return the tools that there are."""


AsyncToolSource = AsyncBoundTool | HasTools
"""A tool, or what has tools."""
_logger = logging.getLogger("dragoman.chat")


class ChatTool:
    """A tool that a model may call."""

    def __init__(self, name: str, tool: AsyncBoundTool) -> None:
        self.name = name
        self.tool = tool

    @property
    def names(self) -> tuple[str, str, str]:
        """What the tool goes by: for the model, on its server, and with its server's name."""
        return self.name, self.tool.name, f"{self.tool.server or ''}__{self.tool.name}"

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        tool = self.tool
        return ToolSpec(self.name, tool.description or tool.title or tool.name, tool.input_schema)

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments as the server takes them."""
        return restore_arguments(call.arguments or {}, self.tool.input_schema)


class Toolbox:
    """The tools of one conversation, from wherever they come.

    Clients are asked for their tools each time, since these may change. One that cannot be asked has those that it had:
    to call them tells the model what is wrong, while the others go on.
    """

    def __init__(self) -> None:
        self._sources: list[AsyncToolSource] = []
        self._last: dict[int, Sequence[AsyncBoundTool]] = {}
        self.size: int | None = 0
        """How many tools there were when they were last listed; None if something was added since."""

    def add(self, sources: Iterable[AsyncToolSource]) -> None:
        """Let the model call these tools, or all tools of these clients.

        Raises:
            TypeError: something is no tool and no client; or it blocks.
        """
        given = list(sources)
        for source in given:
            if not isinstance(source, AsyncBoundTool) and not callable(getattr(source, "tools", None)):
                raise TypeError(f"{source!r} is no tool and no client{_remedy(source)}")
            if hasattr(source, "asynchronous"):
                raise TypeError(f"{source!r} blocks; give it to a Chat, or give this AsyncChat an AsyncClient")
        self._sources += given
        self.size = None if given else self.size

    async def open(self) -> dict[str, ChatTool]:
        """Return every tool by the name that the model knows it by."""
        found: dict[str, list[AsyncBoundTool]] = {}
        tools: list[AsyncBoundTool] = []
        for place, source in enumerate(self._sources):
            for tool in await self._tools_of(place, source):
                alike = found.setdefault(tool.name, [])
                if not any(tool.is_same_as(known) for known in alike):
                    alike.append(tool)
                    tools.append(tool)
        self.size = len(tools)
        # A tool of a group may have a prefix that its server's entry wants.
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
    if hasattr(source, "asynchronous"):
        return " of AsyncChat, for it blocks; give it to a Chat"
    return ""
