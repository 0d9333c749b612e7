"""`LocalBus`: messages between the processes of one user on one machine, which find each other without configuration.

Each process of a group listens on a Unix socket in a folder that only its user may enter. A process that joins first
makes its own socket and then connects to every socket in the folder. So if two processes join at once, at least one
finds the other. One connection carries messages both ways. Every message has a reply, so that the sender knows when all
processes have received it. If a process does not reply in time, the sender does not wait for its later replies until
one arrives.

The socket of a dead process refuses connections, and the next process that finds the socket removes it. A socket that
does not listen yet would refuse connections as well, so a socket gets its final name only after it listens.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from dragoman.runtime.user_files import private_folder, state_folder

REPLY_SECONDS = 1.0
MAX_FRAME_BYTES = 8 * 1024 * 1024
MAX_UNSENT_BYTES = 32 * 1024 * 1024
MAX_SOCKET_PATH = 100
BACKLOG = 128
MAX_NUMBER = 2**32 - 1
_HEAD = struct.Struct("!IBI")
_HELLO, _MESSAGE, _REPLY = range(3)

_logger = logging.getLogger("dragoman.stores")


class LocalBus:
    """The bus of one process to the other workers of the machine."""

    def __init__(self, folder: Path | None, group: str) -> None:
        self.name = os.urandom(4).hex()
        self._given_folder = folder
        self._group = _digest(group)
        self._peers: dict[str, _Link] = {}
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._socket: Path | None = None
        self._is_closed = False
        self._receive: Callable[[bytes], bytes] = _ignore

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group. If that fails, log one warning and work without other processes."""
        self._receive = receive
        try:
            folder = _bus_folder(self._given_folder, self._group)
            self._socket = folder / self.name
            listening = _listening_socket(self._socket)
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Link(self), sock=listening)
        except OSError as error:
            _logger.warning("The workers of this machine cannot hear of each other: %s", error)
            return
        await asyncio.gather(*(self._connect_to(path) for path in _sockets(folder) if path != self._socket))

    async def _connect_to(self, path: Path) -> None:
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                _, link = await asyncio.get_running_loop().create_unix_connection(lambda: _Link(self), str(path))
        except ConnectionRefusedError:
            _unlink(path)
        except OSError as error:  # includes TimeoutError
            _logger.debug("The worker %s cannot be reached: %s", path.name, error)
        else:
            self.add_peer(path.name, link)
            await link.request(_HELLO, self.name.encode())

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        if len(message) > MAX_FRAME_BYTES:
            _logger.warning("A message of %d bytes is too large for the other workers", len(message))
            return []
        links = list(self._peers.values()) if to is None else [self._peers[to]] if to in self._peers else []
        replies = await asyncio.gather(*(link.request(_MESSAGE, message) for link in links))
        return [reply for reply in replies if reply is not None]

    def add_peer(self, name: str, link: _Link) -> None:
        """Use this link for messages to the process with this name."""
        link.peer = name
        self._peers[name] = link

    def handle(self, link: _Link, kind: int, body: bytes) -> bytes:
        """Handle a frame of a link, and return the reply."""
        if kind == _MESSAGE:
            return self._receive(body)
        self.add_peer(body.decode("ascii", "replace"), link)
        return b""

    def link_opened(self, link: _Link) -> None:
        """Keep a new link, or close it if the bus is closed."""
        self._links.add(link)
        if self._is_closed:
            link.close()

    def link_lost(self, link: _Link) -> None:
        """Forget a closed link."""
        self._links.discard(link)
        if self._peers.get(link.peer) is link:
            del self._peers[link.peer]

    async def close(self) -> None:
        self._is_closed = True
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._socket is not None:
            _unlink(self._socket)
        await asyncio.gather(*(link.close_and_wait() for link in list(self._links)))


class _Link(asyncio.Protocol):
    """A connection between two processes; a frame is a length, a kind, a number and a body."""

    def __init__(self, bus: LocalBus) -> None:
        self.peer = ""
        self.closed = asyncio.Event()
        self._bus = bus
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._last_number = 0
        self._is_unresponsive = False
        self._awaiting_reply: dict[int, asyncio.Future[bytes | None]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are not instances of asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)
        self._bus.link_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._bus.link_lost(self)
        for waiting in self._awaiting_reply.values():
            if not waiting.done():
                waiting.set_result(None)
        self.closed.set()

    def close(self) -> None:
        """Close the connection after the frames that were sent."""
        if self._transport is not None:
            self._transport.close()

    async def close_and_wait(self) -> None:
        """Close the connection, and wait until it is closed; drop frames that the peer does not read in time."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(REPLY_SECONDS):
                await self.closed.wait()
        if self._transport is not None:
            self._transport.abort()
            await self.closed.wait()

    def send(self, kind: int, number: int, body: bytes) -> bool:
        """Send a frame; return false if the peer does not read."""
        if self._transport is None or self._transport.get_write_buffer_size() + len(body) > MAX_UNSENT_BYTES:
            return False
        self._transport.write(_HEAD.pack(len(body), kind, number) + body)
        return True

    async def request(self, kind: int, body: bytes) -> bytes | None:
        """Send a frame and return its reply, or None if the peer is gone or too slow."""
        self._last_number = number = self._last_number % MAX_NUMBER + 1
        if not self.send(kind, number, body) or self._is_unresponsive:
            return None
        replied: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._awaiting_reply[number] = replied
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                return await replied
        except TimeoutError:
            if not self._is_unresponsive:
                self._is_unresponsive = True
                _logger.warning("The worker %s did not reply within %g s", self.peer, REPLY_SECONDS)
            return None
        finally:
            del self._awaiting_reply[number]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        begin = 0
        while len(self._buffer) - begin >= _HEAD.size:
            size, kind, number = _HEAD.unpack_from(self._buffer, begin)
            end = begin + _HEAD.size + size
            if size > MAX_FRAME_BYTES:
                self.close()
                break
            if len(self._buffer) < end:
                break
            self._receive_frame(kind, number, bytes(self._buffer[begin + _HEAD.size : end]))
            begin = end
        del self._buffer[:begin]

    def _receive_frame(self, kind: int, number: int, body: bytes) -> None:
        if kind == _REPLY:
            self._is_unresponsive = False
            waiting = self._awaiting_reply.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(body)
            return
        reply = b""
        try:
            reply = self._bus.handle(self, kind, body)
        except Exception:
            _logger.exception("A message of the worker %s could not be taken", self.peer)
        self.send(_REPLY, number, reply)


def _sockets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def _listening_socket(path: Path) -> socket.socket:
    """Return a socket that listens before it gets its name; a socket that does not listen would count as dead."""
    unnamed = path.with_name("." + path.name)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(unnamed))
        listening.listen(BACKLOG)
        unnamed.rename(path)
    except OSError:
        listening.close()
        _unlink(unnamed)
        raise
    listening.settimeout(0)
    return listening


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _ignore(message: bytes) -> bytes:  # noqa: ARG001
    return b""


def _bus_folder(given: Path | None, group: str) -> Path:
    """Return the private folder of a group; its path is short enough for the address of a socket."""
    folder = (given or state_folder() / "bus") / group
    if len(os.fsencode(folder)) > MAX_SOCKET_PATH - len("/.12345678"):
        folder = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}" / group
    private_folder(folder.parent)
    return private_folder(folder)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
