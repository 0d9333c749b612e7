"""Answers sampling requests of servers with a model of a chat, outside of the chat's conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman import types
from dragoman.chat.content import parts_of
from dragoman.chat.messages import Message, Model, ModelOptions, ToolCall, ToolSpec, Usage
from dragoman.chat.models.answers import ModelAnswer, closing
from dragoman.client.answer.sampling import SamplingRequest
from dragoman.schema.naming import safe_name, tool_names


async def sample(
    request: SamplingRequest, model: Model, options: ModelOptions, spend: Callable[[Usage], None]
) -> types.CreateMessageResult:
    """Return a model's answer to a server's request; the smaller `max_tokens` of request and chat applies."""
    own = options.max_tokens
    limited = msgspec.structs.replace(
        options,
        max_tokens=request.max_tokens if own is None else min(own, request.max_tokens),
        temperature=options.temperature if request.temperature is None else request.temperature,
        stop=request.stop_sequences,
        tool_choice=None if request.tool_choice is None else request.tool_choice.mode,
    )
    names = tool_names((None, tool.name) for tool in request.tools or ())
    tools = dict(zip(names, request.tools or (), strict=True))
    specs = [ToolSpec(name, tool.description or tool.name, tool.input_schema) for name, tool in tools.items()]
    answer = ModelAnswer()
    try:
        async with closing(model.generate(_messages(request, tools), specs, limited)) as deltas:
            async for delta in deltas:
                answer.add(delta)
    finally:
        spend(answer.usage)
    return _result(answer, model.name, tools)


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


def _result(answer: ModelAnswer, model: str, tools: Mapping[str, types.Tool]) -> types.CreateMessageResult:
    text = types.TextContent(text=answer.text)
    uses = [
        types.ToolUseContent(
            id=call.id, name=tools[call.name].name if call.name in tools else call.name, input=call.arguments or {}
        )
        for call in answer.calls()
    ]
    reason = "toolUse" if uses else "endTurn" if answer.stop_reason in (None, "other") else answer.stop_reason
    content: Any = [*([text] if answer.text else []), *uses] if uses else text
    return types.CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)
