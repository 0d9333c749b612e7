"""A server that runs on a host of a test: `python hosts_server.py REDIS_URL ADDRESS PORT`."""

import asyncio
import socket
import sys

from dragoman import Context, Server
from dragoman.stores import Redis

server = Server("shop", store=Redis(sys.argv[1]), secret="the same on every host, 32 bytes")


@server.tool
async def order(number: int, ctx: Context) -> str:
    answer = await ctx.elicit(f"Order {number}?", bool)
    return f"{number} {answer.content}"


@server.tool
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, total=to)
        await asyncio.sleep(0.2)
    return f"counted to {to} in {socket.gethostname()}"


server.run("http", host=sys.argv[2], port=int(sys.argv[3]))
