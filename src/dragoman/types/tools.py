"""The types of `tools/list` and `tools/call`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.types.content import ContentBlock
from dragoman.types.wire import Json, Named, PaginatedResult, Params, Result, Wire


class ToolAnnotations(Wire):
    """Hints about a tool (2025-03-26); a client trusts them only as far as it trusts the server."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Wire):
    """Whether a tool runs as a task (2025-11-25 only)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(Named, kw_only=True):
    """A tool as it is listed."""

    input_schema: Json
    output_schema: Json | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None


class ListToolsResult(PaginatedResult):
    """A page of tools."""

    tools: list[Tool]


class CallToolRequestParams(Params):
    """The tool to call; `arguments` stay encoded until the tool decodes them."""

    name: str
    arguments: Raw | UnsetType = UNSET
    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None
    task: Raw | UnsetType = UNSET
    """Stays encoded until an extension for tasks decodes it (2025-11-25)."""


class CallToolResult(Result):
    """The result of a tool; with `is_error` the content describes the failure for the model."""

    content: list[ContentBlock]
    structured_content: Any | UnsetType = UNSET
    is_error: bool | None = None
