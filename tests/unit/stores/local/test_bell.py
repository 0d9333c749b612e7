"""Processes that wait for changes are rung."""

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from dragoman.stores.local.bell import Bell

LISTENER = """
import sys, threading
from pathlib import Path
from dragoman.stores.local.bell import Bell
heard = threading.Event()
bell = Bell(Path(sys.argv[1]), heard.set)
bell.open()
print("open", flush=True)
while heard.wait():
    heard.clear()
    print("heard", flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "bells"


def rung(folder) -> tuple[Bell, threading.Event]:
    heard = threading.Event()
    bell = Bell(folder, heard.set)
    bell.open()
    return bell, heard


def test_everyone_but_the_one_who_rings_is_rung(folder):
    (one, first), (other, second) = rung(folder), rung(folder)
    one.ring()
    assert second.wait(10)
    assert not first.is_set()
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600, 0o600]
    one.open()
    assert len(list(folder.iterdir())) == 2
    one.close()
    one.close()
    other.close()
    assert not list(folder.iterdir())


def test_who_does_not_listen_may_ring(folder):
    bell = Bell(folder, lambda: None)
    bell.ring()
    folder.with_name("file").write_text("")
    Bell(folder.with_name("file"), lambda: None).ring()
    assert not bell.is_open
    other, heard = rung(folder)
    bell.ring()
    assert heard.wait(10)
    other.close()


def test_a_bell_that_is_full_is_still_heard(folder):
    listener = subprocess.Popen([sys.executable, "-c", LISTENER, folder], stdout=subprocess.PIPE)
    try:
        assert listener.stdout.readline() == b"open\n"
        listener.send_signal(signal.SIGSTOP)
        (path,) = folder.iterdir()
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while os.write(descriptor, bytes(4096)):
                pass
        os.close(descriptor)
        Bell(folder, lambda: None).ring()
        listener.send_signal(signal.SIGCONT)
        assert listener.stdout.readline() == b"heard\n"
    finally:
        listener.kill()
        listener.wait(10)
        listener.stdout.close()


def test_the_bell_of_a_process_that_was_killed_is_removed(folder):
    listener = subprocess.Popen([sys.executable, "-c", LISTENER, folder], stdout=subprocess.PIPE)
    assert listener.stdout.readline() == b"open\n"
    bell = Bell(folder, lambda: None)
    bell.ring()
    assert listener.stdout.readline() == b"heard\n"
    listener.kill()
    listener.wait(10)
    listener.stdout.close()
    assert len(list(folder.iterdir())) == 1
    bell.ring()
    assert not list(folder.iterdir())


def test_a_bell_that_is_not_open_yet_is_left_alone(folder):
    bell, _ = rung(folder)
    os.mkfifo(folder / ".begun")
    Bell(folder, lambda: None).ring()
    assert (folder / ".begun").exists()
    bell.close()


def test_a_bell_that_cannot_be_opened_leaves_nothing_behind(folder, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError("Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    bell = Bell(folder, lambda: None)
    with pytest.raises(OSError, match="Too many"):
        bell.open()
    monkeypatch.undo()
    assert not list(folder.iterdir())
    assert not bell.is_open


def test_a_process_that_cannot_ring_leaves_the_bells_of_others(folder, monkeypatch):
    bell, _ = rung(folder)

    def refuse(*_: object) -> int:
        raise OSError("Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    Bell(folder, lambda: None).ring()
    monkeypatch.undo()
    assert len(list(folder.iterdir())) == 1
    bell.close()


def test_without_fifos_nobody_is_rung(folder, monkeypatch):
    monkeypatch.delattr(os, "mkfifo")
    bell = Bell(folder, lambda: None)
    bell.open()
    assert not bell.is_open
    bell.forget()
    bell.close()


def test_a_bell_that_rings_while_it_is_closed_is_closed(folder, monkeypatch):
    def ring_until_the_thread_has_ended(path):
        [listening] = {thread for thread in threading.enumerate() if thread.name == "dragoman-bell"} - others
        descriptor = os.open(path, os.O_WRONLY)
        os.write(descriptor, b"\1")
        os.close(descriptor)
        listening.join(60)
        assert not listening.is_alive()

    others = set(threading.enumerate())
    bell = Bell(folder, lambda: None)
    bell.open()
    monkeypatch.setattr("dragoman.stores.local.bell._unlink", ring_until_the_thread_has_ended)
    bell.close()
    assert not bell.is_open
