"""A server over HTTP, without a framework.

PORT=8000 python examples/http/plain.py
"""

import os

from dragoman import Server

server = Server("sums", version="1.0")


@server.tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if __name__ == "__main__":
    server.run("http", port=int(os.environ.get("PORT", "8000")))
