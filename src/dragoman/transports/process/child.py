"""A child process with its whole process group: how it starts, and how it ends.

Each child leads a process session of its own, so that one signal reaches the child and the processes that it starts.
A daemon thread waits for its exit. SIGCHLD is not used, so any loop in any thread can watch a child. No Python code
runs between fork and exec.

If the owner does not end its child, a finalizer ends the child when the owner is collected, and an exit handler ends it
when the interpreter exits. The child must not be in a reference cycle with its owner: the garbage collector would close
the files of the child first. If the interpreter is killed, the stdin of the child ends, and the watchdog ends a child
that ignores this.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from dragoman.errors import ConnectError
from dragoman.transports.process import watchdog

_POSIX_VARIABLES = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER"
_WINDOWS_VARIABLES = (
    "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES "
    "SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE"
)
SAFE_VARIABLES = (_POSIX_VARIABLES if os.name == "posix" else _WINDOWS_VARIABLES).split()
if sys.platform == "win32":
    KILL = signal.SIGTERM
else:
    KILL = signal.SIGKILL
_EXIT_SECONDS = 1.0
_KILL_SECONDS = 1.0

_living: weakref.WeakSet[Child] = weakref.WeakSet()
_exiting = False


def is_exiting() -> bool:
    """Tell whether the interpreter exits: its children are ended, and no new child may start."""
    return _exiting


def environment(changes: Mapping[str, str] | None, *, inherit: bool) -> dict[str, str]:
    """Return the environment of a child: all variables of this process or only the safe ones, with the changes."""
    inherited = os.environ if inherit else {name: os.environ[name] for name in SAFE_VARIABLES if name in os.environ}
    return {**inherited, **(changes or {})}


def spawn(command: Sequence[str], variables: Mapping[str, str], folder: str | None) -> Child:
    """Start a child with pipes for its three streams.

    Raises:
        ConnectError: the child cannot be started; the text says why and what to do.
    """
    if _exiting:
        raise ConnectError(f"Cannot start {command[0]!r}: the interpreter exits")
    try:
        return Child(_popen(command, variables, folder))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConnectError(_reason(error, command[0], variables, folder)) from error


def _popen(command: Sequence[str], variables: Mapping[str, str], folder: str | None) -> subprocess.Popen[bytes]:
    program, flags = command[0], 0
    if sys.platform == "win32":
        # CreateProcess finds only *.exe by itself, and npx is npx.cmd.
        program = shutil.which(program, path=variables.get("PATH")) or program
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return subprocess.Popen(  # noqa: S603 - the caller names the program; no shell is involved
        [program, *command[1:]],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        cwd=folder,
        start_new_session=True,
        creationflags=flags,
    )


def _reason(error: Exception, program: str, variables: Mapping[str, str], folder: str | None) -> str:
    start = f"Cannot start {program!r}: "
    if not isinstance(error, OSError):
        return f"{start}{error}"
    if folder is not None and error.filename == folder:
        return f"{start}its working directory {folder!r} cannot be entered ({error.strerror}); correct cwd"
    if isinstance(error, FileNotFoundError):
        return start + _reason_found(program, variables)
    if isinstance(error, PermissionError):
        return f"{start}it is not executable; make it so (chmod +x), or name its interpreter first"
    if error.errno == errno.ENOEXEC:
        return f"{start}it is no program and does not begin with #!; name its interpreter first"
    return f"{start}{error.strerror or error}"


def _reason_found(program: str, variables: Mapping[str, str]) -> str:
    path = os.pathsep.join(os.get_exec_path(dict(variables)))
    if shutil.which(program, path=path):
        return "the interpreter in its first line (#!) does not exist; install it, or correct the line"
    words = program.split()
    if len(words) > 1 and shutil.which(words[0], path=path):
        return f"it is no name of a program; the program is {words[0]!r}, and the rest are its arguments (args)"
    if os.path.dirname(program):  # noqa: PTH120
        return "there is no such file; correct the path, and give a list if it holds spaces"
    return f"it is not in PATH, which is {path!r}; install it, give its full path, or set PATH in env"


class Child:
    """A running process with its process group.

    Example:
        child = spawn(["python", "server.py"], environment(None, inherit=True), None)
        child.watch(owner.on_exit)
        child.signal(signal.SIGTERM)
        child.release()
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.stdin: IO[bytes] = popen.stdin
        self.stdout: IO[bytes] = popen.stdout
        self.stderr: IO[bytes] = popen.stderr
        self.pid = popen.pid
        self.forgotten: weakref.WeakMethod[Callable[[], None]] | None = None
        self._popen = popen
        self._owner = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._released = False
        if not _living:
            atexit.unregister(_end_all)
            atexit.register(_end_all)
        _living.add(self)
        watchdog.guard(self.pid)

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, None while the process runs."""
        return self._popen.returncode

    def watch(self, exited: Callable[[], None]) -> None:
        """Call the method `exited` in the running loop once the process has ended; the method is held weakly."""
        self._loop = asyncio.get_running_loop()
        waiting = (self._loop, weakref.WeakMethod(exited))
        threading.Thread(target=self._wait, args=waiting, name="dragoman-child", daemon=True).start()

    def lives(self) -> bool:
        """Tell whether the process, or another process of its group, still runs."""
        if self._popen.poll() is None:
            return True
        if sys.platform == "win32":
            return False
        with suppress(OSError):  # the first process of a container reaps orphans of the group
            os.waitpid(-self.pid, os.WNOHANG)
        try:
            os.killpg(self.pid, 0)
        except OSError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group."""
        if sys.platform == "win32":
            taskkill = ["taskkill", "/F", "/T", "/PID", str(self.pid)]
            subprocess.run(taskkill, capture_output=True, check=False)  # noqa: S603
            return
        with suppress(OSError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the whole group and wait up to one second for the child; needs no loop."""
        if self.lives():
            self.signal(KILL)
        if not self._ends_before(time.monotonic() + _KILL_SECONDS):
            with suppress(RuntimeError):  # the interpreter exits
                threading.Thread(target=self._popen.wait, name="dragoman-child", daemon=True).start()

    def release(self) -> None:
        """Close the pipes to the process, and stop guarding it."""
        if self._released:
            return
        self._released = True
        _living.discard(self)
        self._close_streams()
        watchdog.release(self.pid)

    def leave(self) -> None:
        """Release the process, or only its watchdog if a running loop in another thread still uses the process."""
        if self._loop is not None and self._loop.is_running():
            watchdog.release(self.pid)
        else:
            self.release()

    def forget(self) -> None:
        """Drop this copy in a forked process, because the child belongs to the parent, and notify the copy's owner."""
        self._released = True
        self._close_streams()
        if self._popen.returncode is None:
            self._popen.returncode = 0
        if (forgotten := self.forgotten and self.forgotten()) is not None:
            forgotten()

    def abandon(self) -> None:
        """Kill the whole group and release the child, because the owner was collected."""
        if not self._released:
            self.kill()
            self.release()

    def _ends_before(self, deadline: float) -> bool:
        try:
            self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _wait(self, loop: asyncio.AbstractEventLoop, exited: weakref.WeakMethod[Callable[[], None]]) -> None:
        self._popen.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._report, exited)

    def _report(self, exited: weakref.WeakMethod[Callable[[], None]]) -> None:
        if not self._released and (method := exited()) is not None:
            method()

    def _close_streams(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                stream.close()


def _end_all() -> None:
    """End all children at the same time, because the interpreter exits."""
    global _exiting
    _exiting = True
    children = [child for child in _living if child._owner == os.getpid()]
    for child in children:
        child.signal(signal.SIGTERM)
    deadline = time.monotonic() + _EXIT_SECONDS
    for child in children:
        child._ends_before(deadline)
        child.kill()
        child.leave()


def _forget_all() -> None:
    """Drop the parent's children in a forked process: a second open copy of a child's stdin would hide its end."""
    for child in list(_living):
        child.forget()
    _living.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
