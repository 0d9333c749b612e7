"""A server whose tools run as tasks, over stdio or over HTTP: `python task_server.py [http PORT]`."""

import asyncio
import sys
import threading
from collections import defaultdict

from dragoman import Context, RpcError, Server, ToolError
from dragoman.server import TaskOptions
from dragoman.stores import Memory

QUICK = TaskOptions(poll=0.02)


def make_server() -> Server:
    server = Server("tasks", store=Memory(), secret="a secret of sixteen")
    server.tool(add, task=QUICK)
    server.tool(book, task=TaskOptions(poll=0.02, required=True))
    server.tool(fail, task=QUICK)
    server.tool(break_down, task=QUICK)
    server.tool(wait, task=QUICK)
    server.tool(waited)
    server.tool(plain)
    server.tool(slow, task=TaskOptions(poll=60))
    server.tool(let)
    return server


async def add(a: int, b: int) -> int:
    return a + b


async def book(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "asking")
    return f"booked in {(await ctx.elicit('Which city?', str)).content}"


async def fail() -> str:
    raise ToolError("no luck")


async def break_down() -> str:
    raise RpcError(-32050, "broken", {"floor": 3})


stopped = threading.Event()


async def wait() -> str:
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()
    return ""


async def waited() -> bool:
    """Wait until `wait` was cancelled."""
    is_stopped = await asyncio.to_thread(stopped.wait, 10)
    stopped.clear()
    return is_stopped


released: dict[str, threading.Event] = defaultdict(threading.Event)


async def slow(name: str) -> str:
    """Wait until `let` was called with the same name."""
    await asyncio.to_thread(released[name].wait, 10)
    released.pop(name)
    return name


async def let(name: str) -> None:
    released[name].set()


async def plain() -> str:
    return "plain"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        make_server().run("http", port=int(sys.argv[2]))
    else:
        make_server().run()
