"""The server that `stores.py` measures: `python store_server.py PORT STORE`; STORE is "local" or a URL of Redis."""

import asyncio
import sys

from dragoman import Context, Server
from dragoman.stores import Local, Redis

port, where = int(sys.argv[1]), sys.argv[2]
server = Server(
    "bench", store=Local() if where == "local" else Redis(where), secret="the same in every process, 32 bytes"
)


@server.tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool
async def change() -> None:
    """Announces that the list of tools changed."""
    server.notify_tools_list_changed()


@server.tool
async def count(ctx: Context) -> str:
    """Reports progress for a while."""
    for number in range(1, 31):
        await ctx.report_progress(number, total=30)
        await asyncio.sleep(0.01)
    return "done"


@server.tool
async def ask(ctx: Context) -> bool:
    """Asks the client."""
    return (await ctx.elicit("Go on?", bool)).content or False


server.run("http", port=port)
