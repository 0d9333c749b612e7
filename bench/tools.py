"""The tools that every Python side serves, and how each library is told of them."""

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

PROGRESS_EVENTS = 10
NAP_SECONDS = 0.1


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def add_in_thread(a: int, b: int) -> int:
    """Adds two numbers, in a worker thread where the library has them."""
    return a + b


def nap() -> Any:
    """Sleeps in a worker thread, where the library has them."""
    time.sleep(NAP_SECONDS)
    return "awake"


def add_inline(a: int, b: int) -> int:
    """Adds two numbers in place."""
    return a + b


async def echo(text: str) -> Any:
    """Returns the text."""
    return text


_held: list["asyncio.Future[None]"] = []


async def hold() -> Any:
    """Returns when `release` is called."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _held.append(waiter)
    await waiter
    return "held"


async def release() -> Any:
    """Lets go of everything that is held."""
    for waiter in _held:
        if not waiter.done():
            waiter.set_result(None)
    _held.clear()
    return "released"


def counting(context: Any) -> Callable[..., Any]:
    """Return a tool that tells of its progress by a library's own context."""

    async def count(ctx: Any) -> Any:
        """Tells of ten steps."""
        for step in range(1, PROGRESS_EVENTS + 1):
            await ctx.report_progress(step, PROGRESS_EVENTS)
        return "counted"

    count.__annotations__["ctx"] = context
    return count


ASYNC = (add, echo, hold, release)
BLOCKING = (add_in_thread, nap)


def dragoman(more: int = 0) -> Any:
    """Return dragoman's server, with so many more tools."""
    from dragoman import Context, Server

    server = Server("bench", version="1")
    for function in (*ASYNC, *BLOCKING, counting(Context)):
        server.tool(function)
    server.tool(inline=True)(add_inline)

    @server.tool
    async def change() -> str:
        """Tells every client that the list of tools has changed."""
        server.notify_tools_list_changed()
        return "changed"

    for number in range(more):
        server.tool(name=f"tool_{number}")(add)
    return server


def mcp(more: int = 0) -> Any:
    """Return the server of the official SDK, with so many more tools."""
    library: Any = import_module("mcp.server.mcpserver")
    server = library.MCPServer("bench", log_level="ERROR")
    for function in (*ASYNC, *BLOCKING, counting(library.Context)):
        server.add_tool(function)
    for number in range(more):
        server.add_tool(add, name=f"tool_{number}")
    return server


def fastmcp(more: int = 0) -> Any:
    """Return fastmcp's server, with so many more tools."""
    library: Any = import_module("fastmcp")
    server = library.FastMCP("bench")
    for function in (*ASYNC, *BLOCKING, counting(library.Context)):
        server.tool(function)
    for number in range(more):
        server.tool(add, name=f"tool_{number}")
    return server
