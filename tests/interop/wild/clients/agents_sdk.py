"""A client on openai-agents: `agents_sdk.py stdio COMMAND...` or `agents_sdk.py http URL`."""

import asyncio
import json
import sys

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


def server():
    kind, *target = sys.argv[1:]
    if kind == "stdio":
        return MCPServerStdio(params={"command": target[0], "args": target[1:]})
    return MCPServerStreamableHttp(params={"url": target[0]})


async def main():
    async with server() as connected:
        tools = [tool.name for tool in await connected.list_tools()]
        result = await connected.call_tool("add", {"a": 2, "b": 3})
        prompt = await connected.get_prompt("greet", {"name": "Ann"})
    async with server() as connected:
        call = asyncio.create_task(connected.call_tool("wait", {}))
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.wait([call])
    seen = {
        "tools": sorted(tools),
        "sum": result.content[0].text,
        "prompt": prompt.messages[0].content.text,
        "gives_up": True,
    }
    print(json.dumps(seen))


asyncio.run(main())
