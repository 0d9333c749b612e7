"""The messages of a conversation, and the contract of a model.

A conversation is a list of messages. A model takes the messages, the tools that it may call and the options, and yields
its answer as a stream of `Delta`s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from dragoman import types

Role = Literal["system", "user", "assistant", "tool"]


class Text(Struct, frozen=True, tag="text"):
    """A piece of text."""

    text: str


class Media(Struct, frozen=True, tag="media"):
    """An image, sound or file; `data` is base64."""

    data: str
    mime_type: str
    name: str | None = None

    def __repr__(self) -> str:
        return f"<Media {self.mime_type}: {len(self.data)} characters of base64>"


Part = Text | Media


class ToolCall(Struct, frozen=True):
    """A model's request to call a tool.

    `name` is the tool's name for the model. `arguments` is None if the model did not write a JSON object. `raw` is the
    text that the model wrote.
    """

    id: str
    name: str
    arguments: types.Json | None
    raw: str = ""


class Message(Struct):
    """One message of a conversation.

    Example:
        Message.user("What should I wear in Oslo?")
    """

    role: Role
    content: list[Part] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    """The tool calls in an assistant's message."""
    tool_call_id: str | None = None
    """The id of the call that a tool's message answers."""
    is_error: bool = False
    """Whether a tool's message reports a failure."""

    @classmethod
    def user(cls, text: str, *media: Media) -> Message:
        """Return a message of the user."""
        return cls("user", [Text(text), *media])

    @classmethod
    def assistant(cls, text: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
        """Return a message of the model."""
        return cls("assistant", [Text(text)] if text else [], list(tool_calls))

    @classmethod
    def system(cls, text: str) -> Message:
        """Return the instructions of a model."""
        return cls("system", [Text(text)])

    @property
    def text(self) -> str:
        """The text of all parts; texts before and after media are on separate lines."""
        text, is_after_media = "", False
        for part in self.content:
            if isinstance(part, Text):
                is_new_line = text.endswith("\n") or part.text.startswith("\n") or not text
                text += part.text if is_new_line or not is_after_media else f"\n{part.text}"
            is_after_media = isinstance(part, Media)
        return text

    def __str__(self) -> str:
        return self.text


class Usage(Struct, frozen=True):
    """The number of tokens that a model read and wrote."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens


class ToolCallDelta(Struct, frozen=True):
    """A piece of a tool call: the first piece with an index has id and name, later ones continue the arguments."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


StopReason = Literal["endTurn", "maxTokens", "stopSequence", "toolUse", "refusal", "other"]
"""Why a model ended an answer, whatever its provider calls it."""


class Delta(Struct, frozen=True):
    """A piece of an answer; the last one has the reason for its end, as the provider names it."""

    text: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None


class ToolSpec(Struct, frozen=True):
    """The description of a tool for a model."""

    name: str
    """Valid for every provider: letters, digits, `_` and `-`, at most 64."""
    description: str
    input_schema: types.Json


class ModelOptions(Struct, frozen=True):
    """The options of a model; None leaves the choice to the model."""

    temperature: float | None = None
    max_tokens: int | None = None
    stop: list[str] | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further options of the provider."""

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in ("temperature", "max_tokens", "stop", "tool_choice")}
        shown = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        # `extra` is shown by name only: its headers may hold a key.
        return f"ModelOptions({', '.join([*shown, *(f'{name}=...' for name in self.extra)])})"


class Model(Protocol):
    """The contract of a model: an object that answers a conversation.

    Example:
        class Parrot:
            name = "parrot"

            async def generate(self, messages, tools, options):
                yield Delta(text=messages[-1].text)
    """

    @property
    def name(self) -> str:
        """The name of the model."""

    def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> AsyncIterator[Delta]:
        """Yield the answer to a conversation, piece by piece."""
