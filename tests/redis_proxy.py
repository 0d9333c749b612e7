"""A TCP proxy in front of a Redis server, which tests cut, silence and count."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis_server import RedisServer


class RedisProxy:
    """Passes bytes between clients and a server.

    `refuses` closes new connections at once. `is_deaf` stops what clients send, and `is_mute` what the server sends.
    `commands` is everything that clients sent.
    """

    def __init__(self, server: RedisServer, tls: ssl.SSLContext | None = None) -> None:
        self.server = server
        self.port = 0
        self.refuses = self.is_deaf = self.is_mute = False
        self.commands = bytearray()
        self.accepted = 0
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the server, through the proxy."""
        return f"{'redis' if self._tls is None else 'rediss'}://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        self.accepted += 1
        try:
            if self.refuses:
                return
            behind, before = await asyncio.open_connection("127.0.0.1", self.server.port)
            self._open.add(before)
            await asyncio.gather(self._pass(reader, before, is_command=True), self._pass(behind, writer))
        except OSError:
            pass
        finally:
            for one in {writer, *self._open}:
                if one is writer or task.cancelled():
                    one.transport.abort()
            self._open.discard(writer)
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_command: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if is_command:
                    self.commands += data
                if not (self.is_deaf if is_command else self.is_mute):
                    writer.write(data)
                    await writer.drain()
        self._open.discard(writer)
        writer.transport.abort()


@asynccontextmanager
async def proxied(server: RedisServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[RedisProxy]:
    """Run a proxy in front of a server."""
    proxy = RedisProxy(server, tls)
    listening = await asyncio.start_server(proxy._serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        proxy.cut()
        while proxy._tasks:
            await asyncio.wait(list(proxy._tasks), timeout=5)
