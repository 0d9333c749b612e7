"""A server in a process of its own, and clients that use it for long."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from ports import free_port

NEWEST, STATELESS = "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": STATELESS, f"{PREFIX}clientCapabilities": {}, f"{PREFIX}logLevel": "info"}
BOTH = "application/json, text/event-stream"
DEADLINE = 90.0
# What uvicorn says when a client is given up that does not read.
GIVEN_UP = "ERROR:    ASGI callable returned without completing response.\n"
_ids = itertools.count(1)


def stateless(method: str, params: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request that stands alone."""
    headers = {"accept": BOTH, "content-type": "application/json", "mcp-protocol-version": STATELESS}
    headers |= {"mcp-method": method} | ({"mcp-name": params["name"]} if "name" in params else {})
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}
    ).encode(), headers


def in_session(session: str, method: str, params: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request in a session."""
    headers = {"accept": BOTH, "content-type": "application/json", "mcp-protocol-version": NEWEST}
    body = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}
    return json.dumps(body).encode(), headers | {"mcp-session-id": session}


class Soaked:
    """The server, seen by its clients."""

    def __init__(self, port: int, client: aiohttp.ClientSession) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._client = client

    async def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the message of an answer."""
        async with self._client.post(self.url, data=body, headers=headers) as response:
            text = await response.text()
            return response.status, dict(response.headers), json.loads(text) if text else None

    async def call(self, tool: str, session: str | None = None, **arguments: Any) -> Any:
        """Return what a tool returns."""
        params = {"name": tool, "arguments": arguments}
        asked = stateless("tools/call", params) if session is None else in_session(session, "tools/call", params)
        status, _, message = await self.post(*asked)
        assert status == 200, message
        return json.loads(message["result"]["content"][0]["text"])

    async def begin(self) -> str:
        """Open a session of the handshake era."""
        introduction = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": introduction}
        _, headers, _ = await self.post(json.dumps(body).encode(), {"accept": BOTH, "content-type": "application/json"})
        session = headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        said = {"accept": BOTH, "content-type": "application/json", "mcp-session-id": session}
        await self.post(json.dumps(ready).encode(), said)
        return session

    async def until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask the server what it holds until it is so, using one more session, since idle ones end by the way."""
        ends = time.monotonic() + DEADLINE
        while True:
            await self.begin()
            held = await self.call("held")
            if is_so(held):
                return held
            assert time.monotonic() < ends, held
            await asyncio.sleep(0.1)

    async def open(self, verb: str, body: bytes, headers: dict[str, str]) -> asyncio.StreamWriter:
        """Send a request, read the head of its response, and then read no more."""
        bare = socket.socket()
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bare.setblocking(False)
        await asyncio.get_running_loop().sock_connect(bare, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=bare, limit=1024)
        lines = {"host": f"127.0.0.1:{self.port}", "content-length": str(len(body))} | headers
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"{verb} /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        async with asyncio.timeout(DEADLINE):
            answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        return writer

    async def read(self, session: str) -> asyncio.StreamWriter:
        """Open the GET stream of a session."""
        headers = {"accept": "text/event-stream", "mcp-session-id": session, "mcp-protocol-version": NEWEST}
        return await self.open("GET", b"", headers)

    async def listen(self, **wishes: Any) -> asyncio.StreamWriter:
        """Open a subscription."""
        return await self.open("POST", *stateless("subscriptions/listen", {"notifications": wishes}))


@contextlib.asynccontextmanager
async def soaked(folder: Path, idle_seconds: float) -> AsyncIterator[Soaked]:
    """Run the server; it is to end with code 0, and to say nothing but that it gave clients up."""
    port = free_port()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, Path(__file__).with_name("soaked_server.py"), str(port), str(idle_seconds)),
        env=os.environ | {"XDG_STATE_HOME": str(folder)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await listening(port)
        timeout = aiohttp.ClientTimeout(total=DEADLINE)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=16), timeout=timeout) as client:
            yield Soaked(port, client)
    finally:
        child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE):
            _, complaints = await child.communicate()
    said = complaints.decode().replace(GIVEN_UP, "")
    assert (child.returncode, said) == (0, ""), (child.returncode, said)


async def listening(port: int) -> None:
    """Wait until somebody listens at a port."""
    ends = time.monotonic() + DEADLINE
    while time.monotonic() < ends:
        with contextlib.suppress(ConnectionRefusedError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.02)
    raise TimeoutError("The server does not listen")
