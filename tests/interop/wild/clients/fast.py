"""A client on fastmcp: `fast.py stdio COMMAND...` or `fast.py http URL`."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


def transport():
    kind, *target = sys.argv[1:]
    return StdioTransport(target[0], target[1:]) if kind == "stdio" else StreamableHttpTransport(target[0])


async def main():
    async with Client(transport()) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("add", {"a": 2, "b": 3})
        read = await client.read_resource("note://hello")
        prompt = await client.get_prompt("greet", {"name": "Ann"})
    async with Client(transport()) as client:
        call = asyncio.create_task(client.call_tool("wait", {}))
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.wait([call])
    seen = {
        "tools": sorted(tools),
        "sum": result.content[0].text,
        "resource": read[0].text,
        "prompt": prompt.messages[0].content.text,
        "gives_up": True,
    }
    print(json.dumps(seen))


asyncio.run(main())
