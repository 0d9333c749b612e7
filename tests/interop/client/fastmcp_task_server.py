"""A server of fastmcp-tasks; run in the environment of the peers: python fastmcp_task_server.py (stdio | http PORT)"""

import asyncio
import sys
import warnings
from datetime import timedelta
from typing import Any

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

warnings.simplefilter("ignore")
server: FastMCP[Any] = FastMCP("Jobs")
server.add_extension(TasksExtension(url="memory://"))
TASK = TaskConfig(poll_interval=timedelta(milliseconds=100))
FORM = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@server.tool(task=TASK, output_schema=None)
async def compute(label: str) -> str:
    """Computes."""
    await asyncio.sleep(0.1)
    return f"Computed {label}"


@server.tool(task=TASK, output_schema=None)
async def fail() -> str:
    """Fails."""
    raise ToolError("no luck")


@server.tool(task=TASK, output_schema=None)
async def book(ctx: Context) -> Any:
    """Asks where to."""
    if ctx.input_responses is None:
        params = mcp_types.ElicitRequestFormParams(message="Where to?", requested_schema=FORM)
        return mcp_types.InputRequiredResult(input_requests={"city": mcp_types.ElicitRequest(params=params)})
    return f"booked {ctx.input_responses['city'].content['city']}"


@server.tool(task=TASK, output_schema=None)
async def forever() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return ""


def main(transport: str, port: str = "0") -> None:
    if transport == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
    else:
        server.run("http", show_banner=False, host="127.0.0.1", port=int(port), log_level="ERROR")


if __name__ == "__main__":
    main(*sys.argv[1:])
