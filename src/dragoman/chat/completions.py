"""Conversations as the APIs of chat completions have them: messages and tools out, chunks in.

Chunks of an answer carry pieces of calls, which `gathering` tells apart. A call gets a number of our own and is told as
soon as its name is known. What was used and why the model stopped is told once, at the end. What a provider wants to
see again (signatures of its thoughts) is kept by the ids of the calls and put back into the messages.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from dragoman.chat.gathering import CallPieces, PartialCall, new_call_id
from dragoman.chat.messages import Delta, Media, Message, Text, ToolCall, ToolCallDelta, ToolSpec, Usage
from dragoman.schema import dialects
from dragoman.types import Json

ANTHROPIC = frozenset({"anthropic", "azureanthropic", "vertexaianthropic"})
GEMINI = frozenset({"gemini", "vertexai"})
OPENAI = frozenset({"openai", "azureopenai", "azure"})
ERROR = "Error:"
"""How the text of a failed call begins where the provider's API has no field that says so."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})


class ProviderExtras(msgspec.Struct):
    """What a provider said with a call, to be told again with it."""

    message: Json = msgspec.field(default_factory=dict)
    call: Json = msgspec.field(default_factory=dict)


def completion_tools(tools: Sequence[ToolSpec], provider: str, *, strict: bool = False) -> list[Json]:
    """Return tools as entries of `tools`, their schemas in the provider's dialect."""
    return [_tool(tool, provider, strict=strict) for tool in tools]


def _tool(tool: ToolSpec, provider: str, *, strict: bool) -> Json:
    schema = tool.input_schema
    if provider in GEMINI:
        parameters = _gemini_parameters(dialects.for_gemini(schema))
    elif provider in ANTHROPIC or provider == "bedrock":
        parameters = dialects.for_anthropic(schema)
    elif provider in OPENAI:
        parameters = dialects.for_openai(schema, strict=strict)
        return dialects.openai_function(tool.name, tool.description, parameters, strict=strict)
    else:
        parameters = dialects.for_openai(schema, references=False)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _gemini_parameters(schema: Json) -> Json:
    """Return a schema of Gemini so that any-llm hands it on whole, which it does with what has `$defs`."""
    return _without_nullable(schema) | {"$defs": {}}


def _without_nullable(schema: Json) -> Json:
    said = {key: value for key, value in schema.items() if key != "nullable"}
    if schema.get("nullable"):
        said["type"] = [schema["type"], "null"]
        if "enum" in schema:
            said["enum"] = [*schema["enum"], None]
    if "properties" in schema:
        said["properties"] = {name: _without_nullable(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        said["items"] = _without_nullable(schema["items"])
    if "anyOf" in schema:
        said["anyOf"] = [_without_nullable(part) for part in schema["anyOf"]]
    return said


def completion_messages(
    messages: Sequence[Message], provider: str, memories: Mapping[str, ProviderExtras]
) -> list[Json]:
    """Return a conversation as `messages`; media that tools gave follow their results as a user's message."""
    spoken: list[Json] = []
    for are_results, run in groupby(messages, lambda message: message.role == "tool"):
        if are_results:
            spoken += _results(list(run), provider)
        else:
            spoken += [said for message in run for said in _message(message, provider, memories)]
    return spoken


def _message(message: Message, provider: str, memories: Mapping[str, ProviderExtras]) -> list[Json]:
    if message.role == "assistant":
        return _assistant(message, memories)
    if message.role == "system":
        return [{"role": "system", "content": message.text}]
    return [{"role": "user", "content": _user_content(message, provider)}]


def _results(messages: list[Message], provider: str) -> list[Json]:
    """Return the results of the calls of one answer.

    any-llm drops `is_error` from a message with the role `tool`, and hands blocks of Anthropic's own on as they are.
    """
    if provider in ANTHROPIC:
        told = [{"role": "user", "content": [_anthropic_result(message) for message in messages]}]
    else:
        told = [_tool_result(message, provider) for message in messages]
    shown = [part for message in messages for part in _shown(message, provider)]
    return [*told, {"role": "user", "content": shown}] if shown else told


def _anthropic_result(message: Message) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": _result_text(message)}
    return block | {"is_error": True} if message.is_error else block


def _tool_result(message: Message, provider: str) -> Json:
    text = _result_text(message)
    if message.is_error and provider in GEMINI:
        # any-llm makes the object that a text is the JSON of the response, where `error` is Gemini's word for failure.
        text = msgspec.json.encode({"error": text}).decode()
    elif message.is_error and not text.startswith(ERROR):
        text = f"{ERROR} {text}"
    return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}


def _result_text(message: Message) -> str:
    text = message.text
    if any(isinstance(part, Media) for part in message.content):
        text = f"{text}\n[More of this result follows in the next message.]".lstrip()
    return text or "(nothing)"


def _shown(message: Message, provider: str) -> list[Json]:
    media = [_media(part, provider) for part in message.content if isinstance(part, Media)]
    return [_text(f"From the result of the tool call {message.tool_call_id}:"), *media] if media else []


def _assistant(message: Message, memories: Mapping[str, ProviderExtras]) -> list[Json]:
    text = "".join(part.text if isinstance(part, Text) else f"[{part.mime_type}]" for part in message.content)
    if not message.tool_calls:
        return [{"role": "assistant", "content": text}] if text else []
    spoken: Json = {"role": "assistant", "content": text or None}
    for call in message.tool_calls:
        if memory := memories.get(call.id):
            spoken |= memory.message
    return [spoken | {"tool_calls": [_call(call, memories) for call in message.tool_calls]}]


def _call(call: ToolCall, memories: Mapping[str, ProviderExtras]) -> Json:
    arguments = msgspec.json.encode(call.arguments or {}).decode()
    spoken: Json = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    return spoken | (memories[call.id].call if call.id in memories else {})


def _user_content(message: Message, provider: str) -> str | list[Json]:
    if all(isinstance(part, Text) for part in message.content):
        return message.text
    return [_text(part.text) if isinstance(part, Text) else _media(part, provider) for part in message.content]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _media(media: Media, provider: str) -> Json:
    mime_type = media.mime_type.partition(";")[0].strip().lower()
    address = f"data:{mime_type};base64,{media.data}"
    if mime_type in _IMAGES:
        return {"type": "image_url", "image_url": {"url": address}}
    if mime_type in _SOUNDS and provider not in ANTHROPIC:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _SOUNDS[mime_type]}}
    if mime_type == "application/pdf":
        return {"type": "file", "file": {"filename": media.name or "file.pdf", "file_data": address}}
    text = _read(media.data) if mime_type.startswith("text/") or mime_type in _TEXTS or "+" in mime_type else None
    if text is not None:
        return _text(f"{media.name}:\n{text}" if media.name else text)
    return _text(f"[{media.name or 'An attachment'} of type {mime_type} cannot be shown to this model]")


def _read(data: str) -> str | None:
    try:
        return b64decode(data).decode()
    except ValueError:
        return None


class CompletionReader:
    """An answer as it comes, chunk by chunk."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._usage: Usage | None = None
        self._reasoning = ""
        self._extra: Json = {}
        self._calls = CallPieces()
        self._extras: dict[int, Json] = {}
        self._begun: set[int] = set()

    def receive(self, chunk: Any) -> Iterator[Delta]:
        """Yield what a chunk of a stream says."""
        self._count(getattr(chunk, "usage", None))
        for choice in chunk.choices[:1]:
            yield from self._say(choice.delta)
            self.finish_reason = choice.finish_reason or self.finish_reason

    def receive_whole(self, completion: Any) -> Iterator[Delta]:
        """Yield what an answer says that came at once."""
        self._count(completion.usage)
        yield from self._say(completion.choices[0].message)
        self.finish_reason = completion.choices[0].finish_reason or "stop"

    def end(self) -> Iterator[Delta]:
        """Yield what is known at the end."""
        unnamed = tuple(self._begin(call) for call in self._calls if call.place not in self._begun)
        yield Delta(tool_calls=unnamed, usage=self._usage, finish_reason=self.finish_reason)

    def memories(self) -> dict[str, ProviderExtras]:
        """Return what the provider wants to be told again, by the ids of the calls."""
        message = {"extra_content": self._extra, "reasoning": {"content": self._reasoning}} if self._extra else {}
        return {
            call.id: ProviderExtras(message, self._extras.get(call.place, {}))
            for call in self._calls
            if message or call.place in self._extras
        }

    def _count(self, usage: Any) -> None:
        if usage is not None:
            self._usage = Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)

    def _say(self, said: Any) -> Iterator[Delta]:
        reasoning = getattr(said, "reasoning", None)
        self._reasoning += getattr(reasoning, "content", None) or ""
        self._extra |= getattr(said, "extra_content", None) or {}
        text = "".join(words for words in (said.content, getattr(said, "refusal", None)) if words)
        calls = tuple(piece for part in said.tool_calls or () for piece in self._pieces(part))
        if text or calls:
            yield Delta(text, calls)

    def _pieces(self, part: Any) -> Iterator[ToolCallDelta]:
        function = getattr(part, "function", None)
        name, arguments = getattr(function, "name", None), getattr(function, "arguments", None) or ""
        call = self._calls.add(getattr(part, "index", None), part.id, name, arguments)
        if extra := getattr(part, "extra_content", None):
            self._extras[call.place] = {"extra_content": extra}
        if call.place not in self._begun:
            if call.name:
                yield self._begin(call)
        elif arguments:
            yield ToolCallDelta(call.place, arguments=arguments)

    def _begin(self, call: PartialCall) -> ToolCallDelta:
        self._begun.add(call.place)
        call.id = call.id or new_call_id()
        return ToolCallDelta(call.place, call.id, call.name, call.arguments)
