"""The blocking chat: the asynchronous one, driven on the loop that all blocking faces share.

A stream is read by one task of that loop, since what a provider's library opens in one task must be closed in it. Its
pieces cross to the reading thread by a queue that never blocks the loop; how far the task may be ahead is counted in
the loop, and the end of the stream needs no place in that count. A stream that is left is cancelled, and its end waited
for.
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
from dragoman.chat.outcomes import Chunk, PendingCall, Reply
from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client
from dragoman.client.bound import AsyncBoundTool
from dragoman.runtime.callables import blocking
from dragoman.runtime.offload import offload
from dragoman.runtime.portal import existing_portal, outcome, portal

if TYPE_CHECKING:
    from typing import Self, TypeAlias, Unpack

    from dragoman.chat.messages import Message, Model, ToolCall, Usage
    from dragoman.chat.options import ChatOptions
    from dragoman.chat.outcomes import ChatToolResult
    from dragoman.chat.rendering import Attachments
    from dragoman.client.answer.sampling import PreferredModel, SamplerOptions, Sampling
    from dragoman.client.group.blocking import Clients

    ToolSource: TypeAlias = BoundTool | Client | Clients
    """A tool, or what has tools."""

T = TypeVar("T")
MOST_AHEAD = 100
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
        """What was given; a client that nobody holds is ended."""
        weakref.finalize(self, _let_go, self._chat).atexit = False
        _chats.add(self)

    def __repr__(self) -> str:
        return self._chat._described_as(type(self).__name__)

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        try:
            return portal().run(method(self._chat, *args, **kwargs))
        except KeyboardInterrupt:
            with suppress(Exception):
                outcome(portal().start(self._chat._turn_that_ends()), CLOSING_SECONDS)
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
        """Say how freely the model answers; None leaves it to the model."""
        self._chat.with_temperature(temperature)
        return self

    def with_instructions(self, text: str) -> Self:
        """Tell the model about its task; what was told before is replaced."""
        self._chat.with_instructions(text)
        return self

    def with_tools(self, *tools: ToolSource) -> Self:
        """Let the model call tools, or all tools of clients.

        Example:
            chat.with_tools(weather_client, *tools_of_another)

        Raises:
            TypeError: something is no tool and no client, or belongs to the other kind of chat.
        """
        self._chat.with_tools(*[_Source(tool) for tool in tools])
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
        """Say something to the model, and yield what comes of it piece by piece.

        Example:
            for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Who leaves it early gives the turn up, and the calls that it made.

        Raises:
            ModelError: the model cannot be reached, or refuses; what was said stays, and `ask()` tries again.
            RoundLimit: the model went on calling tools for too many rounds.
            DragomanError: another turn goes on; or a resource, a prompt or the tools cannot be had from their server.
        """
        portal().require_other_thread()
        reading = _StreamReader(self._chat, text, attachments)
        try:
            yield from reading.pieces()
        finally:
            reading.leave()

    @property
    def messages(self) -> list[Message]:
        """Everything that was said."""
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
        """Is told of each call that is made."""
        return self._chat.on_tool_call

    @on_tool_call.setter
    def on_tool_call(self, function: Callable[[ToolCall], object] | None) -> None:
        self._chat.on_tool_call = function

    @property
    def on_tool_result(self) -> Callable[[ChatToolResult], object] | None:
        """Is told of what came of each call."""
        return self._chat.on_tool_result

    @on_tool_result.setter
    def on_tool_result(self, function: Callable[[ChatToolResult], object] | None) -> None:
        self._chat.on_tool_result = function

    @property
    def on_message(self) -> Callable[[Message], object] | None:
        """Is told of each message, in the order of the conversation."""
        return self._chat.on_message

    @on_message.setter
    def on_message(self, function: Callable[[Message], object] | None) -> None:
        self._chat.on_message = function

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """What the model wants to be called, and is not called yet."""
        return self._chat.pending_tool_calls

    def approve(self, pending: PendingCall | str) -> bool:
        """Let a call be made with exactly the arguments that it has, and tell whether this decided it.

        Raises:
            NotFound: no such call waits to be made.
        """
        return self._chat.approve(pending)

    def deny(self, pending: PendingCall | str, reason: str | None = None) -> bool:
        """Refuse a call, and tell whether this decided it; the model is told so.

        Raises:
            NotFound: no such call waits to be made.
        """
        return self._chat.deny(pending, reason)

    def sampler(
        self, *, preferred_model: PreferredModel | Model | None = None, **options: Unpack[SamplerOptions]
    ) -> Sampling:
        """Return a handler by which models answer what servers ask of them, apart from this conversation.

        Example:
            client = Client(target, on_sampling=chat.sampler(guard=lambda request: len(request.text) < 1000))

        Without `preferred_model` it is this chat's model that answers; it is a name, a model, or a function from the
        server's preferences to a name. The options are those of `Sampling`; what is spent counts as this chat's usage.
        A server cannot ask for more tokens than the chat's own `max_tokens`.

        Raises:
            TypeError: something is of the wrong kind.
            ValueError: `max_concurrent` is less than 1.
        """
        return self._chat.sampler(preferred_model=preferred_model, **options)

    def close(self) -> None:
        """Close the connections to providers of models that were given by their names; the next turn opens them anew.

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


def _let_go(chat: AsyncChat, timeout: float | None = None) -> None:
    """Close what a chat opened that nobody refers to any more, and wait for that if there is a time for it."""
    found = existing_portal()
    if found is not None and chat._models.has_made:
        closing = found.start(chat.close())
        if timeout is not None:
            outcome(closing, timeout)


def _let_go_of_all() -> None:
    """Close, at the exit of the interpreter, what chats opened."""
    for chat in list(_chats):
        with suppress(Exception):
            _let_go(chat._chat, CLOSING_SECONDS)


atexit.register(_let_go_of_all)


def _twin(given: Any) -> Any:
    """Return the asynchronous twin of something that blocks.

    Raises:
        TypeError: it does not block.
    """
    twin = getattr(given, "asynchronous", None)
    if twin is None:
        raise TypeError(f"{given!r} is nothing of a blocking client; take it from a Client, or use AsyncChat")
    return twin


class _Source:
    """Tools of something that blocks; its twin is found out each time, since a fork makes clients anew."""

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
    """A stream on its way from the loop to a thread."""

    def __init__(self, chat: AsyncChat, text: str | None, attachments: Attachments) -> None:
        self._chat, self._text, self._attachments = chat, text, attachments
        self._portal = portal()
        self._pieces: SimpleQueue[Any] = SimpleQueue()
        self._room = asyncio.Semaphore(MOST_AHEAD)
        self._task: asyncio.Task[Any] | None = None
        self._is_left = False
        self._is_begun = False
        self._ended = threading.Event()

    def pieces(self) -> Generator[Chunk, None, None]:
        """Yield what comes, and raise what went wrong."""
        self._is_begun = True
        self._portal.start(self._read())
        while (piece := self._next()) is not _END:
            if isinstance(piece, BaseException):
                raise piece
            self._portal.loop.call_soon_threadsafe(self._room.release)
            yield piece

    def _next(self) -> Any:
        """Wait in slices: a signal that comes just before a wait does not end it."""
        while True:
            try:
                return self._pieces.get(timeout=SLICE_SECONDS)
            except Empty:
                continue

    async def _read(self) -> None:
        self._task = asyncio.current_task()
        last: Any = _END
        try:
            if not self._is_left:
                async with aclosing(self._chat.stream(self._text, self._attachments)) as chunks:
                    async for chunk in chunks:
                        await self._room.acquire()
                        self._pieces.put(chunk)
        except BaseException as error:
            last = error
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._pieces.put(last)
            self._ended.set()

    def leave(self) -> None:
        """Give up what is still to come, and wait until it is given up."""
        if not self._is_begun or self._ended.is_set():
            return
        self._portal.loop.call_soon_threadsafe(self._give_up)
        if threading.get_ident() != self._portal.thread.ident:
            self._ended.wait(CLOSING_SECONDS)

    def _give_up(self) -> None:
        self._is_left = True
        if self._task is not None:
            self._task.cancel()
