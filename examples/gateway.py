"""Three servers behind one: two on stdio and one over HTTP, which starts after the others.

python examples/gateway.py
"""

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

from weather import server as weather

from dragoman import AsyncClient, Server

CONFIGURATION = Path(__file__).with_suffix(".json")


async def main() -> None:
    """Show that a server which is away is missed by nobody, and appears when it is back."""
    logging.getLogger("dragoman").setLevel(logging.ERROR)  # what is away is shown below
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"EXAMPLE_PYTHON": sys.executable, "EXAMPLE_WEATHER_PORT": str(port)}
    gateway = Server.proxy(CONFIGURATION, name="gateway")  # a program would end with gateway.run("http")
    changed = asyncio.Event()
    async with asyncio.timeout(60), AsyncClient(gateway, on_list_changed=lambda _: changed.set()) as client:
        print("without the weather:", ", ".join(tool.name for tool in await client.tools()))
        print((await client.call_tool("notes_search", {"text": "umbrella"})).structured)
        serving = asyncio.create_task(weather.run_async("http", port=port))
        await changed.wait()
        print("with the weather:", ", ".join(tool.name for tool in await client.tools()))
        print((await client.call_tool("weather_forecast", {"city": "Oslo"})).text)
    serving.cancel()
    await asyncio.wait([serving])


if __name__ == "__main__":
    asyncio.run(main())
