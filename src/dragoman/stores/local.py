"""A store for the workers of one machine, which find each other without any set-up.

Each process of a group listens on a Unix socket in a folder that only its user may enter, beside the key file. A
process that joins makes its own socket first and then greets everyone whose socket is there: of two that join at once,
at least one finds the other. One connection serves both ways. Every message is replied to, so that a sender knows when
everybody has it; whoever does not reply in time is not waited for. The socket of a process that died refuses
connections, and is removed by the next who finds it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from dragoman.runtime.keys import state_folder
from dragoman.stores.memory import MemoryLog, Solitude

REPLIED_WITHIN = 1.0
LARGEST_FRAME = 8 * 1024 * 1024
MOST_UNSENT = 32 * 1024 * 1024
LONGEST_SOCKET_PATH = 100
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

    def bus(self, group: str) -> LocalBus | Solitude:
        """Return a bus to the processes that name the same group, or to nobody where there are no Unix sockets."""
        if not hasattr(asyncio.get_running_loop(), "create_unix_server"):
            return Solitude()
        return LocalBus(self._folder, hashlib.sha256(group.encode()).hexdigest()[:16])

    def event_log(self, stream: str) -> MemoryLog:  # noqa: ARG002
        """Return an empty log of this process: a stream is resumed where it began."""
        return MemoryLog()


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
        self._receive: Callable[[bytes], bytes] = _ignore

    async def open(self, receive: Callable[[bytes], bytes]) -> None:
        """Join the group; where that cannot be, stay alone with one warning."""
        self._receive = receive
        try:
            folder = _private_folder(self._given_folder, self._group)
            self._socket = folder / self.name
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: _Link(self), str(self._socket))
        except OSError as error:
            _logger.warning("The workers of this machine cannot hear of each other: %s", error)
            return
        await asyncio.gather(*(self._greet(path) for path in _sockets(folder) if path != self._socket))

    async def _greet(self, path: Path) -> None:
        try:
            _, link = await asyncio.get_running_loop().create_unix_connection(lambda: _Link(self), str(path))
        except ConnectionRefusedError:
            _remove(path)
        except OSError as error:
            _logger.debug("The worker %s cannot be reached: %s", path.name, error)
        else:
            self.know(path.name, link)
            await link.deliver(_HELLO, self.name.encode())

    async def publish(self, message: bytes, to: str | None = None) -> list[bytes]:
        """Send a message to every other process, or to one, and return the replies of those who gave one in time."""
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
        """Keep a link."""
        self._links.add(link)

    def lost(self, link: _Link) -> None:
        """Forget a link whose other end is gone."""
        self._links.discard(link)
        if self._peers.get(link.peer) is link:
            del self._peers[link.peer]

    async def close(self) -> None:
        """Leave the group."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._socket is not None:
            _remove(self._socket)
        links = list(self._links)
        for link in links:
            link.leave()
        for link in links:
            await link.closed.wait()


class _Link(asyncio.Protocol):
    """A connection between two processes: frames of a length, a kind, a number and a body."""

    def __init__(self, bus: LocalBus) -> None:
        self.peer = ""
        self.closed = asyncio.Event()
        self._bus = bus
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._sent = 0
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

    def put(self, kind: int, number: int, body: bytes) -> bool:
        """Send a frame; false when the other end does not read."""
        if self._transport is None or self._transport.get_write_buffer_size() + len(body) > MOST_UNSENT:
            return False
        self._transport.write(_HEAD.pack(len(body), kind, number) + body)
        return True

    async def deliver(self, kind: int, body: bytes) -> bytes | None:
        """Send a frame and return its reply, or None when the other end is gone or too slow."""
        self._sent += 1
        number = self._sent
        replied = self._unreplied[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(REPLIED_WITHIN):
                return await replied if self.put(kind, number, body) else None
        except TimeoutError:
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
    return list(folder.iterdir())


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _ignore(message: bytes) -> bytes:  # noqa: ARG001
    """Take a message that came before anybody wanted one."""
    return b""


def _private_folder(given: Path | None, group: str) -> Path:
    """Return the folder of a group, which nobody else may enter; its paths must fit into a socket's address."""
    folder = (given or state_folder() / "bus") / group
    if len(os.fsencode(folder)) > LONGEST_SOCKET_PATH - len("/12345678"):
        folder = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}" / group
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for part in (folder.parent, folder):
        with suppress(PermissionError):
            part.chmod(0o700)
        if part.is_symlink() or part.stat().st_uid != os.getuid() or part.stat().st_mode & 0o077:
            raise PermissionError(f"{part} belongs to somebody else, or others may enter it")
    return folder
