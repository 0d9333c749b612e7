"""The blocking chat: the asynchronous one, driven on the loop that all blocking faces share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.chat.chat import AsyncChat, Chunk, PendingCall
from dragoman.client.blocking import BoundPrompt, BoundResource, BoundResourceTemplate, BoundTool, Client
from dragoman.runtime.blocking import blocking
from dragoman.runtime.portal import portal, run_blocking

if TYPE_CHECKING:
    from typing import Self

    from dragoman.chat.messages import Message, Model, Usage
    from dragoman.client.sampling import Sampling

T = TypeVar("T")
MOST_AHEAD = 100
_END = object()


class Chat:
    """A conversation with a model, which may use the tools of MCP servers; its methods block.

    Example:
        chat = Chat("openai:gpt-4.1").with_instructions("Be brief.").with_tools(client)
        reply = chat.ask("What should I wear in Oslo?")

    It has the methods and options of `AsyncChat`, and takes clients that block.
    """

    def __init__(self, model: str | Model, **options: Any) -> None:
        self._chat = AsyncChat(model, **options)

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return run_blocking(method(self._chat, *args, **kwargs))

    def with_instructions(self, text: str) -> Self:
        """Tell the model about its task; what was told before is replaced."""
        self._chat.with_instructions(text)
        return self

    def with_tools(self, *tools: Any) -> Self:
        """Let the model call tools, or all tools of clients.

        Raises:
            TypeError: something is no tool and no client; or it is asynchronous, which belongs to `AsyncChat`.
        """
        self._chat.with_tools(*(_asynchronous(tool) for tool in tools))
        return self

    def with_resource(self, resource: Any, arguments: Mapping[str, Any] | None = None) -> Self:
        """Show the model a resource, or the one that a template gives for some arguments."""
        self._chat.with_resource(_asynchronous(resource), arguments)
        return self

    def with_resources(self, *resources: Any) -> Self:
        """Show the model several resources."""
        self._chat.with_resources(*(_asynchronous(resource) for resource in resources))
        return self

    def with_resource_template(self, template: Any, arguments: Mapping[str, Any] | None = None) -> Self:
        """Show the model the resource that a template gives for some arguments."""
        return self.with_resource(template, arguments)

    def with_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Self:
        """Add the messages of a prompt to the conversation."""
        self._chat.with_prompt(_asynchronous(prompt), arguments)
        return self

    ask = blocking(AsyncChat.ask)
    step = blocking(AsyncChat.step)

    def ask_prompt(self, prompt: BoundPrompt, arguments: Mapping[str, Any] | None = None) -> Any:
        """Add the messages of a prompt, and let the model answer."""
        return self._drive(AsyncChat.ask_prompt, _asynchronous(prompt), arguments)

    def stream(self, text: str | None = None, attachments: Iterable[Any] = ()) -> Iterator[Chunk]:
        """Say something to the model, and yield what comes of it piece by piece.

        Example:
            for chunk in chat.stream("And tomorrow?"):
                print(chunk.text, end="")

        Raises:
            ModelError: the model cannot be reached, or refuses.
            RoundLimit: the model went on calling tools for too many rounds.
        """
        # One task reads the whole stream: what a provider's library opens in one task must be closed in it.
        pieces: Queue[Any] = Queue(MOST_AHEAD)
        loop = portal().loop

        async def read() -> None:
            outcome: Any = _END
            try:
                async for chunk in self._chat.stream(text, attachments):
                    await loop.run_in_executor(None, pieces.put, chunk) if pieces.full() else pieces.put_nowait(chunk)
            except Exception as error:
                outcome = error
            finally:
                with suppress(Exception):
                    pieces.put_nowait(outcome)

        reading = asyncio.run_coroutine_threadsafe(read(), loop)
        try:
            while (piece := pieces.get()) is not _END:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            reading.cancel()

    @property
    def messages(self) -> list[Message]:
        """Everything that was said."""
        return self._chat.messages

    @property
    def usage(self) -> Usage:
        """How many tokens were read and written."""
        return self._chat.usage

    @property
    def pending_tool_calls(self) -> list[PendingCall]:
        """What the model wants to be called, and is not called yet."""
        return self._chat.pending_tool_calls

    def approve(self, pending: PendingCall | str) -> None:
        """Let a call be made with exactly the arguments that it has."""
        self._chat.approve(pending)

    def deny(self, pending: PendingCall | str, reason: str | None = None) -> None:
        """Refuse a call; the model is told so."""
        self._chat.deny(pending, reason)

    def sampler(self, *, preferred_model: Any = None, guard: Any = None, **options: Any) -> Sampling:
        """Return a handler by which this chat's model answers what servers ask of it, apart from this conversation.

        Example:
            client = Client(target, on_sampling=chat.sampler(guard=lambda request: len(request.message) < 1000))
        """
        return self._chat.sampler(preferred_model=preferred_model, guard=guard, **options)


def _asynchronous(given: Any) -> Any:
    """Return the asynchronous twin of something that blocks.

    Raises:
        TypeError: it does not block.
    """
    if isinstance(given, Client | BoundTool | BoundPrompt | BoundResource | BoundResourceTemplate):
        return given.asynchronous
    twin = getattr(given, "asynchronous", None)
    if twin is None:
        raise TypeError(f"{given!r} is nothing of a blocking client; AsyncChat takes what is asynchronous")
    return twin
