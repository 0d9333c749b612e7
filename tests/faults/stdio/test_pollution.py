"""What a program prints, writes or reads beside the wire never touches it."""

import os

from faults.stdio.stdio_process import Process


def test_print_goes_to_stderr_line_by_line():
    with Process() as process:
        assert process.ask(b"print hello") == b"printed"
        assert process.child.stderr.readline() == b"hello\n"
        process.end_input()
        assert process.rest() == b""
        assert process.exit_code() == 0


def test_print_before_and_after_the_claim_goes_to_stderr():
    with Process(how="noisy") as process:
        assert process.ask(b"echo hello") == b"hello"
        process.end_input()
        assert process.rest() == b""
        assert process.errors() == "before the claim\nafter the claim\n"
        assert process.exit_code() == 0


def test_a_write_to_descriptor_1_goes_to_stderr():
    with Process() as process:
        assert process.ask(b"write hello") == b"written"
        process.end_input()
        assert process.rest() == b""
        assert process.errors() == "hello\n"


def test_a_child_process_writes_to_stderr_and_reads_nothing():
    with Process() as process:
        assert process.ask(b"child hello") == b"run"
        process.end_input()
        assert process.rest() == b""
        assert process.errors() == "hello\n"


def test_reading_stdin_inside_a_handler_sees_its_end():
    with Process() as process:
        assert process.ask(b"read") == b"''"
        assert process.ask(b"echo still served") == b"still served"


def test_what_is_printed_while_stderr_is_closed_goes_nowhere():
    with Process(how="noisy", preexec_fn=lambda: os.close(2)) as process:
        assert process.ask(b"print hello") == b"printed"
        process.end_input()
        assert process.rest() == b""
        assert process.exit_code() == 0
