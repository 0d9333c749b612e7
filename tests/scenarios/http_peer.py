"""A client's end of HTTP exchanges with an ASGI application in this process: real bytes, no sockets."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman import Server, types
from dragoman.protocol.sse import Event, EventDecoder
from dragoman.server.http.head import Guard
from dragoman.server.http.service import HttpService
from dragoman.server.http.sessions import SessionRegistry
from dragoman.transports.http.asgi import AsgiApp
from dragoman.transports.http.exchange import Pace
from scenarios.http_carriers import carry

DEADLINE = 60
STATELESS, NEWEST, OLDER, BATCHING = "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"
BRISK = Pace(tick=0.001, stream_after=3600, keep_alive=3600, send=3600)
BOTH = "application/json, text/event-stream"
SECRET = "a secret that is long enough for a key"


def scenario(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test with a deadline, and see that it leaves no task behind."""

    async def watched(*args: Any, **kwargs: Any) -> None:
        await asyncio.wait_for(test(*args, **kwargs), 2 * DEADLINE)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(watched(*args, **kwargs))

    return run


def serve(server: Server, *, sessions: bool | SessionRegistry = True, pace: Pace = BRISK, **options: Any) -> AsgiApp:
    """Return the application of a server."""
    kept = SessionRegistry(server.dispatcher) if sessions is True else sessions or None
    server.dispatcher.limits = options.pop("limits", server.dispatcher.limits)
    options.setdefault("guard", Guard(allowed_hosts=(), allowed_origins=()))
    return AsgiApp(HttpService(server.dispatcher, sessions=kept, **options), pace=pace)


class Exchange:
    """One request under way, and what came back so far."""

    def __init__(self, app: AsgiApp, scope: dict[str, Any], chunks: list[bytes], *, reads: bool = True) -> None:
        self.messages: list[Any] = []
        self.reads = reads
        self.blocked = asyncio.Event()
        self._chunks = chunks
        self._left = asyncio.Event()
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(carry(app, scope, self._receive, self._send, reads=reads))

    async def _receive(self) -> dict[str, Any]:
        if self._chunks:
            chunk = self._chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if not self.reads:
            self.blocked.set()
            await asyncio.Event().wait()
        if not self._left.is_set():
            self.messages.append(message)
            self._changed.set()

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def end(self) -> "Exchange":
        """Wait until the application is done with it."""
        await asyncio.wait_for(self.task, DEADLINE)
        return self

    async def until(self, condition: Callable[["Exchange"], Any]) -> Any:
        """Wait until what came back fulfils a condition, and return what that gives."""
        async with asyncio.timeout(DEADLINE):
            while not (found := condition(self)):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def events(self, count: int) -> list[Event]:
        """Wait for so many events with data, and return them."""
        return await self.until(lambda exchange: len(exchange.heard) >= count and exchange.heard)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def all_events(self) -> list[Event]:
        return [event for event in EventDecoder(2**22).receive(self.body) if isinstance(event, Event)]

    @property
    def heard(self) -> list[Event]:
        """The events with data."""
        return [event for event in self.all_events if event.data]

    @property
    def said(self) -> list[Any]:
        """The messages of the events."""
        return [json.loads(event.data) for event in self.heard]


class HttpPeer:
    """A client of an application, in one of the versions."""

    def __init__(self, app: AsgiApp, version: str = NEWEST, *, capabilities: types.Json | None = None) -> None:
        self.app = app
        self.version = version
        self.capabilities = capabilities or {}
        self.session: str | None = None
        self.address: str | None = None
        """The network address from which the client sends, if the server is to know it."""
        self._last_id = 0

    def send(
        self,
        method: str = "POST",
        body: bytes | list[bytes] = b"",
        headers: dict[str, str | None] | None = None,
        *,
        path: str = "/mcp",
        root_path: str = "",
        reads: bool = True,
        server: tuple[str, int] | None = ("127.0.0.1", 8000),
    ) -> Exchange:
        """Begin an exchange; a header that is None is left out."""
        given = {"host": "localhost:8000", "accept": BOTH, "content-type": "application/json"}
        if self.session is not None:
            given |= {"mcp-session-id": self.session, "mcp-protocol-version": self.version}
        lines = [
            (name.encode(), value.encode()) for name, value in (given | (headers or {})).items() if value is not None
        ]
        scope = {"type": "http", "method": method, "path": path, "root_path": root_path}
        scope |= {"headers": lines, "server": server}
        if self.address is not None:
            scope["client"] = (self.address, 50_000)
        return Exchange(self.app, scope, [body] if isinstance(body, bytes) else list(body), reads=reads)

    def post(self, message: Any, headers: dict[str, str | None] | None = None, **options: Any) -> Exchange:
        return self.send("POST", json.dumps(message).encode(), headers, **options)

    def start(
        self,
        method: str,
        params: types.Json | None = None,
        headers: dict[str, str | None] | None = None,
        *,
        id: Any = None,
        **options: Any,
    ) -> Exchange:
        """Begin a request."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id if id is None else id, "method": method}
        params = dict(params or {})
        mirrored: dict[str, str | None] = {}
        if self.version == STATELESS:
            params["_meta"] = self.meta() | params.get("_meta", {})
            mirrored = {"mcp-protocol-version": STATELESS, "mcp-method": method, "mcp-name": params.get("name")}
        return self.post(message | {"params": params}, mirrored | (headers or {}), **options)

    def meta(self) -> types.Json:
        prefix = "io.modelcontextprotocol/"
        return {f"{prefix}protocolVersion": STATELESS, f"{prefix}clientCapabilities": self.capabilities}

    async def request(self, *args: Any, **options: Any) -> Exchange:
        """Send a request and wait for the end of its exchange."""
        return await self.start(*args, **options).end()

    def call(self, tool: str, arguments: types.Json | None = None, token: Any = None, **options: Any) -> Exchange:
        """Begin to call a tool, asking for progress if there is a token."""
        params: types.Json = {"name": tool, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.start("tools/call", params, **options)

    async def notify(self, method: str, params: types.Json | None = None) -> Exchange:
        return await self.post({"jsonrpc": "2.0", "method": method, "params": params or {}}).end()

    async def respond(self, id: Any, result: types.Json) -> Exchange:
        return await self.post({"jsonrpc": "2.0", "id": id, "result": result}).end()

    async def initialize(self) -> Exchange:
        """Begin a session."""
        introduction = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "peer", "version": "1"},
        }
        exchange = await self.request("initialize", introduction)
        self.session = exchange.headers.get("mcp-session-id")
        return exchange

    async def listen(self, **headers: str | None) -> Exchange:
        """Open a stream by GET and wait until it has begun."""
        named: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        exchange = self.send("GET", headers={"content-type": None} | named)
        await exchange.until(lambda one: one.messages)
        return exchange


async def live(app: AsgiApp) -> None:
    """Let an application's life end in good order."""
    coming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    said: list[str] = []

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        said.append(message["type"])

    await asyncio.wait_for(app({"type": "lifespan"}, receive, send), DEADLINE)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
