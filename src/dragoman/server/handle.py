"""Single messages: `server.handle` and its like are given one message, and return its answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.protocol import eras, jsonrpc
from dragoman.server.dispatch.runner import opened_notification, refusal, run_notification, run_refused, whole_answer
from dragoman.server.request.call import SILENCE, Call, Session

if TYPE_CHECKING:
    from dragoman.server.server import Server


async def answer(server: Server, body: bytes, server_context: Any) -> bytes | None:
    """Answer one message that stands alone; None for what is not answered."""
    message = jsonrpc.decode(body, server.limits)
    context = server.server_context if server_context is None else server_context
    if isinstance(message, jsonrpc.Request):
        try:
            request = eras.open(message, server.offer)
        except BaseException as error:
            if server.around is None:
                return refusal(server, error, message.id)
            call = _call(server, eras.refused_request(message, server.offer), context)
            return await run_refused(call, error)  # type: ignore[return-value]
        return await whole_answer(_call(server, request, context))
    if isinstance(message, jsonrpc.Notification):
        notified = opened_notification(server, message, None)
        if notified is not None:
            await run_notification(_call(server, notified, context))
    if isinstance(message, jsonrpc.Invalid) and message.answer:
        return refusal(server, message.error, message.id)
    return None


def _call(server: Server, request: eras.McpRequest, server_context: Any) -> Call:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    return Call(request, Session(), SILENCE, server, server_context, loop, task=task)
