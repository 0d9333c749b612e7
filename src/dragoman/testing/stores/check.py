"""`check_store`: checks that an engine keeps the contracts of `stores.contract`.

Each check uses names of its own, so the checks can be repeated on storage that lasts. Each uses two handles, which
stand for two processes: what one handle was acknowledged, the other must see.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from dragoman.protocol.tokens import KeyRing
from dragoman.stores.contract import Store
from dragoman.stores.sealed import SealedStore
from dragoman.testing.stores.buses import BUS_CHECKS
from dragoman.testing.stores.logs import LOG_CHECKS
from dragoman.testing.stores.probe import Check, Probe, fresh
from dragoman.testing.stores.processes import check_processes
from dragoman.testing.stores.task_limits import TASK_LIMIT_CHECKS
from dragoman.testing.stores.tasks import TASK_CHECKS
from dragoman.testing.stores.values import VALUE_CHECKS


async def check_store(
    make_store: Callable[[], Store],
    *,
    contents: Callable[[], Iterable[bytes]] | None = None,
    ttl: float = 0.3,
    timeout: float = 10,
) -> None:
    """Check that an engine keeps the contract of `Store`: buses, logs, values and tasks.

    Example:
        await check_store(functools.partial(Redis, "redis://localhost"))

    Each call of `make_store` returns a handle to the same storage. An engine that reaches beyond this process is also
    used by other processes, one of which is killed; pickle must be able to carry `make_store` to them, as it carries a
    function of a module or a `functools.partial` of a class. `contents` returns everything that the engine keeps; with
    it, the check proves that no plain text of the server is there. `ttl` is the length of leases and lives in seconds:
    long enough for a few operations of the engine. `timeout` is the limit in seconds for each operation.

    Raises:
        AssertionError: the engine breaks the contract; the message names the promise.
    """
    one, other = make_store(), make_store()
    probe = Probe(one, other, ttl, timeout)
    try:
        for check in _CHECKS:
            await probe.run(check)
        if one.reach != "process":
            await check_processes(probe, make_store)
        if contents is not None:
            await _sealing(probe, contents)
    finally:
        await probe.within("close()", one.close())
        await probe.within("close()", other.close())


async def _clock(probe: Probe) -> None:
    times = [await probe.one.now(), await probe.other.now(), await probe.one.now()]
    assert times[2] >= times[0], f"now() must not go back: {times[0]}, then {times[2]}"
    assert abs(times[1] - times[0]) < 1, f"all handles must have one clock: {times[0]} and {times[1]}"


async def _using_after_close(probe: Probe) -> None:
    state = probe.one.state(fresh("values"))
    await state.set("key", b"value")
    await probe.within("close()", probe.one.close())
    await probe.within("close() once more", probe.one.close())
    assert await state.get("key"), "a store must be usable after close(), with its values"


async def _sealing(probe: Probe, contents: Callable[[], Iterable[bytes]]) -> None:
    secret = os.urandom(16).hex()
    text = secret.encode()
    sealed, name = SealedStore(probe.one, KeyRing(os.urandom(32))), fresh("sealed")
    state, log, tasks = sealed.state(name + secret), sealed.log(name + secret), sealed.tasks(name + secret)
    await state.set(secret, text)
    log.append(1, text)
    await log.flush()
    task = await tasks.create(fresh("task"), text, owner=secret)
    found, finished = await state.get(secret), await tasks.finish(task.id, text, revision=task.revision)
    assert found is not None and found.value == text, "a sealed value must open again"  # noqa: PT018
    assert await log.after(0) == [(1, text)], "a sealed event must open again"
    assert finished is not None and finished.value == text, "a sealed task must open again"  # noqa: PT018
    kept = [bytes(part) for part in contents()]
    assert kept, "contents() must return what the engine keeps"
    assert not any(text in part for part in kept), "what an engine keeps must not hold the plain text of the server"


_CHECKS: tuple[Check, ...] = (
    *(_clock, *LOG_CHECKS, *VALUE_CHECKS, *BUS_CHECKS, *TASK_CHECKS, *TASK_LIMIT_CHECKS, _using_after_close),
)

__all__ = ["check_store"]
