"""A server as a child process, spoken to through its stdin and stdout.

Theory of operation: each chunk of stdout is cut into lines, and each line goes to `receive` in the turn of the loop in
which it arrives. When `receive` returns an awaitable, stdout is not read on until that is done. What is sent is written
at once; only what the pipe does not take waits, always as whole lines, and while much waits, senders wait in the order
in which they came. stderr is always read, so that the child cannot block on it, and its tail is kept for the error that
tells how the child ended.

The connection ends once, in one task: `_end`. It begins when `close` is called, when the child ends, when it closes
its stdout or stdin, or when it sends a line that is too long. If the end was not asked for, the task first waits a
moment for the exit code and the last of stderr, and calls `closed`. Then the child's input ends; what has not ended by
itself after the grace gets SIGTERM, and SIGKILL after another. Should the task be cancelled, as happens when the loop
ends, the group is killed at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from dragoman.errors import ConnectError, ServerCrashed, TransportError
from dragoman.protocol import lines
from dragoman.protocol.jsonrpc import DEFAULT_LIMITS, Limits
from dragoman.transports.contract import Receive
from dragoman.transports.process.child import KILL, Child, environment, is_exiting, spawn
from dragoman.transports.stdio.descriptors import (
    CONGESTED_BYTES,
    Flow,
    Reader,
    Writer,
    _WatchingWriter,
    open_reader,
    open_writer,
)

GRACE_SECONDS = 2.0
TAIL_BYTES = 64 * 1024

_MOMENT_SECONDS = 1.0
_LEFTOVERS_SECONDS = 0.2
_GROUP_SECONDS = 0.01
_QUOTED_LINE = 200
_QUOTED_TAIL = 2000
_LOGGED_LINE = 8 * 1024

_logger = logging.getLogger("dragoman.client")
_stderr_logger = logging.getLogger("dragoman.client.stderr")
_containers = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])


class ProcessTransport:
    """A transport that starts a server and speaks to it over stdio.

    Example:
        transport = ProcessTransport("npx -y @acme/files /srv", env={"ACME_KEY": key})
        await transport.open(receive, closed)
        await transport.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        await transport.close()

    A string without `args` is a command line, split as a shell would but run without one. The child has our
    environment with `env` over it, or with `inherit_env=False` only `env` over a few variables that are no secrets.
    It may be opened again after it has ended, and in a forked process, to which the child does not belong.

    Raises:
        ValueError: there is no command, or its quotes do not match.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        cwd: str | os.PathLike[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        grace: float = GRACE_SECONDS,
        name: str | None = None,
    ) -> None:
        self._command = _split(command, args)
        self._env = env
        self._inherit_env = inherit_env
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._limits = limits
        self._grace = grace
        self.name = name or _name(self._command)
        self._wanted = False
        self._delivering = False
        self._write: Writer | None = None
        self._child: Child | None = None
        self._ending: asyncio.Task[None] | None = None
        self._cause: TransportError | None = None
        self._tail = _Tail(self.name)

    @property
    def pid(self) -> int | None:
        """The id of the child and of its process group, or None before the first start."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """How the child ended: a negative signal number if a signal ended it, None while it runs."""
        return self._child.exit_code if self._child else None

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the child wrote to stderr."""
        return self._tail.text()

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Start the child.

        Raises:
            ConnectError: it cannot be started, or is started already.
        """
        if self._wanted:
            raise ConnectError(f"The server {self.name!r} is open already; close it first")
        self._wanted = True
        try:
            await self._join_end()
            self._start(receive, closed)
        except BaseException:
            self._wanted = False
            raise

    async def send(self, message: bytes) -> None:
        """Send one message, and return when more may be sent.

        A message whose sender is cancelled is sent whole or not at all.

        Raises:
            ServerCrashed: the child ended, or closed its stdin or stdout.
            ConnectError: it is not open; nothing was sent.
            TransportError: it sent too long a line, or was closed before the message was sent whole.
        """
        write = self._write
        if write is None or self._senders:
            await self._send_in_turn(message)
            return
        write.send(message)
        if self._write is None:
            await self._room(sent=True)

    async def close(self) -> None:
        """End the child and what it started; return when they have ended.

        Its stdin is closed; if it does not end within the grace it gets SIGTERM, and after another grace SIGKILL.
        If this is cancelled, the end goes on in the background.
        """
        self._wanted = False
        if self._child is None:
            return
        self._delivering = False
        self._cause = None
        self._begin_end(None)
        self._explained.set()
        await self._join_end()

    async def _join_end(self) -> None:
        if self._ending is not None and not self._ending.done():
            await asyncio.shield(self._ending)

    def _start(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        if not self._wanted:
            raise ConnectError(f"The server {self.name!r} was closed while it was opened")
        self._receive = receive
        self._closed = closed
        self._cause = None
        self._child = None
        self._ending = None
        self._tail = _Tail(self.name)
        self._decoder = lines.LineDecoder(self._limits.message_bytes)
        self._foreign_lines = 0
        self._pausing: asyncio.Future[None] | None = None
        self._senders = 0
        self._turn = asyncio.Lock()
        self._moved = asyncio.Event()
        self._exited = asyncio.Event()
        self._stdout_ended = asyncio.Event()
        self._stderr_ended = asyncio.Event()
        self._explained = asyncio.Event()
        child = spawn(self._command, environment(self._env, inherit=self._inherit_env), self._cwd)
        try:
            self._connect(child)
        except BaseException:
            child.kill()
            child.release()
            raise
        self._child = child
        child.forgotten = weakref.WeakMethod(self._forget)
        self._abandonment = weakref.finalize(self, child.abandon)
        self._abandonment.atexit = False  # at the exit of the interpreter all children end at the same time
        self._delivering = True
        self._write = self._outgoing

    def _connect(self, child: Child) -> None:
        child.watch(self._see_exit)
        self._outgoing = _open_writer(child.stdin.fileno(), self)
        self._incoming: list[Reader] = [
            open_reader(child.stdout.fileno(), self._receive_chunk, self._see_stdout_end),
            open_reader(child.stderr.fileno(), self._tail.receive, self._see_stderr_end),
        ]

    def _forget(self) -> None:
        """Be as before the start: this process was forked, and the child belongs to the one that forked it."""
        self._wanted = self._delivering = False
        self._write = self._child = self._ending = None

    # What comes in

    def _receive_chunk(self, chunk: bytes) -> None:
        for line in self._decoder.receive(chunk):
            if not self._delivering:
                return
            if isinstance(line, lines.Oversized):
                self._delivering = False
                self._begin_end(self._too_long())
            elif (line.startswith(b'{"') and line.endswith(b"}")) or _is_message(line):
                self._hand_over(line)
            else:
                self._skip(line)

    def _hand_over(self, line: bytes) -> None:
        try:
            room = self._receive(line)
        except Exception:
            _logger.exception("What the server %r sent could not be taken", self.name)
            return
        if room is not None and self._pausing is None:
            self._pausing = asyncio.ensure_future(room)
            self._pausing.add_done_callback(self._read_on)
            self._incoming[0].pause()

    def _read_on(self, _: object) -> None:
        self._pausing = None
        self._incoming[0].resume()

    def _receive_rest(self) -> None:
        """Take a last message without a newline, unless it was cut off."""
        for line in self._decoder.finish():
            if isinstance(line, bytes) and _is_message(line):
                self._receive_chunk(line + b"\n")

    def _skip(self, line: bytes) -> None:
        self._foreign_lines += 1
        if self._foreign_lines == 1:
            _logger.warning(
                "The server %r writes to stdout what is no message; it belongs on stderr. This and all further such "
                "lines are skipped: %r",
                self.name,
                line[:_QUOTED_LINE].decode(errors="replace"),
            )

    # What goes out

    async def _send_in_turn(self, message: bytes) -> None:
        if self._child is None:
            raise self._not_open()
        self._senders += 1
        try:
            async with self._turn:
                (await self._room(sent=False)).send(message)
                await self._room(sent=True)
        finally:
            self._senders -= 1

    async def _room(self, *, sent: bool) -> Writer:
        """Return the writer when it takes more; `sent` is whether it has taken something of the message already."""
        while self._write is None:
            if self._ending is not None:
                await self._explained.wait()
                raise self._failure(sent=sent)
            self._moved.clear()
            await self._moved.wait()
        return self._write

    def pause(self) -> None:
        """Let senders wait: the pipe is full."""
        self._write = None

    def resume(self) -> None:
        """Let senders go on."""
        if self._ending is None:
            self._write = self._outgoing
        self._moved.set()

    def break_off(self) -> None:
        """The child does not read any more."""
        self._begin_end(ServerCrashed("closed its stdin"))

    # How it ends

    def _see_exit(self) -> None:
        self._exited.set()
        self._outgoing.close()
        self._begin_end(ServerCrashed("ended"))

    def _see_stdout_end(self) -> None:
        self._receive_rest()
        self._stdout_ended.set()
        self._begin_end(ServerCrashed("closed its stdout"))

    def _see_stderr_end(self) -> None:
        self._tail.finish()
        self._stderr_ended.set()

    def _begin_end(self, cause: TransportError | None) -> None:
        if self._ending is not None:
            return
        self._cause = cause
        self._write = None
        self._ending = asyncio.get_running_loop().create_task(self._end(), name=f"end of {self.name}")
        self._moved.set()

    async def _end(self) -> None:
        assert self._child is not None
        try:
            if self._cause is not None:
                await self._explain(self._cause)
            await self._end_child(self._child)
        finally:
            self._release(self._child)

    async def _explain(self, cause: TransportError) -> None:
        """Wait a moment for what tells how the child ended, and tell it."""
        if isinstance(cause, ServerCrashed) and await _within(_MOMENT_SECONDS, self._exited.wait):
            await _within(_LEFTOVERS_SECONDS, self._stdout_ended.wait, self._stderr_ended.wait)
        self._delivering = False
        self._explained.set()
        self._moved.set()
        if self._wanted and not is_exiting():
            self._wanted = False
            try:
                self._closed(self._failure(sent=True))
            except Exception:
                _logger.exception("The end of the server %r could not be taken", self.name)

    async def _end_child(self, child: Child) -> None:
        await _within(self._grace, partial(self._end_input, child), self._exited.wait)
        self._close_input(child)
        for number in (signal.SIGTERM, KILL):
            if not child.lives():
                return
            child.signal(number)
            await _within(self._grace, self._exited.wait, partial(_group_end, child))

    async def _end_input(self, child: Child) -> None:
        await self._outgoing.flush(self._grace)
        self._close_input(child)

    def _close_input(self, child: Child) -> None:
        self._outgoing.close()
        child.stdin.close()

    def _release(self, child: Child) -> None:
        self._explained.set()
        self._outgoing.close()
        for reader in self._incoming:
            reader.close()
        if child.lives():
            child.kill()
        child.release()
        self._abandonment.detach()
        if self._foreign_lines > 1:
            _logger.info("The server %r wrote %d lines to stdout that are no messages", self.name, self._foreign_lines)

    # What is raised

    def _not_open(self) -> TransportError:
        return ConnectError(f"The server {self.name!r} is not open")

    def _closed_while_sending(self) -> TransportError:
        return TransportError(f"The server {self.name!r} was closed before a message was sent whole")

    def _too_long(self) -> TransportError:
        return TransportError(
            f"The server {self.name!r} sent a message of more than {self._limits.message_bytes} bytes, so the "
            f"connection ended; let it send less at a time, or raise max_message_bytes"
        )

    def _failure(self, *, sent: bool) -> TransportError:
        """Return a new error on every call: one that is raised in many tasks would collect their tracebacks."""
        cause = self._cause
        if cause is None:
            return self._closed_while_sending() if sent else self._not_open()
        if not isinstance(cause, ServerCrashed):
            return TransportError(*cause.args)
        code = self.exit_code
        how = f"{cause.args[0]} and did not end" if code is None else _ended_how(code)
        hint = _NO_RUN if code == 0 and self.name.endswith(".py") else ""
        return ServerCrashed(f"The server {self.name!r} {how}.{hint} {self._tail.quote()}", code, self.stderr_tail)


class _DirectWriter(_WatchingWriter):
    """Writes at once while nothing waits: no turn of the loop lies between a request and its sending."""

    def __init__(self, descriptor: int, flow: Flow) -> None:
        super().__init__(descriptor, flow)
        self._was_blocking = False  # nobody else has this end of the pipe, and it is closed before this is

    def send(self, message: bytes, /) -> None:
        if self._unwritten or self._closed:
            super().send(message)
            return
        line = lines.encode(message)
        try:
            count = os.write(self._descriptor, line)
        except BlockingIOError:
            count = 0
        except OSError:
            self._break()
            return
        if count < len(line):
            self._keep(memoryview(line)[count:])

    def _keep(self, rest: memoryview) -> None:
        self._rest = rest
        self._unwritten = len(rest)
        self._since = self._loop.time()
        self._writing = True
        self._widen()
        self._watch(wanted=True)
        if self._unwritten > CONGESTED_BYTES:
            self._congested = True
            self._flow.pause()


class _Tail:
    """The last of stderr, which also goes to the log, line by line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = bytearray()
        self._decoder = lines.LineDecoder(_LOGGED_LINE)

    def receive(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]
        if _stderr_logger.isEnabledFor(logging.DEBUG):
            for line in self._decoder.receive(chunk):
                self._log(line)

    def finish(self) -> None:
        for line in self._decoder.finish():
            self._log(line)

    def text(self) -> str:
        return bytes(self._kept[-TAIL_BYTES:]).decode(errors="replace")

    def quote(self) -> str:
        text = self.text().rstrip()
        if not text:
            return "It wrote nothing to stderr"
        return f"The last of its stderr:\n{text[-_QUOTED_TAIL:]}"

    def _log(self, line: bytes | lines.Oversized) -> None:
        text = line.decode(errors="replace") if isinstance(line, bytes) else f"(more than {_LOGGED_LINE} bytes)"
        _stderr_logger.debug("%s: %s", self._name, text)


def _split(command: str | Sequence[str], args: Sequence[str]) -> list[str]:
    if isinstance(command, str):
        words = [command, *args] if args else shlex.split(command, posix=os.name == "posix")
    else:
        words = [*command, *args]
    if not words or not words[0]:
        raise ValueError("There is no command to start; name the program of the server")
    return words


def _name(command: Sequence[str]) -> str:
    """Return what tells one server from another: the program, and what an interpreter or a launcher is to run."""
    program = Path(command[0]).name
    first = next((word for word in command[1:] if not word.startswith("-")), "")
    return f"{program} {first}" if first and len(first.split()) == 1 else program


def _open_writer(descriptor: int, process: ProcessTransport) -> Writer:
    return _DirectWriter(descriptor, process) if os.name == "posix" else open_writer(descriptor, process)


def _is_message(line: bytes) -> bool:
    try:
        _containers.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


_NO_RUN = " If it is a server of dragoman, does the file end with server.run()?"


def _ended_how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


async def _within(seconds: float, *waits: Callable[[], Awaitable[object]]) -> bool:
    """Wait for one thing after the other, and return whether all came in time."""
    try:
        async with asyncio.timeout(seconds):
            for wait in waits:
                await wait()
    except TimeoutError:
        return False
    return True


async def _group_end(child: Child) -> None:
    while child.lives():  # noqa: ASYNC110 - nothing tells when processes end that are not our children
        await asyncio.sleep(_GROUP_SECONDS)
