"""The keys that seal what leaves the server and comes back."""

import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.errors import DefinitionError
from dragoman.runtime import keys
from dragoman.runtime.keys import checked_secrets, key_ring

NEW, OLD = "the secret of this year", "the secret of last year"
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


@pytest.mark.parametrize("secret", ["x" * 16, b"x" * 16, "a much longer secret than any key would be" * 9])
def test_the_same_secret_makes_the_same_ring(secret):
    assert opens(key_ring(secret), key_ring(secret))


def test_text_and_its_bytes_are_one_secret():
    assert opens(key_ring("grün" * 4), key_ring("grün".encode() * 4))


def test_different_secrets_do_not_open_each_other():
    assert not opens(key_ring(NEW), key_ring(OLD))


def test_of_several_secrets_the_first_seals_and_all_open():
    both = key_ring([NEW, OLD])
    assert opens(both, key_ring(OLD))
    assert opens(key_ring(NEW), both)
    assert not opens(key_ring(OLD), both)


def test_the_environment_holds_the_secret_if_the_author_gives_none(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SECRET", OLD)
    assert opens(key_ring(), key_ring(OLD))
    assert opens(key_ring(NEW), key_ring(NEW))
    assert not opens(key_ring(NEW), key_ring())


def test_without_a_secret_the_processes_of_a_machine_share_a_key_file(state_folder):
    first = key_ring()
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


@pytest.mark.parametrize("secret", ["", b"", " " * 32, "abc", b"x" * 15, ["", NEW], [NEW, ""], [], 5, [None], [NEW, 5]])
def test_empty_and_short_secrets_are_refused(secret):
    with pytest.raises(DefinitionError, match=r"secret (is too short: .*\[new, old\]|must be text)"):
        key_ring(secret)


@pytest.mark.parametrize("variable", ["", " " * 32, "abc"])
def test_empty_or_short_secret_of_the_environment_is_refused(variable, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SECRET", variable)
    with pytest.raises(DefinitionError, match="DRAGOMAN_SECRET is too short"):
        key_ring()
    assert opens(key_ring(NEW), key_ring(NEW))


def test_secrets_of_the_author_replace_that_of_the_environment(monkeypatch):
    assert checked_secrets(None) == ()
    monkeypatch.setenv("DRAGOMAN_SECRET", OLD)
    assert checked_secrets(None) == (OLD.encode(),)
    assert checked_secrets([NEW]) == (NEW.encode(),)
