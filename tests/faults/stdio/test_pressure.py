"""Large messages, many messages, and clients that do not read."""

import os
import select
import sys

import pytest

from faults.stdio.stdio_process import Process
from faults.stdio.stdio_service import resident_bytes

LOOPS = pytest.mark.parametrize("how", ["plain", "uvloop"])
MEBIBYTE = 1 << 20
NEEDS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc")


@LOOPS
def test_a_line_of_ten_megabytes_goes_in_and_out(how):
    with Process(how=how) as process:
        line = b"x" * 10_000_000
        process.write(b"size " + line + b"\n")
        assert process.line() == b"10000000"
        process.write(b"repeat 10000000\n")
        assert process.line() == line


@LOOPS
def test_five_thousand_messages_in_one_chunk_are_all_answered(how):
    with Process(how=how) as process:
        process.write(b"".join(b"echo %d\n" % number for number in range(5000)))
        process.end_input()
        assert [int(line) for line in process.rest().split()] == list(range(5000))
        assert process.exit_code() == 0


@NEEDS_PROC
@LOOPS
@pytest.mark.parametrize("word", [b"flood 1000", b"flood 100000"])
def test_what_a_client_does_not_read_is_not_piled_up_by_a_handler_that_waits_for_room(how, word):
    with Process(how=how) as process:
        before = int(process.ask(b"memory"))
        process.write(word + b"\n")
        assert process.child.stderr.readline() == b"waiting for room\n"
        assert resident_bytes(process.child.pid) < before + 8 * MEBIBYTE


@NEEDS_PROC
@LOOPS
def test_a_client_that_does_not_read_is_not_read_from_either(how):
    requests = b"repeat 1000\n" * 200_000
    with Process(how=how) as process:
        before = int(process.ask(b"memory"))
        assert write_what_fits(process.child.stdin.fileno(), requests) < len(requests)
        # One chunk of requests, 5 MB of answers, may be served before the pause is known; all are 200 MB.
        assert resident_bytes(process.child.pid) < before + 32 * MEBIBYTE
        assert process.line() == b"x" * 1000


def write_what_fits(descriptor: int, data: bytes) -> int:
    """Write until nothing fits for a second; return how much did."""
    written = 0
    while written < len(data) and select.select([], [descriptor], [], 1)[1]:
        written += os.write(descriptor, data[written : written + select.PIPE_BUF])
    return written
