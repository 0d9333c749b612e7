"""A server that answers by a script, for what no honest server does; and running servers for clients to talk to."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from dragoman import types
from dragoman.errors import RpcError

DEADLINE = 60
STATELESS, NEWEST = "2026-07-28", "2025-11-25"
EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
HOLD = object()
"""Given as an answer, none is sent."""


class ScriptedServer:
    """A transport with a server at its end that answers each method as it is told.

    An answer is a result, an RpcError, HOLD, or a function from the parameters to one of these.
    """

    def __init__(self, answers: dict[str, Any] | None = None, *, stateless: bool = False, **options: Any) -> None:
        self.answers = answers or {}
        self.stateless = stateless
        self.capabilities = options.get("capabilities", EVERYTHING)
        self.acknowledges = options.get("acknowledges", True)
        self.received: list[dict[str, Any]] = []
        self.opened = 0
        self._arrived = asyncio.Event()

    async def open(self, receive: Callable[[bytes], None], closed: Callable[[Exception | None], None]) -> None:
        self.opened += 1
        self._receive, self._closed = receive, closed
        self._loop = asyncio.get_running_loop()

    async def send(self, message: bytes) -> None:
        request = json.loads(message)
        self.received.append(request)
        self._arrived.set()
        if "id" in request and "method" in request:
            answer = self._answer(request["method"], request.get("params", {}), request["id"])
            if answer is not HOLD:
                self.answer(request["id"], answer)

    async def close(self) -> None:
        """Nothing is held open."""

    def _answer(self, method: str, params: dict[str, Any], id: Any) -> Any:
        if method in self.answers:
            answer = self.answers[method]
            return answer(params) if callable(answer) else answer
        if method == "server/discover" and self.stateless:
            return {"supportedVersions": [STATELESS], "capabilities": self.capabilities}
        if method == "initialize" and not self.stateless:
            info = {"name": "scripted", "version": "1"}
            return {"protocolVersion": NEWEST, "capabilities": self.capabilities, "serverInfo": info}
        if method == "subscriptions/listen" and self.stateless:
            if self.acknowledges:
                params = {"notifications": params["notifications"], "_meta": {types.SUBSCRIPTION_ID: id}}
                self.say("notifications/subscriptions/acknowledged", params)
            return HOLD
        if method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            return {}
        return RpcError(-32601, f"There is no {method}")

    def answer(self, id: Any, answer: Any) -> None:
        """Answer a request, in a later turn of the loop."""
        outcome = {"result": answer}
        if isinstance(answer, RpcError):
            outcome = {"error": {"code": answer.code, "message": answer.message}}
        self.write({"jsonrpc": "2.0", "id": id, **outcome})

    def say(self, method: str, params: Any = None, *, id: Any = None) -> None:
        """Send a notification or a request, from any thread."""
        message = {"jsonrpc": "2.0", "method": method, **({} if id is None else {"id": id})}
        self.write(message if params is None else {**message, "params": params})

    def write(self, message: Any) -> None:
        self._loop.call_soon_threadsafe(self._receive, json.dumps(message).encode())

    def hang_up(self) -> None:
        """End the connection."""
        self._loop.call_soon_threadsafe(self._closed, None)

    def sent(self, method: str) -> list[dict[str, Any]]:
        """The parameters of each message of a method that came."""
        return [message.get("params", {}) for message in self.received if message.get("method") == method]

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until what came fulfils a condition."""
        async with asyncio.timeout(DEADLINE):
            while not (found := condition()):
                self._arrived.clear()
                await self._arrived.wait()
        return found


def page(kind: str, *names: str, cursor: str | None = None, **more: Any) -> dict[str, Any]:
    """A page of a list."""
    entries = {
        "tools": lambda name: {"name": name, "inputSchema": {"type": "object"}},
        "prompts": lambda name: {"name": name},
        "resources": lambda name: {"name": name, "uri": f"test:///{name}"},
        "resourceTemplates": lambda name: {"name": name, "uriTemplate": f"test:///{name}/{{id}}"},
    }
    result = {kind: [entries[kind](name) for name in names], **more}
    return result if cursor is None else {**result, "nextCursor": cursor}


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application from a thread of this process, and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server._serve([listening])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(DEADLINE)
            assert not thread.is_alive()
