"""A server with tools that run as tasks: `python task_server.py stdio|PORT`."""

import asyncio
import sys
import time

from dragoman import BlockingContext, Context, Elicit, Sample, Server, ToolError
from dragoman.server import TaskOptions

server = Server("tasks")


@server.tool(task=TaskOptions(poll=0.05))
async def slow(label: str, ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    await asyncio.sleep(0.1)
    return f"Computed {label}"


@server.tool(task=TaskOptions(poll=0.05))
def confirm(ctx: BlockingContext) -> str:
    ctx.report_progress(1, 2, "asking")
    answers = ctx.ask(sure=Elicit("Sure?", bool), said=Sample("Say it", max_tokens=5))
    ctx.report_progress(2, 2, "answered")
    time.sleep(0.3)  # a client hears of progress only before the result
    return f"{answers['sure'].content} {answers['said'].text}"


@server.tool(task=TaskOptions(required=True, poll=0.05))
async def failing() -> str:
    raise ToolError("no luck")


@server.tool(task=TaskOptions(poll=0.05))
async def forever() -> str:
    await asyncio.Event().wait()
    return ""


if sys.argv[1] == "stdio":
    server.run()
else:
    server.run("http", port=int(sys.argv[1]), workers=2)
