"""A server whose tools note each step in a file: `python task_server.py STORE PORT LEASE FILE`.

STORE is "local" or the URL of a Redis. A line of FILE is the process, the word begun or done, the task and the step.
"""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from dragoman import Context, Server
from dragoman.server import TaskOptions
from dragoman.server.extensions.tasks.extension import TasksExtension
from dragoman.stores import Local, Redis

STORE, PORT, LEASE, FILE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
store = Local() if STORE == "local" else Redis(STORE)
server = Server("faults", store=store, secret="the same in every process of it")


def note(*words: object) -> None:
    line = " ".join(map(str, (os.getpid(), *words))) + "\n"
    with FILE.open("ab", buffering=0) as file:
        file.write(line.encode())


async def work(name: str, number: int, seconds: float) -> int:
    note("begun", name, number)
    await asyncio.sleep(seconds)
    note("done", name, number)
    return number


async def all_steps(name: str, steps: int, seconds: float, ctx: Context) -> str:
    total = 0
    for number in range(steps):
        total += await ctx.step(f"step {number}", partial(work, name, number, seconds))
    return f"{name} {total}"


@server.tool(task=TaskOptions(retry=True, lease=LEASE, ttl=600))
async def repeatable(name: str, steps: int, seconds: float, ctx: Context) -> str:
    return await all_steps(name, steps, seconds, ctx)


@server.tool(task=TaskOptions(lease=LEASE, ttl=600))
async def once(name: str, steps: int, seconds: float, ctx: Context) -> str:
    return await all_steps(name, steps, seconds, ctx)


@server.tool(task=TaskOptions(lease=LEASE, ttl=600))
async def ask(name: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"Go on, {name}?", bool)
    note("answered", name, answer.content)
    return f"{name} {answer.content}"


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def runs() -> int:
    return sum(len(runner._runs) for runner in server.extension(TasksExtension)._runners.values())


server.run("http", port=PORT)
