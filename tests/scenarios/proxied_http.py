"""A proxy that serves HTTP by itself, and a client that sends it exactly what a test wants, and reads the answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from dragoman import Server
from dragoman.protocol.headers import build
from dragoman.server.http.run import serve_http

DEADLINE = 60
STATELESS, NEWEST = "2026-07-28", "2025-11-25"
INFO = {"name": "any", "version": "1"}


@contextlib.asynccontextmanager
async def serving_itself(app: Any) -> AsyncIterator[int]:
    """Serve an application as `run("http")` does, and give its port."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve_http(app, host="127.0.0.1", port=0, announce=lambda address: port.set_result(address[1]))
    )
    await asyncio.wait([port, task], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield port.result()
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE)


def stateless_meta(capabilities: Any) -> Any:
    """Return what `_meta` of each stateless request has."""
    meta = {"protocolVersion": STATELESS, "clientCapabilities": capabilities, "clientInfo": INFO}
    return {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}


class Answer:
    """A response: its status, its headers, and its messages as text."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.messages = [body.decode()] if body else []
        if headers.get("content-type") == "text/event-stream":
            self.messages = [line[6:] for line in body.decode().splitlines() if line.startswith("data: {")]

    @property
    def last(self) -> Any:
        """The last message."""
        return json.loads(self.messages[-1])


class HttpFront:
    """A proxy in front of a target, with one session of a client, or with a stateless client."""

    def __init__(self, target: Any, *, is_stateless: bool = False, **options: Any) -> None:
        self.proxy = Server.proxy(target, **options)
        self.is_stateless = is_stateless
        self.declared: Any = {}
        self.session = ""
        self.port = 0
        self._id = 0
        self._stack = contextlib.AsyncExitStack()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.serving: dict[str, Any] = {}

    async def __aenter__(self) -> "HttpFront":
        self.port = await self._stack.enter_async_context(serving_itself(self.proxy.asgi(**self.serving)))
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._streams is not None:
            self._streams[1].close()
        await self._stack.aclose()

    async def stop(self) -> None:
        """End the server while the client is connected."""
        await self._stack.aclose()

    async def begin(self, capabilities: Any = None) -> None:
        """Begin a session, and let the connection to the target be there."""
        self.declared = capabilities or {}
        if self.is_stateless:
            await self.ask("acme/first", {})
            return
        hello = {"protocolVersion": NEWEST, "capabilities": capabilities or {}, "clientInfo": INFO}
        answer = await self.ask("initialize", hello)
        self.session = answer.headers["mcp-session-id"]
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.ask("ping", {})
        await self.ask("acme/first", {})

    def request(self, method: str, params: Any) -> Any:
        self._id += 1
        if self.is_stateless and isinstance(params, dict) and isinstance(params.get("_meta") or {}, dict):
            params = {**params, "_meta": {**stateless_meta(self.declared), **(params.get("_meta") or {})}}
        return {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}

    async def ask(self, method: str, params: Any) -> Answer:
        return await self.post(self.request(method, params))

    async def post(self, message: Any) -> Answer:
        """Post a message on the connection that is kept, and return the response."""
        if self._streams is None or self._streams[1].is_closing():
            self._streams = await self.connect()
        self._streams[1].write(self.encoded(message))
        answer = await self.read(self._streams[0])
        if answer.headers.get("connection") == "close":
            self._streams[1].close()
        return answer

    def encoded(self, message: Any, **headers: str) -> bytes:
        """Return a POST."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        lines = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
        if self.is_stateless and isinstance(message, dict):
            params = message.get("params") or {}
            name = params.get("uri" if message["method"].startswith("resources/") else "name")
            lines |= build(STATELESS, message["method"], name if isinstance(name, str) else None)
        if self.session:
            lines |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": NEWEST}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        start = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{head}Content-Length: {len(body)}\r\n\r\n"
        return start.encode() + body

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return another connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def read(self, reader: asyncio.StreamReader) -> Answer:
        """Return the next response of a connection."""
        async with asyncio.timeout(DEADLINE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line and "session" not in line.lower())
            headers |= dict(line.split(": ", 1) for line in head[1:] if "session" in line.lower())
            body = b""
            if headers.get("transfer-encoding") == "chunked":
                while size := int(await reader.readline(), 16):
                    body += (await reader.readexactly(size + 2))[:-2]
                await reader.readline()
            else:
                body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(head[0].split()[1]), headers, body)
