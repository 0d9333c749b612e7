"""A client on langchain-mcp-adapters: `langchain.py stdio COMMAND...` or `langchain.py http URL`."""

import asyncio
import json
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient


def client():
    kind, *target = sys.argv[1:]
    if kind == "stdio":
        entry = {"transport": "stdio", "command": target[0], "args": target[1:]}
    else:
        entry = {"transport": "streamable_http", "url": target[0]}
    return MultiServerMCPClient({"wild": entry})


def text(result):
    return result if isinstance(result, str) else result[0]["text"]


async def main():
    tools = {tool.name: tool for tool in await client().get_tools()}
    result = text(await tools["add"].ainvoke({"a": 2, "b": 3}))
    messages = await client().get_prompt("wild", "greet", arguments={"name": "Ann"})
    call = asyncio.create_task(tools["wait"].ainvoke({}))
    await asyncio.sleep(1)
    call.cancel()
    ended = (await asyncio.gather(call, return_exceptions=True))[0]
    seen = {
        "tools": sorted(tools),
        "sum": result,
        "prompt": messages[0].content,
        "gives_up": isinstance(ended, asyncio.CancelledError),
    }
    print(json.dumps(seen))


asyncio.run(main())
