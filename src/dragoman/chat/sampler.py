"""A server's questions to the model of a chat, answered apart from its conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman import types
from dragoman.chat.gathering import Gathered, closing
from dragoman.chat.messages import Message, Model, ModelOptions, ToolCall, ToolSpec, Usage
from dragoman.chat.models import resolve_model
from dragoman.chat.rendering import parts_of
from dragoman.client.answer.sampling import SamplingRequest
from dragoman.schema.naming import safe_name, tool_names

_STOP_REASONS = {"length": "maxTokens", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


class Models:
    """The models of one chat: its own, and others that are wanted by their names."""

    def __init__(self, model: str | Model, **connection: Any) -> None:
        self._made: list[Any] = []
        self._given: dict[str, Model] = {}
        self.choose(model, **connection)

    def choose(self, model: str | Model, **connection: Any) -> None:
        """Make a model the chat's own."""
        self._connection = connection
        self.own = self._resolved(model, connection)
        self._known: dict[str, Model] = {**self._given, self.own.name: self.own}

    def _resolved(self, model: str | Model, connection: Mapping[str, Any]) -> Model:
        resolved = resolve_model(model, **connection)
        if resolved is not model:
            self._made.append(resolved)
        return resolved

    def add(self, model: Model) -> str:
        """Take in another model, and return its name."""
        self._given[model.name] = self._known[model.name] = model
        return model.name

    def named(self, name: str | None) -> Model:
        """Return the model of a name; one without a provider is of the own model's.

        Raises:
            ValueError: there is no provider.
            ModelError: the model cannot be had.
        """
        if name is None:
            return self.own
        if name not in self._known:
            provider, colon, _ = self.own.name.partition(":")
            full = name if ":" in name or not colon else f"{provider}:{name}"
            is_same = full.partition(":")[0] == provider
            self._known[name] = self._known.get(full) or self._resolved(full, self._connection if is_same else {})
        return self._known[name]

    @property
    def has_made(self) -> bool:
        """Whether there are models that nobody else will close."""
        return bool(self._made)

    async def close(self) -> None:
        """Close the connections of those models that were made here."""
        for model in self._made:
            await model.aclose()


async def sample(
    request: SamplingRequest, model: Model, options: ModelOptions, spend: Callable[[Usage], None]
) -> types.CreateMessageResult:
    """Return what a model answers to a server's request, with the limits that the server sets below the chat's own."""
    own = options.max_tokens
    wanted = msgspec.structs.replace(
        options,
        max_tokens=request.max_tokens if own is None else min(own, request.max_tokens),
        temperature=options.temperature if request.temperature is None else request.temperature,
        stop=request.stop_sequences,
        tool_choice=None if request.tool_choice is None else request.tool_choice.mode,
    )
    names = tool_names((None, tool.name) for tool in request.tools or ())
    tools = dict(zip(names, request.tools or (), strict=True))
    specs = [ToolSpec(name, tool.description or tool.name, tool.input_schema) for name, tool in tools.items()]
    gathered = Gathered()
    try:
        async with closing(model.generate(_messages(request, tools), specs, wanted)) as deltas:
            async for delta in deltas:
                gathered.add(delta)
    finally:
        spend(gathered.usage)
    return _result(gathered, model.name, tools)


def _messages(request: SamplingRequest, tools: Mapping[str, types.Tool]) -> list[Message]:
    safe = {tool.name: name for name, tool in tools.items()}
    messages = [] if request.system_prompt is None else [Message.system(request.system_prompt)]
    for asked in request.messages:
        blocks: list[Any] = asked.content if isinstance(asked.content, list) else [asked.content]
        results = [block for block in blocks if isinstance(block, types.ToolResultContent)]
        uses = [block for block in blocks if isinstance(block, types.ToolUseContent)]
        rest = [block for block in blocks if not isinstance(block, types.ToolResultContent | types.ToolUseContent)]
        messages += [
            Message("tool", parts_of(block.content), tool_call_id=block.tool_use_id, is_error=bool(block.is_error))
            for block in results
        ]
        if rest or uses:
            calls = [ToolCall(use.id, safe.get(use.name) or safe_name(use.name), use.input) for use in uses]
            messages.append(Message(asked.role, parts_of(rest), calls))
    return messages


def _result(gathered: Gathered, model: str, tools: Mapping[str, types.Tool]) -> types.CreateMessageResult:
    text = types.TextContent(text=gathered.text)
    uses = [
        types.ToolUseContent(
            id=call.id, name=tools[call.name].name if call.name in tools else call.name, input=call.arguments or {}
        )
        for call in gathered.calls()
    ]
    reason = "toolUse" if uses else _STOP_REASONS.get(gathered.finish_reason or "", "endTurn")
    content: Any = [*([text] if gathered.text else []), *uses] if uses else text
    return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)
