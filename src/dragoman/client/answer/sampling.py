"""Questions of a server to the client's model.

A request passes the guard, gets its model, and is completed; each step may refuse it, and all of them together have one
time limit. However it ends, there is one answer: a message, a rejection, or an error that tells nothing of the cause.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman import types
from dragoman.client.answer.calling import LOGGER, AnsweredBy, Places, RequestSlot, handler, name_of
from dragoman.errors import InternalError, InvalidParams, Rejected, RpcError, ValidationError
from dragoman.protocol import jsonrpc
from dragoman.schema.naming import matches

MAX_CONCURRENT = 8
USER_REJECTED = -1
REJECTED = "Sampling request was rejected"
UNKNOWN_MODEL = "unknown"
_MEDIA = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg"}
)
"""Types of media that a model is shown as they are, or not at all."""


class SamplingRequest(Struct, kw_only=True):
    """What a server asks of the client's model.

    Example:
        def on_sampling(request: SamplingRequest) -> str:
            return my_model(request.message, system=request.system_prompt, max_tokens=request.max_tokens)

    `model` is what was chosen for it, if anything was; `server` is the name of the server that asks.
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
        """The text of all messages, without their other content; for a guard the same as `text`."""
        return "\n".join(_texts(self.messages))

    @property
    def text(self) -> str:
        """All text that the model is told: the system prompt, the messages, results of tools, and the tools."""
        told = [] if self.system_prompt is None else [self.system_prompt]
        for message in self.messages:
            for block in _blocks(message):
                told += _told_by(block)
        for tool in self.tools or ():
            told.append(_json(tool))
        return "\n".join(filter(None, told))

    @property
    def hints(self) -> list[str]:
        """The names, or parts of names, of models that the server would like, the best first."""
        hints = self.model_preferences.hints if self.model_preferences else None
        return [hint.name for hint in hints or () if hint.name]


Part = str | types.SamplingMessageContentBlock | types.Json
Said = Part | types.CreateMessageResult | Sequence[Part] | Literal[False]
SamplingHandler = AnsweredBy[SamplingRequest, Said]
"""Asks the model for a server: returns the text of the answer, a result, or content blocks; False rejects."""
Guard = AnsweredBy[SamplingRequest, bool]
"""Tells whether a model may be asked."""
PreferredModel = str | AnsweredBy[types.ModelPreferences, str]
"""The name of a model, or what chooses one by the server's preferences."""


class _Guarded(SamplingRequest, kw_only=True):
    """A request as a guard sees it: no text that the model is told is left out."""

    @property
    def message(self) -> str:
        """All text that the model is told."""
        return self.text


class SamplerOptions(TypedDict, total=False):
    """The options of a `Sampling` whose requests a chat answers."""

    guard: Guard | None
    allow_models: str | Iterable[str] | None
    tools: bool
    timeout: float | None
    max_concurrent: int


class Sampling:
    """A handler of sampling requests, with what it lets through and what it can do.

    Example:
        sampling = Sampling(complete, guard=lambda request: ask_user(request.text), preferred_model="gpt-4.1")
        client = Client(target, on_sampling=sampling)

    `complete(request)` returns the text of the answer, a `types.CreateMessageResult` or a dict of one, or content
    blocks; it raises `Rejected` to refuse. `guard(request)` returns False to reject; it sees the system prompt also in
    `request.message`. `preferred_model` is the name of a model, or a function from the server's `ModelPreferences` to a
    name. `allow_models` are names or patterns such as `gpt-*`, and the chosen model must be one of them; without a
    preferred model, it is the first that the server's hints are part of, else the first name. `tools` and `context` say
    that `complete` passes on the request's `tools` and `include_context`. After `timeout` seconds the request is
    rejected. At most `max_concurrent` requests (8) are worked on at a time, whichever clients they come from; the
    others wait. Functions may be plain or async, or objects that can be called or have an `execute` method.

    Raises:
        TypeError: `complete`, `guard` or `preferred_model` is nothing that can be called, or `max_concurrent` is no
            integer.
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
        self._places = Places(max_concurrent)
        self._complete = handler(complete, "on_sampling")
        self._guard = None if guard is None else handler(guard, "guard")
        is_named = preferred_model is None or isinstance(preferred_model, str)
        self._model_name = preferred_model if isinstance(preferred_model, str) else None
        self._model_for = None if is_named else handler(preferred_model, "preferred_model")
        given = [allow_models] if isinstance(allow_models, str) else allow_models
        self._allowed = None if given is None else list(given)
        self.tools = tools
        self.context = context
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"<Sampling by {name_of(self._complete)}{' with tools' if self.tools else ''}>"

    def capability(self) -> types.SamplingCapability:
        """Return what is declared to servers."""
        return types.SamplingCapability(tools={} if self.tools else None, context={} if self.context else None)

    def read(self, params: bytes | Raw, server: str | None = None) -> SamplingRequest:
        """Return the request that parameters mean.

        Raises:
            InvalidParams: they are malformed, or have tools that this handler does not take.
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
        shared = {name: getattr(asked, name) for name in _SHARED}
        return SamplingRequest(server=server, **shared)

    async def answer(self, request: SamplingRequest) -> types.CreateMessageResult:
        """Return what the model said.

        Raises:
            RpcError: -1 for a request that is rejected, what the handler raised for the server, else an InternalError.
        """
        try:
            async with asyncio.timeout(self.timeout) as clock, self._places.one() as place:
                return await self._answer(request, place)
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

    async def _answer(self, request: SamplingRequest, place: RequestSlot) -> types.CreateMessageResult:
        if self._guard is not None and not await place.call(self._guard, _Guarded(**msgspec.structs.asdict(request))):
            raise Rejected
        chosen = msgspec.structs.replace(request, model=await self._choose(request, place))
        said = await place.call(self._complete, chosen)
        if said is False:
            raise Rejected
        result = result_of(chosen, said)
        jsonrpc.encode(result)  # what cannot be sent must fail while the request can still be answered
        return result

    async def _choose(self, request: SamplingRequest, place: RequestSlot) -> str | None:
        model = await self._preferred(request, place)
        if self._allowed is None:
            return model
        model = model or _fitting(request.hints, self._allowed)
        if model is None:
            raise Rejected(f"{REJECTED}: no model that is allowed fits it")
        if not matches(self._allowed, model):
            raise Rejected(f"{REJECTED}: the model {model!r} is not allowed")
        return model

    async def _preferred(self, request: SamplingRequest, place: RequestSlot) -> str | None:
        if self._model_for is None:
            return self._model_name
        try:
            model = await place.call(self._model_for, request.model_preferences or types.ModelPreferences())
        except Rejected:
            raise
        except Exception:
            LOGGER.exception("preferred_model failed")
            raise InternalError("Failed to determine preferred model") from None
        if not isinstance(model, str) or not model:
            LOGGER.error("preferred_model returned %r, which is not the name of a model", model)
            raise InternalError("Failed to determine preferred model")
        return model


def result_of(request: SamplingRequest, answer: Any) -> types.CreateMessageResult:
    """Return the message that a handler's answer means.

    Raises:
        TypeError: it is nothing that a message can be made of.
        ValidationError: it is a dict that does not fit.
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
    usual = {"role": made.role, "model": made.model, "stopReason": made.stop_reason}
    return types.decode(msgspec.json.encode({**usual, **given, "content": made.content}), types.CreateMessageResult)


def _block(part: Any) -> Any:
    if isinstance(part, str):
        return types.TextContent(part)
    if isinstance(part, _BLOCKS):
        return part
    if isinstance(part, Mapping) and "type" in part:
        said = msgspec.json.encode({"role": "assistant", "content": part})
        return types.decode(said, types.SamplingMessage).content
    raise TypeError(
        f"A sampling handler returned {type(part).__name__}; it must return text, a CreateMessageResult or a dict of"
        " one, or content blocks"
    )


def _blocks(message: types.SamplingMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else [message.content]


def _texts(messages: list[types.SamplingMessage]) -> list[str]:
    blocks = [block for message in messages for block in _blocks(message)]
    return [block.text for block in blocks if isinstance(block, types.TextContent)]


def _told_by(block: Any) -> list[str]:
    """Return what a block tells a model in words; what is neither text nor media is told as JSON."""
    match block:
        case types.TextContent(text=text):
            return [text]
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            return _told_by_media(data, kind)
        case types.EmbeddedResource(resource=contents) if contents.blob is not None:
            return [contents.uri, *_told_by_media(contents.blob, contents.mime_type or "")]
        case types.EmbeddedResource(resource=contents):
            return [contents.text or ""]
        case types.ToolResultContent(content=parts, structured_content=structured):
            told = [text for part in parts for text in _told_by(part)]
            return told if structured is UNSET else [*told, _json(structured)]
    return [_json(block)]


def _told_by_media(data: str, mime_type: str) -> list[str]:
    """Return what media tell a model in words: their type and their text, unless it is plainly an image or a sound.

    The server names the type, and a model that cannot be shown the media may be told both.
    """
    if mime_type in _MEDIA:
        return []
    try:
        return [mime_type, b64decode(data).decode()]
    except ValueError:
        return [mime_type]


def _json(value: Any) -> str:
    return jsonrpc.encode(value).decode()


def _fitting(hints: list[str], allowed: list[str]) -> str | None:
    """Return the model that the hints, in their order, lead to, else the first that has a name."""
    # MUST (2025-11-25): hints are evaluated in order; SHOULD: as parts of names.
    names = [model for model in allowed if not _is_pattern(model)]
    for hint in hints:
        if matches(allowed, hint):
            return hint
        if found := [name for name in names if hint.casefold() in name.casefold()]:
            return found[0]
    return names[0] if names else None


def _is_pattern(model: str) -> bool:
    return any(character in model for character in "*?[")


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


_SHARED = [name for name in SamplingRequest.__struct_fields__ if name not in ("model", "server")]
_SPELLINGS = {"stop_reason": "stopReason", "meta": "_meta"}
_BLOCKS = (*get_args(types.SamplingMessageContentBlock), types.UnknownContent)
