"""`Changes`: wakes the coroutines of this process that wait for a change; any thread may report the change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from contextlib import suppress
from threading import Lock

from dragoman.runtime.tasks import call_in_loop


class Changes:
    """The listeners of a process, by what they listen to.

    A listener may be forgotten by a finalizer, which runs in any thread and between any two steps, also while its
    thread holds the lock. So `forget` never waits for the lock: whoever releases it drops the forgotten listeners.
    """

    def __init__(self) -> None:
        self.reset()

    def listen(self, key: Hashable) -> Listener:
        """Return a new listener of this loop to a key; it listens until it is closed."""
        listener = Listener(self, key)
        with self._lock:
            self._listeners.setdefault(key, set()).add(listener)
        self._drop_forgotten()
        return listener

    def forget(self, listener: Listener) -> None:
        """Stop waking a listener."""
        self._forgotten.append(listener)
        self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        while self._forgotten and self._lock.acquire(blocking=False):
            try:
                while self._forgotten:
                    self._drop(self._forgotten.popleft())
            finally:
                self._lock.release()

    def _drop(self, listener: Listener) -> None:
        remaining = self._listeners.get(listener.key, set())
        remaining.discard(listener)
        if not remaining:
            self._listeners.pop(listener.key, None)

    def report(self, keys: Iterable[Hashable]) -> None:
        """Wake the listeners of some keys."""
        with self._lock:
            woken = [listener for key in keys for listener in self._listeners.get(key, ())]
        self._drop_forgotten()
        for listener in woken:
            call_in_loop(listener.loop, listener.changed.set)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def reset(self) -> None:
        """Forget the listeners after a fork: they wait in loops of the parent."""
        self._lock = Lock()
        self._listeners: dict[Hashable, set[Listener]] = {}
        self._forgotten: deque[Listener] = deque()


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
