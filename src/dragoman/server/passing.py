"""What a proxy and the carriers of its requests agree on, for requests that are passed without a task.

A carrier keeps such a request open until the proxy answers it, or goes on with it in a task (`Keeper`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

if TYPE_CHECKING:
    from dragoman.server.request.call import Call


class Keeper(Protocol):
    """Keeps a request open that has no task: a duplex connection, or the exchange of a POST."""

    def keep_open(self, call: Call, drop: Callable[[], None]) -> None:
        """Keep a request; `drop` is called if it is cancelled before `answer` or `go_on`."""

    def answer(self, call: Call, result: Raw, *, at_once: bool) -> None:
        """Answer a request with a result of its version; `at_once` if no other answer comes now."""

    def go_on(self, call: Call, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Serve a request in a task, unless it has ended; `work` begins what returns its result."""


class PassesRequests(Protocol):
    """What passes the requests of one client to another server without tasks."""

    def pass_on(self, call: Call, keeper: Keeper) -> bool:
        """Pass a request, if that needs no task; return whether it was passed. It ends with `answer` or `go_on`."""
