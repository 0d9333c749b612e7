"""A server whose tool notes each of its runs, served in one of several ways until a signal ends it.

python termination_server.py HOW PORT WORKERS [DESCRIPTOR]

HOW is `run`, `uvicorn` or `starlette`. With a DESCRIPTOR the server accepts
connections from that listening socket, which a supervisor keeps, instead of binding PORT.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from dragoman import Context, Server
from dragoman.server.http import run as serve_http

SECONDS = 0.2
RUNS = "runs"
_left: set[asyncio.Task[None]] = set()
server = Server("terminated", capabilities={"tools": {"listChanged": True}})


def _note(id: str) -> None:
    runs = os.open(RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(runs, f"{id}\n".encode())
    finally:
        os.close(runs)


@server.tool
async def work(id: str) -> str:
    """Takes a moment, and notes that it ran."""
    _note(id)
    await asyncio.sleep(SECONDS)
    return id


@server.tool
async def wait(id: str, ctx: Context) -> str:
    """Notes that it ran, and does not end by itself."""
    _note(id)
    await ctx.report_progress(1)
    await asyncio.Event().wait()
    return id


@server.tool
async def leave(id: str) -> str:
    """Leaves a task behind, which takes a moment to end and then notes that it did."""

    async def go_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(SECONDS)
            _note("ended")

    _left.add(asyncio.create_task(go_on()))
    return id


@server.tool
async def resist(id: str) -> str:
    """Notes that it ran, and goes on when it is cancelled."""
    _note(id)
    for _ in range(20):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
    return id


@server.tool(inline=True)
def block(id: str) -> None:
    """Notes that it ran, and holds up the loop."""
    _note(id)
    while True:
        pass


def serve_mounted(app: Any, port: int, listening: socket.socket | None) -> None:
    """Serve an application with uvicorn as it is."""
    config = uvicorn.Config(app, port=port, log_level="warning", timeout_keep_alive=75, timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(None if listening is None else [listening])


def mounted() -> Any:
    """Return an application of Starlette that has a lifespan of its own."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield

    return Starlette(routes=[Mount("/", server.asgi())], lifespan=lifespan)


def main(how: str, port: int, workers: int, descriptor: int | None = None) -> None:
    """Serve until a signal comes."""
    listening = None if descriptor is None else socket.socket(fileno=descriptor)
    if how == "uvicorn":
        serve_mounted(server.asgi(), port, listening)
    elif how == "starlette":
        serve_mounted(mounted(), port, listening)
    else:
        serve_http.GRACE_SECONDS = float(os.environ.get("GRACE_SECONDS", serve_http.GRACE_SECONDS))
        if listening is not None:
            serve = uvicorn.Server.serve
            uvicorn.Server.serve = lambda self, sockets=None: serve(self, sockets or [listening])  # type: ignore[method-assign]
        server.run("http", port=port, workers=workers)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
