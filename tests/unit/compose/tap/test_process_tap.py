"""A tap in front of a process: every byte passes, the end of each side passes, and messages are recorded."""

import hashlib
import os
import signal
import subprocess
import sys

import pytest

from dragoman.compose.session_file import SessionFile

DEADLINE = 60
COPIES = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"


def tap(path, *options, child=COPIES):
    return [sys.executable, "-m", "dragoman", "tap", "-o", str(path), *options, "--", sys.executable, "-c", child]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.mcpsession"


def run(command, given=b""):
    return subprocess.run(command, input=given, capture_output=True, timeout=DEADLINE, check=False)


def test_every_byte_passes_unchanged_in_both_directions(path):
    given = os.urandom(300_000) + b'\n{"id": 1 }\r\n' + b"x" * 1_000_000 + b'\n[1,\t2]\n{"unfinished"'
    finished = run(tap(path), given)
    assert hashlib.sha256(finished.stdout).digest() == hashlib.sha256(given).digest()
    assert finished.returncode == 0
    records = list(SessionFile(path).records())
    for sender in ("client", "server"):
        messages = [record.data for record in records if record.kind == "message" and record.sender == sender]
        assert messages[-3:] == [b'{"id": 1 }', b"[1,\t2]", b'{"unfinished"']


def test_stderr_and_the_exit_code_pass_and_are_recorded(path):
    finished = run(tap(path, child="import sys; sys.stderr.write('oh no'); sys.exit(7)"))
    assert finished.returncode == 7
    assert b"oh no" in finished.stderr
    records = list(SessionFile(path).records())
    assert [record.data for record in records if record.kind == "stderr"] == [b"oh no"]
    assert records[-1].head == {"note": "ended", "exitCode": 7}


def test_a_child_that_closes_its_output_and_lives_on_closes_that_of_the_tap(path):
    child = "import os, sys; os.close(1); sys.stdin.read()"
    with subprocess.Popen(tap(path, child=child), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3) as process:
        assert process.stdout.read() == b""
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(DEADLINE) == 0


def test_a_signal_goes_to_the_child_and_its_end_is_that_of_the_tap(path):
    child = "import signal; print('{}', flush=True); signal.pause()"
    with subprocess.Popen(tap(path, child=child), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3) as process:
        assert process.stdout.readline() == b"{}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 128 + signal.SIGTERM


def test_a_tap_that_is_killed_takes_the_input_of_the_child_with_it(path, tmp_path):
    ended = tmp_path / "ended"
    os.mkfifo(ended)
    child = f"import sys; print('{{}}', flush=True); sys.stdin.read(); open({str(ended)!r}, 'w').write('ended')"
    with subprocess.Popen(tap(path, child=child), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3) as process:
        assert process.stdout.readline() == b"{}\n"
        process.kill()
        assert ended.read_text() == "ended"


def test_a_cut_ends_the_child_too(path):
    child = "import signal; print('{}', flush=True); signal.pause()"
    finished = run(tap(path, "--cut", child=child))
    assert (finished.stdout, finished.returncode) == (b"{", 128 + signal.SIGKILL)


def test_a_command_that_is_not_there_is_named(path):
    finished = run([*tap(path)[:-3], "no-such-program"])
    assert finished.returncode == 3
    assert b"no-such-program cannot be run" in finished.stderr


@pytest.mark.parametrize(
    ("options", "received"),
    [
        (["--duplicate", "--at", "2"], b'{"id":1}\n{"id":2}\n{"id":2}\n{"id":3}\n'),
        (["--garbage", "--at", "1"], b'\xff{this is no message\n{"id":1}\n{"id":2}\n{"id":3}\n'),
        (["--cut", "--at", "2"], b'{"id":1}\n{"id'),
        (["--delay", "0.01"], b'{"id":1}\n{"id":2}\n{"id":3}\n'),
    ],
)
def test_faults_meet_the_messages_of_the_server(path, options, received):
    finished = run(tap(path, *options), b'{"id":1}\n{"id":2}\n{"id":3}\n')
    assert finished.stdout == received
    sent = [record.data for record in SessionFile(path).records() if record.sender == "client"]
    assert sent == [b'{"id":1}', b'{"id":2}', b'{"id":3}']


def test_a_message_stands_before_its_answer_in_the_file(path):
    child = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line), sys.stdout.buffer.flush()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(tap(path, child=child), **pipes) as process:
        for number in range(500):
            process.stdin.write(b'{"id":%d}\n' % number)
            process.stdin.flush()
            assert process.stdout.readline() == b'{"id":%d}\n' % number
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
    messages = [record for record in SessionFile(path).records() if record.kind == "message"]
    assert [record.sender for record in messages] == ["client", "server"] * 500
