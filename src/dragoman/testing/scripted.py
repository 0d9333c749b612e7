"""`ScriptedModel`: a model for tests that returns scripted answers."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from dragoman.chat.messages import Delta, Message, ModelOptions, ToolCall, ToolCallDelta, ToolSpec, Usage
from dragoman.errors import ModelError
from dragoman.runtime.callables import invoke

Answer = str | ToolCall | Sequence[ToolCall] | Message | BaseException | type[BaseException]

Answers = Callable[[Sequence[Message], Sequence[ToolSpec]], Answer | Awaitable[Answer]]
PIECE_CHARACTERS = 5


class ScriptedRequest(msgspec.Struct, frozen=True):
    """One request to a scripted model: the messages, the tools and the options."""

    messages: list[Message]
    tools: list[ToolSpec]
    options: ModelOptions


class ScriptedModel:
    """A model for tests that returns one answer of its script for each request.

    Example:
        model = ScriptedModel(ToolCall("1", "forecast", {"city": "Oslo"}), "Wear a coat.")
        assert str(Chat(model).with_tools(client).ask("What should I wear?")) == "Wear a coat."
        assert model.requests[1].messages[-1].role == "tool"

    An answer is a text, one tool call or several, a message, or an exception to raise. It may also be a function of the
    messages and the tools, `def` or `async def`, that returns one of these. The model streams an answer in small
    pieces, as real models do. `requests` holds the requests that the model received.

    Raises:
        ModelError: in `generate`, if the script has no more answers.
    """

    def __init__(self, *answers: Answer | Answers, name: str = "scripted") -> None:
        self._answers = answers
        self._name = name
        self.requests: list[ScriptedRequest] = []

    def __repr__(self) -> str:
        return f"<ScriptedModel {self._name!r}: asked {len(self.requests)} times, {len(self._answers)} answers>"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], options: ModelOptions
    ) -> AsyncIterator[Delta]:
        """Yield the next answer of the script in small pieces.

        Raises:
            ModelError: the script has no more answers.
        """
        self.requests.append(ScriptedRequest(copy.deepcopy(list(messages)), list(tools), options))
        message = await self._next(messages, tools)
        for delta in _pieces(message):
            yield delta
        read = sum(len(one.text.split()) for one in messages)
        written = len(message.text.split()) + len(message.tool_calls)
        yield Delta(usage=Usage(read, written), finish_reason="tool_calls" if message.tool_calls else "stop")

    async def _next(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        asked = len(self.requests)
        if asked > len(self._answers):
            raise ModelError(
                f"The script of {self._name} is over: it has {len(self._answers)} answers, and was asked for one more "
                f"after {messages[-1].text if messages else 'nothing'!r}"
            )
        answer: Any = self._answers[asked - 1]
        if callable(answer) and not isinstance(answer, type):
            answer = await invoke(answer, messages, tools, in_place=True)
        return _message(answer)


def _message(answer: Any) -> Message:
    if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
        raise answer
    if isinstance(answer, Message):
        return answer
    if isinstance(answer, str):
        return Message.assistant(answer)
    calls = [answer] if isinstance(answer, ToolCall) else answer
    if isinstance(calls, Sequence) and all(isinstance(call, ToolCall) for call in calls):
        return Message.assistant("", calls)
    raise TypeError(f"{answer!r} is not an answer: give a str, ToolCalls, a Message, or an exception")


def _pieces(message: Message) -> Iterator[Delta]:
    for text in _split(message.text):
        yield Delta(text)
    for index, call in enumerate(message.tool_calls):
        yield Delta(tool_calls=(ToolCallDelta(index, call.id, call.name),))
        written = call.raw if call.arguments is None else msgspec.json.encode(call.arguments).decode()
        for arguments in _split(written):
            yield Delta(tool_calls=(ToolCallDelta(index, arguments=arguments),))


def _split(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS))
