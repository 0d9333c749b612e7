"""A load on a store that counts what is lost, done twice, or does not end; also a program, for loads in processes.

Every call is timed. A call may fail with StoreUnavailable, and nothing else. What was acknowledged must be there
afterwards, and what failed may have been done, but never twice.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import msgspec

from dragoman.errors import StoreUnavailable
from dragoman.stores import Redis
from redis_store import answering, fresh

T = TypeVar("T")
LEASE = 1.0
HUNG = 30.0


class Report(msgspec.Struct):
    """What one load was acknowledged."""

    ledger: str
    stream: str
    recorded: list[str] = []
    """Ids that were added to the ledger."""
    created: list[str] = []
    claimed: list[str] = []
    """Tasks that were claimed for the first time, as far as the store knows."""
    finished: list[str] = []
    flushed: list[int] = []
    """Numbers of events that were written."""
    heard: list[str] = []
    """Messages of other loads."""
    calls: int = 0
    failed: int = 0
    slowest: float = 0.0
    hung: int = 0


class Load:
    """Uses a store in all its parts until it is told to stop."""

    def __init__(self, url: str, group: str, timeout: float, replicas: int = 0) -> None:
        self.store = Redis(url, timeout=timeout, replicas=replicas)
        self.group = group
        self.report = Report(fresh(), fresh())
        self.is_stopping = False

    async def run(self) -> Report:
        """Work until `is_stopping` is set, and return what was acknowledged."""
        await asyncio.gather(
            self._record(), self._create(), *(self._work() for _ in range(3)), self._log(), self._talk()
        )
        await self.store.close()
        return self.report

    async def _call(self, calling: Awaitable[T]) -> T | None:
        """Return the outcome of a call, or None if the store is away."""
        report, began = self.report, time.monotonic()
        report.calls += 1
        try:
            return await asyncio.wait_for(calling, HUNG)
        except StoreUnavailable:
            report.failed += 1
            await asyncio.sleep(0.02)
            return None
        except TimeoutError:
            report.hung += 1
            return None
        finally:
            report.slowest = max(report.slowest, time.monotonic() - began)

    async def _record(self) -> None:
        """Add ids to a ledger, by compare-and-set of what was read."""
        state = self.store.state(self.group)
        while not self.is_stopping:
            kept = await self._call(self._read(state.get(self.report.ledger)))
            if kept is None:
                continue
            ids, revision = kept
            for _ in range(20):
                id = fresh()
                ids = [*ids, id][-200:]
                calling = state.compare_and_set(self.report.ledger, " ".join(ids).encode(), revision)
                changed = await self._call(calling)
                if changed is None:
                    break
                revision = changed
                self.report.recorded = [*self.report.recorded, id][-200:]
            await asyncio.sleep(0.005)

    @staticmethod
    async def _read(getting: Awaitable[tuple[bytes, int] | None]) -> tuple[list[str], int]:
        found = await getting
        return ([], 0) if found is None else (found[0].decode().split(), found[1])

    async def _create(self) -> None:
        tasks = self.store.tasks(self.group)
        while not self.is_stopping:
            made = await self._call(tasks.create(fresh(), b"todo", owner="ann"))
            if made is not None:
                self.report.created.append(made.id)
            await asyncio.sleep(0.01)

    async def _work(self) -> None:
        """Claim tasks, renew the lease, and finish them."""
        tasks = self.store.tasks(self.group)
        while not self.is_stopping:
            claimed = await self._call(tasks.claim(LEASE))
            if claimed is None:
                await self._call(tasks.wait(0.1))
                continue
            if not claimed.was_lost:
                self.report.claimed.append(claimed.id)
            await self._call(tasks.renew(claimed.id, claimed.token, LEASE))
            if await self._call(tasks.finish(claimed.id, b"done", token=claimed.token)) is not None:
                self.report.finished.append(claimed.id)

    async def _log(self) -> None:
        log, last = self.store.log(self.report.stream), 0
        while not self.is_stopping:
            numbers = range(last + 1, last + 4)
            for last in numbers:
                log.append(last, b"%d" % last)
            if await self._call(self._flush(log.flush())):
                self.report.flushed = [*self.report.flushed, *numbers][-500:]
            await asyncio.sleep(0.02)

    @staticmethod
    async def _flush(flushing: Awaitable[None]) -> bool:
        await flushing
        return True

    async def _talk(self) -> None:
        bus = self.store.bus(self.group)
        await self._call(bus.open(lambda message: self.report.heard.append(message.decode()) or b"heard"))
        while not self.is_stopping:
            await self._call(bus.publish(fresh().encode()))
            await asyncio.sleep(0.01)
        await bus.close()


class Toll(msgspec.Struct):
    """What a fault has cost, over all loads."""

    calls: int
    failed: int
    hung: int
    lost: int
    lost_events: int
    twice: int
    slowest: float

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {self.failed} failed with a clear error, {self.hung} hung, {self.lost} values and"
            f" tasks lost, {self.lost_events} events lost, {self.twice} done twice, slowest {self.slowest:.2f} s"
        )


async def toll(store: Redis, group: str, reports: list[Report]) -> Toll:
    """Compare what the loads were acknowledged with what the store has."""
    await answering(store)
    lost, lost_events, twice = 0, 0, 0
    for report in reports:
        found = await store.state(group).get(report.ledger)
        ids = [] if found is None else found.value.decode().split()
        lost += len(set(report.recorded[-100:]) - set(ids))
        twice += _repeated(ids) + _repeated(report.heard)
        numbers = [number for number, _ in await store.log(report.stream).after(0)]
        lost_events += len(set(report.flushed) - set(numbers))
        twice += _repeated(numbers)
        assert numbers == sorted(numbers)
    tasks = store.tasks(group)
    finished = [id for report in reports for id in report.finished]
    twice += _repeated(finished) + _repeated(id for report in reports for id in report.claimed)
    for id in [id for report in reports for id in report.created]:
        record = await tasks.get(id)
        lost += record is None
    for id in finished:
        record = await tasks.get(id)
        lost += record is None or record.phase != "finished"
    await _drain(store, group)
    return Toll(
        sum(report.calls for report in reports),
        sum(report.failed for report in reports),
        sum(report.hung for report in reports),
        lost,
        lost_events,
        twice,
        max(report.slowest for report in reports),
    )


async def _drain(store: Redis, group: str) -> None:
    """Finish what is left, and see that every task can be."""
    tasks, left = store.tasks(group), 0
    async with asyncio.timeout(HUNG):
        while True:
            claimed = await tasks.claim(60)
            if claimed is not None:
                left += 1
                assert await tasks.finish(claimed.id, b"done", token=claimed.token)
            elif all(record.phase == "finished" for record in await tasks.list("ann", limit=100_000)):
                return
            else:
                await tasks.wait(0.1)


def _repeated(ids: Iterable[object]) -> int:
    return sum(count - 1 for count in Counter(ids).values())


async def under_load(
    urls: list[str], timeout: float, fault: Callable[[], Awaitable[None]], seconds: float = 0.3
) -> tuple[str, list[Report]]:
    """Run loads, let them work, do the damage, let them work again; return their group and reports."""
    group = fresh()
    loads = [Load(url, group, timeout) for url in urls]
    running = [asyncio.ensure_future(load.run()) for load in loads]
    await asyncio.sleep(seconds)
    await fault()
    await asyncio.sleep(seconds)
    await asyncio.gather(*(answering(load.store) for load in loads))
    await asyncio.sleep(seconds)
    for load in loads:
        load.is_stopping = True
    return group, await asyncio.gather(*running)


async def main() -> None:
    """Run a load until the standard input ends, and write its report."""
    url, group, timeout, replicas = sys.argv[1:]
    load = Load(url, group, float(timeout), int(replicas))
    running = asyncio.ensure_future(load.run())
    await asyncio.to_thread(sys.stdin.read)
    load.is_stopping = True
    sys.stdout.buffer.write(msgspec.json.encode(await running))


if __name__ == "__main__":
    asyncio.run(main())
