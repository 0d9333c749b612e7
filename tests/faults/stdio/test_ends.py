"""How serving ends: quietly, with exit code 0, and in bounded time whatever still runs."""

import os
import signal
import subprocess

import pytest

from faults.stdio.stdio_process import Process

SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
STUCK = pytest.mark.parametrize("word", ["stuck_thread", "stuck_executor", "stuck_task"])
GRACE = 0.3
# Well above what a loaded machine needs to start and stop, far below the hour that a stuck handler takes.
BOUND = 60.0


def test_an_unterminated_last_line_is_served():
    with Process() as process:
        process.write(b"echo one\necho two")
        process.end_input()
        assert process.rest() == b"one\ntwo\n"
        assert process.exit_code() == 0


def test_what_is_in_flight_when_the_input_ends_is_answered():
    with Process() as process:
        process.write(b"held answer\nin_thread hello\n")
        assert [process.line(), process.line()] == [b"holding", b"in thread"]
        process.write(b"release")
        process.end_input()
        assert sorted(process.rest().split()) == [b"HELLO", b"answer"]
        assert process.exit_code() == 0
        assert process.errors() == ""


def test_a_thread_that_prints_while_the_interpreter_goes_down_does_not_make_it_abort():
    # Without care about one in five such exits aborts.
    for _ in range(5):
        with Process(grace=0.05, stderr=subprocess.DEVNULL) as process:
            assert process.ask(b"stuck_printing") == b"stuck"
            process.end_input()
            assert process.exit_code(BOUND) == 0


@SIGNALS
def test_a_signal_ends_it_quietly(number):
    with Process() as process:
        assert process.ask(b"echo hello") == b"hello"
        process.signal(number)
        assert process.exit_code() == 0
        assert process.errors() == ""
        assert process.rest() == b""


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM])
@STUCK
def test_the_end_of_the_input_or_a_signal_leaves_stuck_work_behind(number, word):
    with Process(grace=GRACE) as process:
        assert process.ask(word.encode()) == b"stuck"
        if number is None:
            process.write(b"echo answered\n")
            process.end_input()
            assert process.line() == b"answered"
        else:
            process.signal(number)
        assert process.exit_code(BOUND) == 0
        if word != "stuck_task":
            assert process.errors() == ""


@SIGNALS
def test_a_signal_ends_it_even_when_a_handler_blocks_the_loop(number):
    with Process(grace=GRACE) as process:
        assert process.ask(b"stuck_loop") == b"stuck"
        process.signal(number)
        assert process.exit_code(BOUND) == 0
        assert process.errors() == ""


@SIGNALS
def test_what_was_sent_before_a_signal_is_written(number):
    with Process() as process:
        process.write(b"repeat 500000\n")
        process.unread = os.read(process.child.stdout.fileno(), 1)
        process.signal(number)
        assert process.rest() == b"x" * 500_000 + b"\n"
        assert process.exit_code() == 0


@SIGNALS
@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT], ids=["own stderr", "one pipe"])
def test_a_client_that_does_not_read_does_not_hold_up_a_signal(number, stderr):
    with Process(grace=GRACE, stderr=stderr) as process:
        process.write(b"repeat 500000\n")
        assert os.read(process.child.stdout.fileno(), 1) == b"x"
        process.signal(number)
        assert process.exit_code(BOUND) == 0
        if stderr == subprocess.PIPE:
            assert process.errors() == ""


def test_a_client_that_closes_its_end_of_stdout_ends_it_quietly():
    with Process() as process:
        assert process.ask(b"held never") == b"holding"
        process.child.stdout.close()
        process.write(b"echo into the void\n")
        assert process.exit_code() == 0
        assert process.errors() == ""


def test_a_client_that_closes_its_end_of_stdout_in_the_middle_of_a_message_ends_it_quietly():
    with Process() as process:
        process.write(b"repeat 5000000\n")
        assert os.read(process.child.stdout.fileno(), 10) == b"x" * 10
        process.child.stdout.close()
        assert process.exit_code() == 0
        assert process.errors() == ""


def test_a_client_that_goes_away_while_work_is_drained_ends_it_at_once():
    with Process(grace=3600) as process:
        assert process.ask(b"held never") == b"holding"
        process.write(b"repeat 5000000\n")
        process.end_input()
        assert os.read(process.child.stdout.fileno(), 10) == b"x" * 10
        process.child.stdout.close()
        assert process.exit_code(BOUND) == 0
        assert process.errors() == ""


def test_a_child_process_that_lives_on_does_not_keep_the_connection_open():
    with Process(grace=GRACE) as process:
        orphan = int(process.ask(b"orphan"))
        try:
            process.end_input()
            assert process.rest() == b""
            assert process.exit_code() == 0
        finally:
            os.kill(orphan, signal.SIGKILL)
