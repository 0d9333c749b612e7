"""Our server, as the clients of others meet it: over stdio, or over HTTP at the port that is given."""

import asyncio
import sys

from dragoman import Context, Server

server = Server("wild", version="1")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
async def wait(ctx: Context) -> str:
    """Waits for ten seconds, and reports progress before that."""
    await ctx.report_progress(1, total=2)
    await asyncio.sleep(10)
    return "done"


@server.resource("note://hello", mime_type="text/plain")
def hello() -> str:
    """A greeting."""
    return "hello"


@server.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]))
    else:
        server.run()
