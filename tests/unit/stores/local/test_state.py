"""Values in files, which the processes of one user share."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from dragoman.stores import Local
from dragoman.stores.local import state as local_state
from dragoman.stores.local.state import LocalState


def get(state: LocalState, key: str) -> bytes | None:
    return asyncio.run(state.get(key))


def put(state: LocalState, key: str, value: bytes = b"", ttl: float = 100) -> None:
    asyncio.run(state.set(key, value, ttl=ttl))


def test_another_process_finds_a_value_until_it_expires(tmp_path):
    now = 1000.0
    one, other = (LocalState(tmp_path / "state" / "a", clock=lambda: now) for _ in range(2))
    put(one, "key", b"value")
    assert (get(other, "key"), get(other, "no such key")) == (b"value", None)
    put(other, "key", b"another", ttl=200)
    now = 1199
    assert get(one, "key") == b"another"
    now = 1200
    assert get(one, "key") is None


def test_each_namespace_has_values_of_its_own(tmp_path):
    store = Local(tmp_path)
    put(store.state("one"), "key")
    assert get(store.state("one"), "key") == b""
    assert get(store.state("other"), "key") is None


@pytest.mark.parametrize("key", ["../../key", "a/b", "", "\0", "\ud800", "k" * 5000])
def test_any_text_is_a_key(tmp_path, key):
    state = LocalState(tmp_path / "state" / "a")
    put(state, key, b"value")
    assert get(state, key) == b"value"
    assert [path.parent for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "state" / "a"]


def test_nobody_else_may_read_them(tmp_path):
    put(LocalState(tmp_path / "state" / "a"), "key")
    assert [(tmp_path / "state" / name).stat().st_mode & 0o777 for name in (".", "a")] == [0o700, 0o700]


def make_open(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)


def make_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def make_file(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_text("no folder")


@pytest.mark.parametrize("make", [make_open, make_link, make_file])
def test_a_folder_that_is_not_ours_alone_is_not_used_and_that_is_said_once(tmp_path, caplog, make):
    make(tmp_path / "state" / "a")
    (tmp_path / "state").chmod(0o700)
    state = LocalState(tmp_path / "state" / "a")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            put(state, "key")
            assert get(state, "key") is None
    assert len(caplog.messages) == 1
    assert "is not kept" in caplog.text


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, caplog, monkeypatch):
    state = LocalState(tmp_path / "state" / "a")

    def fail(*_: object) -> None:
        raise OSError("no space is left")

    monkeypatch.setattr(os, "utime", fail)
    put(state, "key", b"value")
    assert list((tmp_path / "state" / "a").iterdir()) == []
    assert "no space is left" in caplog.text


def test_a_sweep_removes_what_has_expired_and_of_too_many_those_that_expire_first(tmp_path, monkeypatch):
    monkeypatch.setattr(local_state, "MAX_VALUES", 3)
    monkeypatch.setattr(local_state, "SWEEP_EVERY", 7)
    now = 1000.0
    folder = tmp_path / "state" / "a"
    state = LocalState(folder, clock=lambda: now)
    put(state, "first", ttl=10)
    for number in range(6):
        put(state, f"key {number}", ttl=100 - number)
    for name, age in ((".abandoned", 2 * local_state.TEMPORARY_SECONDS), (".written just now", 1)):
        (folder / name).touch()
        os.utime(folder / name, (now - age, now - age))
    now = 1010.0
    put(state, "last", ttl=200)
    kept = [key for key in ("first", "last", *(f"key {number}" for number in range(6))) if get(state, key) is not None]
    assert kept == ["last", "key 0", "key 1"]
    assert {path.name for path in folder.iterdir() if path.name.startswith(".")} == set()
