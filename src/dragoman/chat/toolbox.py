"""The tools of a conversation: whose they are, what the model calls them, and how they are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.chat.messages import ToolCall, ToolSpec
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.client import AsyncClient
from dragoman.client.naming import tool_names
from dragoman.client.restoring import restore

Source = AsyncBoundTool | AsyncClient | Any


class KnownTool:
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
        return restore(call.arguments or {}, self.tool.input_schema)


class Toolbox:
    """The tools of one conversation, from wherever they come."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, sources: Iterable[Source]) -> None:
        """Let the model call these tools, or all tools of these clients."""
        for source in sources:
            if not isinstance(source, AsyncBoundTool) and not hasattr(source, "tools"):
                raise TypeError(f"{source!r} is no tool and no client of tools")
            self._sources.append(source)

    async def open(self) -> dict[str, KnownTool]:
        """Return every tool by the name that the model knows it by; clients are asked what they have now."""
        tools: list[AsyncBoundTool] = []
        for source in self._sources:
            found: Sequence[AsyncBoundTool] = [source] if isinstance(source, AsyncBoundTool) else await source.tools()
            tools += [tool for tool in found if not any(tool.is_same_as(known) for known in tools)]
        names = tool_names((tool.server, getattr(tool, "qualified_name", tool.name)) for tool in tools)
        return {name: KnownTool(name, tool) for name, tool in zip(names, tools, strict=True)}
