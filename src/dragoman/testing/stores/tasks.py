"""What `check_store` checks of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from dragoman.errors import StoreError, StoreFull
from dragoman.stores.contract import TaskRecord, Tasks
from dragoman.stores.limits import StoreLimits
from dragoman.testing.stores.probe import LONG, Probe, fresh, is_full

MANY = 20


async def _creating(probe: Probe) -> None:
    one, other = probe.tasks()
    id, before = fresh("task"), await probe.one.now()
    assert await one.get(id) is None, "a task that was never created must not be found"
    made = await one.create(id, b"\0value", owner="ann", ttl=LONG)
    assert (made.id, made.value, made.phase) == (id, b"\0value", "ready"), f"create() must return the task: {made}"
    assert before <= made.created_at <= await probe.one.now(), "created_at must be the time of the store's clock"
    assert made.expires_at is not None, "a task with a ttl must have a time of expiry"
    assert abs(made.expires_at - made.created_at - LONG) < 0.01, "the ttl must count from the creation"
    assert await other.get(id) == made, "every handle must find a task that was created"
    assert (await other.create(fresh("task"), b"", owner="ann")).expires_at is None, (
        "a task without a ttl must not expire"
    )
    held = await one.create(fresh("task"), b"", owner="ann", lease=LONG)
    assert held.phase == "running", "a task that is created with a lease must be running"
    assert held.token > 0, f"a task that is created with a lease must have a token above 0: {held.token}"
    try:
        await other.create(id, b"again", owner="ben")
    except StoreFull as error:
        raise AssertionError("create() of an id that exists must raise a StoreError that is no StoreFull") from error
    except StoreError:
        assert await other.get(id) == made, "create() of an id that exists must change nothing"
    else:
        raise AssertionError("create() of an id that exists must raise a StoreError")


async def _listing(probe: Probe) -> None:
    one, other = probe.tasks()
    ids = [(await (one, other)[number % 2].create(fresh("task"), b"", owner="ann")).id for number in range(5)]
    foreign = await one.create(fresh("task"), b"", owner="ben")
    assert await _ids(other, "ann") == ids, "list() must return the tasks of an owner in the order of their creation"
    assert await _ids(one, "ben") == [foreign.id], "list() must return the tasks of one owner only"
    assert await _ids(one, "nobody") == [], "list() of an owner without tasks must be empty"
    first = [record.id for record in await one.list("ann", limit=2)]
    rest = [record.id for record in await one.list("ann", after=ids[1], limit=10)]
    assert (first, rest) == (ids[:2], ids[2:]), "list() must go on after a task, and keep to its limit"
    assert await one.list("ann", after=foreign.id) == [], "list() after the task of another owner must be empty"
    stranger = probe.one.tasks(fresh("tasks"))
    assert await stranger.list("ann") == [], "a task must be in one namespace only"
    assert await stranger.get(ids[0]) is None, "a task must be in one namespace only"
    assert await stranger.claim(LONG) is None, "claim() must not give a task of another namespace"


async def _ids(tasks: Tasks, owner: str) -> list[str]:
    return [record.id for record in await tasks.list(owner)]


async def _updating(probe: Probe) -> None:
    one, other = probe.tasks()
    made = await one.create(fresh("task"), b"1", owner="ann")
    changed = await other.update(made.id, b"2", revision=made.revision)
    assert changed is not None, "update() with the newest revision must change the task"
    assert (changed.value, changed.phase) == (b"2", "ready"), f"update() must return the changed task: {changed}"
    assert changed.revision > made.revision, "the revision of a task must ascend with each change"
    assert await one.get(made.id) == changed, "every handle must see a change"
    assert await one.update(made.id, b"x", revision=made.revision) is None, (
        "update() with an old revision must be refused"
    )
    assert await one.update(fresh("task"), b"x", revision=1) is None, "update() of an unknown task must be refused"
    assert await one.get(made.id) == changed, "a refused update() must change nothing"
    longer = await one.update(made.id, b"3", revision=changed.revision, ttl=LONG)
    assert longer is not None, "update() with a ttl must change the task"
    assert longer.expires_at is not None, "update() with a ttl must set the time of expiry"
    assert abs(longer.expires_at - made.created_at - LONG) < 0.01, "the ttl of update() must count from the creation"
    kept = await one.update(made.id, b"4", revision=longer.revision)
    assert kept is not None and kept.expires_at == longer.expires_at, "update() without a ttl must keep the expiry"  # noqa: PT018
    outcomes = await asyncio.gather(
        *((one, other)[writer % 2].update(made.id, b"%d" % writer, revision=kept.revision) for writer in range(MANY))
    )
    won = [outcome for outcome in outcomes if outcome is not None]
    assert len(won) == 1, f"of {MANY} updates of one revision one must succeed, not {len(won)}"
    assert await other.get(made.id) == won[0], "the value of the update that succeeded must stay"


async def _claiming(probe: Probe) -> None:
    one, other = probe.tasks()
    assert await one.claim(LONG) is None, "claim() without tasks must return None"
    made = await one.create(fresh("task"), b"value", owner="ann")
    held = await other.claim(LONG)
    assert held is not None, "every handle must be able to claim a ready task"
    assert (held.id, held.value, held.phase) == (made.id, b"value", "running"), f"claim() must return the task: {held}"
    assert held.token > made.token, "claim() must give a new token"
    assert held.revision > made.revision, "the revision of a task must ascend with each change of its phase"
    assert not held.was_lost, "a task that nobody held must not be called lost"
    assert await one.claim(LONG) is None, "a task that is held must not be claimed"
    assert await one.renew(held.id, held.token, LONG), "the holder must be able to renew its lease"
    assert not await one.renew(held.id, held.token - 1, LONG), "renew() with another token must be refused"
    assert not await one.release(held.id, held.token - 1), "release() with another token must be refused"
    assert await one.release(held.id, held.token), "the holder must be able to release a task"
    assert not await one.renew(held.id, held.token, LONG), "renew() of a task that is not running must be refused"
    again = await one.claim(LONG)
    assert again is not None, "a released task must be claimed at once"
    assert again.token > held.token, f"tokens must ascend: {held.token}, then {again.token}"
    assert not again.was_lost, "a released task must not be called lost"
    assert not await one.renew(fresh("task"), 1, LONG), "renew() of an unknown task must be refused"
    assert not await one.release(fresh("task"), 1), "release() of an unknown task must be refused"


async def _racing(probe: Probe) -> None:
    one, other = probe.tasks()
    ids = [(await one.create(fresh("task"), b"", owner="ann")).id for _ in range(3)]
    claims = await asyncio.gather(*((one, other)[claimer % 2].claim(LONG) for claimer in range(MANY)))
    claimed = sorted(claim.id for claim in claims if claim is not None)
    assert claimed == sorted(ids), f"of {MANY} claims of 3 tasks exactly 3 must succeed, one for each: {len(claimed)}"


async def _parking(probe: Probe) -> None:
    one, other = probe.tasks()
    made = await one.create(fresh("task"), b"", owner="ann", lease=LONG)
    parked = await one.update(made.id, b"asked", revision=made.revision, token=made.token, phase="parked")
    assert parked is not None, "the holder must be able to park a task"
    assert parked.phase == "parked", f"update() must set the phase: {parked.phase}"
    assert await other.claim(LONG) is None, "a parked task must not be claimed"
    assert not await one.renew(made.id, made.token, LONG), "renew() of a task that is not running must be refused"
    ready = await other.update(made.id, b"answered", revision=parked.revision, phase="ready")
    assert ready is not None, "every handle must be able to answer a parked task"
    claims = await asyncio.gather(*((one, other)[claimer % 2].claim(LONG) for claimer in range(MANY)))
    won = [claim for claim in claims if claim is not None]
    assert len(won) == 1, f"an answered task must be claimed once, not {len(won)} times"
    assert (won[0].value, won[0].was_lost) == (b"answered", False), f"the next holder must get the answer: {won[0]}"
    assert won[0].token > made.token, "the next holder must get a new token"


async def _losing(probe: Probe) -> None:
    one, other = probe.tasks()
    await one.create(fresh("task"), b"begun", owner="ann")
    began = await probe.one.now()
    held = await one.claim(probe.ttl)
    assert held is not None, "a ready task must be claimed"
    promise = f"a task whose lease of {probe.ttl:g} seconds ran out must be claimed by another"
    heir = await probe.taken_over(other, promise)
    passed = await probe.one.now() - began
    assert passed >= probe.ttl, f"a lease of {probe.ttl:g} seconds must last so long; it lasted {passed:g} seconds"
    assert (heir.id, heir.was_lost) == (held.id, True), f"a claim after a lost lease must say so: {heir}"
    assert heir.token > held.token, f"a claim after a lost lease must give a higher token: {held.token}, {heir.token}"
    await _refused_to_a_paused_holder(one, held, heir)
    done = await other.finish(heir.id, b"done", revision=heir.revision, token=heir.token)
    assert done is not None, "the new holder must be able to finish the task"


async def _refused_to_a_paused_holder(tasks: Tasks, held: TaskRecord, heir: TaskRecord) -> None:
    id, token, newest = held.id, held.token, heir.revision
    assert not await tasks.renew(id, token, LONG), "renew() with an old token must be refused"
    assert not await tasks.release(id, token), "release() with an old token must be refused"
    refused = [
        ("update()", await tasks.update(id, b"x", revision=newest, token=token)),
        ("update()", await tasks.update(id, b"x", revision=held.revision, token=token)),
        ("finish()", await tasks.finish(id, b"x", token=token)),
        ("finish()", await tasks.finish(id, b"x", revision=newest, token=token)),
    ]
    for name, outcome in refused:
        assert outcome is None, f"{name} with an old token must be refused, also with the newest revision"
    found = await tasks.get(id)
    assert found is not None, "a task must stay when an old holder is refused"
    assert (found.value, found.token) == (b"begun", heir.token), "a refused holder must change nothing"


async def _renewing(probe: Probe) -> None:
    one, other = probe.tasks()
    held = await one.create(fresh("task"), b"", owner="ann", lease=probe.ttl)
    ends_at = await probe.one.now() + 2 * probe.ttl
    while (renewed_at := await probe.one.now()) < ends_at:
        is_renewed, claim = await one.renew(held.id, held.token, probe.ttl), await other.claim(LONG)
        await asyncio.sleep(probe.ttl / 20)
        await probe.require_alive(renewed_at)
        assert is_renewed, "the holder must be able to renew its lease"
        assert claim is None, "a task whose lease is renewed in time must not be claimed"
    short = await one.create(fresh("task"), b"", owner="ann", lease=LONG)
    assert await one.renew(short.id, short.token, 0), "renew() must be able to shorten a lease"
    claim = await other.claim(LONG)
    assert claim is not None, "renew() must count the lease from now"
    assert claim.id == short.id, "renew() must change the lease of one task only"


async def _finishing(probe: Probe) -> None:
    one, other = probe.tasks()
    for phase in ("ready", "running", "parked"):
        made = await one.create(fresh("task"), b"", owner="ann", lease=LONG)
        moved = await one.update(made.id, b"", revision=made.revision, phase=phase)
        assert moved is not None, "update() must change the phase"
        assert await other.finish(made.id, b"x", revision=made.revision) is None, "finish() must refuse an old revision"
        done = await other.finish(made.id, b"done")
        assert done is not None, f"a task that is {phase} must be finished without a token"
        assert (done.value, done.phase) == (b"done", "finished"), f"finish() must return the ended task: {done}"
        assert done.revision > moved.revision, "the revision of a task must ascend with each change"
        for name, outcome in [
            ("update()", await one.update(made.id, b"x", revision=done.revision)),
            ("update()", await one.update(made.id, b"x", revision=done.revision, token=made.token, phase="ready")),
            ("finish()", await one.finish(made.id, b"x", revision=done.revision, token=made.token)),
            ("finish()", await one.finish(made.id, b"x")),
        ]:
            assert outcome is None, f"a finished task is final: {name} must be refused"
        assert not await one.renew(made.id, made.token, LONG), "a finished task is final: renew() must be refused"
        assert not await one.release(made.id, made.token), "a finished task is final: release() must be refused"
        assert await one.claim(LONG) is None, "a finished task is final: claim() must not give it"
        assert await one.get(made.id) == done, "a finished task must stay as it is, for every handle"
    assert await one.finish(fresh("task"), b"x") is None, "finish() of an unknown task must be refused"
    made = await one.create(fresh("task"), b"", owner="ann", lease=LONG)
    ends = await asyncio.gather(*((one, other)[writer % 2].finish(made.id, b"%d" % writer) for writer in range(MANY)))
    won = [end for end in ends if end is not None]
    assert len(won) == 1, f"of {MANY} calls of finish() one must succeed, not {len(won)}"
    assert await other.get(made.id) == won[0], "the value of the finish() that succeeded must stay"


async def _task_expiry(probe: Probe) -> None:
    one, other = probe.tasks()
    began = await probe.one.now()
    ready = await one.create(fresh("task"), b"", owner="ann", ttl=probe.ttl)
    held = await one.create(fresh("task"), b"", owner="ann", ttl=probe.ttl, lease=LONG)
    stays = await one.create(fresh("task"), b"", owner="ann", ttl=LONG, lease=LONG)
    prolonged = await one.create(fresh("task"), b"", owner="ann", ttl=probe.ttl, lease=LONG)
    longer = await one.update(prolonged.id, b"", revision=prolonged.revision, ttl=LONG)
    await probe.require_alive(began)
    assert longer is not None, "update() must be able to prolong the life of a task"

    async def is_gone() -> bool:
        return await other.get(ready.id) is None and await other.get(held.id) is None

    await probe.until(f"a task with a ttl of {probe.ttl:g} seconds must expire", is_gone)
    lived = await probe.one.now() - ready.created_at
    assert lived >= probe.ttl, f"a task with a ttl of {probe.ttl:g} seconds expired after {lived:g} seconds"
    assert await _ids(other, "ann") == [stays.id, prolonged.id], "list() must not return an expired task"
    assert await one.claim(LONG) is None, "an expired task must not be claimed"
    assert not await one.renew(held.id, held.token, LONG), "renew() of an expired task must be refused"
    assert await one.finish(held.id, b"late", token=held.token) is None, "finish() of an expired task must be refused"
    assert await one.update(held.id, b"late", revision=held.revision) is None, (
        "update() of an expired task must be refused"
    )
    swept = await one.sweep() + await other.sweep()
    assert swept <= 2, f"sweep() must delete expired tasks only, not {swept}"
    assert await other.sweep() == 0, "sweep() must delete each expired task once"
    assert await _ids(other, "ann") == [stays.id, prolonged.id], "sweep() must leave the other tasks alone"


async def _task_bounds(probe: Probe) -> None:
    ttl, began, limits = probe.ttl, await probe.one.now(), StoreLimits(tasks=5, tasks_per_caller=3)
    one, other = probe.tasks(limits)
    for number in range(3):
        await (one, other)[number % 2].create(fresh("task"), b"", owner="ann", ttl=None if number else ttl)
    is_owner_full = await is_full(other.create(fresh("task"), b"", owner="ann"))
    await one.create(fresh("task"), b"", owner="ben")
    await one.create(fresh("task"), b"", owner="ben")
    is_namespace_full = await is_full(one.create(fresh("task"), b"", owner="cid"))
    await probe.require_alive(began)
    assert is_owner_full, "create() for an owner with limits.tasks_per_caller tasks must raise StoreFull"
    assert is_namespace_full, "create() in a namespace with limits.tasks tasks must raise StoreFull"

    async def has_room() -> bool:
        return not await is_full(one.create(fresh("task"), b"", owner="ann"))

    await probe.until("an expired task must not count among the tasks of an owner", has_room)
    elsewhere = probe.one.tasks(fresh("tasks"), limits=limits)
    assert not await is_full(elsewhere.create(fresh("task"), b"", owner="ann")), (
        "the limit of tasks must be by namespace"
    )


async def _watching(probe: Probe) -> None:
    one, other = probe.tasks()
    made = await one.create(fresh("task"), b"", owner="ann")
    async with aclosing(other.watch(made.id)) as changes, aclosing(one.watch(made.id)) as own:
        await probe.within("the first step of watch()", anext(changes))
        await probe.within("the first step of watch()", anext(own))
        revision = made.revision
        for step in range(5):
            changed = await one.update(made.id, b"%d" % step, revision=revision)
            assert changed is not None, "update() with the newest revision must change the task"
            revision = changed.revision
            await probe.within("watch() of a task that was changed by another handle", _seen(other, changes, changed))
            await probe.within("watch() of a task that was changed by this handle", _seen(one, own, changed))
        held = await one.claim(LONG)
        assert held is not None, "a ready task must be claimed"
        await probe.within("watch() of a task that was claimed", _seen(other, changes, held))
        done = await one.finish(made.id, b"done")
        assert done is not None, "a running task must be finished"
        await probe.within("watch() of a task that was finished", _seen(other, changes, done))


async def _seen(tasks: Tasks, changes: AsyncGenerator[None, None], expected: TaskRecord) -> None:
    """Read a task after each change, until it is as expected."""
    await anext(changes)
    while (await tasks.get(expected.id)) != expected:
        await anext(changes)


async def _waiting(probe: Probe) -> None:
    one, other = probe.tasks()
    await probe.within("the first wait()", other.wait(LONG))

    async def wait_and_claim() -> TaskRecord:
        while True:
            claim = await other.claim(LONG)
            if claim is not None:
                return claim
            await other.wait(LONG)

    made = await one.create(fresh("task"), b"", owner="ann")
    await probe.within("wait() after a task became ready", other.wait(LONG))
    claim = await probe.within("wait() after a task became ready", wait_and_claim())
    assert claim.id == made.id, "claim() must give the task that became ready"
    for how in ("created", "released", "answered"):
        waiting = asyncio.ensure_future(wait_and_claim())
        try:
            await asyncio.sleep(probe.ttl / 20)
            if how == "created":
                await one.create(fresh("task"), b"", owner="ann")
            elif how == "released":
                assert await one.release(claim.id, claim.token), "the holder must be able to release a task"
            else:
                parked = await one.update(claim.id, b"", revision=claim.revision, phase="parked")
                assert parked is not None, "a running task must be parked"
                await one.update(claim.id, b"", revision=parked.revision, phase="ready")
            claim = await probe.within(f"wait() for a task that was {how}", waiting)
        finally:
            waiting.cancel()
    await probe.within("wait() with a short time-out", other.wait(0.01))
    await probe.within("wait() with a short time-out", other.wait(0.01))


TASK_CHECKS = (
    *(_creating, _listing, _updating, _claiming, _racing, _parking, _losing, _renewing, _finishing),
    *(_task_expiry, _task_bounds, _watching, _waiting),
)
