"""`AsyncChat`: a conversation with a language model that uses MCP servers.

A turn is a bounded number of rounds. In each round the model answers. The policy judges the tool calls in the answer, a
person approves those for which the policy requires approval, and the chat makes all calls of one answer at the same
time. The next round begins with the results. The turn ends with an answer that has no tool calls.

Invariant: when a turn has ended, also by an error or a cancellation, every call in the conversation has a result,
because providers refuse a conversation in which a call has none. So no await stands between a change of `messages` and
the change of `_pending` that belongs to it, when calls are added and when results are added.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import msgspec

from dragoman import types
from dragoman.chat.content import Attachments, attachment, prompt_messages, resource_message, separated
from dragoman.chat.messages import Message, Model, ModelOptions, Part, StopReason, Text, ToolCall, Usage
from dragoman.chat.models.answers import ModelAnswer, closing
from dragoman.chat.models.selection import ChatModels
from dragoman.chat.options import ChatOptions, check
from dragoman.chat.replies import ChatToolResult, Chunk, PendingCall, Reply, Step
from dragoman.chat.sampler import sample
from dragoman.chat.tool_calls import CallProgress, ToolCalls, outcome, settle
from dragoman.chat.tools import AsyncToolSource, ChatTool, Toolbox
from dragoman.chat.turns import Observers, Turns
from dragoman.client.answer.approval import Approval
from dragoman.client.answer.sampling import PreferredModel, SamplerOptions, Sampling, SamplingRequest
from dragoman.client.bound import AsyncBoundPrompt, AsyncBoundResource, AsyncBoundResourceTemplate
from dragoman.errors import NotFound, RoundLimit
from dragoman.runtime.offload import offload

if TYPE_CHECKING:
    from dragoman.chat.skills import AsyncSkillSource, ChatSkills

MAX_ROUNDS = 25
Fetch = Callable[[], Awaitable[list[Message]]]


class AsyncChat:
    """A conversation with a model, which may use the tools of MCP servers.

    Example:
        chat = AsyncChat("openai:gpt-4.1").with_instructions("Be brief.").with_tools(client)
        reply = await chat.ask("What should I wear in Oslo?")

    `model` is "provider:model", or an object with the `Model` contract; the options are those of `ChatOptions`. A chat
    is one conversation, with one turn at a time.

    Raises:
        TypeError: an option is unknown, or a value has the wrong type.
        ValueError: an option has an invalid value.
        ModelError: the model is given by its name, and the package any-llm-sdk is not installed.
    """

    def __init__(self, model: str | Model, **options: Unpack[ChatOptions]) -> None:
        check(options)
        self._models = ChatModels(model, base_url=options.get("base_url"), api_key=options.get("api_key"))
        self._options = ModelOptions(
            temperature=options.get("temperature"),
            max_tokens=options.get("max_tokens"),
            extra=dict(options.get("extra") or {}),
        )
        self._max_rounds = options.get("max_rounds") or MAX_ROUNDS
        self.on_tool_call = options.get("on_tool_call")
        self.on_tool_result = options.get("on_tool_result")
        self.on_message = options.get("on_message")
        self.messages: list[Message] = []
        self.usage = Usage()
        self._calls = ToolCalls(options)
        self._toolbox = Toolbox()
        self._skills: ChatSkills | None = None
        self._tools: Mapping[str, ChatTool] = {}
        self._turns = Turns()
        self._fetches: list[Fetch] = []
        self._pending: list[PendingCall] = []
        self._turn_messages: list[Message] = []
        self._stop_reason: StopReason | None = None
        self._observers = Observers()

    def __repr__(self) -> str:
        size = self._toolbox.size
        tools = "tools not listed yet" if size is None else _count(size, "tool")
        return f"<{type(self).__name__} {self._models.own.name!r}: {_count(len(self.messages), 'message')}, {tools}>"

    # Content of the conversation. Resources and prompts are fetched when the next turn begins.

    def with_model(self, model: str | Model, *, base_url: str | None = None, api_key: str | None = None) -> Self:
        """Continue the conversation with another model.

        Raises:
            TypeError: `model` is neither a name nor a model.
            ModelError: the model is given by its name, and the package any-llm-sdk is not installed.
        """
        self._models.choose(model, base_url=base_url, api_key=api_key)
        return self

    def with_temperature(self, temperature: float | None) -> Self:
        """Set the temperature of the model; None leaves it to the model."""
        self._options = msgspec.structs.replace(self._options, temperature=temperature)
        return self

    def with_instructions(self, text: str) -> Self:
        """Set the instructions of the model; they replace earlier ones."""
        self.messages[:] = [Message.system(text), *(message for message in self.messages if message.role != "system")]
        return self

    def with_tools(self, *tools: AsyncToolSource) -> Self:
        """Let the model call tools, or all tools of clients.

        Example:
            chat.with_tools(weather_client, *tools_of_another)

        Raises:
            TypeError: an argument is neither a tool nor a client, or belongs to the other kind of chat.
        """
        self._toolbox.add(tools)
        return self

    def with_skills(self, *clients: AsyncSkillSource) -> Self:
        """Let the model load the skills of clients, by a tool `load_skill`, and read their files.

        Example:
            chat.with_tools(client).with_skills(client)

        What a skill says is tagged with its server. The policy of the chat judges `server__skill`.

        Raises:
            TypeError: an argument is not a client, or belongs to the other kind of chat.
        """
        from dragoman.chat.skills import ChatSkills

        self._skills = self._skills or ChatSkills()
        self._skills.add(clients)
        return self

    def with_resource(
        self, resource: AsyncBoundResource | AsyncBoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Add a resource to the conversation, or the resource of a template for some arguments.

        Raises:
            TypeError: `resource` is neither a resource nor a template, or belongs to the other kind of chat.
        """
        given = dict(arguments or {})
        if isinstance(resource, AsyncBoundResource) and given:
            raise TypeError(f"{resource!r} takes no arguments; a resource template does")
        if not isinstance(resource, AsyncBoundResource | AsyncBoundResourceTemplate):
            raise _other_kind(resource, "resource or resource template")
        self._fetches.append(lambda: _resource_messages(resource, given))
        return self

    def with_resources(self, *resources: AsyncBoundResource) -> Self:
        """Add several resources to the conversation.

        Raises:
            TypeError: an argument is not a resource, or belongs to the other kind of chat.
        """
        for resource in resources:
            self.with_resource(resource)
        return self

    def with_resource_template(
        self, template: AsyncBoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Add the resource of a template for some arguments to the conversation.

        Raises:
            TypeError: `template` is not a resource template, or belongs to the other kind of chat.
        """
        return self.with_resource(template, arguments)

    def with_prompt(self, prompt: AsyncBoundPrompt, arguments: Mapping[str, Any] | None = None) -> Self:
        """Add the messages of a prompt to the conversation.

        Raises:
            TypeError: `prompt` is not a prompt, or belongs to the other kind of chat.
        """
        if not isinstance(prompt, AsyncBoundPrompt):
            raise _other_kind(prompt, "prompt")
        given = dict(arguments or {})

        async def fetch() -> list[Message]:
            return prompt_messages(await prompt.fetch(**given))

        self._fetches.append(fetch)
        return self

    # Turns.

    async def ask(self, text: str | None = None, attachments: Attachments = ()) -> Reply:
        """Ask the model, make the tool calls that it requests, and return its reply.

        Example:
            reply = await chat.ask("What is in this picture?", attachments=["photo.png"])

        Without a text the model continues after the last message. An attachment is a path, bytes with their
        MIME type, a content block of a server, or a part of a message.

        Raises:
            ModelError: the model cannot be reached, or refuses; the messages are kept, and `ask()` tries again.
            RoundLimit: the model still called tools in the last allowed round.
            DragomanError: another turn is running; or a resource, a prompt or the tools cannot be fetched.
        """
        spent = self.usage
        results: list[ChatToolResult] = []
        async with aclosing(self.stream(text, attachments)) as chunks:
            async for chunk in chunks:
                results += chunk.tool_results
        used = Usage(self.usage.input_tokens - spent.input_tokens, self.usage.output_tokens - spent.output_tokens)
        text = self._turn_messages[-1].text if self._turn_messages else ""
        return Reply(text, self._turn_messages, results, used, self._stop_reason)

    async def ask_prompt(self, prompt: AsyncBoundPrompt, arguments: Mapping[str, Any] | None = None) -> Reply:
        """Add the messages of a prompt, and let the model answer.

        Raises:
            TypeError: `prompt` is not a prompt, or belongs to the other kind of chat; also the errors of `ask`.
        """
        return await self.with_prompt(prompt, arguments).ask()

    async def stream(self, text: str | None = None, attachments: Attachments = ()) -> AsyncGenerator[Chunk, None]:
        """Ask the model, and yield its reply piece by piece.

        Example:
            async for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Closing the stream early ends the turn, and cancels the tool calls that are under way.

        Raises:
            ModelError: the model cannot be reached, or refuses; the messages are kept, and `ask()` tries again.
            RoundLimit: the model still called tools in the last allowed round.
            DragomanError: another turn is running; or a resource, a prompt or the tools cannot be fetched.
        """
        async with self._turns.begin() as turn, self._observers.awaited():
            try:
                async with aclosing(self._rounds(text, attachments)) as chunks:
                    try:
                        async for chunk in chunks:
                            yield chunk
                    except (GeneratorExit, asyncio.CancelledError):
                        turn.is_abandoned = True
                        raise
            finally:  # only after the rounds are closed do the calls that were under way have their results
                self._settle()

    async def _rounds(self, text: str | None, attachments: Attachments) -> AsyncGenerator[Chunk, None]:
        await self._begin(text, attachments)
        for _ in range(self._max_rounds):
            async with aclosing(self._answer()) as chunks:
                async for chunk in chunks:
                    yield chunk
            if self._pending or self._stop_reason is not None:
                yield Chunk(tool_calls=[pending.call for pending in self._pending], stop_reason=self._stop_reason)
            if not self._pending:
                return
            async with aclosing(self._call_all(asks=True)) as chunks:
                async for chunk in chunks:
                    yield chunk
        raise RoundLimit(
            f"The model called tools in {self._max_rounds} rounds and gave no answer; call ask() to let it go on, or"
            " raise max_rounds"
        )

    async def step(self, text: str | None = None, attachments: Attachments = ()) -> Step:
        """Run one step of a turn: get one answer of the model, or make the tool calls of the last answer.

        Example:
            step = await chat.step("What should I wear in Oslo?")
            while not step.is_last:
                for pending in step.pending:
                    chat.approve(pending)
                step = await chat.step()

        If a call still needs approval, no call is made: see `pending_tool_calls`, `approve` and `deny`.

        Raises:
            ValueError: a text is given while tool calls are pending.
            ModelError: the model cannot be reached, or refuses.
            DragomanError: another turn is running; or a resource, a prompt or the tools cannot be fetched.
        """
        async with self._turns.begin(), self._observers.awaited():
            if self._pending:
                if text is not None or attachments:
                    raise ValueError("The model wants to call tools first: step() makes the calls, ask() gives them up")
                return await self._step_calls()
            await self._begin(text, attachments)
            async with aclosing(self._answer()) as chunks:
                async for _ in chunks:
                    pass
            message, pending = self._turn_messages[-1], list(self._pending)
            return Step("answer", message, pending=pending, stop_reason=self._stop_reason)

    async def _step_calls(self) -> Step:
        await self._judge()
        waiting = [pending for pending in self._pending if pending.waits]
        if waiting:
            return Step("waiting", pending=waiting)
        async with aclosing(self._call_all(asks=False)) as chunks:
            results = [result async for chunk in chunks for result in chunk.tool_results]
        return Step("tools", tool_results=results)

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """The tool calls that the model requested and that are not made yet."""
        return list(self._pending)

    def approve(self, pending: PendingCall | str) -> bool:
        """Approve a call with its present arguments; return False if the call was decided already.

        Raises:
            NotFound: no such call is pending.
        """
        return self._find_pending(pending).approve()

    def deny(self, pending: PendingCall | str, reason: str | None = None) -> bool:
        """Deny a call; the model gets the denial as the result. Return False if the call was decided already.

        Raises:
            NotFound: no such call is pending.
        """
        return self._find_pending(pending).deny(reason)

    def _find_pending(self, sought: PendingCall | str) -> Approval:
        for pending in self._pending:
            if (pending is sought or pending.call.id == sought) and pending.approval is not None:
                return pending.approval
        id = sought if isinstance(sought, str) else sought.call.id
        raise NotFound("pending tool call", id, [pending.call.id for pending in self._pending if pending.approval])

    # The steps of a turn.

    async def _begin(self, text: str | None, attachments: Attachments) -> None:
        given = [attachments] if isinstance(attachments, str | bytes | Path) else list(attachments)
        parts: list[Part] = [await offload(attachment, one) for one in given]
        self._turn_messages = []
        self._settle()
        while self._fetches:
            try:
                messages = await self._fetches[0]()
            except Exception:  # a failed fetch is dropped; a cancelled one is repeated in the next turn
                self._fetches.pop(0)
                raise
            self._fetches.pop(0)
            self._add(*messages)
        if text is not None or parts:
            self._add(Message("user", separated([*([Text(text)] if text is not None else []), *parts])))

    def _settle(self) -> None:
        """Drop the pending calls, and add a failure as the result of each call without a result."""
        self._pending = []
        self._notify(settle(self.messages))

    def _add(self, *messages: Message) -> None:
        self.messages += messages
        self._notify(messages)

    def _notify(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._turn_messages.append(message)
            self._observers.notify(self.on_message, message)

    async def _answer(self) -> AsyncGenerator[Chunk, None]:
        """Get an answer of the model, and judge its tool calls."""
        tools = await self._toolbox.list_tools()
        if self._skills is not None:
            tools = await self._skills.with_tools(tools)
        self._tools = self._calls.links.with_readers(tools)
        specs = [known.spec for known in self._tools.values()]
        answer = ModelAnswer()
        try:
            async with closing(self._models.own.generate(list(self.messages), specs, self._options)) as deltas:
                async for delta in deltas:
                    answer.add(delta)
                    if delta.text:
                        yield Chunk(text=delta.text)
        finally:
            self.usage += answer.usage
        calls = answer.calls({known.id for message in self.messages for known in message.tool_calls})
        self._stop_reason = answer.stop_reason
        self._add(Message.assistant(answer.text, calls))
        self._pending = [PendingCall(call, self._tools.get(call.name)) for call in calls]
        await self._judge()

    async def _judge(self) -> None:
        for pending in self._pending:
            await self._calls.judge(pending, self._tools)

    async def _call_all(self, *, asks: bool) -> AsyncGenerator[Chunk, None]:
        """Make all pending calls at the same time, and add their results in the order of the calls.

        The chunks have the progress of the calls, and the last chunk has the results.
        """
        calls, progress = self._pending, CallProgress()

        def notify(call: ToolCall) -> None:
            self._observers.notify(self.on_tool_call, call)

        tasks = [
            asyncio.create_task(self._calls.make(pending, notify, progress.receiver(pending), asks=asks))
            for pending in calls
        ]
        try:
            async with aclosing(progress.until_ended(tasks)) as reports:
                async for report in reports:
                    yield Chunk(tool_progress=report)
        finally:
            results = [outcome(pending, task) for pending, task in zip(calls, tasks, strict=True)]
            self._pending = []
            self._add(*(result.message for result in results))
        for result in results:
            self._observers.notify(self.on_tool_result, result)
        yield Chunk(tool_results=results)

    async def _wait_for_turn(self) -> None:
        """Wait for the end of a cancelled turn."""
        async with self._turns.begin():
            pass

    # Sampling.

    def sampler(
        self, *, preferred_model: PreferredModel | Model | None = None, **options: Unpack[SamplerOptions]
    ) -> Sampling:
        """Return a handler of sampling requests, which models answer outside of this conversation.

        Example:
            client = AsyncClient(target, on_sampling=chat.sampler(guard=lambda request: len(request.text) < 1000))

        `preferred_model` is a name, a model, or a function from the server's preferences to a name; without it, this
        chat's model answers. The options are those of `Sampling`. The tokens count in this chat's `usage`, and each
        answer has at most the chat's own `max_tokens`.

        Raises:
            TypeError: a value has the wrong type.
            ValueError: `max_concurrent` is less than 1.
        """
        is_model = callable(getattr(preferred_model, "generate", None))
        chosen = self._models.add(cast("Model", preferred_model)) if is_model else preferred_model

        async def complete(request: SamplingRequest) -> types.CreateMessageResult:
            return await sample(request, self._models.named(request.model), self._options, self._spend)

        return Sampling(complete, preferred_model=cast("PreferredModel | None", chosen), **options)

    def _spend(self, usage: Usage) -> None:
        self.usage += usage

    # The end.

    async def close(self) -> None:
        """Close the connections of models that were given by name; the next turn opens them again.

        Example:
            async with AsyncChat("openai:gpt-4.1") as chat:
                print(await chat.ask("Hello"))
        """
        await self._models.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _resource_messages(
    resource: AsyncBoundResource | AsyncBoundResourceTemplate, arguments: dict[str, Any]
) -> list[Message]:
    if isinstance(resource, AsyncBoundResourceTemplate):
        contents, title = await resource.contents(**arguments), f"{resource.name} ({resource.uri(**arguments)})"
    else:
        contents, title = await resource.contents(), resource.name
    return [resource_message(f"{title}: {resource.description}" if resource.description else title, contents)]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _other_kind(given: Any, wanted: str) -> TypeError:
    if hasattr(given, "asynchronous"):
        return TypeError(f"{given!r} is blocking; use a Chat, or take it from an AsyncClient")
    return TypeError(f"{given!r} is not a {wanted} of an AsyncClient; take one from its lists, or by its name")
