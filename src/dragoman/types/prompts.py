"""The types of `prompts/list` and `prompts/get`."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from dragoman.types.content import ContentBlock, TextContent
from dragoman.types.wire import Named, PaginatedResult, Params, Result, Role, Wire


class PromptArgument(Wire):
    """An argument of a prompt."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Named, kw_only=True):
    """A prompt as it is listed."""

    arguments: list[PromptArgument] | None = None


class PromptMessage(Wire):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


class ListPromptsResult(PaginatedResult):
    """A page of prompts."""

    prompts: list[Prompt]


class GetPromptRequestParams(Params):
    """The prompt to get; `arguments` stay encoded until the prompt decodes them."""

    name: str
    arguments: Raw | UnsetType = UNSET
    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None


class GetPromptResult(Result):
    """The messages of a prompt for given arguments."""

    messages: list[PromptMessage]
    description: str | None = None

    @property
    def text(self) -> str:
        """The text of all messages."""
        return "\n".join(message.content.text for message in self.messages if isinstance(message.content, TextContent))
