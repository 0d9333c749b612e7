"""The requests that are served over HTTP, and what becomes of them when the server ends."""

from __future__ import annotations

import asyncio

from dragoman.errors import InternalError
from dragoman.server.dispatch.runner import refusal
from dragoman.server.http.response import PostChannel
from dragoman.server.http.session import SessionChannel
from dragoman.server.request.call import Call

STOP_SECONDS = 1.0
STOPPED = InternalError("The server was stopped before the request was done; it may have run in part")


class CallsInFlight(set[Call]):
    """The requests that are served now."""

    async def finish(self, seconds: float) -> None:
        """Let them end within so many seconds; what needs longer is cancelled, and answered with an error."""
        await self._wait(seconds)
        for call in self:
            call.stop(STOPPED)
        await self._wait(STOP_SECONDS)
        for call in list(self):  # whose handlers go on although they are cancelled
            if isinstance(call.channel, PostChannel | SessionChannel):
                await answer_stopped(call, call.channel)

    async def _wait(self, seconds: float) -> None:
        """Wait until nothing is served, nor anything that is begun meanwhile, for so many seconds at most."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while (left := ends - loop.time()) > 0:
            tasks = {call.task for call in self if call.task is not None and not call.task.done()}
            tasks.discard(asyncio.current_task())
            if not tasks:
                return
            await asyncio.wait(tasks, timeout=left)


async def answer_stopped(call: Call, channel: PostChannel | SessionChannel) -> None:
    """Send the error in place of a handler that is not waited for."""
    await channel.stop(refusal(call.server, STOPPED, call.request.id))
