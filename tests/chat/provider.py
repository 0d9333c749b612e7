"""A provider of language models on loopback: OpenAI's chat completions and Anthropic's messages, from a script."""

import asyncio
import base64
import json
import threading
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

DEADLINE = 60


@dataclass
class Say:
    """An answer: text, calls as (id, name, arguments text), and how it goes."""

    text: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    usage: tuple[int, int] = (7, 3)
    cut_after: int | None = None
    """After how many events the connection breaks."""
    ends_early: bool = False
    """Whether the stream ends properly before the model said that it is done."""
    whole_calls: bool = False
    """Whether a call comes in one chunk, all of them with the number 0."""
    overloaded_after: int | None = None
    """After how many events Anthropic says that it is overloaded."""
    never_ends: bool = False
    """Whether nothing more comes, and the connection stays."""
    thoughts: str = ""
    finish: str | None = None


@dataclass
class Fail:
    """An error: its status, what it says, and its headers."""

    status: int
    message: str = "failed"
    headers: dict[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass
class Asked:
    """A request as it came."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


class Provider:
    """A server that answers with a script, in a thread of its own.

    Example:
        with Provider(Say("Hello")) as provider:
            model = AnyLlm("openai:test", base_url=provider.openai_url, api_key="...")
    """

    def __init__(self, *script: Say | Fail) -> None:
        self._script = list(script)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.asked: list[Asked] = []
        self.released = threading.Event()
        """Set when the other side let go of an answer before its end."""

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(DEADLINE), "the provider did not start"
        return self

    def __exit__(self, *details):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    @property
    def openai_url(self):
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def anthropic_url(self):
        return f"http://127.0.0.1:{self._port}"

    def _serve(self):
        asyncio.run(self._run())

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_post("/v1/messages", self._messages)
        runner = web.AppRunner(app, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _take(self, request):
        body = await request.json()
        self.asked.append(Asked(request.path, body, dict(request.headers)))
        return body, self._script.pop(0) if self._script else Fail(418, "the script is over")

    async def _completions(self, request):
        body, answer = await self._take(request)
        refusal = refuse_completion(body)
        if refusal:
            answer = Fail(400, refusal)
        if isinstance(answer, Fail):
            error = {"message": answer.message, "type": "error", "code": answer.code, "param": None}
            return web.json_response({"error": error}, status=answer.status, headers=answer.headers)
        if not body.get("stream"):
            return web.json_response(whole_completion(answer))
        usage = (body.get("stream_options") or {}).get("include_usage")
        events = [f"data: {json.dumps(event)}\n\n" for event in completion_chunks(answer, usage=usage)]
        return await self._stream(request, answer, [*events, "data: [DONE]\n\n"])

    async def _messages(self, request):
        body, answer = await self._take(request)
        refusal = refuse_message(body)
        if refusal:
            answer = Fail(400, refusal)
        if isinstance(answer, Fail):
            error = {"type": "error", "error": {"type": answer.code or "api_error", "message": answer.message}}
            return web.json_response(error, status=answer.status, headers=answer.headers)
        if not body.get("stream"):
            return web.json_response(whole_message(answer))
        events = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in message_events(answer)]
        return await self._stream(request, answer, events)

    async def _stream(self, request, answer, events):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._write(request, response, answer, events)
        except (asyncio.CancelledError, ConnectionError):
            self.released.set()
        return response

    async def _write(self, request, response, answer, events):
        for number, event in enumerate(events):
            if number == answer.cut_after:
                request.transport.abort()
                return
            if number == answer.overloaded_after:
                error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
                await response.write(f"event: error\ndata: {json.dumps(error)}\n\n".encode())
                break
            await response.write(event.encode())
        if answer.never_ends:
            await asyncio.wait_for(asyncio.Event().wait(), DEADLINE)
        await response.write_eof()


def pieces(text):
    """Return a text in small pieces, and a long text in about a thousand, because each piece costs a client much."""
    size = max(4, len(text) // 1000)
    return [text[start : start + size] for start in range(0, len(text), size)]


def completion_chunks(answer, *, usage):
    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": [choice],
        }  # fmt: skip

    yield chunk({"role": "assistant", "content": ""})
    for text in pieces(answer.text):
        yield chunk({"content": text})
    for index, (id, name, arguments) in enumerate(answer.calls):
        if answer.whole_calls:
            call = {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            yield chunk({"tool_calls": [call]})
            continue
        call = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [call]})
        for part in pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    if answer.ends_early or answer.never_ends:
        return
    yield chunk({}, answer.finish or ("tool_calls" if answer.calls else "stop"))
    if usage:
        read, written = answer.usage
        counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        yield chunk({}) | {"choices": [], "usage": counts}


def whole_completion(answer):
    message = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in answer.calls
        ]
    read, written = answer.usage
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "test",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def message_events(answer):
    read, written = answer.usage
    yield {
        "type": "message_start",
        "message": {
            "id": "m1", "type": "message", "role": "assistant", "model": "test", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": read, "output_tokens": 1},
        },
    }  # fmt: skip
    blocks = []
    if answer.thoughts:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in pieces(answer.thoughts)]
        deltas.append({"type": "signature_delta", "signature": "signed"})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if answer.text:
        deltas = [{"type": "text_delta", "text": part} for part in pieces(answer.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for id, name, arguments in answer.calls:
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in pieces(arguments)]
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if answer.ends_early or answer.never_ends:
        return
    reason = answer.finish or ("tool_use" if answer.calls else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": written},
    }
    yield {"type": "message_stop"}


def whole_message(answer):
    content = [{"type": "text", "text": answer.text}] if answer.text else []
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        for id, name, arguments in answer.calls
    ]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": answer.usage[0], "output_tokens": answer.usage[1]},
    }


def refuse_completion(body):
    """What OpenAI's API would say against a request, None if nothing."""
    pending = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in pending:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            if not isinstance(message["content"], str):
                return "a tool message has text only"
            pending.discard(message["tool_call_id"])
            continue
        if pending:
            return f"tool_calls must be followed by tool messages responding to each: {sorted(pending)}"
        pending = {call["id"] for call in message.get("tool_calls") or ()}
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])
        for part in message["content"] if isinstance(message["content"], list) else ():
            if refused := refuse_part(part):
                return refused
    for tool in body.get("tools") or ():
        function = tool["function"]
        if len(function["name"]) > 64 or len(function["description"]) > 1024:
            return "string too long"
        parameters = function["parameters"]
        if parameters.get("type") != "object" or parameters.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
            return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    return f"tool_calls without responses: {sorted(pending)}" if pending else None


def refuse_part(part):
    if part["type"] == "image_url":
        head, _, data = part["image_url"]["url"].partition(";base64,")
        base64.b64decode(data, validate=True)
        return None if head.startswith("data:image/") else "no image"
    if part["type"] == "input_audio":
        base64.b64decode(part["input_audio"]["data"], validate=True)
        return None if part["input_audio"]["format"] in ("wav", "mp3") else "no sound"
    if part["type"] == "file":
        return None if part["file"]["file_data"].startswith("data:application/pdf;base64,") else "no file"
    return None if part["type"] == "text" else f"unknown part {part['type']}"


def refuse_message(body):
    """What Anthropic's API would say against a request, None if nothing."""
    pending = set()
    if not body.get("max_tokens"):
        return "max_tokens: field required"
    for message in body["messages"]:
        if message["role"] not in ("user", "assistant"):
            return f"unexpected role {message['role']}"
        if not message["content"]:
            return "text content must be non-empty"
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if pending - results:
            return "tool_use ids were found without tool_result blocks immediately after"
        pending = {block["id"] for block in blocks if block["type"] == "tool_use"}
        for block in blocks:
            if block["type"] not in ("text", "image", "document", "tool_use", "tool_result", "thinking"):
                return f"unknown block {block['type']}"
            if block["type"] in ("image", "document"):
                base64.b64decode(block["source"]["data"], validate=True)
    for tool in body.get("tools") or ():
        if tool["input_schema"].get("type") != "object" or tool["input_schema"].keys() & {"anyOf", "oneOf", "allOf"}:
            return "input_schema does not support oneOf, allOf, or anyOf at the top level"
    return None
