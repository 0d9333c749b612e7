"""`Chat`: the blocking chat, which drives an `AsyncChat` on the event loop that all blocking clients share.

One task of that loop reads a stream, because a provider's library must close a connection in the task that opened it.
The chunks reach the caller's thread through an unbounded queue, whose `put` never blocks the loop. A semaphore bounds
how many chunks are in the queue; the marker of the stream's end does not count, so it never waits. If the caller closes
the generator early, the task is cancelled, and the caller waits for its end.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import aclosing, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack

from dragoman.chat.chat import AsyncChat
from dragoman.chat.messages import Message, ToolCall, Usage
from dragoman.chat.replies import ChatToolResult, Chunk, PendingCall, Reply
from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client
from dragoman.client.bound import AsyncBoundTool
from dragoman.client.twins import forwarded, forwarded_self
from dragoman.runtime.callables import blocking
from dragoman.runtime.offload import offload
from dragoman.runtime.portal import INTERRUPTS, existing_portal, outcome, portal

if TYPE_CHECKING:
    from dragoman.chat.content import Attachments
    from dragoman.chat.messages import Model
    from dragoman.chat.options import ChatOptions
    from dragoman.client.extensions.skills import AsyncBoundSkill
    from dragoman.client.group.blocking import Clients

    ToolSource: TypeAlias = BoundTool | Client | Clients
    """A tool, or a client with tools."""
    SkillSource: TypeAlias = Client | Clients
    """A client with skills."""

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

    The methods and options are those of `AsyncChat`; the clients must be blocking ones. A chat is one conversation,
    with one turn at a time; threads that ask at the same time need a chat each. In a thread with a running event loop,
    such as a notebook's, a turn blocks that loop; use `AsyncChat` if the loop has other work.

    Raises:
        TypeError: an option is unknown, or a value has the wrong type.
        ValueError: an option has an invalid value.
        ModelError: the model is given by its name, and the package any-llm-sdk is not installed.
    """

    def __init__(self, model: str | Model, **options: Unpack[ChatOptions]) -> None:
        self._twin = AsyncChat(model, **options)
        self._held: list[Any] = []
        """References to the given objects: a client without references would be stopped."""
        weakref.finalize(self, _close_models, self._twin).atexit = False
        _chats.add(self)

    def __repr__(self) -> str:
        return repr(self._twin).replace("Async", "", 1)

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        try:
            return portal().run(method(self._twin, *args, **kwargs))
        except KeyboardInterrupt:
            with suppress(Exception):
                outcome(portal().start(self._twin._wait_for_turn()), CLOSING_SECONDS)
            raise

    def _asynchronous(self, given: Any) -> Any:
        twin = _twin(given)
        self._held.append(given)
        return twin

    with_model = forwarded_self(AsyncChat.with_model)
    with_temperature = forwarded_self(AsyncChat.with_temperature)
    with_instructions = forwarded_self(AsyncChat.with_instructions)

    def with_tools(self, *tools: ToolSource) -> Self:
        """Let the model call tools, or all tools of clients.

        Example:
            chat.with_tools(weather_client, *tools_of_another)

        Raises:
            TypeError: an argument is neither a tool nor a client, or belongs to the other kind of chat.
        """
        self._twin.with_tools(*[_BlockingSource(tool) for tool in tools])
        return self

    def with_skills(self, *clients: SkillSource) -> Self:
        """Let the model load the skills of clients, by a tool `load_skill`, and read their files.

        Example:
            chat.with_tools(client).with_skills(client)

        What a skill says is tagged with its server. The policy of the chat judges `server__skill`.

        Raises:
            TypeError: an argument is not a client, or belongs to the other kind of chat.
        """
        self._twin.with_skills(*[_BlockingSkills(client) for client in clients])
        return self

    def with_resource(
        self, resource: BoundResource | BoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Add a resource to the conversation, or the resource of a template for some arguments.

        Raises:
            TypeError: `resource` is neither a resource nor a template, or belongs to the other kind of chat.
        """
        self._twin.with_resource(self._asynchronous(resource), arguments)
        return self

    def with_resources(self, *resources: BoundResource) -> Self:
        """Add several resources to the conversation.

        Raises:
            TypeError: an argument is not a resource, or belongs to the other kind of chat.
        """
        self._twin.with_resources(*[self._asynchronous(resource) for resource in resources])
        return self

    def with_resource_template(
        self, template: BoundResourceTemplate, arguments: Mapping[str, Any] | None = None
    ) -> Self:
        """Add the resource of a template for some arguments to the conversation.

        Raises:
            TypeError: `template` is not a resource template, or belongs to the other kind of chat.
        """
        return self.with_resource(template, arguments)

    def with_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Self:
        """Add the messages of a prompt to the conversation.

        Raises:
            TypeError: `prompt` is not a prompt, or belongs to the other kind of chat.
        """
        self._twin.with_prompt(self._asynchronous(prompt), arguments)
        return self

    ask = blocking(AsyncChat.ask)
    step = blocking(AsyncChat.step)

    def ask_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Reply:
        """Add the messages of a prompt, and let the model answer.

        Raises:
            TypeError: `prompt` is not a prompt, or belongs to the other kind of chat; also the errors of `ask`.
        """
        return self._drive(AsyncChat.ask_prompt, self._asynchronous(prompt), arguments)

    def stream(self, text: str | None = None, attachments: Attachments = ()) -> Generator[Chunk, None, None]:
        """Ask the model, and yield its reply piece by piece.

        Example:
            for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Closing the stream early ends the turn, and cancels the tool calls that are under way.

        Raises:
            ModelError: the model cannot be reached, or refuses; the messages are kept, and `ask()` tries again.
            RoundLimit: the model still called tools in the last allowed round.
            DragomanError: another turn is running; or a resource, a prompt or the tools cannot be fetched.
        """
        portal().require_other_thread()
        reader = _StreamReader(self._twin, text, attachments)
        try:
            yield from reader.chunks()
        finally:
            reader.leave()

    @property
    def messages(self) -> list[Message]:
        """The messages of the conversation."""
        return self._twin.messages

    @messages.setter
    def messages(self, messages: list[Message]) -> None:
        self._twin.messages = messages

    @property
    def usage(self) -> Usage:
        """How many tokens were read and written."""
        return self._twin.usage

    @property
    def on_tool_call(self) -> Callable[[ToolCall], object] | None:
        """Called with each tool call that is made."""
        return self._twin.on_tool_call

    @on_tool_call.setter
    def on_tool_call(self, function: Callable[[ToolCall], object] | None) -> None:
        self._twin.on_tool_call = function

    @property
    def on_tool_result(self) -> Callable[[ChatToolResult], object] | None:
        """Called with the outcome of each call."""
        return self._twin.on_tool_result

    @on_tool_result.setter
    def on_tool_result(self, function: Callable[[ChatToolResult], object] | None) -> None:
        self._twin.on_tool_result = function

    @property
    def on_message(self) -> Callable[[Message], object] | None:
        """Called with each message, in the order of the conversation."""
        return self._twin.on_message

    @on_message.setter
    def on_message(self, function: Callable[[Message], object] | None) -> None:
        self._twin.on_message = function

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """The tool calls that the model requested and that are not made yet."""
        return self._twin.pending_tool_calls

    approve = forwarded(AsyncChat.approve)
    deny = forwarded(AsyncChat.deny)
    sampler = forwarded(AsyncChat.sampler)
    close = blocking(AsyncChat.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_chats: weakref.WeakSet[Chat] = weakref.WeakSet()


def _close_models(chat: AsyncChat, timeout: float | None = None) -> None:
    """Close the models that a chat created; with a `timeout`, wait for the end."""
    found = existing_portal()
    if found is not None and chat._models.has_created:
        closing = found.start(chat.close())
        if timeout is not None:
            outcome(closing, timeout)


def _close_all() -> None:
    """Close the models of all chats, at the exit of the interpreter."""
    for chat in list(_chats):
        with suppress(Exception):
            _close_models(chat._twin, CLOSING_SECONDS)


atexit.register(_close_all)


def _twin(given: Any) -> Any:
    """Return the asynchronous twin of a blocking object.

    Raises:
        TypeError: the object is not of a blocking client.
    """
    twin = getattr(given, "asynchronous", None)
    if twin is None:
        raise TypeError(f"{given!r} does not belong to a blocking client; take it from a Client, or use AsyncChat")
    return twin


class _BlockingSource:
    """A tool or client for an `AsyncChat`; the twin is looked up at each listing, since a fork replaces clients."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, BoundTool) and not callable(getattr(given, "tools", None)):
            remedy = "; give several with a star: with_tools(*tools)" if isinstance(given, list | tuple) else ""
            remedy = f"; give a client: Client({given!r})" if isinstance(given, str) else remedy
            raise TypeError(f"{given!r} is neither a tool nor a client{remedy}")
        _twin(given)
        self._given = given

    async def tools(self) -> list[AsyncBoundTool]:
        given = self._given
        if isinstance(given, BoundTool):
            return [given.asynchronous]
        return [tool.asynchronous for tool in await offload(given.tools)]


class _BlockingSkills:
    """The skills of a blocking client, for an `AsyncChat`."""

    def __init__(self, given: Any) -> None:
        if not callable(getattr(given, "skills", None)):
            raise TypeError(f"{given!r} is not a client")
        _twin(given)
        self._given = given

    async def skills(self) -> list[AsyncBoundSkill]:
        return [skill.asynchronous for skill in await offload(self._given.skills)]


class _StreamReader:
    """Reads a stream in the event loop, and passes its chunks to a thread."""

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
        """Return the next item. Wait in slices, because a signal just before a wait does not interrupt it."""
        while True:
            try:
                return self._queue.get(timeout=SLICE_SECONDS)
            except Empty:
                continue
            except KeyboardInterrupt:
                INTERRUPTS.notify()
                raise

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
