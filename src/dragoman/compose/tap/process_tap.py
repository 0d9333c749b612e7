"""`ProcessTap`: stands between a host and the process of a server, passes every byte, and records the messages.

The tap runs the command of the server as its child. Three threads copy bytes: stdin of the tap to the child, stdout and
stderr of the child to the tap's. A thread records a message before it writes the end of the message, so that a request
stands before its answer in the file. To record is to add to a queue, so it delays nothing. The end of each stream is
passed on too: if the host closes stdin, the tap closes the child's stdin. The tap ends when the child has ended and its
output is copied, with the exit code of the child.

An event loop was rejected: stdin may be a file or a terminal, which loops cannot wait for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

from dragoman.compose.session_file import Sender, SessionWriter, kind_of
from dragoman.compose.tap.faults import GARBAGE, Faults
from dragoman.errors import ConnectError
from dragoman.protocol.lines import LineDecoder, Oversized

CHUNK_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 5.0
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ProcessTap:
    """A tap in front of a command.

    Example:
        with SessionWriter(path) as writer:
            sys.exit(ProcessTap(["python", "server.py"], writer).run())
    """

    def __init__(self, command: Sequence[str], writer: SessionWriter, faults: Faults | None = None) -> None:
        self._command = list(command)
        self._writer = writer
        self._faults = faults or Faults()

    def run(self, stdin: int = 0, stdout: int = 1, stderr: int = 2) -> int:
        """Run the command until it ends, and return its exit code; 128 and the signal's number if a signal ended it.

        Raises:
            ConnectError: the command cannot be run.
        """
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)  # noqa: S603
        except OSError as error:
            raise ConnectError(f"{self._command[0]} cannot be run: {error.strerror}; is it installed?") from None
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        self._child = child
        self._writer.write("tap", "note", head={"note": "begun", "command": self._command[0]})
        previous = [signal.signal(number, lambda got, _: child.send_signal(got)) for number in _FORWARDED]
        try:
            self._start("client", stdin, child.stdin.fileno(), child.stdin.close)
            copies = [
                self._start("server", child.stdout.fileno(), stdout, lambda: os.close(stdout)),
                Thread(target=self._copy_stderr, args=(child.stderr.fileno(), stderr), daemon=True),
            ]
            copies[1].start()
            code = _exit_code(child)
            for copy in copies:
                copy.join(DRAIN_SECONDS)
        finally:
            for number, handler in zip(_FORWARDED, previous, strict=True):
                signal.signal(number, handler)
        self._writer.write("tap", "note", head={"note": "ended", "exitCode": code})
        return code

    def _start(self, sender: Sender, source: int, sink: int, close: Callable[[], None]) -> Thread:
        is_plain = not (self._faults.change_messages if sender == "server" else self._faults.delay)
        copy = self._copy if is_plain else self._copy_with_faults
        thread = Thread(target=_then_close, args=(copy, sender, source, sink, close), daemon=True)
        thread.start()
        return thread

    def _copy(self, sender: Sender, source: int, sink: int) -> None:
        lines = LineDecoder(MAX_LINE_BYTES)
        while chunk := _read(source):
            for line in lines.receive(chunk):
                self._record(sender, line)
            _write(sink, chunk)
        for line in lines.finish():
            self._record(sender, line)

    def _copy_with_faults(self, sender: Sender, source: int, sink: int) -> None:
        rest, number = b"", 0
        while chunk := _read(source):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                time.sleep(self._faults.delay)
                sent, is_cut = line + b"\n", False
                if sender == "server":
                    sent, is_cut = self._faults.apply(sent, number, GARBAGE + b"\n")
                self._record(sender, line)
                _write(sink, sent)
                if is_cut:
                    self._writer.write("tap", "note", head={"note": f"cut in message {number} of the server"})
                    self._child.kill()
                    return
        _write(sink, rest)

    def _copy_stderr(self, source: int, sink: int) -> None:
        while chunk := _read(source):
            with suppress(OSError):
                _write(sink, chunk)
            self._writer.write("server", "stderr", chunk)

    def _record(self, sender: Sender, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            self._writer.write("tap", "note", head={"note": f"a line of the {sender} is too long to be recorded"})
            return
        self._writer.write(sender, kind_of(line), line)


def _then_close(
    copy: Callable[[Sender, int, int], None], sender: Sender, source: int, sink: int, close: Callable[[], None]
) -> None:
    with suppress(OSError):  # the reader of the sink has ended, which its side tells by itself
        copy(sender, source, sink)
    with suppress(OSError):
        close()


def _exit_code(child: subprocess.Popen[bytes]) -> int:
    code = child.wait()
    return code if code >= 0 else 128 - code


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK_BYTES)
    except OSError:  # a terminal that is gone
        return b""


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
