"""The thread of the database: what waits is committed together, and what goes wrong is said."""

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.errors import StoreUnavailable
from dragoman.stores import Local, State
from dragoman.stores.local import database as module
from dragoman.stores.local.database import Database, shared_database

MIB = 1024 * 1024


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def path(folder) -> Path:
    return folder / "store-2.sqlite"


def database(path: Path, max_bytes: int = 64 * MIB) -> Database:
    return shared_database(path, durable=False, max_bytes=max_bytes)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("dragoman-")]


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_waits_is_committed_together_in_its_order(path):
    store = database(path)
    begun, may_end = threading.Event(), threading.Event()
    transactions, seen = set(), []

    def hold(transaction: Any) -> None:
        begun.set()
        may_end.wait(10)

    def note(number: int, transaction: Any) -> int:
        transactions.add(id(transaction))
        seen.append(number)
        return number

    holding = asyncio.ensure_future(store.run(hold))
    await asyncio.to_thread(begun.wait, 10)
    waiting = [asyncio.ensure_future(store.run(lambda t, n=n: note(n, t), writes=True)) for n in range(100)]
    await asyncio.sleep(0)
    may_end.set()
    assert await asyncio.gather(*waiting) == list(range(100)) == seen
    assert len(transactions) == 1
    await holding
    await store.close()


async def test_work_that_fails_does_not_fail_what_it_was_committed_with(path):
    store = database(path)
    await store.run(lambda transaction: None)

    def add(transaction: Any, name: str) -> str:
        transaction.execute("INSERT INTO counters VALUES (?, 1)", (name,))
        if name == "bad":
            transaction.execute("nonsense")
        return name

    outcomes = await asyncio.gather(
        *(store.run(lambda t, n=n: add(t, n), writes=True) for n in ("one", "bad", "two")), return_exceptions=True
    )
    assert (outcomes[0], outcomes[2]) == ("one", "two")
    assert isinstance(outcomes[1], StoreUnavailable)
    assert "syntax error" in str(outcomes[1])
    rows = await store.run(lambda transaction: transaction.execute("SELECT name FROM counters").fetchall())
    assert sorted(name for (name,) in rows) == ["one", "two"]
    await store.close()


async def test_a_mistake_in_work_is_raised_where_it_was_asked_for(path):
    store = database(path)
    with pytest.raises(ZeroDivisionError):
        await store.run(lambda transaction: 1 // 0)
    assert await store.run(lambda transaction: 5) == 5
    await store.close()


async def test_work_that_nobody_awaits_any_more_is_not_run(path):
    store = database(path)
    begun, may_end, ran = threading.Event(), threading.Event(), []
    holding = asyncio.ensure_future(store.run(lambda transaction: (begun.set(), may_end.wait(10))))
    await asyncio.to_thread(begun.wait, 10)
    cancelled = asyncio.ensure_future(store.run(ran.append))
    await asyncio.sleep(0)
    cancelled.cancel()
    may_end.set()
    await holding
    assert await store.run(lambda transaction: "next") == "next"
    assert not ran
    await store.close()


async def test_a_database_that_others_lock_all_the_time_is_unavailable_and_comes_back(path, monkeypatch):
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.1)
    store = database(path)
    await store.run(lambda transaction: None, writes=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="was locked by other processes for 0"):
        await store.run(lambda transaction: None, writes=True)
    assert await store.run(lambda transaction: "read") == "read"
    monkeypatch.setattr(module, "BUSY_SECONDS", 10)
    waiting = asyncio.ensure_future(store.run(lambda transaction: "written", writes=True))
    await asyncio.sleep(0.01)
    other.execute("ROLLBACK")
    other.close()
    assert await waiting == "written"
    await store.close()


async def test_a_thread_that_does_not_answer_is_waited_for_with_a_bound(path, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    store = database(path)
    may_end = threading.Event()
    with pytest.raises(StoreUnavailable, match="did not answer within 0"):
        await store.run(lambda transaction: may_end.wait(10))
    may_end.set()
    await store.close()


async def test_closing_does_not_wait_for_a_thread_that_hangs(path, monkeypatch):
    store = database(path)
    may_end = threading.Event()
    hanging = store.submit(lambda transaction: may_end.wait(10))
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.05)
    await store.close()
    assert not hanging.done()
    may_end.set()
    await hanging
    await until(lambda: store._thread is None)


async def test_the_thread_ends_when_it_is_idle_and_begins_again(path, monkeypatch):
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    store, others = database(path), set(threads())  # a store of another test may be among them
    for number in range(3):
        assert await store.run(lambda transaction, number=number: number) == number
        await until(lambda: store._thread is None)
    assert store._connection is None
    await until(
        lambda: not [thread for thread in threads() if thread.name == "dragoman-store" and thread not in others]
    )


async def test_closing_ends_the_thread_after_the_work_that_waits(path):
    store = database(path)
    working = [asyncio.ensure_future(store.run(lambda t, n=n: n, writes=True)) for n in range(5)]
    await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert [work.result() for work in working] == list(range(5))
    await until(lambda: store._thread is None)
    assert not path.with_name(path.name + "-wal").exists()
    await store.close()
    assert await store.run(lambda transaction: 7) == 7
    await store.close()


async def test_databases_of_one_file_are_one_object_and_go_when_nobody_uses_them(path):
    one = database(path)
    assert database(path) is one
    assert shared_database(path, durable=True, max_bytes=64 * MIB) is not one
    await one.run(lambda transaction: None)
    await one.close()
    gone = weakref.ref(one)
    del one

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    await until(is_gone)


async def test_a_file_that_somebody_removed_is_made_again(path):
    store = Local(path.parent)
    state = store.state("namespace")
    await state.set("key", b"value")
    for file in path.parent.glob("store-*"):
        file.unlink()
    assert await state.get("key") is None
    await state.set("key", b"again")
    assert path.is_file()
    await store.close()


async def test_a_file_that_is_no_database_is_named(path):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"This is not a database." * 1000)
    store = Local(path.parent)
    with pytest.raises(StoreUnavailable, match="cannot be opened: file is not a database") as caught:
        await store.state("namespace").set("key", b"value")
    assert str(path) in str(caught.value)
    await store.close()


@pytest.mark.parametrize("hindrance", ["a file in the place of the folder", "a folder that others may enter", "a link"])
async def test_a_folder_that_cannot_be_used_makes_the_store_unavailable(folder, hindrance):
    if hindrance.startswith("a file"):
        folder.write_text("")
    elif hindrance.startswith("a folder"):
        folder.mkdir()
        folder.chmod(0o755)
    else:
        folder.with_name("elsewhere").mkdir(mode=0o700)
        folder.symlink_to(folder.with_name("elsewhere"))
    store = Local(folder)
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        await store.state("namespace").set("key", b"value")
    with pytest.raises(StoreUnavailable, match="cannot be created"):
        await store.tasks("namespace").create("id", b"", owner="ann")
    log = store.log("stream")
    log.append(1, b"event")
    with pytest.raises(StoreUnavailable, match="Events were not written"):
        await log.flush()
    await log.flush()
    assert await store.state("namespace").get("key") is None
    await store.close()


async def test_without_a_home_there_is_no_store(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    store = Local()
    with pytest.raises(StoreUnavailable, match="set XDG_STATE_HOME"):
        await store.state("namespace").get("key")
    log = store.log("stream")
    log.append(1, b"event")
    with pytest.raises(StoreUnavailable, match="set XDG_STATE_HOME"):
        await log.flush()


async def fill(state: State) -> list[str]:
    """Set values until there is no room for one more, and return the keys."""
    written: list[str] = []
    for size in (100_000, 1000):
        with suppress(StoreUnavailable):
            for number in range(10_000):
                await state.set(f"{size}x{number}", bytes(size))
                written.append(f"{size}x{number}")
    return written


async def test_a_full_database_refuses_what_is_new_and_lets_everything_else_end(folder):
    store = Local(folder, max_bytes=6 * MIB)
    state, tasks = store.state("namespace"), store.tasks("namespace")
    task = await tasks.create("id", b"x" * 1000, owner="ann", lease=30)
    written = await fill(state)
    assert len(written) > 50
    with pytest.raises(StoreUnavailable, match="has no room: its limit of 6291456 bytes or the disk is full"):
        await state.set("key", bytes(10_000))
    with pytest.raises(StoreUnavailable, match="has no room"):
        await tasks.create("other", bytes(10_000), owner="ann")
    for _ in range(500):
        assert await tasks.renew("id", task.token, 30)
    assert (await tasks.finish("id", b"y" * 10_000, token=task.token)).phase == "finished"
    for key in written:
        found = await state.get(key)
        assert found.value == bytes(int(key.partition("x")[0]))
    for key in written[:10]:
        assert await state.delete(key)
    await state.set("new", bytes(100_000))
    await tasks.create("other", bytes(10_000), owner="ann")
    await store.close()
    assert sum(path.stat().st_size for path in folder.glob("*.sqlite")) <= 6 * MIB


async def test_a_disk_with_little_room_is_not_filled(folder, monkeypatch):
    store = Local(folder)
    await store.state("namespace").set("key", b"value")
    monkeypatch.setattr(module, "GROW_SECONDS", 0)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=5 * MIB))
    with pytest.raises(StoreUnavailable, match="has no room"):
        await store.state("namespace").set("large", bytes(4 * MIB))
    await store.state("namespace").set("key", b"small")
    monkeypatch.undo()
    await store.state("namespace").set("large", bytes(4 * MIB))
    await store.close()


async def test_what_has_expired_is_swept_while_the_database_is_used(folder, monkeypatch):
    store = Local(folder)
    await store.state("namespace").set("short", b"", ttl=0.001)
    await store.state("namespace").set("long", b"", ttl=1000)
    await store.tasks("namespace").create("id", b"", owner="ann", ttl=0.001)
    monkeypatch.setattr("dragoman.stores.local.log.LOG_SECONDS", 0.001)
    log = store.log("stream")
    log.append(1, b"event")
    await log.flush()
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0)
    await asyncio.sleep(0.01)
    await store.state("namespace").set("new", b"")

    def rows(transaction: Any) -> dict[str, int]:
        return {
            table: transaction.one(f"SELECT count(*) FROM {table}")[0] for table in ("state", "tasks", "logs", "events")
        }

    assert await store._folder.database().run(rows) == {"state": 2, "tasks": 0, "logs": 0, "events": 0}
    counted = await store._folder.database().run(
        lambda transaction: dict(transaction.execute("SELECT * FROM counters"))
    )
    assert counted.pop("revision") == 4
    sizes = {"value bytes namespace": 512, "value bytes namespace ": 512}
    assert counted == {"values namespace": 2, "log bytes": 0, **sizes}
    await store.close()


async def test_changes_are_found_without_a_bell(folder, monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.delattr(os, "mkfifo")
    tasks = Local(folder).tasks("namespace")
    others = Local(folder, durable=True).tasks("namespace")  # a database of its own, as in another process
    task = await tasks.create("id", b"", owner="ann")
    watching = tasks.watch("id")
    await anext(watching)
    await others.finish("id", b"done")
    async with asyncio.timeout(60):
        await anext(watching)
    assert (await tasks.get("id")).revision > task.revision
    await watching.aclose()
    await tasks._folder.close()
    await others._folder.close()


async def test_closing_a_store_does_not_end_the_watch_of_another_handle(folder):
    before = set(threads())
    tasks, others = Local(folder).tasks("namespace"), Local(folder, durable=True).tasks("namespace")
    await tasks.create("id", b"", owner="ann")
    watching = tasks.watch("id")
    await anext(watching)
    store = Local(folder)
    await store.state("namespace").set("key", b"value")
    await store.close()
    began = time.monotonic()
    await others.finish("id", b"done")
    async with asyncio.timeout(60):
        await anext(watching)
    assert time.monotonic() - began < 5
    await watching.aclose()
    await tasks._folder.close()
    await others._folder.close()
    await until(lambda: set(threads()) <= before)


def test_a_program_that_closes_nothing_leaves_nothing_open_behind(folder):
    program = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from dragoman.stores import Local
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no complaint
    store = Local(Path(sys.argv[1]))
    tasks = store.tasks("namespace")
    await tasks.create("id", b"", owner="ann")
    await tasks.wait(1)
    return store, tasks
kept = asyncio.run(main())
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, folder]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(path.name for path in folder.rglob("*")) == ["bells", "store-2.sqlite"]


async def test_a_python_without_sqlite_says_so(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "dragoman.stores.local.database", None)
    with pytest.raises(StoreUnavailable, match="This Python has no SQLite"):
        await Local(folder).state("namespace").set("key", b"value")


def test_a_loop_that_is_closed_gets_no_answer(path):
    store = database(path)
    begun, may_end = threading.Event(), threading.Event()

    async def leave() -> None:
        store.submit(lambda transaction: (begun.set(), may_end.wait(10)))
        await asyncio.to_thread(begun.wait, 10)

    asyncio.run(leave())
    may_end.set()

    async def go_on() -> int:
        found = await store.run(lambda transaction: 3)
        await store.close()
        return found

    assert asyncio.run(go_on()) == 3
