"""`run_in_own_task`: runs a detached call in a task of its own, so that the call can be cancelled like a request.

A question of the handler, and the cancellation of the call, cancel the task that serves the call. This cannot be the
task of the caller, because the caller goes on afterwards.
"""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.errors import DefinitionError
from dragoman.runtime.tasks import SelfCancelTask, retrieve_exception
from dragoman.server.dispatch.dispatcher import dispatcher_of
from dragoman.server.dispatch.runner import run_detached
from dragoman.server.extensions.installed import installed_in
from dragoman.server.request.call import Call


async def run_in_own_task(call: Call) -> Any:
    """Run a detached call, and return its outcome; a cancellation of the caller cancels the call.

    Raises:
        RpcError: the error that the client would receive.
        DefinitionError: the server does not have the extension that runs the call.
    """
    installed = installed_in(dispatcher_of(call))
    if installed is None or not installed.has(call.within):
        raise DefinitionError(f"{call.within!r} is not an extension of the server {call.server.name!r}")
    running: SelfCancelTask[Any] = SelfCancelTask(run_detached(call), loop=call.loop)
    call.task = running
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        call.cancel()
        await asyncio.wait([running])
        retrieve_exception(running)
        raise
    return running.result()
