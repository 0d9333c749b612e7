"""The store of one machine keeps the contract."""

import functools
import subprocess
from pathlib import Path

import pytest

from dragoman.errors import DefinitionError
from dragoman.stores import Local, StoreLimits
from dragoman.testing import check_store


def contents(folder: Path) -> list[bytes]:
    """The files of a store, read by another process: closing them in this one would end its locks."""
    files = [path for path in folder.rglob("store-*") if path.is_file()]
    return [subprocess.run(["cat", *files], capture_output=True, check=True).stdout]


async def test_the_store_of_one_machine_passes_the_check(tmp_path):
    folder = tmp_path / "store"
    make_store = functools.partial(Local, folder)
    await check_store(make_store, contents=lambda: contents(folder))
    files = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert files["store-2.sqlite"] == 0o600
    assert files["bells"] == 0o700
    assert not list((folder / "bells").iterdir())


async def test_the_folder_may_be_given_as_text(tmp_path):
    store = Local(f"{tmp_path}/store")
    await store.state("values").set("key", b"value")
    await store.close()
    assert (tmp_path / "store" / "store-2.sqlite").exists()
    assert (await Local(tmp_path / "store").state("values").get("key")).value == b"value"


async def test_files_that_belong_to_the_database_are_private_while_it_is_open(tmp_path):
    store = Local(tmp_path / "store")
    await store.state("namespace").set("key", b"value")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "store").iterdir()}
    assert modes == {"store-2.sqlite": 0o600, "store-2.sqlite-wal": 0o600, "store-2.sqlite-shm": 0o600}
    await store.close()
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["store-2.sqlite"]


async def test_a_durable_store_waits_for_the_disk(tmp_path):
    synchronous = {}
    for durable in (False, True):
        store = Local(tmp_path / str(durable), durable=durable)
        database = store._folder.database()
        synchronous[durable] = await database.run(lambda transaction: transaction.one("PRAGMA synchronous")[0])
        await store.close()
    assert synchronous == {False: 1, True: 2}


@pytest.mark.parametrize("part", ["state", "log", "tasks"])
async def test_a_look_up_makes_no_database(tmp_path, part):
    store = Local(tmp_path / "store")
    state, log, tasks = store.state("namespace"), store.log("stream"), store.tasks("namespace")
    found = {
        "state": [await state.get("key"), await state.delete("key")],
        "log": [await log.after(0), await log.delete(), await log.flush()],
        "tasks": [await tasks.get("id"), await tasks.list("ann"), await tasks.claim(1), await tasks.sweep()],
    }
    assert not any(found[part])
    await store.close()
    assert not (tmp_path / "store").exists()


async def test_a_store_without_a_folder_is_in_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = Local()
    await store.state("namespace").set("key", b"value")
    assert (tmp_path / "dragoman" / "store" / "store-2.sqlite").is_file()
    assert repr(store) == f"<Local store in {tmp_path / 'dragoman'}>"
    await store.close()


def test_default_limits_shrink_with_the_database(tmp_path):
    mib = 1024 * 1024
    assert Local(tmp_path).limits == StoreLimits() == Local(tmp_path, max_bytes=2048 * mib).limits
    small = Local(tmp_path, max_bytes=64 * mib).limits
    assert (small.task_bytes, small.task_bytes_per_caller) == (16 * mib, 4 * mib)
    assert (small.state_bytes, small.state_bytes_per_caller, small.tasks) == (4 * mib, mib // 2, 100_000)
    given = StoreLimits(task_bytes=7)
    assert Local(tmp_path, max_bytes=64 * mib, limits=given).limits is given


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
def test_limits_are_positive_integers(limit):
    with pytest.raises(DefinitionError, match="task_bytes must be an integer of at least 1"):
        StoreLimits(task_bytes=limit)
