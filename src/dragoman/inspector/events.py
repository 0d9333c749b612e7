"""`Events`: what the backend pushes to the pages that are open.

Traffic, progress and log messages are not pushed one by one: a timer sends what collected, ten times a second. Of
traffic it sends only how much there is, and the page fetches the rows that it shows; of progress the latest of each
request; of log messages the first few, and how many it left out. Each page has a queue with a bound. If a page reads
too slowly, its queue is emptied, and the page is told to fetch everything again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

PUSH_SECONDS = 0.1
MAX_LOGS = 50
MAX_QUEUED = 500


class Events:
    """The events of all pages."""

    def __init__(self, totals: Callable[[], dict[str, int]]) -> None:
        self._totals = totals
        self._queues: set[asyncio.Queue[bytes]] = set()
        self._has_traffic = False
        self._progress: dict[str, dict[str, Any]] = {}
        self._logs: list[dict[str, Any]] = []
        self._left_out: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def subscribed(self) -> Iterator[asyncio.Queue[bytes]]:
        """Return the queue of events of one page, for the block."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED)
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    def push(self, event: str, **members: Any) -> None:
        """Push an event to every page at once."""
        encoded = encode({"event": event, **members}) if self._queues else b""
        for queue in self._queues:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(b'{"event":"lagging"}')
            queue.put_nowait(encoded)

    def push_traffic(self) -> None:
        """Push with the next batch how much traffic there is."""
        if self._queues and not self._has_traffic:
            self._has_traffic = True
            self._start_timer()

    def push_progress(self, key: str, **members: Any) -> None:
        """Push the progress of a request with the next batch, unless more progress follows before."""
        self._progress[key] = {"key": key, **members}
        self._start_timer()

    def push_log(self, server: str, make: Callable[[], dict[str, Any]]) -> None:
        """Push a log message with the next batch; `make` is called if the message is not left out."""
        if len(self._logs) < MAX_LOGS:
            self._logs.append({"server": server, **make()})
        else:
            self._left_out[server] += 1
        self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Push what collected."""
        self._timer = None
        has_traffic, progress, self._has_traffic, self._progress = self._has_traffic, self._progress, False, {}
        logs, left_out, self._logs, self._left_out = self._logs, self._left_out, [], Counter()
        if has_traffic:
            self.push("traffic", **self._totals())
        for members in progress.values():
            self.push("progress", **members)
        if logs:
            self.push("logs", logs=logs, leftOut=left_out)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def encode(value: Any) -> bytes:
    """Return JSON; a text that is no Unicode becomes one."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(msgspec.to_builtins(value, enc_hook=str)))


def _clean(value: Any) -> Any:
    """Return JSON values without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(member) for key, member in value.items()}
    return [_clean(member) for member in value] if isinstance(value, list | tuple) else value
