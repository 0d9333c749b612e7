"""The types of `sampling/createMessage` and `roots/list`, which servers send to clients."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.types.content import SamplingMessageContentBlock, TextContent
from dragoman.types.tools import Tool
from dragoman.types.wire import Json, Number, Params, Result, Role, Wire, WithMeta


class SamplingMessage(WithMeta):
    """One message of the conversation to sample from; a list of blocks from 2025-11-25 on."""

    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]


class ModelHint(Wire):
    """Part of the name of a suitable model."""

    name: str | None = None


class ModelPreferences(Wire):
    """The kind of model that the server prefers; priorities are from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: Number | None = None
    speed_priority: Number | None = None
    intelligence_priority: Number | None = None


class ToolChoice(Wire):
    """Whether the model must, may or must not call a tool (2025-11-25)."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageRequestParams(Params):
    """The question to the model, and its parameters."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: Number | None = None
    stop_sequences: list[str] | None = None
    metadata: Json | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    task: Raw | UnsetType = UNSET
    """Stays encoded until an extension for tasks decodes it (2025-11-25)."""


class CreateMessageResult(Result):
    """The answer of the model."""

    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The text of the answer, without its other content."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


class Root(WithMeta):
    """A directory or file, by its file:// URI, that the server may use."""

    uri: str
    name: str | None = None


class ListRootsResult(Result):
    """The client's roots."""

    roots: list[Root]
