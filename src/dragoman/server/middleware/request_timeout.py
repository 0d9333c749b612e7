"""`RequestTimeout`: a middleware that gives requests a time limit.

It is not called `Timeout`, because `dragoman.Timeout` is the exception of a client whose server does not answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dragoman.errors import ToolError
from dragoman.server.middleware.selection import TOOL_CALLS, checked_methods, checked_number
from dragoman.server.request.context import Context

if TYPE_CHECKING:
    from dragoman.server.dispatch.middleware import CallNext


class RequestTimeout:
    """A middleware that cancels a request after some seconds.

    Example:
        server.middleware(RequestTimeout(30))

    A tool that takes longer has a result with `isError` that says so; other methods have an error. `methods` are the
    methods that have the limit, by default `tools/call`. A `def` handler cannot be cancelled: it ends later, and its
    result is dropped. The limit does not count the run of a task. It counts the time in which a client of the handshake
    era answers a question; in the stateless era each round has a limit of its own.

    Raises:
        DefinitionError: an option has an invalid value.
    """

    def __init__(self, seconds: float, *, methods: Iterable[str] = TOOL_CALLS) -> None:
        self._seconds = checked_number("seconds", seconds)
        self._methods = checked_methods(methods)

    def __repr__(self) -> str:
        return f"<RequestTimeout of {self._seconds:g} seconds>"

    async def __call__(self, ctx: Context, call_next: CallNext) -> object:
        """Serve a request, and cancel it when its time is up.

        Raises:
            ToolError: the request took too long.
        """
        import asyncio

        if ctx.method not in self._methods or ctx.task.id is not None:
            return await call_next()
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                return await call_next()
        except TimeoutError:
            if limit.expired():
                raise ToolError(f"This took longer than {self._seconds:g} seconds and was stopped") from None
            raise
