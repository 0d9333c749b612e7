"""The end of children whose parent was killed; the killing itself is in tests/faults."""

import os
import signal
import subprocess

import pytest

from dragoman.transports.process import watchdog


@pytest.fixture
def groups():
    sleepers = [subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) for _ in range(2)]
    yield [sleeper.pid for sleeper in sleepers]
    for sleeper in sleepers:
        watchdog.release(sleeper.pid)
        sleeper.kill()
        sleeper.wait()


def die_like_a_killed_parent():
    """End the pipe as the death of this process would, and wait for what the shell does about it."""
    shell, watchdog._shell = watchdog._shell, None
    shell.stdin.close()
    assert shell.wait(30) == 0
    watchdog._guarded.clear()


def test_one_shell_guards_all_groups_and_ends_with_the_last(groups):
    watchdog.guard(groups[0])
    shell = watchdog._shell
    watchdog.guard(groups[1])
    assert watchdog._shell is shell
    watchdog.release(groups[0])
    assert shell.poll() is None
    watchdog.release(groups[1])
    assert shell.returncode == -signal.SIGKILL
    assert watchdog._shell is None


def test_a_group_that_was_never_guarded_is_released_in_vain(groups):
    watchdog.release(groups[0])
    assert watchdog._shell is None


@pytest.mark.covers("CST-11")
def test_what_is_guarded_ends_with_the_parent_and_what_was_released_lives(groups):
    watchdog.guard(groups[0])
    watchdog.guard(groups[1])
    watchdog.release(groups[0])
    die_like_a_killed_parent()
    assert os.waitpid(groups[0], os.WNOHANG) == (0, 0)
    assert os.waitpid(groups[1], 0)[1] == signal.SIGTERM


def test_a_shell_that_was_killed_is_replaced_for_the_next_group(groups):
    watchdog.guard(groups[0])
    first = watchdog._shell
    os.kill(first.pid, signal.SIGKILL)
    first.wait(30)
    watchdog.guard(groups[1])
    second = watchdog._shell
    assert second is not first
    assert second.poll() is None


def test_without_a_shell_nothing_is_guarded_and_nothing_fails(groups, monkeypatch):
    monkeypatch.setattr(watchdog, "_SHELL", "/no/such/shell")
    watchdog.guard(groups[0])
    watchdog.guard(groups[1])
    watchdog.release(groups[0])
    watchdog.release(groups[1])
    assert watchdog._shell is None
