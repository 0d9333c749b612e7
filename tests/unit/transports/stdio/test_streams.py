import io
import os
import select
import subprocess
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.transports.stdio import streams
from dragoman.transports.stdio.streams import Streams, claim

DEADLINE = 60


class Client(NamedTuple):
    """The other ends of the three standard descriptors."""

    stdin: int
    stdout: int
    stderr: int


@contextmanager
def standard_pipes():
    """Put pipes in the place of descriptors 0 to 2; not a fixture, as pytest puts its own there before each test."""
    saved = [os.dup(number) for number in range(3)]
    (stdin, stdin_writer), (stdout_reader, stdout), (stderr_reader, stderr) = os.pipe(), os.pipe(), os.pipe()
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    try:
        yield Client(stdin_writer, stdout_reader, stderr_reader)
    finally:
        if streams._claimed is not None:
            streams._claimed.release()
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for descriptor in (stdin_writer, stdout_reader, stderr_reader):
            os.close(descriptor)


@contextmanager
def text_stdout():
    """Give the process the sys.stdout that it has when it starts with a pipe: buffered, on descriptor 1."""
    text = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)), encoding="utf-8")
    with redirect_stdout(text):
        yield text


def read(descriptor):
    assert select.select([descriptor], [], [], DEADLINE)[0]
    return os.read(descriptor, 100)


def test_the_wire_moves_and_what_is_left_leads_to_stderr_and_nothing():
    with standard_pipes() as client:
        claimed = claim()
        assert min(claimed.input, claimed.output) > 2
        os.write(client.stdin, b"question")
        assert read(0) == b""
        assert read(claimed.input) == b"question"
        os.write(1, b"noise")
        assert read(client.stderr) == b"noise"
        os.write(claimed.output, b"answer")
        assert read(client.stdout) == b"answer"


def test_the_wire_is_not_inherited_but_what_takes_its_place_is():
    with standard_pipes():
        claimed = claim()
        inherited = [os.get_inheritable(descriptor) for descriptor in (claimed.input, claimed.output, 0, 1)]
        assert inherited == [False, False, True, True]


def test_claiming_again_returns_the_same():
    with standard_pipes():
        assert claim() is claim()


def test_text_from_before_the_claim_goes_to_stderr():
    with standard_pipes() as client, text_stdout() as text:
        text.write("before")
        claimed = claim()
        assert read(client.stderr) == b"before"
        os.write(claimed.output, b"wire")
        assert read(client.stdout) == b"wire"


def test_text_after_the_claim_goes_to_stderr_line_by_line():
    with standard_pipes() as client, text_stdout() as text:
        claim()
        text.write("after\n")
        assert read(client.stderr) == b"after\n"


def test_releasing_gives_the_descriptors_back():
    with standard_pipes() as client, text_stdout() as text:
        claimed = claim()
        text.write("noise")
        claimed.release()
        assert read(client.stderr) == b"noise"
        os.write(client.stdin, b"question")
        assert read(0) == b"question"
        os.write(1, b"answer")
        assert read(client.stdout) == b"answer"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(claimed.input)
        claimed.release()
        assert claim() is not claimed


def test_releasing_streams_that_were_not_claimed_does_nothing():
    with standard_pipes():
        claimed = claim()
        Streams(claimed.input, claimed.output).release()
        assert claim() is claimed


@pytest.mark.parametrize("stdout", [None, object()], ids=["absent", "replaced"])
def test_a_stdout_that_is_not_a_text_stream_is_no_obstacle(monkeypatch, stdout):
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "__stdout__", stdout)
    with standard_pipes():
        assert claim().output > 2


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_closed_descriptors_lead_to_nothing(closed):
    nothing = Path(os.devnull).stat()
    with standard_pipes():
        for descriptor in closed:
            os.close(descriptor)
        claimed = claim()
        assert min(claimed.input, claimed.output) > 2
        assert os.path.samestat(os.fstat(claimed.input), nothing) == (0 in closed)
        assert os.path.samestat(os.fstat(claimed.output), nothing) == (1 in closed)
        assert os.path.samestat(os.fstat(1), nothing) == (2 in closed)
        assert os.path.samestat(os.fstat(2), nothing) == (2 in closed)


def test_claiming_loads_no_loop():
    code = "import sys; from dragoman.transports.stdio.streams import claim; print('asyncio' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE)
    assert finished.stdout == "False\n"
