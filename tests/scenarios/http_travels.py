"""A server to try the handshake era with: tools that ask, wait and tell, and a client that has a session with it."""

import asyncio
import dataclasses
from typing import Any

from dragoman import Context, Server
from dragoman.stores import Store
from scenarios.http_peer import DEADLINE, NEWEST, SECRET, Exchange, HttpPeer, serve


@dataclasses.dataclass
class City:
    city: str


class Gate:
    """Where a tool waits until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.wait_for(self.opened.wait(), DEADLINE)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def was_reached(self) -> None:
        await asyncio.wait_for(self.reached.wait(), DEADLINE)

    async def was_cancelled(self) -> None:
        await asyncio.wait_for(self.cancelled.wait(), DEADLINE)


def travels(
    gate: Gate | None = None, *, name: str = "travels", secret: str = SECRET, store: Store | None = None
) -> Server:
    server = Server(
        name,
        secret=secret,
        store=store,
        capabilities={"resources": {"subscribe": True}, "prompts": False},
    )

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def where(ctx: Context) -> str:
        answer = await ctx.elicit("Where?", City)
        return answer.content.city

    @server.tool
    async def ask_twice(ctx: Context) -> str:
        roots = await ctx.list_roots()
        sampled = await ctx.sample("Hello", max_tokens=5)
        return f"{roots[0].uri} {sampled.content.text}"

    @server.tool
    async def steps(ctx: Context) -> str:
        assert gate is not None
        await ctx.report_progress(1)
        await gate.wait()
        await ctx.report_progress(2)
        await ctx.report_progress(3)
        return "there"

    @server.tool
    async def silent() -> str:
        assert gate is not None
        await gate.wait()
        return "there"

    return server


async def session(server: Server, version: str = NEWEST, **options: Any) -> HttpPeer:
    everything = {"elicitation": {}, "roots": {}, "sampling": {}}
    peer = HttpPeer(serve(server, **options), version, capabilities=everything)
    await peer.initialize()
    return peer


def text(exchange: Exchange) -> str:
    message = exchange.json if exchange.headers["content-type"] == "application/json" else exchange.said[-1]
    return message["result"]["content"][0]["text"]
