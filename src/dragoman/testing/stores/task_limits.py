"""What `check_store` checks of the summaries, the limits and the times of tasks."""

from __future__ import annotations

from dragoman.stores.contract import Tasks
from dragoman.stores.limits import MIN_TASK_BYTES, StoreLimits
from dragoman.testing.stores.probe import INVALID_SECONDS, LONG, Probe, fresh, is_full, is_invalid

LIMITS = StoreLimits(task_bytes=32_000, task_bytes_per_caller=16_000)
HALF = bytes(10_000)
"""More than half of what a caller may have, and less than a third of what the server may have."""


async def _summaries(probe: Probe) -> None:
    one, other = probe.tasks()
    made = await one.create(fresh("task"), b"value", owner="ann", summary=b"\0new", ttl=LONG)
    assert made.summary == b"\0new", f"create() must return the summary: {made}"
    listed = await other.list("ann")
    shown = [(task.id, task.summary, task.revision, task.phase, task.expires_at) for task in listed]
    expected = [(made.id, b"\0new", made.revision, "ready", made.expires_at)]
    assert shown == expected, f"list() must return the summary of each task: {shown}"
    assert await other.get(made.id) == made, "get() must return the summary and the value of a task"
    changed = await other.update(made.id, b"2", revision=made.revision)
    assert changed is not None and changed.summary == b"\0new", "update() without a summary must keep it"  # noqa: PT018
    changed = await other.update(made.id, b"3", revision=changed.revision, summary=b"changed")
    assert changed is not None and changed.summary == b"changed", "update() must change the summary"  # noqa: PT018
    claim = await one.claim(LONG)
    assert claim is not None and claim.summary == b"changed", "claim() must return the summary"  # noqa: PT018
    assert await one.finish(made.id, b"4", token=claim.token, summary=b""), "the holder must be able to end a task"
    assert [task.summary for task in await other.list("ann")] == [b""], "finish() must change the summary"


async def _bytes_of_callers(probe: Probe) -> None:
    one, other = probe.tasks(LIMITS)
    made = await one.create(fresh("task"), HALF, owner="ann")
    assert await _lacks_room(other, "ann", HALF), (
        "create() beyond the bytes of its account must raise StoreFull, also if others have room"
    )
    assert not await _lacks_room(other, "ann", b""), "an account must be able to use all of its bytes"
    assert not await _lacks_room(other, "ben", HALF), "the limits of one account must leave others alone"
    assert await is_full(other.create(fresh("task"), HALF, owner="carl", account="ben")), (
        "create() must count a task for its account, and not for its owner"
    )
    assert await is_full(other.create(fresh("task"), b"", owner="ann", account="ann", summary=HALF)), (
        "create() must count the summary of a task"
    )
    larger = 2 * HALF
    assert await is_full(other.update(made.id, larger, revision=made.revision)), (
        "update() beyond the bytes of the account must raise StoreFull"
    )
    assert await is_full(other.finish(made.id, larger)), "finish() beyond the bytes of the account must raise StoreFull"
    assert await one.get(made.id) == made, "a change that is refused for its size must change nothing"
    same = await one.update(made.id, bytes(len(HALF)), revision=made.revision)
    assert same is not None, "update() that adds no bytes must succeed"
    assert await one.finish(made.id, bytes(MIN_TASK_BYTES)), (
        "finish() with MIN_TASK_BYTES must succeed, however full the account is"
    )
    assert not await _lacks_room(other, "ann", HALF), "a task that became smaller must make room"


async def _bytes_of_servers(probe: Probe) -> None:
    tasks, _ = probe.tasks(LIMITS)
    began = await probe.one.now()
    for owner in ("ann", "ben", "carl"):
        await tasks.create(fresh("task"), HALF, owner=owner, ttl=probe.ttl if owner == "ann" else None)
    is_refused = await _lacks_room(tasks, "dora", HALF)
    await probe.require_alive(began)
    assert is_refused, "create() beyond the bytes of the namespace must raise StoreFull"
    assert not await _lacks_room(probe.one.tasks(fresh("tasks"), limits=LIMITS), "dora", HALF), (
        "the limits of one namespace must leave others alone"
    )

    async def has_room() -> bool:
        return not await _lacks_room(tasks, "ann", HALF)

    await probe.until("an expired task must not count among the bytes", has_room)


async def _lacks_room(tasks: Tasks, owner: str, value: bytes) -> bool:
    return await is_full(tasks.create(fresh("task"), value, owner=owner))


async def _invalid_times(probe: Probe) -> None:
    one, other = probe.tasks()
    held = await one.create(fresh("task"), b"1", owner="ann", lease=LONG)
    for seconds in INVALID_SECONDS:
        id = fresh("task")
        refused = [
            await is_invalid(one.create(id, b"", owner="ann", ttl=seconds)),
            await is_invalid(one.update(held.id, b"2", revision=held.revision, ttl=seconds)),
        ]
        if seconds != 0:  # a lease of 0 seconds runs out at once
            refused += [
                await is_invalid(one.create(id, b"", owner="ann", lease=seconds)),
                await is_invalid(one.claim(seconds)),
                await is_invalid(one.renew(held.id, held.token, seconds)),
            ]
        assert all(refused), f"create(), update(), claim() and renew() must refuse {seconds!r} seconds: {refused}"
        assert await other.get(id) is None, f"create() with {seconds!r} seconds must leave no task"
    assert await other.get(held.id) == held, "a refused ttl must change no task"
    assert [task.id for task in await other.list("ann")] == [held.id], "a refused ttl must leave no task"


TASK_LIMIT_CHECKS = (_summaries, _bytes_of_callers, _bytes_of_servers, _invalid_times)
