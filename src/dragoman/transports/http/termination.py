"""Whether this process was asked to end, for ASGI servers that do not tell their applications.

ASGI reports a shutdown only when all responses are complete, which event streams never are. Granian, Hypercorn and the
ASGI worker of gunicorn wait for the streams, some of them forever. They all handle SIGTERM, so this module puts a
function before their handler that notes the signal. A process without a handler for SIGTERM is left alone. The handler
of uvicorn is a method of its server, which says whether it ends.

The handlers of asyncio and uvloop go on working: the loop learns of a signal by a file descriptor, and calls the
function that its program registered.
"""

from __future__ import annotations

import threading
from _signal import (  # type: ignore[import-not-found]  # `signal` wraps these in enumerations, which import slowly
    SIGTERM,
    getsignal,
    siginterrupt,
    signal,
)
from collections.abc import Callable
from typing import Any


class _NotedSignal:
    """A handler of SIGTERM that notes the signal, and then calls the handler that was there before."""

    was_received = False

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        _NotedSignal.was_received = True
        self._handler(number, frame)


def is_terminating() -> bool:
    """Tell whether this process received SIGTERM since the first call of this function.

    A call in the main thread begins to note the signal, if a handler of the program is installed.
    """
    handler = getsignal(SIGTERM)
    is_noted = isinstance(handler, _NotedSignal) or not callable(handler)
    if not is_noted and threading.current_thread() is threading.main_thread():
        signal(SIGTERM, _NotedSignal(handler))
        siginterrupt(SIGTERM, False)  # noqa: FBT003  # as asyncio does: system calls are restarted
    return _NotedSignal.was_received


def is_told_to_end() -> bool:
    """Tell whether the server of uvicorn in this process was told to end; False for other servers."""
    server = _uvicorn_server()
    return server is not None and server.should_exit is True


def is_shut_down() -> bool:
    """Tell whether the server was told to end, and has stopped listening, as far as that can be known.

    Before a server stops listening, it does not close a connection after its response: a client would use the
    connection of an ended stream for its next request, and find it closed.
    """
    server = _uvicorn_server()
    if server is None:
        return is_terminating()
    return is_told_to_end() and not any(listening.is_serving() for listening in getattr(server, "servers", ()))


def watch_termination() -> None:
    """Begin to note SIGTERM, unless the server of uvicorn says whether it ends."""
    if _uvicorn_server() is None:
        is_terminating()


def _uvicorn_server() -> Any:
    """Return the server object of uvicorn, which has the flag `should_exit`; its signal handler is a method of it."""
    server = getattr(getsignal(SIGTERM), "__self__", None)
    return server if hasattr(server, "should_exit") else None
