"""A server over HTTP in a process that tests kill and start again."""

import asyncio
import contextlib
import sys
import textwrap
from collections.abc import AsyncIterator

from ports import free_port

DEADLINE = 60
PROGRAM = """
    import sys
    from dragoman import Server

    server = Server("forecasts", instructions="Ask for one city.")
    for name in sys.argv[2:]:
        server.tool(name=name)(lambda: "")
    server.prompt(name="greet")(lambda: "Hello")
    server.run("http", port=int(sys.argv[1]))
"""


class Target:
    """A server over HTTP in a process that can be killed and started again on the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *tools: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(self.port), *tools]
        self._process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        while True:
            with contextlib.suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", self.port))[1].close()
                return
            await asyncio.sleep(0.05)

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def target(*tools: str) -> AsyncIterator[Target]:
    process = Target(free_port())
    async with asyncio.timeout(DEADLINE):
        await process.start(*tools)
        try:
            yield process
        finally:
            await process.kill()
