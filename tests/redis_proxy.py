"""A TCP proxy in front of a Redis server, which tests cut, stall and count."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis_server import RedisServer


class RedisProxy:
    """Passes bytes between clients and a server.

    `refuses` closes new connections at once. `is_deaf` holds back what clients send, and `is_mute` what the server
    sends, as a network does that loses packets: nothing is missing later, if the connection lasts. `commands` is
    everything that clients sent.
    """

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.url = ""
        self.refuses = False
        self.commands = bytearray()
        self._free = {True: asyncio.Event(), False: asyncio.Event()}
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_deaf = self.is_mute = False

    @property
    def is_deaf(self) -> bool:
        """Whether commands are held back."""
        return not self._free[True].is_set()

    @is_deaf.setter
    def is_deaf(self, is_deaf: bool) -> None:
        (self._free[True].clear if is_deaf else self._free[True].set)()

    @property
    def is_mute(self) -> bool:
        """Whether replies are held back."""
        return not self._free[False].is_set()

    @is_mute.setter
    def is_mute(self, is_mute: bool) -> None:
        (self._free[False].clear if is_mute else self._free[False].set)()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        before = None
        try:
            if not self.refuses:
                behind, before = await asyncio.open_connection("127.0.0.1", self.server.port)
                self._open |= {writer, before}
                await asyncio.gather(self._pass(reader, before, is_command=True), self._pass(behind, writer))
        except OSError:
            pass
        finally:
            for one in (writer, before):
                if one is not None:
                    self._open.discard(one)
                    one.transport.abort()
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_command: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if is_command:
                    self.commands += data
                await self._free[is_command].wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def end(self) -> None:
        """Reset every connection, and wait until it is closed."""
        self.is_deaf = self.is_mute = False
        while self._tasks:
            self.cut()
            await asyncio.wait(list(self._tasks), timeout=0.1)


@asynccontextmanager
async def proxied(server: RedisServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[RedisProxy]:
    """Run a proxy in front of a server."""
    proxy = RedisProxy(server)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    proxy.url = f"{'redis' if tls is None else 'rediss'}://127.0.0.1:{port}/0"
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.end()
