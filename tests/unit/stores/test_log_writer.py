"""Events of a stream on their way to an engine that takes its time."""

import asyncio

import pytest

from dragoman.errors import StoreUnavailable
from dragoman.stores import log_writer
from dragoman.stores.log_writer import LogWriter


class Writer(LogWriter):
    """Writes that end when the test says so."""

    def __init__(self):
        super().__init__()
        self.writes = []
        self.warnings = []

    def _begin_write(self, events):
        if self._writing_is_impossible:
            raise StoreUnavailable("There is no engine")
        self.writes.append(([number for number, _ in events], asyncio.get_running_loop().create_future()))
        return self.writes[-1][1]

    def _warn(self, failure):
        self.warnings.append(str(failure))

    _writing_is_impossible = False


async def test_events_of_one_turn_are_one_write_and_later_ones_wait_for_it():
    log = Writer()
    log.append(1, b"one")
    log.append(2, b"two")
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    log.append(3, b"three")
    log.append(4, b"four")
    await asyncio.sleep(0)
    assert [numbers for numbers, _ in log.writes] == [[1, 2]]
    log.writes[0][1].set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [numbers for numbers, _ in log.writes] == [[1, 2], [3, 4]]
    assert not flushing.done()
    log.writes[1][1].set_result(None)
    await flushing


async def test_of_the_events_that_wait_the_newest_within_the_bounds_are_kept(monkeypatch):
    monkeypatch.setattr(log_writer, "MAX_LOG_EVENTS", 10)
    monkeypatch.setattr(log_writer, "MAX_LOG_BYTES", 100)
    log = Writer()
    for number in range(100):
        log.append(number, b"event")
    assert [number for number, _ in log._waiting] == list(range(90, 100))
    log.append(100, bytes(70))
    assert [number for number, _ in log._waiting] == list(range(94, 101))
    log.append(101, bytes(1000))
    assert [number for number, _ in log._waiting] == [101]


@pytest.mark.parametrize("is_impossible", [False, True])
async def test_flush_reports_a_failed_write_once(is_impossible):
    log = Writer()
    log._writing_is_impossible = is_impossible
    log.append(1, b"event")
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    if not is_impossible:
        log.writes[0][1].set_exception(StoreUnavailable("There is no engine"))
    with pytest.raises(StoreUnavailable, match="Events were not written: There is no engine"):
        await flushing
    await log.flush()
    assert log.warnings == ["There is no engine"]


async def test_a_write_that_does_not_end_is_waited_for_with_a_bound(monkeypatch):
    monkeypatch.setattr(log_writer, "WRITE_SECONDS", 0.01)
    log = Writer()
    log.append(1, b"event")
    with pytest.raises(StoreUnavailable, match="were not written within 0"):
        await log.flush()
