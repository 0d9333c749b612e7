"""`Changes`: wakes the coroutines of this process that wait for a change; any thread may report the change."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from contextlib import suppress
from threading import Lock
from weakref import WeakSet

from dragoman.runtime.tasks import call_in_loop


class Changes:
    """The listeners of a process, by what they listen to; a listener that nothing else refers to is forgotten."""

    def __init__(self) -> None:
        self.reset()

    def listen(self, key: Hashable) -> Listener:
        """Return a new listener of this loop to a key; it listens until it is closed or collected."""
        listener = Listener(self, key)
        with self._lock:
            self._listeners.setdefault(key, WeakSet()).add(listener)
        return listener

    def forget(self, listener: Listener) -> None:
        """Stop waking a listener."""
        with self._lock:
            remaining = self._listeners.get(listener.key, WeakSet())
            remaining.discard(listener)
            if not remaining:
                self._listeners.pop(listener.key, None)

    def report(self, keys: Iterable[Hashable]) -> None:
        """Wake the listeners of some keys."""
        with self._lock:
            woken = [listener for key in keys for listener in self._listeners.get(key, ())]
        for listener in woken:
            call_in_loop(listener.loop, listener.changed.set)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody listens."""
        return any(list(self._listeners.values()))

    def reset(self) -> None:
        """Forget the listeners after a fork: they wait in loops of the parent."""
        self._lock = Lock()
        self._listeners: dict[Hashable, WeakSet[Listener]] = {}


class Listener:
    """Waits in one loop for changes of a key, and remembers a change that comes while nobody waits."""

    def __init__(self, changes: Changes, key: Hashable) -> None:
        self.key = key
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self._changes = changes

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for a change since the last call, at most `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.changed.wait()
        self.changed.clear()

    def close(self) -> None:
        """Stop listening."""
        self._changes.forget(self)
