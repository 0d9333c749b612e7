"""The keys that seal what leaves the server and comes back."""

import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.runtime import keys
from dragoman.runtime.keys import has_secret, key_ring

PURPOSE = "test"


@pytest.fixture(autouse=True)
def state_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DRAGOMAN_SECRET", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keys._machine_ring.cache_clear()
    yield tmp_path / "dragoman"
    keys._machine_ring.cache_clear()


def opens(ring, other):
    return ring.open(PURPOSE, other.seal(PURPOSE, b"payload")) == b"payload"


@pytest.mark.parametrize("secret", ["x", b"x", "a much longer secret than any key would be" * 9])
def test_a_secret_of_any_length_makes_the_same_ring_every_time(secret):
    assert opens(key_ring(secret), key_ring(secret))


def test_text_and_its_bytes_are_one_secret():
    assert opens(key_ring("grün"), key_ring("grün".encode()))


def test_different_secrets_do_not_open_each_other():
    assert not opens(key_ring("one"), key_ring("other"))


def test_of_several_secrets_the_first_seals_and_all_open():
    both = key_ring(["new", "old"])
    assert opens(both, key_ring("old"))
    assert opens(key_ring("new"), both)
    assert not opens(key_ring("old"), both)


def test_the_environment_holds_the_secret_if_the_author_gives_none(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SECRET", "from outside")
    assert opens(key_ring(), key_ring("from outside"))
    assert opens(key_ring("given"), key_ring("given"))
    assert not opens(key_ring("given"), key_ring())


@pytest.mark.parametrize("nothing", [None, "", b"", []])
def test_without_a_secret_the_processes_of_a_machine_share_a_key_file(nothing, state_folder):
    first = key_ring(nothing)
    keys._machine_ring.cache_clear()
    assert opens(key_ring(), first)
    assert [path.name for path in state_folder.iterdir()] == ["key"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_nobody_else_can_read_the_key_file(state_folder):
    key_ring()
    assert stat.S_IMODE((state_folder / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE(state_folder.stat().st_mode) == 0o700


def test_all_who_start_at_once_end_up_with_one_key(state_folder):
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: keys._shared_key(state_folder / "key"), range(64)))
    assert len(found) == 1
    assert [path.name for path in state_folder.iterdir()] == ["key"]


def test_a_file_that_is_no_key_is_not_used_and_not_replaced(state_folder, caplog):
    state_folder.mkdir()
    (state_folder / "key").write_bytes(b"short")
    with caplog.at_level(logging.WARNING, "dragoman.runtime"):
        first = key_ring()
        assert opens(key_ring(), first)
    assert len(caplog.records) == 1
    assert "DRAGOMAN_SECRET" in caplog.text
    assert (state_folder / "key").read_bytes() == b"short"


def test_where_no_file_can_be_kept_the_key_is_that_of_the_process(state_folder, caplog):
    state_folder.write_text("a file in the way")
    with caplog.at_level(logging.WARNING, "dragoman.runtime"):
        first = key_ring()
        assert opens(key_ring(), first)
        keys._machine_ring.cache_clear()
        assert not opens(key_ring(), first)
    assert "in this process alone" in caplog.text


def test_the_home_folder_is_used_where_the_environment_names_no_state_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    key_ring()
    assert (tmp_path / ".local" / "state" / "dragoman" / "key").is_file()


@pytest.mark.parametrize(
    ("secret", "variable", "expected"),
    [(None, None, False), (None, "x", True), ("x", None, True), ("", "x", False), ([], None, False)],
)
def test_keys_of_this_machine_alone_are_told_from_a_secret(secret, variable, expected, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("DRAGOMAN_SECRET", variable)
    assert has_secret(secret) is expected
