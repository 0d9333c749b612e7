"""A small server, to be run: `python calling_server.py` over stdio, with `http PORT` over HTTP."""

import os
import sys
import time

from dragoman import BlockingContext, Context, Server

server = Server("calling")


@server.tool
def add(a: int, b: int) -> int:
    return a + b


@server.tool
def process() -> int:
    return os.getpid()


@server.tool
async def count(to: int, *, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, total=to)
    return "counted"


@server.tool
async def ask(question: str, *, ctx: Context) -> str:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    return str((await ctx.elicit(question, schema)).content)


@server.tool
async def wait(name: str, *, ctx: Context) -> str:
    import asyncio

    await ctx.report_progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        given_up.append(name)
    return "never"


@server.tool
def sleep(seconds: float, ctx: BlockingContext) -> str:
    time.sleep(seconds)
    return "slept"


@server.tool(name="given_up")
def list_given_up() -> list[str]:
    return given_up


given_up: list[str] = []

if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("http", port=int(sys.argv[2]))
    else:
        server.run()
