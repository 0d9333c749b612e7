"""`drive`: runs a coroutine in the loop of a request, for a blocking handler that waits for it in a thread."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from dragoman.errors import Cancelled, DragomanError
from dragoman.server.request.call import Call

T = TypeVar("T")


def drive(call: Call, work: Coroutine[Any, Any, T], *, in_place: bool = False) -> T:
    """Run a coroutine in the request's loop, and wait for it in the thread of a blocking handler.

    With `in_place`, the coroutine does not wait, and runs in this thread.

    Raises:
        Cancelled: the request was cancelled meanwhile, or the loop is closed.
        DragomanError: the handler is inline, so it runs in the loop, and the coroutine would have to wait.
    """
    import asyncio
    from concurrent.futures import CancelledError

    if in_place or is_in_place(call):
        return _run_in_place(work)
    assert call.loop is not None
    try:
        future = asyncio.run_coroutine_threadsafe(work, call.loop)
    except RuntimeError:  # the loop is closed
        work.close()
        raise Cancelled("The server has ended, and with it the request") from None
    remove_callback = call.on_cancel(future.cancel)
    try:
        return future.result()
    except CancelledError:
        raise Cancelled("The client cancelled the request") from None
    finally:
        remove_callback()


def is_in_place(call: Call) -> bool:
    """Tell whether this thread runs the loop; such a thread must not wait for the loop."""
    from dragoman.runtime.tasks import is_running_here

    return call.loop is None or is_running_here(call.loop)


def _run_in_place(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    work.close()
    raise DragomanError("An inline handler cannot wait; make it an `async def`, or not inline")
