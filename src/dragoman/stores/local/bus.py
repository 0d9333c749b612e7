"""A store for the workers of one machine, which find each other without any set-up.

Each process of a group listens on a Unix socket in a folder that only its user may enter, beside the key file. A
process that joins makes its own socket first and then greets everyone whose socket is there: of two that join at once,
at least one finds the other. One connection serves both ways. Every message is replied to, so that a sender knows when
everybody has it; whoever does not reply in time is not waited for again until it does. The socket of a process that
died refuses connections, and is removed by the next who finds it; so a socket gets its name only when it listens.
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
from dragoman.stores.local.state import LocalState
from dragoman.stores.memory import MemoryLog, Solitude

REPLIED_WITHIN = 1.0
LARGEST_FRAME = 8 * 1024 * 1024
MOST_UNSENT = 32 * 1024 * 1024
LONGEST_SOCKET_PATH = 100
BACKLOG = 128
LAST_NUMBER = 2**32 - 1
_HEAD = struct.Struct("!IBI")
_HELLO, _MESSAGE, _REPLY = range(3)

_logger = logging.getLogger("dragoman.stores")


class Local:
    """Joins the processes of one user on one machine that serve the same server with the same key.

    Example:
        app = server.asgi(store=stores.Local())
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"<Local store in {self._folder or state_folder()}>"

    def bus(self, group: str) -> LocalBus | Solitude:
        """Return a bus to the processes that name the same group, or to nobody where there are no Unix sockets."""
        if not hasattr(asyncio.get_running_loop(), "create_unix_server"):
            return Solitude()
        return LocalBus(self._folder, _digest(group))

    def event_log(self, stream: str) -> MemoryLog:  # noqa: ARG002
        """Return an empty log of this process: a stream is resumed where it began."""
        return MemoryLog()

    def state(self, namespace: str) -> LocalState:
        """Return the values of a namespace, which are kept in files."""
        return LocalState((self._folder or state_folder()) / "state" / _digest(namespace))


class LocalBus:
    """One process's place among the workers of a machine."""

    def __init__(self, folder: Path | None, group: str) -> None:
        self.name = os.urandom(4).hex()
        self._given_folder = folder
        self._group = group
        self._peers: dict[str, _Link] = {}
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._socket: Path | None = None
        self._has_left = False
        self._receive: Callable[[bytes], bytes] = _ignore

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group; where that cannot be, stay alone with one warning."""
        self._receive = receive
        try:
            folder = _bus_folder(self._given_folder, self._group)
            self._socket = folder / self.name
            listening = _listening_socket(self._socket)
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Link(self), sock=listening)
        except OSError as error:
            _logger.warning("The workers of this machine cannot hear of each other: %s", error)
            return
        await asyncio.gather(*(self._greet(path) for path in _sockets(folder) if path != self._socket))

    async def _greet(self, path: Path) -> None:
        try:
            async with asyncio.timeout(REPLIED_WITHIN):
                _, link = await asyncio.get_running_loop().create_unix_connection(lambda: _Link(self), str(path))
        except ConnectionRefusedError:
            _remove(path)
        except OSError as error:  # TimeoutError is one
            _logger.debug("The worker %s cannot be reached: %s", path.name, error)
        else:
            self.know(path.name, link)
            await link.deliver(_HELLO, self.name.encode())

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to one, and return the replies of those who gave one in time."""
        if len(message) > LARGEST_FRAME:
            _logger.warning("A message of %d bytes is too large for the other workers", len(message))
            return []
        links = list(self._peers.values()) if to is None else [self._peers[to]] if to in self._peers else []
        replies = await asyncio.gather(*(link.deliver(_MESSAGE, message) for link in links))
        return [reply for reply in replies if reply is not None]

    def know(self, name: str, link: _Link) -> None:
        """Send to a process over a link from now on."""
        link.peer = name
        self._peers[name] = link

    def received(self, link: _Link, kind: int, body: bytes) -> bytes:
        """Take what came over a link, and return what is replied."""
        if kind == _MESSAGE:
            return self._receive(body)
        self.know(body.decode("ascii", "replace"), link)
        return b""

    def opened(self, link: _Link) -> None:
        """Keep a link, unless this process is about to leave."""
        self._links.add(link)
        if self._has_left:
            link.leave()

    def lost(self, link: _Link) -> None:
        """Forget a link whose other end is gone."""
        self._links.discard(link)
        if self._peers.get(link.peer) is link:
            del self._peers[link.peer]

    async def close(self) -> None:
        """Leave the group."""
        self._has_left = True
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._socket is not None:
            _remove(self._socket)
        await asyncio.gather(*(link.part() for link in list(self._links)))


class _Link(asyncio.Protocol):
    """A connection between two processes: frames of a length, a kind, a number and a body."""

    def __init__(self, bus: LocalBus) -> None:
        self.peer = ""
        self.closed = asyncio.Event()
        self._bus = bus
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._sent = 0
        self._is_late = False
        self._unreplied: dict[int, asyncio.Future[bytes | None]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are no instances of what they implement.
        self._transport = cast("asyncio.Transport", transport)
        self._bus.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._bus.lost(self)
        for waiting in self._unreplied.values():
            if not waiting.done():
                waiting.set_result(None)
        self.closed.set()

    def leave(self) -> None:
        """Close the connection after what was put."""
        if self._transport is not None:
            self._transport.close()

    async def part(self) -> None:
        """Close the connection, and wait until it is closed; what the other end does not read in time is dropped."""
        self.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(REPLIED_WITHIN):
                await self.closed.wait()
        if self._transport is not None:
            self._transport.abort()
            await self.closed.wait()

    def put(self, kind: int, number: int, body: bytes) -> bool:
        """Send a frame; false when the other end does not read."""
        if self._transport is None or self._transport.get_write_buffer_size() + len(body) > MOST_UNSENT:
            return False
        self._transport.write(_HEAD.pack(len(body), kind, number) + body)
        return True

    async def deliver(self, kind: int, body: bytes) -> bytes | None:
        """Send a frame and return its reply, or None when the other end is gone or too slow."""
        self._sent = number = self._sent % LAST_NUMBER + 1
        if not self.put(kind, number, body) or self._is_late:
            return None
        replied: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._unreplied[number] = replied
        try:
            async with asyncio.timeout(REPLIED_WITHIN):
                return await replied
        except TimeoutError:
            if not self._is_late:
                self._is_late = True
                _logger.warning("The worker %s did not reply within %g s", self.peer, REPLIED_WITHIN)
            return None
        finally:
            del self._unreplied[number]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        begin = 0
        while len(self._buffer) - begin >= _HEAD.size:
            size, kind, number = _HEAD.unpack_from(self._buffer, begin)
            end = begin + _HEAD.size + size
            if size > LARGEST_FRAME:
                self.leave()
                break
            if len(self._buffer) < end:
                break
            self._take(kind, number, bytes(self._buffer[begin + _HEAD.size : end]))
            begin = end
        del self._buffer[:begin]

    def _take(self, kind: int, number: int, body: bytes) -> None:
        if kind == _REPLY:
            self._is_late = False
            waiting = self._unreplied.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(body)
            return
        reply = b""
        try:
            reply = self._bus.received(self, kind, body)
        except Exception:
            _logger.exception("A message of the worker %s could not be taken", self.peer)
        self.put(_REPLY, number, reply)


def _sockets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def _listening_socket(path: Path) -> socket.socket:
    """Return a socket that listens already when it gets its name: one that does not is taken for a dead one."""
    unnamed = path.with_name("." + path.name)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(unnamed))
        listening.listen(BACKLOG)
        unnamed.rename(path)
    except OSError:
        listening.close()
        _remove(unnamed)
        raise
    listening.settimeout(0)
    return listening


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _ignore(message: bytes) -> bytes:  # noqa: ARG001
    """Take a message that came before anybody wanted one."""
    return b""


def _bus_folder(given: Path | None, group: str) -> Path:
    """Return the folder of a group, which nobody else may enter; its paths must fit into a socket's address."""
    folder = (given or state_folder() / "bus") / group
    if len(os.fsencode(folder)) > LONGEST_SOCKET_PATH - len("/.12345678"):
        folder = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}" / group
    private_folder(folder.parent)
    return private_folder(folder)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
