"""A proxy puts a server on stdio onto the network; two clients use it at once, in both eras.

python examples/proxy.py
"""

import asyncio
import socket
import sys
from pathlib import Path

from dragoman import AsyncClient, Server

TARGET = [sys.executable, str(Path(__file__).with_name("weather.py"))]


async def use(url: str, mode: str) -> None:
    """Call a tool through the proxy."""
    async with AsyncClient(url, mode="handshake" if mode == "handshake" else "stateless") as client:
        result = await client.call_tool("forecast", {"city": "Oslo"})
        print(f"{mode:<10} {client.protocol_version} {result.text}")


async def main() -> None:
    """Serve the proxy over HTTP, and use it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = asyncio.create_task(Server.proxy(TARGET).run_async("http", port=port))
    url = f"http://127.0.0.1:{port}/mcp"
    async with asyncio.timeout(30):
        while not await AsyncClient(url).ping():
            pass  # it does not listen yet
    for mode in ("handshake", "stateless"):
        await use(url, mode)
    serving.cancel()
    await asyncio.wait([serving])


if __name__ == "__main__":
    asyncio.run(main())
