"""Serving on every kind of descriptor that a process may be started with, under both loops."""

import contextlib
import os
import pty
import socket
import subprocess
import tty

import pytest

from faults.stdio.stdio_process import Process, read_some, read_to_end, write_all

LOOPS = pytest.mark.parametrize("how", ["plain", "uvloop"])


@contextlib.contextmanager
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", 0) as reader, os.fdopen(writing, "wb", 0) as writer:
        yield reader, writer


@LOOPS
def test_a_line_in_is_a_line_out_on_pipes(how):
    with Process(how=how) as process:
        assert process.ask(b"echo hello") == b"hello"
        process.end_input()
        assert process.exit_code() == 0
        assert process.errors() == ""


@LOOPS
@pytest.mark.parametrize("is_stderr_too", [False, True])
def test_one_socket_can_be_stdin_and_stdout_and_also_stderr(how, is_stderr_too):
    ours, theirs = socket.socketpair()
    wire = theirs.fileno()
    stderr = {"stderr": wire} if is_stderr_too else {}
    with ours, Process(stdin=wire, stdout=wire, how=how, **stderr) as process:
        theirs.close()
        ours.settimeout(30)
        for number in range(100):
            ours.sendall(b"echo %d\n" % number)
            assert ours.recv(100) == b"%d\n" % number
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b""
        assert process.exit_code() == 0
        if not is_stderr_too:
            assert process.errors() == ""


@LOOPS
def test_a_regular_file_is_served_to_its_end(how, tmp_path):
    requests = tmp_path / "requests"
    requests.write_bytes(b"".join(b"echo %d\n" % number for number in range(50_000)))
    with requests.open("rb") as stdin, Process(stdin=stdin.fileno(), how=how) as process:
        assert sorted(map(int, process.rest().split())) == list(range(50_000))
        assert process.exit_code() == 0
        assert process.errors() == ""


@LOOPS
def test_a_regular_file_can_take_the_answers(how, tmp_path):
    with (tmp_path / "answers").open("wb") as stdout, Process(stdout=stdout.fileno(), how=how) as process:
        process.write(b"echo one\necho two\nrepeat 3000000\n")
        process.end_input()
        assert process.exit_code() == 0
        assert process.errors() == ""
    assert (tmp_path / "answers").read_bytes() == b"one\ntwo\n" + b"x" * 3_000_000 + b"\n"


@LOOPS
@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_nothing_is_read_as_an_end_and_takes_all_answers(how, stream):
    with Process(how=how, **{stream: subprocess.DEVNULL}) as process:
        if stream == "stdin":
            assert process.rest() == b""
        else:
            process.write(b"echo hello\n")
            process.end_input()
        assert process.exit_code() == 0
        assert process.errors() == ""


@LOOPS
def test_lines_can_be_typed_at_a_terminal(how):
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with os.fdopen(ours, "r+b", 0), Process(stdin=theirs, stdout=theirs, how=how) as process:
        os.close(theirs)
        write_all(ours, b"echo hello\n")
        assert read_some(ours) == b"hello\n"
        write_all(ours, b"echo again\n")
        assert read_some(ours) == b"again\n"
        process.child.terminate()
        if how == "plain":
            assert process.exit_code() == 0
            assert process.errors() == ""


def test_the_end_of_a_terminal_is_the_end_of_the_connection():
    ours, theirs = pty.openpty()
    with Process(stdin=theirs) as process:
        os.close(theirs)
        write_all(ours, b"echo hello\n")
        assert process.line() == b"hello"
        os.close(ours)
        assert process.exit_code() == 0
        assert process.errors() == ""


@LOOPS
def test_stdout_and_stderr_can_be_the_same_pipe_which_stays_blocking(how):
    with pipe() as (reader, writer), Process(stdout=writer.fileno(), stderr=subprocess.STDOUT, how=how) as process:
        process.write(b"echo hello\n")
        assert read_some(reader.fileno()) == b"hello\n"
        assert os.get_blocking(writer.fileno())
        writer.close()
        process.write(b"repeat 1000000\n")
        process.end_input()
        assert read_to_end(reader.fileno()) == b"x" * 1_000_000 + b"\n"
        assert process.exit_code() == 0


def test_pipes_are_left_blocking_for_whoever_else_has_them():
    with pipe() as (reader, writer), pipe() as (input_reader, input_writer):
        with Process(stdin=input_reader.fileno(), stdout=writer.fileno()) as process:
            input_writer.write(b"echo hello\n")
            assert read_some(reader.fileno()) == b"hello\n"
            assert os.get_blocking(input_reader.fileno())
            assert not os.get_blocking(writer.fileno())
            input_writer.close()
            assert process.exit_code() == 0
        assert os.get_blocking(writer.fileno())


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_standard_descriptor_may_be_closed(closed):
    with Process(preexec_fn=lambda: os.close(closed)) as process:
        if closed == 2:
            assert process.ask(b"echo hello") == b"hello"
            assert process.ask(b"print to nowhere") == b"printed"
        process.end_input()
        assert process.rest() == b""
        assert process.exit_code() == 0
        assert process.errors() == ""


def test_all_standard_descriptors_may_be_closed():
    with Process(preexec_fn=lambda: os.closerange(0, 3)) as process:
        assert process.exit_code() == 0
