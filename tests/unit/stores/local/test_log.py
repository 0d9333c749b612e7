"""The events of a stream in the database."""

import asyncio
import logging

import pytest

from dragoman.errors import StoreUnavailable
from dragoman.stores import Local
from dragoman.stores.local import log as module

MIB = 1024 * 1024


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


async def numbers(log) -> list[int]:
    return [number for number, _ in await log.after(0)]


async def test_an_event_is_written_without_being_flushed(folder):
    store = Local(folder)
    log = store.log("stream")
    log.append(1, b"one")
    log.append(2, b"two")
    async with asyncio.timeout(60):
        while len(written := await Local(folder).log("stream").after(0)) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert written == [(1, b"one"), (2, b"two")]
    await store.close()


async def test_the_oldest_logs_give_way_when_all_together_are_too_large(folder):
    store = Local(folder, max_bytes=16 * MIB)
    logs = [store.log(name) for name in ("one", "two", "three")]
    for log in logs:
        log.append(1, bytes(3 * MIB // 2))
        await log.flush()
    assert [await numbers(log) for log in logs] == [[], [1], [1]]
    logs[1].append(2, bytes(5 * MIB))
    await logs[1].flush()
    assert [await numbers(log) for log in logs] == [[], [1, 2], []]
    await store.close()


async def test_a_log_expires_after_its_last_event_and_begins_anew(folder, monkeypatch):
    store = Local(folder)
    log = store.log("stream")
    monkeypatch.setattr(module, "LOG_SECONDS", 0.02)
    log.append(1, b"event")
    await log.flush()
    async with asyncio.timeout(60):
        while await numbers(log):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    monkeypatch.undo()
    log.append(5, b"event")
    assert await numbers(log) == [5]
    await store.close()


async def test_events_that_are_written_again_are_kept_once(folder):
    store = Local(folder)
    log = store.log("stream")
    for _ in range(2):
        log.append(1, b"event")
        await log.flush()
    assert await log.after(0) == [(1, b"event")]
    await store.close()


async def test_events_that_nobody_waits_for_are_lost_with_one_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    log = Local(tmp_path / "file" / "store").log("stream")
    for number in range(3):
        log.append(number, b"event")
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await log.flush()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "cannot be resumed" in caplog.text


async def test_events_that_wait_are_deleted_with_the_log(folder):
    store = Local(folder)
    log = store.log("stream")
    log.append(1, b"event")
    await log.flush()
    log.append(2, b"event")
    await log.delete()
    assert await numbers(log) == []
    await store.close()
