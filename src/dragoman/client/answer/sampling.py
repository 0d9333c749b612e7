"""Sampling: the server asks the client's model.

A request passes three steps: the guard, the choice of the model, and the completion. Each step may reject the request,
and one time limit covers all of them. The answer is a message, a rejection, or an error that hides its cause from the
server.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman import types
from dragoman.client.answer.callbacks import (
    LOGGER,
    MAX_CONCURRENT,
    AnsweredBy,
    Handler,
    HandlerSlot,
    HandlerSlots,
    as_function,
    function_name,
)
from dragoman.errors import Cancelled, InternalError, InvalidParams, Rejected, RpcError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.schema.naming import matches

USER_REJECTED = -1
REJECTED = "Sampling request was rejected"
UNKNOWN_MODEL = "unknown"
MAX_REASON_CHARACTERS = 200
_MEDIA = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg"}
)
"""Types of media that hold no text for a guard to see."""


class SamplingRequest(Struct, kw_only=True):
    """A server's request to the client's model.

    Example:
        def on_sampling(request: SamplingRequest) -> str:
            return my_model(request.message, system=request.system_prompt, max_tokens=request.max_tokens)

    `model` is the chosen model, if one was chosen; `server` is the name of the server that asks.
    """

    messages: list[types.SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: types.ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    tools: list[types.Tool] | None = None
    tool_choice: types.ToolChoice | None = None
    metadata: types.Json | None = None
    model: str | None = None
    server: str | None = None

    @property
    def message(self) -> str:
        """The text blocks of all messages. In the request that a guard gets, it equals `text`."""
        blocks = [block for message in self.messages for block in _blocks(message)]
        return "\n".join(block.text for block in blocks if isinstance(block, types.TextContent))

    @property
    def text(self) -> str:
        """All text that the model gets: the system prompt, the messages, tool results, and the definitions of tools."""
        texts = [self.system_prompt or ""]
        texts += [text for message in self.messages for block in _blocks(message) for text in _texts_of(block)]
        texts += map(_json, self.tools or ())
        return "\n".join(filter(None, texts))

    @property
    def hints(self) -> list[str]:
        """The names, or parts of names, of models that the server prefers, the best first."""
        hints = self.model_preferences.hints if self.model_preferences else None
        return [hint.name for hint in hints or () if hint.name]


Part = str | types.SamplingMessageContentBlock | types.Json
Completion = Part | types.CreateMessageResult | Sequence[Part] | Literal[False]
SamplingHandler = AnsweredBy[SamplingRequest, Completion]
"""A function that asks the model: returns the answer's text, a result, or content blocks; False rejects the request."""
Guard = AnsweredBy[SamplingRequest, bool]
"""A function that returns True if a request may reach a model; every other value rejects the request."""
PreferredModel = str | AnsweredBy[types.ModelPreferences, str]
"""The name of a model, or a function from the server's preferences to a name."""


class _GuardedRequest(SamplingRequest, kw_only=True):
    """The request that a guard gets: `message` has all text that the model gets."""

    @property
    def message(self) -> str:
        """All text that the model gets."""
        return self.text


class SamplerOptions(TypedDict, total=False):
    """The options of a `Sampling` whose requests a chat answers."""

    guard: Guard | None
    allow_models: str | Iterable[str] | None
    tools: bool
    timeout: float | None
    max_concurrent: int


class Sampling:
    """A handler of sampling requests with its options.

    Example:
        sampling = Sampling(complete, guard=lambda request: ask_user(request.text), preferred_model="gpt-4.1")
        client = Client(target, on_sampling=sampling)

    `complete(request)` returns the text of the answer, a `types.CreateMessageResult` or a dict of one, or content
    blocks; it raises `Rejected` to refuse. `guard(request)` returns True to allow the request; every other value
    rejects it. For a guard, `request.message` also has the system prompt. `preferred_model` is the name of a model, or
    a function from the server's preferences to a name. `allow_models` are names or patterns such as `gpt-*`, and the
    chosen model must match one of them; without `preferred_model`, the server's hints choose an allowed model, else the
    first allowed name is chosen. `tools` and `context` declare that `complete` uses the request's `tools` and
    `include_context`. After `timeout` seconds the request is rejected. At most `max_concurrent` requests (8) are served
    at a time, for all clients together; further ones wait. Functions may be plain or async, or objects that can be
    called or have an `execute` method.

    Raises:
        TypeError: `complete`, `guard` or `preferred_model` cannot be called, or `max_concurrent` is not an integer.
        ValueError: `max_concurrent` is less than 1.
    """

    def __init__(
        self,
        complete: SamplingHandler,
        *,
        guard: Guard | None = None,
        preferred_model: PreferredModel | None = None,
        allow_models: str | Iterable[str] | None = None,
        tools: bool = False,
        context: bool = False,
        timeout: float | None = None,
        max_concurrent: int = MAX_CONCURRENT,
    ) -> None:
        self._slots = HandlerSlots(max_concurrent)
        self._complete = as_function(complete, "on_sampling")
        self._guard = None if guard is None else as_function(guard, "guard")
        self._preferred_model: str | Handler | None = (
            preferred_model
            if preferred_model is None or isinstance(preferred_model, str)
            else as_function(preferred_model, "preferred_model")
        )
        given = [allow_models] if isinstance(allow_models, str) else allow_models
        self._allowed = None if given is None else list(given)
        self.tools = tools
        self.context = context
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"<Sampling by {function_name(self._complete)}{' with tools' if self.tools else ''}>"

    def capability(self) -> types.SamplingCapability:
        """Return the capability to declare."""
        return types.SamplingCapability(tools={} if self.tools else None, context={} if self.context else None)

    def read(self, params: bytes | Raw, server: str | None = None) -> SamplingRequest:
        """Return the request that has these parameters.

        Raises:
            InvalidParams: the parameters are malformed, or have tools although this handler takes none.
        """
        dropped: list[types.Dropped] = []
        try:
            asked = types.decode(params, types.CreateMessageRequestParams, dropped)
        except ValidationError as error:
            raise InvalidParams(f"The sampling request is malformed: {error}") from None
        if dropped:
            raise InvalidParams(f"The sampling request is malformed: {dropped[0].reason}")
        if not self.tools and (asked.tools is not None or asked.tool_choice is not None):
            # MUST (2025-11-25): "The client MUST return an error if this field is provided but [it] is not declared".
            raise InvalidParams("This client does not take tools in sampling requests")
        _check_tool_results(asked.messages)
        return SamplingRequest(server=server, **{name: getattr(asked, name) for name in _SHARED_FIELDS})

    async def answer(self, request: SamplingRequest) -> types.CreateMessageResult:
        """Return the answer of the model.

        Raises:
            RpcError: the request was rejected (code -1), the handler raised an RpcError, or it failed (InternalError).
        """
        try:
            async with asyncio.timeout(self.timeout) as clock, self._slots.acquire() as slot:
                return await self._answer(request, slot)
        except Rejected as rejection:
            raise RpcError(USER_REJECTED, str(rejection)) from None
        except RpcError:
            raise
        except Exception:
            if clock.expired():
                raise RpcError(
                    USER_REJECTED, f"Sampling request was not answered within {self.timeout:g} seconds"
                ) from None
            LOGGER.exception("A sampling handler failed")
            raise InternalError("Error executing sampling request") from None

    async def _answer(self, request: SamplingRequest, slot: HandlerSlot) -> types.CreateMessageResult:
        if self._guard is not None:
            await _require_consent(self._guard, request, slot)
        chosen = msgspec.structs.replace(request, model=await self._choose_model(request, slot))
        completion = await slot.call(self._complete, chosen)
        if completion is False:
            raise Rejected
        result = result_of(chosen, completion)
        jsonrpc.encode(result)  # fails here, where the failure becomes an error for the server
        return result

    async def _choose_model(self, request: SamplingRequest, slot: HandlerSlot) -> str | None:
        model = await self._preferred(request, slot)
        if self._allowed is None:
            return model
        model = model or _model_for(request.hints, self._allowed)
        if model is None:
            raise Rejected(f"{REJECTED}: no model that is allowed fits it")
        if not matches(self._allowed, model):
            raise Rejected(f"{REJECTED}: the model {model!r} is not allowed")
        return model

    async def _preferred(self, request: SamplingRequest, slot: HandlerSlot) -> str | None:
        if not callable(self._preferred_model):
            return self._preferred_model
        try:
            model = await slot.call(self._preferred_model, request.model_preferences or types.ModelPreferences())
        except Rejected:
            raise
        except Exception:
            LOGGER.exception("preferred_model failed")
            raise InternalError("Failed to determine preferred model") from None
        if not isinstance(model, str) or not model:
            LOGGER.error("preferred_model returned %r, which is not the name of a model", model)
            raise InternalError("Failed to determine preferred model")
        return model


async def _require_consent(guard: Handler, request: SamplingRequest, slot: HandlerSlot) -> None:
    """Raise Rejected unless a guard returns True; the reason in a text is logged, and not sent to the server."""
    from dragoman.client.answer.terminal_questions import ask_person

    try:
        verdict = await ask_person(slot.call, guard, _GuardedRequest(**msgspec.structs.asdict(request)))
    except Cancelled:  # the question of the guard was withdrawn
        raise Rejected from None
    if verdict is True:
        return
    if verdict is not False:
        shown = repr(verdict[:MAX_REASON_CHARACTERS]) if isinstance(verdict, str) else type(verdict).__name__
        LOGGER.warning(
            "A guard returned %s, which rejects the sampling request: return True to allow it, False to reject it, or"
            " raise Rejected to tell the server the reason",
            shown,
        )
    raise Rejected


def result_of(request: SamplingRequest, answer: Any) -> types.CreateMessageResult:
    """Return the result for a handler's return value.

    Raises:
        TypeError: the value is neither text, nor content, nor a result.
        ValidationError: the value is a dict that is not a valid result.
    """
    if isinstance(answer, types.CreateMessageResult):
        return answer
    if isinstance(answer, Mapping) and "content" in answer and "type" not in answer:
        return _from_mapping(request, answer)
    content = [_block(part) for part in answer] if isinstance(answer, list | tuple) and answer else _block(answer)
    blocks = content if isinstance(content, list) else [content]
    uses_tools = any(isinstance(block, types.ToolUseContent) for block in blocks)
    return types.CreateMessageResult(
        "assistant", content, request.model or UNKNOWN_MODEL, stop_reason="toolUse" if uses_tools else "endTurn"
    )


def _from_mapping(request: SamplingRequest, answer: Mapping[str, Any]) -> types.CreateMessageResult:
    given = {_SPELLINGS.get(key, key): value for key, value in answer.items()}
    made = result_of(request, given["content"])
    defaults = {"role": made.role, "model": made.model, "stopReason": made.stop_reason}
    return types.decode(msgspec.json.encode({**defaults, **given, "content": made.content}), types.CreateMessageResult)


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return types.TextContent(part)
    if isinstance(part, _BLOCKS):
        return part
    if isinstance(part, Mapping) and "type" in part:
        message = msgspec.json.encode({"role": "assistant", "content": part})
        return types.decode(message, types.SamplingMessage).content
    raise TypeError(
        f"A sampling handler returned {type(part).__name__}; it must return text, a CreateMessageResult or a dict of"
        " one, or content blocks"
    )


def _blocks(message: types.SamplingMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else [message.content]


def _texts_of(block: Any) -> list[str]:
    """Return the texts in a block that a model may read; a block that is neither text nor media counts as its JSON."""
    match block:
        case types.TextContent(text=text):
            return [text]
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return _texts_of_media(data, kind)
        case types.EmbeddedResource(resource=contents) if contents.blob is not None:
            return [contents.uri, *_texts_of_media(contents.blob, contents.mime_type or "")]
        case types.EmbeddedResource(resource=contents):
            return [contents.text or ""]
        case types.ToolResultContent(content=parts, structured_content=structured):
            texts = [text for part in parts for text in _texts_of(part)]
            return texts if structured is UNSET else [*texts, _json(structured)]
    return [_json(block)]


def _texts_of_media(data: str, mime_type: str) -> list[str]:
    """Return the type of media and the text that they hold; nothing if the type is a known image or sound.

    The server chooses the type, and a model that cannot see the media may get the type and the text instead.
    """
    if mime_type in _MEDIA:
        return []
    try:
        return [mime_type, b64decode(data).decode()]
    except ValueError:
        return [mime_type]


def _json(value: Any) -> str:
    return jsonrpc.encode(value).decode()


def _model_for(hints: list[str], allowed: list[str]) -> str | None:
    """Return the allowed model that the first matching hint names, else the first allowed name without a pattern."""
    # MUST (2025-11-25): hints are evaluated in order; SHOULD: as parts of names.
    names = [model for model in allowed if not any(character in model for character in "*?[")]
    for hint in hints:
        if matches(allowed, hint):
            return hint
        if found := [name for name in names if hint.casefold() in name.casefold()]:
            return found[0]
    return names[0] if names else None


def _check_tool_results(messages: list[types.SamplingMessage]) -> None:
    """MUST (2025-11-25): a message with tool results holds nothing else, and answers every tool use before it."""
    asked: list[str] = []
    for message in messages:
        blocks = _blocks(message)
        results = [block for block in blocks if isinstance(block, types.ToolResultContent)]
        if results and len(results) != len(blocks):
            raise InvalidParams("Tool results mixed with other content")
        if sorted(result.tool_use_id for result in results) != asked:
            raise InvalidParams("Tool result missing in request" if asked else "Tool result without a tool use")
        asked = sorted(block.id for block in blocks if isinstance(block, types.ToolUseContent))
    if asked:
        raise InvalidParams("Tool result missing in request")


_SHARED_FIELDS = [name for name in SamplingRequest.__struct_fields__ if name not in ("model", "server")]
_SPELLINGS = {"stop_reason": "stopReason", "meta": "_meta"}
_BLOCKS = (*get_args(types.SamplingMessageContentBlock), types.UnknownContent)
