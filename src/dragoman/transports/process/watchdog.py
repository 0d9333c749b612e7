"""A watchdog that ends child processes whose parent was killed.

A killed parent cannot end its children. Their stdin ends, but some children ignore this. So while there are children,
one small shell, the watchdog, reads the ids of their process groups from a pipe that only the parent writes to. If the
pipe ends while groups are left, the parent is dead: the shell waits two seconds, sends SIGTERM to the groups, waits two
seconds, and sends SIGKILL. When the last child has ended, the parent kills the shell.

Without `/bin/sh` there is no watchdog, and only the end of stdin tells a child that its parent is dead. The watchdog
does not reach a child that leaves its process group, as daemons do.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress

_SHELL = "/bin/sh"
_SCRIPT = """
trap '' HUP INT QUIT TERM
groups=
while read -r verb group; do
  if [ "$verb" = guard ]; then groups="$groups $group"; continue; fi
  kept=
  for other in $groups; do [ "$other" = "$group" ] || kept="$kept $other"; done
  groups=$kept
done
for signal in TERM KILL; do
  for second in 1 2; do
    left=
    for group in $groups; do kill -s 0 -- "-$group" && left=yes; done
    [ "$left" ] || exit 0
    sleep 1
  done
  for group in $groups; do kill -s "$signal" -- "-$group"; done
done
"""

# Reentrant, because the garbage collector may end a child at any time, even while this thread holds the lock.
_lock = threading.RLock()
_guarded: set[int] = set()
_shell: subprocess.Popen[bytes] | None = None


def guard(group: int) -> None:
    """Let the watchdog end this process group if this process dies before `release`."""
    with _lock:
        _guarded.add(group)
        if _shell is None:
            _start()
        else:
            _send(f"guard {group}\n")


def release(group: int) -> None:
    """Stop guarding this process group."""
    with _lock:
        if group not in _guarded:
            return
        _guarded.discard(group)
        if _guarded:
            _send(f"release {group}\n")
        else:
            _stop()


def _start() -> None:
    global _shell
    with suppress(OSError):
        _shell = subprocess.Popen(  # noqa: S603 - a constant
            [_SHELL, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        _send("".join(f"guard {group}\n" for group in sorted(_guarded)))


def _send(command: str) -> None:
    if _shell is None or _shell.stdin is None:
        return
    try:
        _shell.stdin.write(command.encode())
    except OSError:  # the shell was killed; start another one
        _stop()
        _start()


def _stop() -> None:
    global _shell
    shell, _shell = _shell, None
    if shell is not None and shell.stdin is not None:
        shell.kill()
        shell.wait()
        shell.stdin.close()


def _forget() -> None:
    """Drop the parent's shell in a forked process: a second open copy of the pipe would hide the parent's death."""
    global _shell, _lock
    _lock = threading.RLock()
    _guarded.clear()
    shell, _shell = _shell, None
    if shell is not None and shell.stdin is not None:
        shell.stdin.close()
        shell.returncode = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
