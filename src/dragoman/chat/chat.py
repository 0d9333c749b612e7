"""A conversation with a language model that uses MCP servers.

The model answers; what it wants to call is judged by the policy, approved where a person must, and called, all calls of
one answer at once; their results go back to the model, which answers again, a bounded number of times. Whatever goes
wrong with a call is told to the model in words. However a turn ends, every call in the conversation has its result, so
that the conversation can go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from dragoman import types
from dragoman.chat.messages import Delta, Message, Model, ModelOptions, Part, Text, ToolCall, Usage
from dragoman.chat.models import resolve_model
from dragoman.chat.policy import Policy
from dragoman.chat.rendering import (
    MOST_RESULT_CHARACTERS,
    attachment,
    parts_of,
    prompt_messages,
    resource_message,
    result_parts,
)
from dragoman.chat.toolbox import KnownTool, Toolbox
from dragoman.client.approval import CANCELLED, Approval, decide
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate
from dragoman.client.calling import call
from dragoman.client.results import CallResult
from dragoman.client.sampling import Sampling, SamplingRequest
from dragoman.errors import DragomanError, ToolError

if TYPE_CHECKING:
    from typing import Self

MOST_ROUNDS = 25
_logger = logging.getLogger("dragoman.chat")


class RoundLimit(DragomanError):
    """The model went on calling tools for too many rounds."""


class ToolResult(Struct, frozen=True):
    """What came of a call: what the model was told, and the whole result if there is one."""

    call: ToolCall
    message: Message
    result: CallResult | None = None

    @property
    def text(self) -> str:
        """What the model was told."""
        return self.message.text

    @property
    def is_error(self) -> bool:
        """Whether it went wrong."""
        return self.message.is_error


class Chunk(Struct, frozen=True):
    """A piece of a turn: some text, calls that begin, or results that came."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ToolResult] = field(default_factory=list)


class Reply(Struct, frozen=True):
    """What came of a turn.

    Example:
        reply = chat.ask("What should I wear in Oslo?")
        print(reply, reply.usage.total_tokens)
    """

    text: str
    messages: list[Message]
    """Everything that was said in this turn, the question included."""
    tool_results: list[ToolResult]
    usage: Usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        """What the model called."""
        return [result.call for result in self.tool_results]

    def __str__(self) -> str:
        return self.text


class PendingCall:
    """A call that the model wants and that is not made yet."""

    def __init__(self, call: ToolCall, tool: KnownTool | None, approval: Approval | None) -> None:
        self.call = call
        self.tool = tool
        self.approval = approval
        """What is to be decided; None where nothing is."""
        self.refusal: str | None = None
        """Why it is not made."""

    @property
    def waits(self) -> bool:
        """Whether somebody has to decide."""
        return self.refusal is None and self.approval is not None and not self.approval.decided


class Step(Struct, frozen=True):
    """What one step of a conversation did: the model answered, tools were called, or somebody must decide first."""

    kind: Literal["answer", "tools", "waiting"]
    message: Message | None = None
    tool_results: list[ToolResult] = field(default_factory=list)
    pending: list[PendingCall] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """Whether the turn has come to its end."""
        return self.kind == "answer" and self.message is not None and not self.message.tool_calls


class AsyncChat:
    """A conversation with a model, which may use the tools of MCP servers.

    Example:
        chat = AsyncChat("openai:gpt-4.1").with_instructions("Be brief.").with_tools(client)
        reply = await chat.ask("What should I wear in Oslo?")

    `model` is "provider:model", or an object with the `Model` contract; `base_url` and `api_key` are for the former.
    `policy` says which tools may be called, and `on_approval` decides about those that a person must approve of;
    without it they are not called. `on_tool_call(call)`, `on_tool_result(result)` and `on_message(message)` observe.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        policy: Policy | None = None,
        on_approval: Any = None,
        approval_timeout: float | None = None,
        max_rounds: int = MOST_ROUNDS,
        max_result_characters: int = MOST_RESULT_CHARACTERS,
        tool_timeout: float | None = None,
        on_tool_call: Callable[[ToolCall], Any] | None = None,
        on_tool_result: Callable[[ToolResult], Any] | None = None,
        on_message: Callable[[Message], Any] | None = None,
        **extra: Any,
    ) -> None:
        self._model = resolve_model(model, base_url=base_url, api_key=api_key)
        self._connection = {"base_url": base_url, "api_key": api_key}
        self._options = ModelOptions(temperature=temperature, max_tokens=max_tokens, extra=extra)
        self._policy = policy or Policy()
        self._on_approval = on_approval
        self._approval_timeout = approval_timeout
        self._max_rounds = max_rounds
        self._most = max_result_characters
        self._tool_timeout = tool_timeout
        self.on_tool_call = on_tool_call
        self.on_tool_result = on_tool_result
        self.on_message = on_message
        self.messages: list[Message] = []
        self.usage = Usage()
        self._toolbox = Toolbox()
        self._to_add: list[Callable[[], Awaitable[list[Message]]]] = []
        self._pending: list[PendingCall] = []

    # What the conversation is about; fetched when the model is asked next.

    def with_instructions(self, text: str) -> Self:
        """Tell the model about its task; what was told before is replaced."""
        self.messages = [message for message in self.messages if message.role != "system"]
        self.messages.insert(0, Message.system(text))
        return self

    def with_tools(self, *tools: Any) -> Self:
        """Let the model call tools, or all tools of clients.

        Raises:
            TypeError: something is no tool and no client; or it blocks, which belongs to `Chat`.
        """
        self._toolbox.add(tools)
        return self

    def with_resource(self, resource: Any, arguments: Mapping[str, Any] | None = None) -> Self:
        """Show the model a resource, or the one that a template gives for some arguments."""
        self._later(lambda: self._show(resource, dict(arguments or {})))
        return self

    def with_resources(self, *resources: Any) -> Self:
        """Show the model several resources."""
        for resource in resources:
            self.with_resource(resource)
        return self

    def with_resource_template(self, template: Any, arguments: Mapping[str, Any] | None = None) -> Self:
        """Show the model the resource that a template gives for some arguments."""
        return self.with_resource(template, arguments)

    def with_prompt(self, prompt: AsyncBoundPrompt, arguments: Mapping[str, Any] | None = None) -> Self:
        """Add the messages of a prompt to the conversation."""

        async def fetch() -> list[Message]:
            return prompt_messages(await prompt.fetch(**dict(arguments or {})))

        self._later(fetch)
        return self

    def _later(self, fetch: Callable[[], Awaitable[list[Message]]]) -> None:
        self._to_add.append(fetch)

    async def _show(self, resource: Any, arguments: dict[str, Any]) -> list[Message]:
        if isinstance(resource, AsyncBoundResourceTemplate):
            contents = await resource.contents(**arguments)
            title = f"{resource.name} ({resource.uri(**arguments)})"
        elif isinstance(resource, AsyncBoundResource):
            contents, title = await resource.contents(), resource.name
        else:
            raise TypeError(f"{resource!r} is no resource and no resource template of an asynchronous client")
        return [resource_message(f"{title}: {resource.description}" if resource.description else title, contents)]

    async def _add_what_waits(self) -> None:
        while self._to_add:
            for message in await self._to_add[0]():
                await self._say(message)
            self._to_add.pop(0)

    async def _say(self, message: Message) -> None:
        self.messages.append(message)
        await self._tell(self.on_message, message)

    async def _tell(self, function: Callable[..., Any] | None, *given: Any) -> None:
        if function is None:
            return
        try:
            await call(function, *given)
        except Exception:
            _logger.exception("An observer of the conversation failed")

    # Turns.

    async def ask(self, text: str | None = None, attachments: Iterable[Any] = ()) -> Reply:
        """Say something to the model, let it use its tools, and return what came of it.

        Example:
            reply = await chat.ask("What is in this picture?", attachments=["photo.png"])

        Raises:
            ModelError: the model cannot be reached, or refuses.
            RoundLimit: the model went on calling tools for too many rounds.
        """
        began, spent = len(self.messages), self.usage
        results: list[ToolResult] = []
        async for chunk in self.stream(text, attachments):
            results += chunk.tool_results
        said = self.messages[began:]
        used = Usage(self.usage.input_tokens - spent.input_tokens, self.usage.output_tokens - spent.output_tokens)
        return Reply(said[-1].text if said else "", said, results, used)

    async def ask_prompt(self, prompt: AsyncBoundPrompt, arguments: Mapping[str, Any] | None = None) -> Reply:
        """Add the messages of a prompt, and let the model answer."""
        return await self.with_prompt(prompt, arguments).ask()

    async def stream(self, text: str | None = None, attachments: Iterable[Any] = ()) -> AsyncIterator[Chunk]:
        """Say something to the model, and yield what comes of it piece by piece.

        Example:
            async for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Raises:
            ModelError: the model cannot be reached, or refuses.
            RoundLimit: the model went on calling tools for too many rounds.
        """
        await self._begin_turn(text, attachments)
        for _ in range(self._max_rounds):
            async for chunk in self._answer():
                yield chunk
            if not self._pending:
                return
            yield Chunk(tool_calls=[pending.call for pending in self._pending])
            yield Chunk(tool_results=await self._call_all(decides=True))
        raise RoundLimit(f"The model called tools for {self._max_rounds} rounds without coming to an answer")

    async def step(self, text: str | None = None, attachments: Iterable[Any] = ()) -> Step:
        """Go one step: let the model answer once, or call what it wanted to be called.

        Where somebody must decide first, nothing is done: see `pending_tool_calls`, `approve` and `deny`.
        """
        if self._pending:
            waiting = [pending for pending in self._pending if pending.waits]
            if waiting:
                return Step("waiting", pending=waiting)
            return Step("tools", tool_results=await self._call_all(decides=False))
        await self._begin_turn(text, attachments)
        async for _ in self._answer():
            pass
        return Step("answer", self.messages[-1], pending=list(self._pending))

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """What the model wants to be called, and is not called yet."""
        return list(self._pending)

    def approve(self, pending: PendingCall | str) -> None:
        """Let a call be made with exactly the arguments that it has."""
        self._find_pending(pending).approve()

    def deny(self, pending: PendingCall | str, reason: str | None = None) -> None:
        """Refuse a call; the model is told so."""
        self._find_pending(pending).deny(reason)

    def _find_pending(self, wanted: PendingCall | str) -> Approval:
        for pending in self._pending:
            if (pending is wanted or pending.call.id == wanted) and pending.approval is not None:
                return pending.approval
        raise KeyError(f"No call {wanted!r} waits to be decided")

    async def _begin_turn(self, text: str | None, attachments: Iterable[Any]) -> None:
        await self._settle()
        await self._add_what_waits()
        parts: list[Part] = [attachment(given) for given in attachments]
        if text is not None or parts:
            await self._say(Message("user", [*([Text(text)] if text is not None else []), *parts]))

    async def _settle(self) -> None:
        """Give every call that was never made a result: no provider takes a conversation without."""
        for pending in self._pending:
            await self._say(_tool_message(pending.call, "The call was given up", is_error=True))
        self._pending = []

    async def _answer(self) -> AsyncIterator[Chunk]:
        """Let the model say something, and note what it wants to be called."""
        tools = await self._toolbox.open()
        specs = [known.spec for known in tools.values()]
        gathered = _Gathered()
        async for delta in self._model.generate(list(self.messages), specs, self._options):
            gathered.add(delta)
            if delta.text:
                yield Chunk(text=delta.text)
        self.usage += gathered.usage
        calls = gathered.calls()
        await self._say(Message.assistant("".join(gathered.text), calls))
        self._pending = [await self._judged(wanted, tools) for wanted in calls]

    async def _judged(self, wanted: ToolCall, tools: Mapping[str, KnownTool]) -> PendingCall:
        known = tools.get(wanted.name)
        pending = PendingCall(wanted, known, None)
        if known is None:
            there = ", ".join(tools) or "none"
            pending.refusal = f"There is no tool {wanted.name!r}; there are: {there}"
        elif wanted.arguments is None:
            pending.refusal = f"The arguments are no JSON object: {wanted.raw[:200]}"
        else:
            await self._judge(pending, known)
        return pending

    async def _judge(self, pending: PendingCall, known: KnownTool) -> None:
        arguments = known.arguments(pending.call)
        verdict = await self._policy.judge(known.names, known.tool, arguments, trusted=known.tool.is_trusted)
        if verdict == "deny":
            pending.refusal = "This tool may not be called"
            return
        pending.approval = Approval(
            known.name, arguments, tool=known.tool.definition, server=known.tool.server, id=pending.call.id
        )
        if verdict == "allow":
            pending.approval.approve()

    async def _call_all(self, *, decides: bool) -> list[ToolResult]:
        """Make all calls at once, and put their results into the conversation in the order of the calls."""
        calls = self._pending
        outcomes = [asyncio.ensure_future(self._call(pending, decides=decides)) for pending in calls]
        try:
            await asyncio.gather(*outcomes)
        finally:
            results = [_outcome(pending, task) for pending, task in zip(calls, outcomes, strict=True)]
            self._pending = []
            for result in results:
                self.messages.append(result.message)
        for result in results:
            await self._tell(self.on_message, result.message)
            await self._tell(self.on_tool_result, result)
        return results

    async def _call(self, pending: PendingCall, *, decides: bool) -> ToolResult:
        try:
            await self._approved(pending, decides=decides)
        except ToolError as error:
            return _failed(pending, str(error))
        assert pending.tool is not None
        assert pending.approval is not None
        await self._tell(self.on_tool_call, pending.call)
        try:
            result = await pending.tool.tool.call(
                pending.approval.arguments, raise_on_error=False, timeout=self._tool_timeout
            )
        except DragomanError as error:
            return _failed(pending, f"{type(error).__name__}: {error}")
        message = Message("tool", result_parts(result, self._most), tool_call_id=pending.call.id)
        message.is_error = result.is_error
        return ToolResult(pending.call, message, result)

    async def _approved(self, pending: PendingCall, *, decides: bool) -> None:
        """Return if a call may be made.

        Raises:
            ToolError: it may not.
        """
        if pending.refusal is not None:
            raise ToolError(pending.refusal)
        approval = pending.approval
        assert approval is not None
        if approval.decided or not decides:
            if not approval.approved:
                raise ToolError(f"{CANCELLED}: {approval.reason}" if approval.reason else CANCELLED)
        elif self._on_approval is None:
            approval.deny("nobody is there to approve of it")
            raise ToolError(f"{CANCELLED}: {approval.reason}")
        else:
            await decide(self._on_approval, approval, self._approval_timeout)

    # Sampling.

    def sampler(self, *, preferred_model: Any = None, guard: Any = None, **options: Any) -> Sampling:
        """Return a handler by which this chat's model answers what servers ask of it, apart from this conversation.

        Example:
            client = AsyncClient(target, on_sampling=chat.sampler(guard=lambda request: len(request.message) < 1000))
        """
        return Sampling(self._sample, preferred_model=preferred_model, guard=guard, **options)

    async def _sample(self, request: SamplingRequest) -> types.CreateMessageResult:
        model = self._model
        if request.model is not None and request.model != model.name:
            model = resolve_model(request.model, **self._connection)
        messages = [] if request.system_prompt is None else [Message.system(request.system_prompt)]
        for asked in request.messages:
            blocks = asked.content if isinstance(asked.content, list) else [asked.content]
            messages.append(Message(asked.role, parts_of(blocks)))
        options = msgspec.structs.replace(
            self._options,
            max_tokens=request.max_tokens,
            temperature=request.temperature if request.temperature is not None else self._options.temperature,
            stop=request.stop_sequences,
        )
        gathered = _Gathered()
        async for delta in model.generate(messages, [], options):
            gathered.add(delta)
        self.usage += gathered.usage
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text="".join(gathered.text)),
            model=model.name,
            stop_reason=_STOP_REASONS.get(gathered.finish_reason or "stop", "endTurn"),
        )


_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


class _Gathered:
    """An answer that comes in pieces."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.usage = Usage()
        self.finish_reason: str | None = None
        self._calls: dict[int, list[str]] = {}

    def add(self, delta: Delta) -> None:
        """Take a piece."""
        self.text.append(delta.text)
        if delta.usage is not None:
            self.usage += delta.usage
        self.finish_reason = delta.finish_reason or self.finish_reason
        for piece in delta.tool_calls:
            known = self._calls.setdefault(piece.index, ["", "", ""])
            known[0] = known[0] or piece.id or ""
            known[1] = known[1] or piece.name or ""
            known[2] += piece.arguments

    def calls(self) -> list[ToolCall]:
        """Return the calls that the answer wants, in order."""
        return [
            ToolCall(id or f"call_{index}", name, _arguments(raw), raw)
            for index, (id, name, raw) in sorted(self._calls.items())
        ]


def _arguments(raw: str) -> types.Json | None:
    try:
        found = msgspec.json.decode(raw or "{}")
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _tool_message(wanted: ToolCall, text: str, *, is_error: bool) -> Message:
    return Message("tool", [Text(text)], tool_call_id=wanted.id, is_error=is_error)


def _failed(pending: PendingCall, text: str) -> ToolResult:
    return ToolResult(pending.call, _tool_message(pending.call, f"Error: {text}", is_error=True))


def _outcome(pending: PendingCall, task: asyncio.Task[ToolResult]) -> ToolResult:
    """Return what came of a call, also of one that was given up or failed in a way that nobody foresaw."""
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    task.cancel()
    return _failed(pending, "the call was given up")
