"""A server on the low-level part of the official Python SDK 1.x, over stdio: it has tools, and no other list."""

import asyncio

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

server = Server("low-level")


@server.list_tools()
async def list_tools():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    return [types.Tool(name="add", description="Adds two numbers.", inputSchema=schema)]


@server.call_tool()
async def call_tool(name, arguments):
    return [types.TextContent(type="text", text=str(arguments["a"] + arguments["b"]))]


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
