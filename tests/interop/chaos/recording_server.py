"""A server of a fleet: `python recording_server.py REDIS_URL ADDRESS PORT FILE`.

Each execution of a tool appends the number of its call to FILE, before anything else happens.
"""

import asyncio
import os
import sys

from dragoman import Context, Server
from dragoman.stores import Redis

REDIS_URL, ADDRESS, PORT, FILE = sys.argv[1:]
server = Server("shop", store=Redis(REDIS_URL, timeout=1.0), secret="the same in every process, 32 b.")
executed = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@server.tool
async def record(number: str) -> str:
    os.write(executed, f"{number}\n".encode())
    await asyncio.sleep(0.3)
    return number


@server.tool
async def confirm(number: str, ctx: Context) -> str:
    os.write(executed, f"{number}\n".encode())
    answer = await ctx.elicit(f"Confirm {number}", str, timeout=3)
    return answer.content


server.run("http", host=ADDRESS, port=int(PORT))
