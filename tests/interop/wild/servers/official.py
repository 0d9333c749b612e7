"""A server on the official Python SDK 1.x, over stdio."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


server.run()
