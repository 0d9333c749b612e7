"""`Chat`: the blocking chat, which drives an `AsyncChat` on the loop that all blocking clients share.

One task of that loop reads a stream, because a provider's library must close a connection in the task that opened it.
The chunks reach the thread of the caller through an unbounded queue, whose `put` never blocks the loop. A semaphore of
the loop bounds how many chunks are in the queue. The end of a stream does not count, so that it never waits for room.
A stream that is left early is cancelled, and the caller waits for its end.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import aclosing, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.chat.chat import AsyncChat
from dragoman.chat.replies import Chunk, PendingCall, Reply
from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client
from dragoman.client.bound import AsyncBoundTool
from dragoman.runtime.callables import blocking
from dragoman.runtime.offload import offload
from dragoman.runtime.portal import existing_portal, outcome, portal

if TYPE_CHECKING:
    from typing import Self, TypeAlias, Unpack

    from dragoman.chat.content import Attachments
    from dragoman.chat.messages import Message, Model, ToolCall, Usage
    from dragoman.chat.options import ChatOptions
    from dragoman.chat.replies import ChatToolResult
    from dragoman.client.answer.sampling import PreferredModel, SamplerOptions, Sampling
    from dragoman.client.group.blocking import Clients

    ToolSource: TypeAlias = BoundTool | Client | Clients
    """A tool, or a client with tools."""

T = TypeVar("T")
MAX_QUEUED_CHUNKS = 100
SLICE_SECONDS = 1.0
CLOSING_SECONDS = 5.0
_END = object()


class Chat:
    """A conversation with a model, which may use the tools of MCP servers; its methods block.

    Example:
        chat = Chat("openai:gpt-4.1").with_instructions("Be brief.").with_tools(client)
        reply = chat.ask("What should I wear in Oslo?")

    It has the methods and options of `AsyncChat`, and takes clients that block. It is one conversation: one turn at a
    time; threads that talk at the same time need a chat each. It works where an event loop runs, as in a notebook, and
    holds that loop up until the turn ends; use `AsyncChat` where the loop has other work.

    Raises:
        TypeError: there is no such option, or something is of the wrong kind.
        ValueError: an option has a value that makes no sense.
        ModelError: a model by its name needs a package that is not installed.
    """

    def __init__(self, model: str | Model, **options: Unpack[ChatOptions]) -> None:
        self._chat = AsyncChat(model, **options)
        self._held: list[Any] = []
        """The objects that were given: a client to which nothing refers is ended."""
        weakref.finalize(self, _close_models, self._chat).atexit = False
        _chats.add(self)

    def __repr__(self) -> str:
        return self._chat._described_as(type(self).__name__)

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        try:
            return portal().run(method(self._chat, *args, **kwargs))
        except KeyboardInterrupt:
            with suppress(Exception):
                outcome(portal().start(self._chat._wait_for_turn()), CLOSING_SECONDS)
            raise

    def _asynchronous(self, given: Any) -> Any:
        twin = _twin(given)
        self._held.append(given)
        return twin

    def with_model(self, model: str | Model, *, base_url: str | None = None, api_key: str | None = None) -> Self:
        """Let another model go on with the conversation.

        Raises:
            TypeError: it is no model.
            ModelError: a model by its name needs a package that is not installed.
        """
        self._chat.with_model(model, base_url=base_url, api_key=api_key)
        return self

    def with_temperature(self, temperature: float | None) -> Self:
        """Set the temperature of the model; None leaves it to the model."""
        self._chat.with_temperature(temperature)
        return self

    def with_instructions(self, text: str) -> Self:
        """Give the model its instructions, in place of earlier ones."""
        self._chat.with_instructions(text)
        return self

    def with_tools(self, *tools: ToolSource) -> Self:
        """Let the model call tools, or all tools of clients.

        Example:
            chat.with_tools(weather_client, *tools_of_another)

        Raises:
            TypeError: something is no tool and no client, or belongs to the other kind of chat.
        """
        self._chat.with_tools(*[_BlockingSource(tool) for tool in tools])
        return self

    def with_resource(
        self, resource: BoundResource | BoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Show the model a resource, or the one that a template gives for some arguments.

        Raises:
            TypeError: it is no resource and no template, or belongs to the other kind of chat.
        """
        self._chat.with_resource(self._asynchronous(resource), arguments)
        return self

    def with_resources(self, *resources: BoundResource) -> Self:
        """Show the model several resources.

        Raises:
            TypeError: one is no resource, or belongs to the other kind of chat.
        """
        self._chat.with_resources(*[self._asynchronous(resource) for resource in resources])
        return self

    def with_resource_template(
        self, template: BoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Show the model the resource that a template gives for some arguments.

        Raises:
            TypeError: it is no template, or belongs to the other kind of chat.
        """
        return self.with_resource(template, arguments)

    def with_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Self:
        """Add the messages of a prompt to the conversation.

        Raises:
            TypeError: it is no prompt, or belongs to the other kind of chat.
        """
        self._chat.with_prompt(self._asynchronous(prompt), arguments)
        return self

    ask = blocking(AsyncChat.ask)
    step = blocking(AsyncChat.step)

    def ask_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Reply:
        """Add the messages of a prompt, and let the model answer.

        Raises:
            TypeError: it is no prompt, or belongs to the other kind of chat; and whatever `ask` raises.
        """
        return self._drive(AsyncChat.ask_prompt, self._asynchronous(prompt), arguments)

    def stream(self, text: str | None = None, attachments: Attachments = ()) -> Generator[Chunk, None, None]:
        """Ask the model, and yield its reply piece by piece.

        Example:
            for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Leaving the stream early gives up the turn, and cancels the calls that are under way.

        Raises:
            ModelError: the model cannot be reached, or refuses; the messages stay, and `ask()` tries again.
            RoundLimit: the model went on calling tools for too many rounds.
            DragomanError: another turn goes on; or a server does not give a resource, a prompt or its tools.
        """
        portal().require_other_thread()
        reader = _StreamReader(self._chat, text, attachments)
        try:
            yield from reader.chunks()
        finally:
            reader.leave()

    @property
    def messages(self) -> list[Message]:
        """The messages of the conversation."""
        return self._chat.messages

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self._chat.messages = messages

    @property
    def usage(self) -> Usage:
        """How many tokens were read and written."""
        return self._chat.usage

    @property
    def on_tool_call(self) -> Callable[[ToolCall], object] | None:
        """Called with each call that is made."""
        return self._chat.on_tool_call

    @on_tool_call.setter
    def on_tool_call(self, function: Callable[[ToolCall], object] | None) -> None:
        self._chat.on_tool_call = function

    @property
    def on_tool_result(self) -> Callable[[ChatToolResult], object] | None:
        """Called with the outcome of each call."""
        return self._chat.on_tool_result

    @on_tool_result.setter
    def on_tool_result(self, function: Callable[[ChatToolResult], object] | None) -> None:
        self._chat.on_tool_result = function

    @property
    def on_message(self) -> Callable[[Message], object] | None:
        """Called with each message, in the order of the conversation."""
        return self._chat.on_message

    @on_message.setter
    def on_message(self, function: Callable[[Message], object] | None) -> None:
        self._chat.on_message = function

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """The calls that the model asked for and that are not made yet."""
        return self._chat.pending_tool_calls

    def approve(self, pending: PendingCall | str) -> bool:
        """Approve a call with exactly the arguments that it has; return False if it was decided already.

        Raises:
            NotFound: no such call waits to be made.
        """
        return self._chat.approve(pending)

    def deny(self, pending: PendingCall | str, reason: str | None = None) -> bool:
        """Deny a call, which the model gets as its result; return False if it was decided already.

        Raises:
            NotFound: no such call waits to be made.
        """
        return self._chat.deny(pending, reason)

    def sampler(
        self, *, preferred_model: PreferredModel | Model | None = None, **options: Unpack[SamplerOptions]
    ) -> Sampling:
        """Return a handler of sampling requests, by which models answer servers outside of this conversation.

        Example:
            client = Client(target, on_sampling=chat.sampler(guard=lambda request: len(request.text) < 1000))

        `preferred_model` is a name, a model, or a function from the server's preferences to a name; without it this
        chat's model answers. The options are those of `Sampling`. The tokens count as this chat's usage, and a server
        cannot ask for more of them than the chat's own `max_tokens`.

        Raises:
            TypeError: something is of the wrong kind.
            ValueError: `max_concurrent` is less than 1.
        """
        return self._chat.sampler(preferred_model=preferred_model, **options)

    def close(self) -> None:
        """Close the connections to providers of models that were given by their names; the next turn opens them again.

        Example:
            with Chat("openai:gpt-4.1") as chat:
                print(chat.ask("Hello"))
        """
        self._drive(AsyncChat.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_chats: weakref.WeakSet[Chat] = weakref.WeakSet()


def _close_models(chat: AsyncChat, timeout: float | None = None) -> None:
    """Close the models that a chat created, and wait for the end if a time is given."""
    found = existing_portal()
    if found is not None and chat._models.has_created:
        closing = found.start(chat.close())
        if timeout is not None:
            outcome(closing, timeout)


def _close_all() -> None:
    """Close the models of all chats, at the exit of the interpreter."""
    for chat in list(_chats):
        with suppress(Exception):
            _close_models(chat._chat, CLOSING_SECONDS)


atexit.register(_close_all)


def _twin(given: Any) -> Any:
    """Return the asynchronous twin of a blocking object.

    Raises:
        TypeError: it does not block.
    """
    twin = getattr(given, "asynchronous", None)
    if twin is None:
        raise TypeError(f"{given!r} is nothing of a blocking client; take it from a Client, or use AsyncChat")
    return twin


class _BlockingSource:
    """Tools of a blocking client; its twin is looked up each time, since a fork creates clients again."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, BoundTool) and not callable(getattr(given, "tools", None)):
            remedy = "; give several with a star: with_tools(*tools)" if isinstance(given, list | tuple) else ""
            raise TypeError(f"{given!r} is no tool and no client{remedy}")
        _twin(given)
        self._given = given

    async def tools(self) -> list[AsyncBoundTool]:
        given = self._given
        if isinstance(given, BoundTool):
            return [given.asynchronous]
        return [tool.asynchronous for tool in await offload(given.tools)]


class _StreamReader:
    """A stream that is read in the loop and passed to a thread."""

    def __init__(self, chat: AsyncChat, text: str | None, attachments: Attachments) -> None:
        self._chat, self._text, self._attachments = chat, text, attachments
        self._portal = portal()
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._room = asyncio.Semaphore(MAX_QUEUED_CHUNKS)
        self._task: asyncio.Task[Any] | None = None
        self._is_abandoned = False
        self._is_begun = False
        self._ended = threading.Event()

    def chunks(self) -> Generator[Chunk, None, None]:
        """Yield the chunks, and raise the error of the stream."""
        self._is_begun = True
        self._portal.start(self._read())
        while (chunk := self._next()) is not _END:
            if isinstance(chunk, BaseException):
                raise chunk
            self._portal.loop.call_soon_threadsafe(self._room.release)
            yield chunk

    def _next(self) -> Any:
        """Wait in slices, because a signal that arrives just before a wait does not end it."""
        while True:
            try:
                return self._queue.get(timeout=SLICE_SECONDS)
            except Empty:
                continue

    async def _read(self) -> None:
        self._task = asyncio.current_task()
        last: Any = _END
        try:
            if not self._is_abandoned:
                async with aclosing(self._chat.stream(self._text, self._attachments)) as chunks:
                    async for chunk in chunks:
                        await self._room.acquire()
                        self._queue.put(chunk)
        except BaseException as error:
            last = error
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._queue.put(last)
            self._ended.set()

    def leave(self) -> None:
        """Cancel the stream, and wait for its end."""
        if not self._is_begun or self._ended.is_set():
            return
        self._portal.loop.call_soon_threadsafe(self._cancel)
        if threading.get_ident() != self._portal.thread.ident:
            self._ended.wait(CLOSING_SECONDS)

    def _cancel(self) -> None:
        self._is_abandoned = True
        if self._task is not None:
            self._task.cancel()
