"""A client of tasks that exchanges raw messages with a server, over a duplex connection or over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dragoman import Server, types
from dragoman.testing import WirePeer
from scenarios.http_peer import STATELESS, HttpPeer, serve

ID = "io.modelcontextprotocol/tasks"
FIRST, SECOND = "2025-11-25", "2026-07-28"
GENERATIONS = [FIRST, SECOND]
CARRIERS = ["duplex", "http"]
DECLARED: types.Json = {"extensions": {ID: {}}, "elicitation": {}, "roots": {}, "sampling": {}}
TERMINAL = ("completed", "failed", "cancelled")
DEADLINE = 60
T = TypeVar("T")


async def polled(ask: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool]) -> T:
    """Ask again and again until the answer is enough, as clients that poll do."""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await ask()
            if is_enough(answer):
                return answer
            await asyncio.sleep(0.01)


class TaskPeer:
    """Sends requests about tasks, and waits for what becomes of them."""

    def __init__(self, peer: WirePeer | HttpPeer, version: str) -> None:
        self.peer = peer
        self.version = version

    async def response(self, method: str, **params: Any) -> types.Json:
        if isinstance(self.peer, WirePeer):
            return await self.peer.request(method, params)
        named = {"mcp-name": params["taskId"]} if self.version == STATELESS and "taskId" in params else {}
        exchange = await self.peer.request(method, params, named)
        if exchange.headers["content-type"].startswith("text/event-stream"):
            return exchange.said[-1]
        return exchange.json

    async def request(self, method: str, **params: Any) -> types.Json:
        response = await self.response(method, **params)
        assert "result" in response, response
        return response["result"]

    async def error(self, method: str, **params: Any) -> types.Json:
        return (await self.response(method, **params))["error"]

    async def start(self, tool: str, *, ttl: int | None = None, **arguments: Any) -> types.Json:
        """Call a tool as a task, and return the task."""
        if self.version == FIRST:
            task = {} if ttl is None else {"ttl": ttl}
            return (await self.request("tools/call", name=tool, arguments=arguments, task=task))["task"]
        created = await self.request("tools/call", name=tool, arguments=arguments)
        assert created["resultType"] == "task"
        return created

    async def get(self, id: str) -> types.Json:
        return await self.request("tasks/get", taskId=id)

    async def until(self, id: str, *statuses: str) -> types.Json:
        """Ask for a task until it has one of some statuses, as clients do."""
        response = await polled(
            lambda: self.response("tasks/get", taskId=id), lambda response: response["result"]["status"] in statuses
        )
        return response["result"]

    async def outcome(self, id: str) -> types.Json:
        """Return the result or the error of a task that ends."""
        if self.version == FIRST:
            response = await self.response("tasks/result", taskId=id)
            return {name: response[name] for name in ("result", "error") if name in response}
        task = await self.until(id, *TERMINAL)
        return {name: task[name] for name in ("result", "error") if name in task}


@asynccontextmanager
async def task_peer(
    server: Server, version: str, carrier: str = "duplex", capabilities: types.Json = DECLARED
) -> AsyncIterator[TaskPeer]:
    """Serve a server to one client."""
    if carrier == "duplex":
        async with WirePeer(server, version, capabilities=capabilities, timeout=DEADLINE) as peer:
            yield TaskPeer(peer, version)
        return
    app = serve(server)
    try:
        http = HttpPeer(app, version, capabilities=capabilities)
        if version != STATELESS:
            await http.initialize()
        yield TaskPeer(http, version)
    finally:
        await app.close()
