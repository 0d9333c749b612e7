"""A fastmcp server over stdio, with an argument that may be null."""

from fastmcp import FastMCP

mcp = FastMCP("fast")


@mcp.tool
def add(a: int, b: int | None = None) -> int:
    """Adds two numbers."""
    return a + (b or 0)


if __name__ == "__main__":
    mcp.run(show_banner=False)
