"""A client on the official Python SDK 1.x: `official.py stdio COMMAND...` or `official.py http URL`."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@asynccontextmanager
async def connected():
    kind, *target = sys.argv[1:]
    if kind == "stdio":
        async with stdio_client(StdioServerParameters(command=target[0], args=target[1:])) as streams:
            yield streams
    else:
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(target[0]) as (read, write, _):
            yield read, write


async def give_up():
    async with connected() as streams, ClientSession(*streams) as session:
        await session.initialize()
        call = asyncio.create_task(session.call_tool("wait", {}))
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.wait([call])


async def main():
    async with connected() as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        result = await session.call_tool("add", {"a": 2, "b": 3})
        read = await session.read_resource("note://hello")
        prompt = await session.get_prompt("greet", {"name": "Ann"})
    await give_up()
    seen = {
        "tools": sorted(tools),
        "sum": result.content[0].text,
        "resource": read.contents[0].text,
        "prompt": prompt.messages[0].content.text,
        "gives_up": True,
    }
    print(json.dumps(seen))


asyncio.run(main())
