"""What `check_store` checks of logs."""

from __future__ import annotations

import os

from dragoman.stores.contract import MAX_LOG_BYTES, MAX_LOG_EVENTS
from dragoman.testing.stores.probe import LARGE, Probe, fresh

KEPT_EVENTS = 100
"""An engine that keeps fewer events than this is of no use to a client that resumes a stream."""


async def _log_order(probe: Probe) -> None:
    stream = fresh("stream")
    writer, reader = probe.one.log(stream), probe.other.log(stream)
    assert await reader.after(0) == [], "a new log must be empty"
    events = [(number, b"event %d" % number) for number in (1, 2, 3, 5, 8)]
    for number, event in events:
        writer.append(number, event)
    assert await writer.after(0) == events, "a handle must read the events that it appended"
    await probe.within("flush()", writer.flush())
    assert await reader.after(0) == events, "every handle must read the flushed events in order, with their numbers"
    assert await reader.after(3) == events[3:], "after() must return the events after a number, and no others"
    assert await reader.after(8) == [], "after() of the last number must return nothing"
    for number in range(9, 9 + KEPT_EVENTS):
        writer.append(number, b"%d" % number)
    await probe.within("flush()", writer.flush())
    numbers = [number for number, _ in await reader.after(8)]
    assert numbers == list(range(9, 9 + KEPT_EVENTS)), (
        f"events of one turn of the loop must be written in order: {numbers}"
    )
    reader.append(1000, b"from another handle")
    await probe.within("flush()", reader.flush())
    assert (await writer.after(999)) == [(1000, b"from another handle")], (
        "another handle must be able to go on with a log"
    )


async def _log_names(probe: Probe) -> None:
    stream = fresh("stream")
    log, neighbour = probe.one.log(stream), probe.one.log(fresh("stream"))
    log.append(1, b"event")
    neighbour.append(1, b"neighbour")
    await probe.within("flush()", log.flush())
    await probe.within("flush()", neighbour.flush())
    await probe.within("delete()", probe.other.log(stream).delete())
    assert await log.after(0) == [], "a deleted log must be empty for every handle"
    assert await neighbour.after(0) == [(1, b"neighbour")], "each stream must have a log of its own"
    log.append(2, b"again")
    await probe.within("flush()", log.flush())
    assert await probe.other.log(stream).after(0) == [(2, b"again")], "a deleted log must be usable again"


async def _log_bounds(probe: Probe) -> None:
    log = probe.one.log(fresh("stream"))
    last = 3 * MAX_LOG_EVENTS
    for number in range(1, last + 1):
        log.append(number, b"%d" % number)
        if number % 500 == 0:
            await probe.within("flush()", log.flush())
    _check_newest([number for number, _ in await log.after(0)], last, 2 * MAX_LOG_EVENTS)
    await log.delete()
    large = os.urandom(LARGE)
    last = 3 * MAX_LOG_BYTES // LARGE
    for number in range(1, last + 1):
        log.append(number, large)
        await probe.within("flush()", log.flush())
    events = await log.after(0)
    assert all(event == large for _, event in events), f"an event of {LARGE} bytes must be kept whole"
    _check_newest([number for number, _ in events], last, 2 * MAX_LOG_BYTES // LARGE, at_least=1)
    await log.delete()


def _check_newest(numbers: list[int], last: int, at_most: int, at_least: int = KEPT_EVENTS) -> None:
    assert len(numbers) <= at_most, f"a log must drop its oldest events: {len(numbers)} of {last} are kept"
    assert len(numbers) >= at_least, f"a log must keep its newest events: {len(numbers)} of {last} are kept"
    # A variable, because pytest would explain the difference of two long lists for a minute.
    are_newest = numbers == list(range(last - len(numbers) + 1, last + 1))
    assert are_newest, "a log must drop the oldest events, and no others"


LOG_CHECKS = (_log_order, _log_names, _log_bounds)
