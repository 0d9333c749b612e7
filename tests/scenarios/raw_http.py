"""A server that answers HTTP with exactly the bytes that a test wants, and remembers what it was sent."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn

from scenarios.http_peer import DEADLINE

STATELESS, NEWEST = "2026-07-28", "2025-11-25"
REASONS = {200: "OK", 202: "Accepted", 204: "No Content", 307: "Temporary Redirect", 404: "Not Found"}


class Sent:
    """A request as it came."""

    def __init__(self, verb: str, path: str, headers: dict[str, list[str]], body: bytes, connection: int) -> None:
        self.verb = verb
        self.path = path
        self.all_headers = headers
        self.headers = {name: values[0] for name, values in headers.items()}
        self.body = body
        self.connection = connection

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def method(self) -> str | None:
        """The method of the message, or None where there is none."""
        return self.json.get("method") if self.body else None

    @property
    def id(self) -> Any:
        return self.json.get("id")

    def __repr__(self) -> str:
        return f"{self.verb} {self.path} {self.method or ''}"


Script = Callable[[Sent, asyncio.StreamWriter], Awaitable[bytes | None]]


class RawServer:
    """What is served, and what was sent to it."""

    def __init__(self, script: Script, port: int, scheme: str = "http") -> None:
        self.script = script
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}/mcp"
        self.requests: list[Sent] = []
        self.connections = 0
        self.changed = asyncio.Condition()
        self.errors: list[BaseException] = []

    async def until(self, condition: Callable[[list[Sent]], Any]) -> Any:
        """Wait until what was sent fulfils a condition, and return what that gives."""
        async with asyncio.timeout(DEADLINE), self.changed:
            await self.changed.wait_for(lambda: condition(self.requests))
        return condition(self.requests)

    def sent(self, method: str) -> list[Sent]:
        """The messages of a method, or the requests of a verb."""
        return [one for one in self.requests if method in (one.method, one.verb)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while (request := await _read(reader, connection)) is not None:
                self.requests.append(request)
                async with self.changed:
                    self.changed.notify_all()
                said = await self.script(request, writer)
                if said is not None:
                    writer.write(said)
                    await writer.drain()
                if writer.is_closing():
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader, connection: int) -> Sent | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = await reader.readline()
        if not line:
            return None
        head += line
    first, *lines = head.decode("latin-1").split("\r\n")
    verb, path, _ = first.split(" ", 2)
    headers: dict[str, list[str]] = {}
    for line in filter(None, lines):
        name, value = line.split(":", 1)
        headers.setdefault(name.lower(), []).append(value.strip())
    body = await reader.readexactly(int(headers.get("content-length", ["0"])[0]))
    return Sent(verb, path, headers, body, connection)


@contextlib.asynccontextmanager
async def answering(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Serve a script on a port of this machine."""
    raw = RawServer(script, 0, "http" if tls is None else "https")
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        serving.add(task)
        try:
            await raw._serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    raw.port = server.sockets[0].getsockname()[1]
    raw.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{raw.port}/mcp"
    try:
        yield raw
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        if serving:
            await asyncio.wait(list(serving), timeout=DEADLINE)
    assert not raw.errors


def reply(status: int, body: Any = b"", kind: str | None = "application/json", **headers: str) -> bytes:
    """Return a whole response; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"content-length": str(len(data))}
    if kind is not None:
        lines["content-type"] = kind
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Some Reason')}\r\n{head}\r\n".encode() + data


def result(request: Sent, value: Any) -> Any:
    return {"jsonrpc": "2.0", "id": request.id, "result": value}


def refusal(id: Any, code: int, message: str, data: Any = None) -> Any:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "error": error} | ({} if id is ... else {"id": id})


def stream_head(**headers: str) -> bytes:
    """Return the head of an event stream that comes in chunks."""
    lines = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return b"HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def event(message: Any = None, *, id: str | None = None, retry: int | None = None, name: str | None = None) -> bytes:
    """Return one event; what is no text is sent as JSON."""
    lines = []
    if name is not None:
        lines.append(f"event: {name}")
    if id is not None:
        lines.append(f"id: {id}")
    if retry is not None:
        lines.append(f"retry: {retry}")
    text = "" if message is None else message if isinstance(message, str) else json.dumps(message)
    return ("\n".join([*lines, f"data: {text}"]) + "\n\n").encode()


def stream(*events: bytes, end: bool = True, **headers: str) -> bytes:
    """Return a whole event stream."""
    return stream_head(**headers) + b"".join(chunk(one) for one in events if one) + (END if end else b"")


def called(text: str = "done") -> Any:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


def saying(said: bytes) -> Script:
    """Answer every request with the same bytes."""

    async def script(request: Sent, writer: asyncio.StreamWriter) -> bytes:
        return said

    return script


async def fine(request: Sent, writer: asyncio.StreamWriter) -> bytes:
    """Answer a call of a tool."""
    return reply(200, result(request, called()))


def modern(on_call: Script, *, capabilities: Any = None, tools: Any = None) -> Script:
    """Serve as a stateless server whose `tools/call` is scripted."""

    async def script(request: Sent, writer: asyncio.StreamWriter) -> bytes | None:
        if request.method == "server/discover":
            discovered = {
                "supportedVersions": [STATELESS],
                "capabilities": {"tools": {}} if capabilities is None else capabilities,
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }
            return reply(200, result(request, discovered))
        if request.method == "tools/list" and tools is not None:
            listed = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            return reply(200, result(request, listed))
        return await on_call(request, writer)

    return script


def classic(on_call: Script, *, session: str | None = "s1", on_get: Script | None = None) -> Script:
    """Serve as a server of the handshake era whose `tools/call` is scripted."""

    async def script(request: Sent, writer: asyncio.StreamWriter) -> bytes | None:
        if request.verb == "GET" and "last-event-id" not in request.headers:
            return reply(405) if on_get is None else await on_get(request, writer)
        if request.verb == "DELETE":
            return reply(200)
        if request.method == "server/discover":
            return reply(400, refusal(request.id, -32601, "Method not found"))
        if request.method == "initialize":
            return reply(200, result(request, introduction()), **({"mcp_session_id": session} if session else {}))
        if request.method is not None and request.method.startswith("notifications/"):
            return reply(202, kind=None)
        return await on_call(request, writer)

    return script


def introduction(version: str = NEWEST) -> Any:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    }


@contextlib.asynccontextmanager
async def serving(app: Any, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve an application with uvicorn, and give its URL; without a port, the system chooses one."""
    # With the protocol named, accepted sockets send at once: asyncio leaves others to Nagle's algorithm.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()  # clients may connect before the server accepts
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, **options)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server._serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await asyncio.wait_for(running, DEADLINE)
