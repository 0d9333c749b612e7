"""The client of mcp uses a server in which another is mounted; run in the environment of the peers.

    python mounting_client.py (handshake|stateless) COMMAND WORD...

It prints one line of JSON: what it saw of everything that the mounted server has.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import anyio
import mcp_types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

MODES = {"handshake": "legacy", "stateless": "auto"}
SECONDS = 30.0


async def answer(_context: Any, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"value": "Oslo" if "city" in params.message else "Monday"})


async def main(era: str, command: str, *words: str) -> None:
    warnings.simplefilter("ignore")
    target = StdioServerParameters(command=command, args=list(words), env=dict(os.environ))
    with anyio.fail_after(SECONDS):
        async with Client(target, mode=MODES[era], elicitation_callback=answer) as client:
            saw: dict[str, Any] = {
                "tools": [tool.name for tool in (await client.list_tools()).tools],
                "templates": [one.uri_template for one in (await client.list_resource_templates()).resource_templates],
                "forecast": (await client.call_tool("weather_forecast", {"city": "Oslo"})).content[0].text,
                "asked": (await client.call_tool("weather_ask", {})).content[0].text,
                "link": str((await client.call_tool("weather_links", {})).content[0].uri),
                "read": (await client.read_resource("data://weather/cities/Rome/low")).contents[0].text,
                "prompt": str((await client.get_prompt("weather_report", {"city": "Oslo"})).messages[0].content.uri),
            }
    sys.stdout.write(json.dumps(saw))


anyio.run(main, *sys.argv[1:])
