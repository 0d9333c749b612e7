"""The chat completions format: converts messages and tools to a request, and chunks of a response to deltas.

`CallPieces` puts calls together from the pieces in chunks. Deltas number the calls by their position, and the first
delta of a call is yielded as soon as the call's name is known. The usage and the finish reason are yielded once, at the
end. Some providers require data of their own in the next request, such as signatures of thoughts; `ProviderExtras`
keeps the data by the ids of the calls, and the next request puts it into their messages.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from dragoman.chat.messages import Delta, Media, Message, Text, ToolCallDelta, ToolSpec, Usage
from dragoman.chat.models.answers import CallPieces, PartialCall, new_call_id
from dragoman.schema import dialects
from dragoman.schema.walk import with_subschemas
from dragoman.types import Json

ANTHROPIC = frozenset({"anthropic", "azureanthropic", "vertexaianthropic"})
GEMINI = frozenset({"gemini", "vertexai"})
OPENAI = frozenset({"openai", "azureopenai", "azure"})
ERROR = "Error:"
"""The prefix of a failed call's text, for providers whose API has no field for failures."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})


class ProviderExtras(msgspec.Struct):
    """Data of a provider for one call, to be sent back with the call."""

    message: Json = msgspec.field(default_factory=dict)
    call: Json = msgspec.field(default_factory=dict)


def completion_tools(tools: Sequence[ToolSpec], provider: str, *, strict: bool = False) -> list[Json]:
    """Return the entries of `tools`, with schemas in the provider's dialect."""
    return [_tool(tool, provider, strict=strict) for tool in tools]


def _tool(tool: ToolSpec, provider: str, *, strict: bool) -> Json:
    schema = tool.input_schema
    if provider in GEMINI:
        # any-llm passes a schema with `$defs` on unchanged, and drops parts of other schemas.
        parameters = _without_nullable(dialects.for_gemini(schema)) | {"$defs": {}}
    elif provider in ANTHROPIC or provider == "bedrock":
        parameters = dialects.for_anthropic(schema)
    elif provider in OPENAI:
        parameters = dialects.for_openai(schema, strict=strict)
        return dialects.openai_function(tool.name, tool.description, parameters, strict=strict)
    else:
        parameters = dialects.for_openai(schema, references=False)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _without_nullable(schema: Json, *_: Any) -> Json:
    plain = with_subschemas(schema, _without_nullable)
    if plain.pop("nullable", False):
        plain["type"] = [schema["type"], "null"]
        if "enum" in schema:
            plain["enum"] = [*schema["enum"], None]
    return plain


def completion_messages(messages: Sequence[Message], provider: str, extras: Mapping[str, ProviderExtras]) -> list[Json]:
    """Return the entries of `messages`; media in results of tools follow the results as a message of the user."""
    entries: list[Json] = []
    for are_results, run in groupby(messages, lambda message: message.role == "tool"):
        if are_results:
            entries += _results(list(run), provider)
        else:
            entries += [entry for message in run for entry in _message(message, provider, extras)]
    return entries


def _message(message: Message, provider: str, extras: Mapping[str, ProviderExtras]) -> list[Json]:
    if message.role == "assistant":
        return _assistant(message, extras)
    if message.role == "system" or all(isinstance(part, Text) for part in message.content):
        return [{"role": message.role, "content": message.text}]
    content = [_text(part.text) if isinstance(part, Text) else _media(part, provider) for part in message.content]
    return [{"role": "user", "content": content}]


def _results(messages: list[Message], provider: str) -> list[Json]:
    """Return the results of the calls of one answer.

    any-llm drops `is_error` from a message with the role `tool`, and passes blocks of Anthropic's format on unchanged.
    """
    if provider in ANTHROPIC:
        results: list[Json] = [{"role": "user", "content": [_anthropic_result(message) for message in messages]}]
    else:
        results = [_tool_result(message, provider) for message in messages]
    media = [part for message in messages for part in _result_media(message, provider)]
    return [*results, {"role": "user", "content": media}] if media else results


def _anthropic_result(message: Message) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": _result_text(message)}
    return block | {"is_error": True} if message.is_error else block


def _tool_result(message: Message, provider: str) -> Json:
    text = _result_text(message)
    if message.is_error and provider in GEMINI:
        # any-llm decodes the text as the response to the call, in which Gemini expects failures under `error`.
        text = msgspec.json.encode({"error": text}).decode()
    elif message.is_error and not text.startswith(ERROR):
        text = f"{ERROR} {text}"
    return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}


def _result_text(message: Message) -> str:
    text = message.text
    if any(isinstance(part, Media) for part in message.content):
        text = f"{text}\n[More of this result follows in the next message.]".lstrip()
    return text or "(nothing)"


def _result_media(message: Message, provider: str) -> list[Json]:
    media = [_media(part, provider) for part in message.content if isinstance(part, Media)]
    return [_text(f"From the result of the tool call {message.tool_call_id}:"), *media] if media else []


def _assistant(message: Message, extras: Mapping[str, ProviderExtras]) -> list[Json]:
    text = "".join(part.text if isinstance(part, Text) else f"[{part.mime_type}]" for part in message.content)
    if not message.tool_calls:
        return [{"role": "assistant", "content": text}] if text else []
    entry: Json = {"role": "assistant", "content": text or None, "tool_calls": []}
    for call in message.tool_calls:
        extra = extras.get(call.id, ProviderExtras())
        arguments = msgspec.json.encode(call.arguments or {}).decode()
        function = {"name": call.name, "arguments": arguments}
        entry["tool_calls"].append({"id": call.id, "type": "function", "function": function} | extra.call)
        entry |= extra.message
    return [entry]


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
    """Reads an answer, chunk by chunk."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._usage: Usage | None = None
        self._reasoning = ""
        self._message_extra: Json = {}
        self._calls = CallPieces()
        self._call_extras: dict[int, Json] = {}
        self._begun: set[int] = set()

    def receive(self, chunk: Any) -> Iterator[Delta]:
        """Yield the deltas of a chunk of a stream."""
        self._count(getattr(chunk, "usage", None))
        for choice in chunk.choices[:1]:
            yield from self._deltas(choice.delta)
            self.finish_reason = choice.finish_reason or self.finish_reason

    def receive_whole(self, completion: Any) -> Iterator[Delta]:
        """Yield the deltas of an answer that is not streamed."""
        self._count(completion.usage)
        yield from self._deltas(completion.choices[0].message)
        self.finish_reason = completion.choices[0].finish_reason or "stop"

    def end(self) -> Iterator[Delta]:
        """Yield the last delta, with the usage and the finish reason."""
        unnamed = tuple(self._begin(call) for call in self._calls if call.place not in self._begun)
        yield Delta(tool_calls=unnamed, usage=self._usage, finish_reason=self.finish_reason)

    def extras(self) -> dict[str, ProviderExtras]:
        """Return the data that the provider requires in the next request, by the ids of the calls."""
        extra = self._message_extra
        message = {"extra_content": extra, "reasoning": {"content": self._reasoning}} if extra else {}
        return {
            call.id: ProviderExtras(message, self._call_extras.get(call.place, {}))
            for call in self._calls
            if message or call.place in self._call_extras
        }

    def _count(self, usage: Any) -> None:
        if usage is not None:
            self._usage = Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)

    def _deltas(self, message: Any) -> Iterator[Delta]:
        reasoning = getattr(message, "reasoning", None)
        self._reasoning += getattr(reasoning, "content", None) or ""
        self._message_extra |= getattr(message, "extra_content", None) or {}
        text = "".join(words for words in (message.content, getattr(message, "refusal", None)) if words)
        calls = tuple(piece for part in message.tool_calls or () for piece in self._pieces(part))
        if text or calls:
            yield Delta(text, calls)

    def _pieces(self, part: Any) -> Iterator[ToolCallDelta]:
        function = getattr(part, "function", None)
        name, arguments = getattr(function, "name", None), getattr(function, "arguments", None) or ""
        call = self._calls.add(getattr(part, "index", None), part.id, name, arguments)
        if extra := getattr(part, "extra_content", None):
            self._call_extras[call.place] = {"extra_content": extra}
        if call.place not in self._begun:
            if call.name:
                yield self._begin(call)
        elif arguments:
            yield ToolCallDelta(call.place, arguments=arguments)

    def _begin(self, call: PartialCall) -> ToolCallDelta:
        self._begun.add(call.place)
        call.id = call.id or new_call_id()
        return ToolCallDelta(call.place, call.id, call.name, call.arguments)
