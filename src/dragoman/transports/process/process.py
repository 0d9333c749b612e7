"""A transport to a server that runs as a child process, over its stdin and stdout.

The transport cuts stdout into lines and passes each line to `receive` in the turn of the loop in which it arrives. If
`receive` returns an awaitable, the transport reads no stdout until the awaitable is done. `send` writes a message to
stdin at once. If the pipe is full, whole messages wait; while many bytes wait, senders wait in the order of their
calls. The transport always reads stderr, so that the child cannot block on it, and keeps the last 64 KiB for the error
that says how the child ended.

The transport is in one of these states:

    closed    there is no child
    open      messages are sent and received
    ending    the task `_end` ends the child; a new `open` waits for the task

The end begins when `close` is called, when the child exits, when it closes its stdout or stdin, or when it sends a line
that is too long. If `close` was not called, the task first waits up to a second for the exit code, and briefly for the
end of stderr, and calls `closed`. Then the task closes the child's stdin. A child that does not exit within the grace
period gets SIGTERM, and SIGKILL after another grace period. If the task is cancelled, as happens when the loop ends,
the task kills the whole process group at once.

A child may print the URL at which it serves HTTP, before it sends a message. If `find_endpoint` finds an MCP server at
that URL, the transport calls `closed` with a `ServerUsesHttp` and keeps the child until `close` is called.
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

from dragoman.errors import ConnectError, ServerCrashed, ServerUsesHttp, TooLarge, TransportError
from dragoman.protocol import lines
from dragoman.protocol.jsonrpc import CLIENT_LIMITS, Limits
from dragoman.transports.contract import Receive
from dragoman.transports.process.announced_url import announced_url
from dragoman.transports.process.child import KILL, Child, environment, is_exiting, spawn
from dragoman.transports.stdio.readers import Reader, open_reader
from dragoman.transports.stdio.writers import Writer, open_writer

GRACE_SECONDS = 2.0
TAIL_BYTES = 64 * 1024

_EXIT_CODE_SECONDS = 1.0
_LAST_OUTPUT_SECONDS = 0.2
_GROUP_POLL_SECONDS = 0.01
_QUOTED_LINE_BYTES = 200
_QUOTED_TAIL_CHARACTERS = 2000
_LOGGED_LINE_BYTES = 8 * 1024

_logger = logging.getLogger("dragoman.client")
_stderr_logger = logging.getLogger("dragoman.client.stderr")
_json_container = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw])


class ProcessTransport:
    """A transport that starts a server and speaks to it over stdio.

    Example:
        transport = ProcessTransport("npx -y @acme/files /srv", env={"ACME_KEY": key})
        await transport.open(receive, closed)
        await transport.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
        await transport.close()

    A string without `args` is a command line, split by the rules of a shell and run without a shell. The child gets the
    environment of this process with the changes of `env`; with `inherit_env=False` it gets only a few variables that
    hold no secrets, and `env`. The transport may be opened again after the child ended. In a forked process it may be
    opened too, because the child belongs to the parent process.

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
        limits: Limits = CLIENT_LIMITS,
        grace: float = GRACE_SECONDS,
        name: str | None = None,
        find_endpoint: Callable[[str], Awaitable[str | None]] | None = None,
    ) -> None:
        self._command = _command_words(command, args)
        self._env = env
        self._inherit_env = inherit_env
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._limits = limits
        self._grace = grace
        self.name = name or _server_name(self._command)
        self._find_endpoint = find_endpoint
        """Returns the URL of the MCP server at an announced URL; None if there is no MCP server."""
        self._is_open = False
        self._is_delivering = False
        self._writer: Writer | None = None
        self._child: Child | None = None
        self._ending: asyncio.Task[None] | None = None
        self._cause: TransportError | None = None
        self._tail = _StderrTail(self.name)
        self.on_stderr: Callable[[bytes], object] | None = None
        """Called with each piece of the child's stderr."""

    @property
    def pid(self) -> int | None:
        """The id of the child and of its process group, or None before the first start."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the child, negative for a signal, None while it runs."""
        return self._child.exit_code if self._child else None

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the child wrote to stderr."""
        return self._tail.text()

    async def open(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        """Start the child.

        Raises:
            ConnectError: the child cannot be started, or the transport is open already.
        """
        if self._is_open:
            raise ConnectError(f"The server {self.name!r} is open already; close it first")
        self._is_open = True
        try:
            await self._wait_for_end()
            self._start(receive, closed)
        except BaseException:
            self._is_open = False
            raise

    async def send(self, message: bytes) -> None:
        """Send one message, and return when more may be sent.

        If the sender is cancelled, the message is sent whole or not at all.

        Raises:
            ServerCrashed: the child ended, or closed its stdin or stdout.
            ConnectError: the transport is not open; nothing was sent.
            TransportError: the child sent too long a line, or the transport was closed before the message was sent
                whole.
        """
        writer = self._writer
        if writer is None or self._senders:
            await self._send_in_turn(message)
            return
        _send_now(writer, message)
        if self._writer is None:
            await self._room(was_sent=True)

    async def close(self) -> None:
        """End the child and the processes that it started, and return when they have ended.

        The child's stdin is closed. A child that does not exit within the grace period gets SIGTERM, and SIGKILL after
        another grace period. If this call is cancelled, the end continues in the background.
        """
        self._is_open = False
        if self._child is None:
            return
        self._is_delivering = False
        self._cause = None
        self._begin_end(None)
        self._explained.set()
        await self._wait_for_end()

    async def _wait_for_end(self) -> None:
        if self._ending is not None and not self._ending.done():
            await asyncio.shield(self._ending)

    def _start(self, receive: Receive, closed: Callable[[Exception | None], None]) -> None:
        if not self._is_open:
            raise ConnectError(f"The server {self.name!r} was closed while it was opened")
        self._receive = receive
        self._closed = closed
        self._cause = None
        self._child = None
        self._ending = None
        self._tail = _StderrTail(self.name)
        self._decoder = lines.LineDecoder(self._limits.message_bytes)
        self._foreign_lines = 0
        self._is_silent = True
        self._uses_http = False
        self._endpoint_search: asyncio.Task[None] | None = None
        self._receiving: asyncio.Future[None] | None = None
        self._senders = 0
        self._send_turn = asyncio.Lock()
        self._room_changed = asyncio.Event()
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
        self._abandonment.atexit = False  # at the exit of the interpreter, child.py ends all children at the same time
        self._is_delivering = True
        self._writer = self._stdin

    def _connect(self, child: Child) -> None:
        child.watch(self._on_exit)
        self._stdin = open_writer(child.stdin.fileno(), self)
        self._readers: list[Reader] = [
            open_reader(child.stdout.fileno(), self._receive_chunk, self._on_stdout_end),
            open_reader(child.stderr.fileno(), self._receive_stderr, self._on_stderr_end),
        ]

    def _forget(self) -> None:
        """Return to the closed state in a forked process: the child belongs to the parent process."""
        self._is_open = self._is_delivering = False
        self._writer = self._child = self._ending = None

    # Receiving

    def _receive_chunk(self, chunk: bytes) -> None:
        for line in self._decoder.receive(chunk):
            if not self._is_delivering:
                return
            if isinstance(line, lines.Oversized):
                self._is_delivering = False
                self._begin_end(TooLarge(_TOO_LONG.format(self.name, self._limits.message_bytes)))
            elif (line.startswith(b'{"') and line.endswith(b"}")) or _is_message(line):
                self._deliver(line)
            else:
                self._skip_foreign(line)

    def _deliver(self, line: bytes) -> None:
        self._is_silent = False
        try:
            room = self._receive(line)
        except Exception:
            _logger.exception("What the server %r sent could not be taken", self.name)
            return
        if room is not None and self._receiving is None:
            self._receiving = asyncio.ensure_future(room)
            self._receiving.add_done_callback(self._resume_reading)
            self._readers[0].pause()

    def _resume_reading(self, _: object) -> None:
        self._receiving = None
        self._readers[0].resume()

    def _receive_last(self) -> None:
        """Receive the last line, which has no newline, if it is a complete message."""
        for line in self._decoder.finish():
            if isinstance(line, bytes) and _is_message(line):
                self._receive_chunk(line + b"\n")

    def _skip_foreign(self, line: bytes) -> None:
        self._foreign_lines += 1
        self._look_for_url(line.decode(errors="replace"))
        if self._foreign_lines == 1 and self._endpoint_search is None:
            _logger.warning(
                "The server %r writes to stdout what is no message; it belongs on stderr. This and all further such "
                "lines are skipped: %r",
                self.name,
                line[:_QUOTED_LINE_BYTES].decode(errors="replace"),
            )

    # Sending

    async def _send_in_turn(self, message: bytes) -> None:
        if self._child is None:
            raise self._not_open()
        self._senders += 1
        try:
            async with self._send_turn:
                _send_now(await self._room(was_sent=False), message)
                await self._room(was_sent=True)
        finally:
            self._senders -= 1

    async def _room(self, *, was_sent: bool) -> Writer:
        """Return the writer when it has room; `was_sent` tells whether the message was given to the writer already."""
        while self._writer is None:
            if self._ending is not None:
                await self._explained.wait()
                raise self._error(was_sent=was_sent)
            self._room_changed.clear()
            await self._room_changed.wait()
        return self._writer

    def pause(self) -> None:
        """Make senders wait, because the pipe is full; called by the writer."""
        self._writer = None

    def resume(self) -> None:
        """Let senders continue; called by the writer."""
        if self._ending is None:
            self._writer = self._stdin
        self._room_changed.set()

    def break_off(self) -> None:
        """Begin the end, because the child does not read any more; called by the writer."""
        self._begin_end(ServerCrashed("closed its stdin"))

    # The end of the process.

    def _on_exit(self) -> None:
        self._exited.set()
        self._stdin.close()
        self._begin_end(ServerCrashed("ended"))

    def _on_stdout_end(self) -> None:
        self._receive_last()
        self._stdout_ended.set()
        self._begin_end(ServerCrashed("closed its stdout"))

    def _receive_stderr(self, chunk: bytes) -> None:
        self._tail.receive(chunk)
        self._look_for_url(self._tail.text()[-_QUOTED_TAIL_CHARACTERS:])
        if self.on_stderr is not None:
            self.on_stderr(chunk)

    def _look_for_url(self, output: str) -> None:
        """Look for the URL of a child that serves HTTP; a child that has sent a message serves stdin and stdout."""
        if not self._is_silent or self._find_endpoint is None or self._endpoint_search is not None:
            return
        url = announced_url(output)
        if url is not None:
            search = self._search_endpoint(url, self._find_endpoint)
            self._endpoint_search = asyncio.get_running_loop().create_task(search, name=f"HTTP of {self.name}")

    async def _search_endpoint(self, url: str, find_endpoint: Callable[[str], Awaitable[str | None]]) -> None:
        endpoint = await find_endpoint(url)
        if endpoint is None:
            _logger.warning("The server %r announces %s, but there is no MCP server at that URL", self.name, url)
        elif self._is_silent and self._ending is None and self._is_open:
            self._uses_http = True
            self._closed(ServerUsesHttp(_USES_HTTP.format(self.name, endpoint), endpoint))

    def _on_stderr_end(self) -> None:
        self._tail.finish()
        self._stderr_ended.set()

    def _begin_end(self, cause: TransportError | None) -> None:
        if self._ending is not None:
            return
        self._cause = cause
        self._writer = None
        self._ending = asyncio.get_running_loop().create_task(self._end(), name=f"end of {self.name}")
        self._room_changed.set()

    async def _end(self) -> None:
        assert self._child is not None
        try:
            if self._cause is not None:
                await self._explain(self._cause)
            await self._end_child(self._child)
        finally:
            self._release(self._child)

    async def _explain(self, cause: TransportError) -> None:
        """Wait briefly for the exit code and the last output, and call `closed`."""
        if isinstance(cause, ServerCrashed) and await _all_within(_EXIT_CODE_SECONDS, self._exited.wait):
            await _all_within(_LAST_OUTPUT_SECONDS, self._stdout_ended.wait, self._stderr_ended.wait)
        self._is_delivering = False
        self._explained.set()
        self._room_changed.set()
        if self._is_open and not is_exiting():
            self._is_open = False
            try:
                self._closed(self._error(was_sent=True))
            except Exception:
                _logger.exception("The end of the server %r could not be taken", self.name)

    async def _end_child(self, child: Child) -> None:
        if not self._uses_http:  # a server over HTTP does not end when its stdin is closed
            await _all_within(self._grace, partial(self._end_input, child), self._exited.wait)
        self._close_input(child)
        for number in (signal.SIGTERM, KILL):
            if not child.lives():
                return
            child.signal(number)
            await _all_within(self._grace, self._exited.wait, partial(_group_ended, child))

    async def _end_input(self, child: Child) -> None:
        await self._stdin.flush(self._grace)
        self._close_input(child)

    def _close_input(self, child: Child) -> None:
        self._stdin.close()
        child.stdin.close()

    def _release(self, child: Child) -> None:
        self._explained.set()
        if self._endpoint_search is not None:
            self._endpoint_search.cancel()
        self._stdin.close()
        for reader in self._readers:
            reader.close()
        if child.lives():
            child.kill()
        child.release()
        self._abandonment.detach()
        if self._foreign_lines > 1 and not self._uses_http:
            _logger.info("The server %r wrote %d lines to stdout that are no messages", self.name, self._foreign_lines)

    # Errors

    def _not_open(self) -> TransportError:
        return ConnectError(f"The server {self.name!r} is not open")

    def _error(self, *, was_sent: bool) -> TransportError:
        """Return a new error on every call: one error raised in many tasks would collect all their tracebacks."""
        cause = self._cause
        if cause is None:
            if not was_sent:
                return self._not_open()
            return TransportError(f"The server {self.name!r} was closed before a message was sent whole")
        if not isinstance(cause, ServerCrashed):
            return type(cause)(*cause.args)
        code = self.exit_code
        how = f"{cause.args[0]} and did not end" if code is None else _ending_of(code)
        hint = _NO_RUN_HINT if code == 0 and self.name.endswith(".py") else ""
        summary = f"The server {self.name!r} {how}.{hint}"
        return ServerCrashed(f"{summary} {self._tail.quote()}", code, self.stderr_tail, summary)


def _send_now(writer: Writer, message: bytes) -> None:
    """Send a message without waiting for the end of this turn of the loop."""
    writer.hold()
    writer.send(message)
    writer.write_now()


class _StderrTail:
    """Keeps the last bytes of stderr and logs its lines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = bytearray()
        self._decoder = lines.LineDecoder(_LOGGED_LINE_BYTES)

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
        return f"The last of its stderr:\n{text[-_QUOTED_TAIL_CHARACTERS:]}"

    def _log(self, line: bytes | lines.Oversized) -> None:
        text = line.decode(errors="replace") if isinstance(line, bytes) else f"(more than {_LOGGED_LINE_BYTES} bytes)"
        _stderr_logger.debug("%s: %s", self._name, text)


def _command_words(command: str | Sequence[str], args: Sequence[str]) -> list[str]:
    if isinstance(command, str):
        words = [command, *args] if args else shlex.split(command, posix=os.name == "posix")
    else:
        words = [*command, *args]
    if not words or not words[0]:
        raise ValueError("There is no command to start; name the program of the server")
    return words


def _server_name(command: Sequence[str]) -> str:
    """Return the program and its first argument, which is the server if the program is an interpreter or launcher."""
    program = Path(command[0]).name
    words = [word for word in command[1:] if not word.startswith("-")]
    if words[:2] == ["dragoman", "run"]:
        return f"{program} {words[2]}" if "--script" in command else " ".join(words[:3])
    first = words[0] if words else ""
    return f"{program} {first}" if first and len(first.split()) == 1 else program


def _is_message(line: bytes) -> bool:
    try:
        _json_container.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


_TOO_LONG = (
    "The server {!r} sent a message of more than {} bytes, so the connection ended; let it send less at a time, "
    "or raise max_message_bytes"
)
_USES_HTTP = (
    "The server {!r} serves HTTP at {} instead of stdin and stdout; start it yourself and connect to that URL, "
    'or let it call run() without "http"'
)
_NO_RUN_HINT = " If it is a server of dragoman, does the file end with server.run()?"


def _ending_of(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


async def _all_within(seconds: float, *waits: Callable[[], Awaitable[object]]) -> bool:
    """Await the given waits one after another, and return whether all ended in time."""
    try:
        async with asyncio.timeout(seconds):
            for wait in waits:
                await wait()
    except TimeoutError:
        return False
    return True


async def _group_ended(child: Child) -> None:
    while child.lives():  # noqa: ASYNC110 - the system does not report the end of processes that are not our children
        await asyncio.sleep(_GROUP_POLL_SECONDS)
