"""A server that is used for long, and tells what it holds.

python soaked_server.py PORT IDLE_SECONDS
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

from dragoman import Context, Server
from dragoman.server.http.session import LiveSession

server = Server("soaked")
FOLLOWED = "long://" + "x" * 1000
_finished: list[str] = []


@server.tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def kilobytes() -> int:
    """Return the memory that this process holds."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@server.tool(inline=True)
def held() -> dict[str, Any]:
    """Says what the process holds: sessions, tasks, kilobytes, and which floods have ended."""
    gc.collect()
    return {
        "sessions": sum(type(thing) is LiveSession for thing in gc.get_objects()),
        "tasks": len(asyncio.all_tasks()),
        "kilobytes": kilobytes(),
        "finished": _finished,
    }


@server.tool
async def chatter(count: int, name: str, ctx: Context) -> str:
    """Says much on the way."""
    try:
        for _ in range(count):
            await ctx.info("x" * 1000)
    finally:
        _finished.append(name)
    return "said"


@server.tool
async def change(count: int) -> str:
    """Tells all who listen of many changes."""
    for number in range(count):
        server.notify_resource_updated(FOLLOWED)
        server.notify_tools_list_changed()
        if number % 100 == 0:
            await asyncio.sleep(0)
    return "told"


@server.on_subscribe
def follow(uri: str) -> None:
    """Let clients follow resources."""


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]), session_idle_timeout=float(sys.argv[2]))
