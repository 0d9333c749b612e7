"""Programs that start in a moment, as forks of a process that has loaded what they need.

A command spends a third of a second of computing on imports, and one that asks a model two seconds; the tests start
hundreds. The process of `_serve` imports everything once and waits. For each program it is sent words as those of
Python's own command line, an environment, a folder and the standard streams. It forks a guardian, which forks the
program, waits for it, and tells its exit code. The program is a process with an id, signals, streams and an end of its
own. Running commands inside the process of the tests was rejected: signals, exit codes and leaks would be lost.

What depends on how an interpreter starts is for `subprocess`: options of Python and its `PYTHON...` variables.
"""

import atexit
import contextlib
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

PACKAGE = ("dragoman.cli.command", "dragoman.client.client", "dragoman.server.server", "dragoman.chat.chat")
MODELS = ("any_llm", "any_llm.providers.openai")
"""What programs load that ask models; others would pay for it at their end, when everything is let go."""
LARGEST = 150_000
"""The bytes of words and environment that a message may have."""
_NUMBER = struct.Struct("i")


class Forked:
    """A program, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        words: list[str],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        env: dict[str, str],
        cwd: str | Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._told, telling = os.pipe()
        ask = {"words": words, "env": env, "cwd": str(cwd or Path.cwd()), "session": start_new_session}
        message = json.dumps(ask).encode()
        assert len(message) < LARGEST
        loaded = PACKAGE + MODELS if any("chat" in word.lower() for word in words) else PACKAGE
        socket.send_fds(_server(loaded), [message], [stdin, stdout, stderr, telling])
        os.close(telling)
        self.returncode: int | None = None
        [self.pid] = _NUMBER.unpack(os.read(self._told, _NUMBER.size))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            [self.returncode] = _NUMBER.unpack(os.read(self._told, _NUMBER.size))
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    words: list[str], *, input: bytes = b"", timeout: float, env: dict[str, str], cwd: str | Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, as `subprocess.run` does with captured output."""
    pipes = [os.pipe() for _ in range(3)]
    theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
    program = Forked(words, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2], env=env, cwd=cwd)
    for descriptor in theirs:
        os.close(descriptor)
    written: dict[int, bytes] = {}
    work = [threading.Thread(target=_feed, args=(pipes[0][1], input))]
    work += [threading.Thread(target=_drain, args=(pipe[0], written)) for pipe in pipes[1:]]
    for thread in work:
        thread.start()
    try:
        code = program.wait(timeout)
    finally:
        program.kill()
        for thread in work:
            thread.join()
    return subprocess.CompletedProcess(words, code, written[pipes[1][0]], written[pipes[2][0]])


def _feed(descriptor: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as stream:
        stream.write(text)


def _drain(descriptor: int, written: dict[int, bytes]) -> None:
    with open(descriptor, "rb") as stream:
        written[descriptor] = stream.read()


@cache
def _server(loaded: tuple[str, ...]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno()), *loaded],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env=environment | {"PYTHONUTF8": "1"},
        start_new_session=True,
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _serve(ours: socket.socket) -> dict[str, Any]:
    """Wait for programs, and return in each of them what it is to do."""
    guardians = 0
    while True:
        message, given, _, _ = socket.recv_fds(ours, LARGEST, 4)
        while guardians and os.waitpid(-1, os.WNOHANG)[0]:
            guardians -= 1
        if not message:
            os._exit(0)
        guardians += 1
        if os.fork() == 0:
            ours.close()
            return _guarded(json.loads(message), given)
        for descriptor in given:
            os.close(descriptor)


def _guarded(asked: dict[str, Any], given: list[int]) -> dict[str, Any]:
    *streams, telling = given
    if (program := os.fork()) == 0:
        os.close(telling)
        if asked["session"]:
            os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return asked
    return _watch(program, streams, telling)


def _watch(program: int, streams: list[int], telling: int) -> NoReturn:
    for descriptor in streams:
        os.close(descriptor)
    for number in range(3):  # whatever else reads them must see their end
        os.close(number)
    os.write(telling, _NUMBER.pack(program))
    _, status = os.waitpid(program, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(telling, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(asked: dict[str, Any]) -> None:
    """Make of a fork what an interpreter is when it has started."""
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.stdin = sys.__stdin__ = _stream(0, "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace")


def _stream(number: int, errors: str) -> Any:
    is_line_buffered = number == 2 or os.isatty(number)
    mode = "rb" if number == 0 else "wb"
    raw = open(number, mode, closefd=False)  # noqa: SIM115
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=is_line_buffered)
    stream.mode = mode[0]  # type: ignore[misc]
    return stream


def _perform(words: list[str]) -> None:
    match words:
        case ["-W", "error", *others]:
            warnings.simplefilter("error")
            _perform(others)
        case ["-m", module, *arguments]:
            sys.path[0] = os.getcwd()  # noqa: PTH109
            sys.argv = ["-m", *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code]:
            sys.path[0] = ""
            sys.argv = ["-c"]
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(code, "<string>", "exec"), vars(main))
        case [path, *arguments]:
            sys.path[0] = str(Path(path).parent)
            sys.argv = [path, *arguments]
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            main.__file__ = path
            exec(compile(Path(path).read_bytes(), path, "exec"), vars(main))


if __name__ == "__main__":
    for name in sys.argv[2:]:
        __import__(name)
    gc.collect()
    gc.freeze()  # or each program would visit all of it at its end
    task = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(task)
    _perform(task["words"])
