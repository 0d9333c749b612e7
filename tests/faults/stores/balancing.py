"""A load balancer for tests that gives the requests of one session to its servers in turn."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from contextlib import suppress

CONNECT_SECONDS = 1.0


class Balancer:
    """Passes each HTTP request on to the next server, so that no two requests of a session meet the same one.

    `served` has the address of the server, the method and the body of each request. `out` holds the addresses that get
    no more requests, as after a failed health check.
    """

    def __init__(self, *servers: tuple[str, int]) -> None:
        self.servers = servers
        self.served: list[tuple[str, str, bytes]] = []
        self.out: set[str] = set()
        self._turns: dict[bytes, int] = defaultdict(int)
        self._connections: dict[asyncio.StreamWriter, str] = {}

    async def listen(self) -> asyncio.Server:
        """Accept connections on a free port of the loopback interface."""
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    def cut(self, host: str) -> None:
        """Break every connection that a server serves."""
        for writer, served_by in list(self._connections.items()):
            if served_by == host:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._pass(reader, writer)
        finally:
            self._connections.pop(writer, None)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        session = re.search(rb"(?i)\r\nmcp-session-id: *(\S+)", head)
        host, upstream_reader, upstream = await self._connect(session[1] if session else b"")
        self.served.append((host, head.split(b" ", 1)[0].decode(), body))
        self._connections[writer] = host
        upstream.write(re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head[:-2]) + b"Connection: close\r\n\r\n" + body)
        gone = asyncio.create_task(reader.read(1))
        part = None
        try:
            while not gone.done():
                part = asyncio.create_task(upstream_reader.read(65536))
                await asyncio.wait([part, gone], return_when=asyncio.FIRST_COMPLETED)
                if not part.done() or not part.result():
                    break
                writer.write(part.result())
                await writer.drain()
        finally:
            upstream.transport.abort() if gone.done() else upstream.close()
            for task in (gone, part):
                if task is not None:
                    task.cancel()
                    await asyncio.wait([task])
                    task.cancelled() or task.exception()

    async def _connect(self, session: bytes) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self.servers:
            self._turns[session] += 1
            host, port = self.servers[self._turns[session] % len(self.servers)]
            if host in self.out:
                continue
            with suppress(OSError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return host, *await asyncio.open_connection(host, port)
        raise ConnectionError("no server can be reached")
