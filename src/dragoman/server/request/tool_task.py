"""`ctx.task`: the task that runs a tool, if an extension runs tools as tasks.

The core makes no tasks. An extension offers a task to a call (`ToolTask.offer`). A handler asks for the task with
`begin`. Without an extension `begin` does nothing, so a tool works the same for clients that cannot use tasks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from dragoman import types
from dragoman.runtime.callables import blocking

if TYPE_CHECKING:
    from dragoman.server.request.context import BlockingContext, Context

T = TypeVar("T")
BeginTask = Callable[[], Awaitable[types.Result | types.Json | None]]
"""Makes a task of a call, and returns the result that answers the request; None if the handler goes on."""


class OfferedTask(Struct, frozen=True):
    """The task that an extension offers to a call: its id, once there is a task, and the function that begins it."""

    id: str | None = None
    begin: BeginTask | None = None


class ToolTask:
    """The task of a tool call.

    Example:
        @server.tool
        async def render(scene: str, ctx: Context) -> str:
            quality = await ctx.elicit("Which quality?", str)
            await ctx.task.begin()
            return await render_slowly(scene, quality.content)
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<ToolTask {self.id!r}>"

    @property
    def id(self) -> str | None:
        """The id of the task that runs the tool; None if no task runs it."""
        offered = self._context._call.offered_task
        return None if offered is None else offered.id

    async def begin(self) -> None:
        """Go on as a task, if an extension offers one: the request is answered, and the handler runs again in the task.

        The handler runs from its start, with the recorded answers and steps. In the task, and without an extension
        that offers a task, this method does nothing.
        """
        await self._context._asking.begin_task(parks=self._context._parks)

    def offer(self, begin: BeginTask) -> None:
        """Offer a task to the handler; an extension calls this before it runs the tool.

        `begin` makes the task and returns the result that answers the request. If it returns None, the handler goes on.
        """
        self._context._call.offered_task = OfferedTask(begin=begin)


class BlockingToolTask:
    """The task of a tool call, for `def` handlers: `ToolTask`, blocking."""

    def __init__(self, context: BlockingContext) -> None:
        self._context = context

    __repr__ = ToolTask.__repr__

    @property
    def id(self) -> str | None:
        """The id of the task that runs the tool; None if no task runs it."""
        offered = self._context._call.offered_task
        return None if offered is None else offered.id

    begin = blocking(ToolTask.begin)

    def _drive(self, method: Callable[..., Coroutine[Any, Any, T]]) -> T:
        return self._context._drive(lambda context: method(ToolTask(context)))
