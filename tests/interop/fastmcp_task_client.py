"""The client of fastmcp-tasks drives the task fixtures of a server.

python fastmcp_task_client.py (URL | COMMAND WORD...)

It runs in the environment of the peers, and writes as JSON how each fixture ended.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")
FIXTURES: dict[str, dict[str, Any]] = {
    "greet": {"name": "fastmcp"},
    "slow_compute": {"seconds": 0.3, "label": "x"},
    "failing_job": {},
    "protocol_error_job": {},
    "confirm_delete": {"filename": "notes.txt"},
    "multi_input": {},
    "test_tool_with_task": {},
}


async def main() -> None:
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> dict[str, Any]:
        asked.append(message)
        return {"name": "Alice", "confirm": True}

    saw: dict[str, Any] = {}
    target, *words = sys.argv[1:]
    reached = StdioTransport(target, words, env=dict(os.environ)) if words else target
    async with Client(reached, elicitation_handler=answer) as client:
        for name, arguments in FIXTURES.items():
            try:
                result = await client.call_tool(name, arguments, raise_on_error=False)
            except (ToolError, MCPError) as error:
                saw[name] = ["raised", str(error)]
            else:
                saw[name] = [result.is_error, result.content[0].text]
        task = await call_tool_task(client, "slow_compute", {"seconds": 60, "label": "never"})
        statuses = [(await task.status()).status]
        await task.cancel()
        statuses.append((await task.wait(timeout=20)).status)
    sys.stdout.write(json.dumps({"fixtures": saw, "asked": asked, "statuses": statuses}))


asyncio.run(main())
